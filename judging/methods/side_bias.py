"""Whether an annotator favours a side of the screen.

Fisher's exact test on (response 1 left or right) by (voted 1 or 2), ties left out.  A binomial
test of the voted side is nearly powerless where sides are balanced and preferences strong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.estimates import Undefined
from judging.methods.proportions import holm

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SideBias:
    """left_rate: share of decided votes for the left response.  p_holm: over the annotators."""

    n: int
    left_rate: float
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True)
class PooledSideBias:
    """Mantel-Haenszel: the common odds ratio (above 1: the left is favoured) and its test."""

    odds_ratio: float | Undefined
    p: float


def side_table(vote: ArrayLike, response_1_left: ArrayLike) -> Table:
    """(2, 2): rows response 1 left, right; columns voted 1, 2.  vote: 1, 0, -1; ties are out."""
    votes, left = np.asarray(vote), np.asarray(response_1_left, dtype=bool)
    return np.array(
        [[((votes == sign) & (left == side)).sum() for sign in (1, -1)] for side in (True, False)],
        dtype=np.int64,
    )


def side_bias(tables: Mapping[str, Table]) -> dict[str, SideBias | Undefined]:
    """Each annotator's test, adjusted over all who have decided votes with both arrangements."""
    testable = {
        name: table for name, table in tables.items() if table.sum() and table.sum(axis=1).all()
    }
    p_values = [float(scipy.stats.fisher_exact(table).pvalue) for table in testable.values()]
    adjusted = dict(zip(testable, zip(p_values, holm(p_values), strict=True), strict=True))
    result: dict[str, SideBias | Undefined] = {}
    for name, table in tables.items():
        if name not in adjusted:
            result[name] = Undefined(_untestable(table))
            continue
        n = int(table.sum())
        p, p_holm = adjusted[name]
        result[name] = SideBias(n, float((table[0, 0] + table[1, 1]) / n), p, float(p_holm))
    return result


def _untestable(table: Table) -> str:
    if not table.sum():
        return "no decided vote of which the sides are known"
    return "response 1 was on one side in every decided vote"


def pooled_side_bias(tables: Sequence[Table]) -> PooledSideBias | Undefined:
    """Mantel and Haenszel (1959) over the annotators' tables, without continuity correction."""
    stacked = np.array([table for table in tables if table.sum() > 1], dtype=np.float64)
    if not len(stacked):
        return Undefined("no annotator has two decided votes of which the sides are known")
    n = stacked.sum(axis=(1, 2))
    rows, columns = stacked.sum(axis=2), stacked.sum(axis=1)
    excess = float((stacked[:, 0, 0] - rows[:, 0] * columns[:, 0] / n).sum())
    variance = float((rows.prod(axis=1) * columns.prod(axis=1) / (n**2 * (n - 1))).sum())
    if variance == 0:
        return Undefined("every annotator voted for one response, or saw one arrangement only")
    diagonal = float((stacked[:, 0, 0] * stacked[:, 1, 1] / n).sum())
    other = float((stacked[:, 0, 1] * stacked[:, 1, 0] / n).sum())
    odds = diagonal / other if other else Undefined("no vote went against the left")
    return PooledSideBias(odds, float(scipy.stats.chi2.sf(excess**2 / variance, 1)))
