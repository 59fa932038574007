"""Can the judge replace an annotator, and does an annotator prefer a side of the screen?

The alternative annotator test (Calderon et al. 2025, arXiv:2501.10970) leaves each annotator out
in turn and compares judge and annotator by how well they agree with the remaining people. Use it
only on audited or fully labelled examples: the contested ones were chosen because of the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.intervals.estimates import Undefined, benjamini_yekutieli, holm

FEWEST_ANNOTATORS = 3
FEWEST_EXAMPLES = 30
FALSE_DISCOVERY_RATE = 0.05
Table = NDArray[np.int64]


class Expertise(float, Enum):
    """epsilon: the advantage granted to people for their cost; choose it before the test."""

    EXPERT = 0.2
    SKILLED = 0.15
    CROWD = 0.1


@dataclass(frozen=True, slots=True)
class AnnotatorComparison:
    """rho_judge, rho_human: how often each is at least as good as the other, 0 to 1.

    n: shared examples. p: one-sided, of H0: rho_judge <= rho_human - epsilon.
    judge_is_as_good: H0 is rejected."""

    annotator: str
    n: int
    rho_judge: float
    rho_human: float
    p: float
    judge_is_as_good: bool


@dataclass(frozen=True, slots=True)
class AlternativeAnnotatorTest:
    """omega: share of annotators whom the judge equals, 0 to 1; it passes at one half."""

    omega: float
    mean_rho: float
    epsilon: float
    annotators: tuple[AnnotatorComparison, ...]

    @property
    def passes(self) -> bool:
        return self.omega >= 0.5


def alternative_annotator_test(
    judge: Signs,
    judged: Booleans,
    votes: Signs,
    present: Booleans,
    names: Sequence[str],
    epsilon: float = Expertise.SKILLED,
) -> AlternativeAnnotatorTest | Undefined:
    """Test whether the judge can replace an annotator (Calderon et al. 2025, arXiv:2501.10970, §3).

    Args:
        judge, judged: (N,) the judge's signs, and whether each example has one.
        votes, present: (N, annotators) signs, and whether each vote exists.
        names: one per annotator.
        epsilon: the advantage granted to people, 0 to 1, set before the votes are seen.
    Returns: the test, or Undefined below 3 annotators with 30 shared examples each: no test of a
        mean holds with fewer, and Wilcoxon's, of a median, passes a judge at the bound in 33 to
        48 %."""
    pairs = [_advantages(judge, judged, votes, present, rater) for rater in range(len(names))]
    shared = [(name, *pair) for name, pair in zip(names, pairs, strict=True) if len(pair[0])]
    if len(shared) < FEWEST_ANNOTATORS:
        return Undefined("this needs three annotators who share examples")
    n_examples = int(((present.sum(axis=1) >= 2) & judged).sum())
    if n_examples < FEWEST_EXAMPLES:
        have = "1 example has" if n_examples == 1 else f"{n_examples} examples have"
        return Undefined(f"only {have} two votes; this needs 30")
    usable = [met for met in shared if len(met[1]) >= FEWEST_EXAMPLES]
    if len(usable) < FEWEST_ANNOTATORS:
        share = "1 annotator shares" if len(usable) == 1 else f"{len(usable)} annotators share"
        return Undefined(f"only {share} 30 examples with others; this needs 3")
    # The comparisons share the judge and other people's votes, so they depend on each other.
    # Benjamini and Yekutieli's procedure allows for any dependence.
    p_values = [_p_value(human - model, epsilon) for _, model, human in usable]
    rejected = benjamini_yekutieli(p_values, FALSE_DISCOVERY_RATE)
    compared = tuple(
        AnnotatorComparison(
            name, len(model), float(model.mean()), float(human.mean()), p, bool(better)
        )
        for (name, model, human), p, better in zip(usable, p_values, rejected, strict=True)
    )
    return AlternativeAnnotatorTest(
        float(rejected.mean()),
        float(np.mean([row.rho_judge for row in compared])),
        float(epsilon),
        compared,
    )


def _advantages(
    judge: Signs, judged: Booleans, votes: Signs, present: Booleans, rater: int
) -> tuple[Floats, Floats]:
    """W of judge and of the person on each example that both have and that others voted on."""
    others = present.copy()
    others[:, rater] = False
    rows = present[:, rater] & judged & others.any(axis=1)
    there = others[rows]
    agree_judge = ((votes[rows] == judge[rows, None]) & there).sum(axis=1)
    agree_human = ((votes[rows] == votes[rows, rater, None]) & there).sum(axis=1)
    return (
        # A draw counts for both (W >= in the paper), so that the two rates may add up to more than
        # 1.
        (agree_judge >= agree_human).astype(np.float64),
        (agree_human >= agree_judge).astype(np.float64),
    )


def _p_value(difference: Floats, epsilon: float) -> float:
    """One-sided p of H0: rho_judge <= rho_human - epsilon, for 30 examples or more.

    If all differences are alike there is no t: at the bound, epsilon of them would be above 0."""
    shifted = difference - epsilon
    if np.ptp(shifted) == 0:
        return float((1 - epsilon) ** len(shifted)) if shifted.max() < 0 else 1.0
    return float(scipy.stats.ttest_1samp(shifted, 0, alternative="less").pvalue)


@dataclass(frozen=True, slots=True)
class SideBias:
    """n: decided votes. left_rate: share for the left, 0 to 1. p_holm: over all annotators."""

    n: int
    left_rate: float
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True)
class PooledOddsRatio:
    """odds_ratio: of all annotators, above 1 favours the left. p: Mantel-Haenszel, two-sided."""

    odds_ratio: float | Undefined
    p: float


def side_table(vote: ArrayLike, response_1_left: ArrayLike) -> Table:
    """Count one annotator's decided votes by side and by response.

    Args:
        vote: (n,) 1, 0 or -1 for response 1; ties (0) are left out.
        response_1_left: (n,) bool, whether response 1 was shown on the left.
    Returns: (2, 2) int64; rows: response 1 left, right; columns: voted for 1, 2."""
    votes, left = np.asarray(vote), np.asarray(response_1_left, dtype=bool)
    return np.array(
        [[((votes == sign) & (left == side)).sum() for sign in (1, -1)] for side in (True, False)],
        dtype=np.int64,
    )


def side_bias(tables: Mapping[str, Table]) -> dict[str, SideBias | Undefined]:
    """Test each annotator for side bias by Fisher's exact test, two-sided, adjusted by Holm.

    A plain binomial test of left against right has a power of .44 where this one has .75.

    Args: tables: each annotator's `side_table`.
    Returns: by name the test, or Undefined without decided votes in both arrangements."""
    testable = {
        # A row without votes fixes the table: Fisher's p would be 1, and Holm would charge the
        # others for it.
        name: table
        for name, table in tables.items()
        if table.sum() and table.sum(axis=1).all()
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
        return "no decided vote has known sides"
    return "response 1 was on one side in every decided vote"


def pooled_side_bias(tables: Sequence[Table]) -> PooledOddsRatio | Undefined:
    """Test all annotators together (Mantel and Haenszel 1959, doi:10.1093/jnci/22.4.719).

    There is no continuity correction.

    Args: tables: one `side_table` per annotator.
    Returns: common odds ratio and p, or Undefined if the tables leave nothing to vary."""
    # The variance divides by n - 1, and one vote alone has none.
    stacked = np.array([table for table in tables if table.sum() > 1], dtype=np.float64)
    if not len(stacked):
        return Undefined("no annotator has two decided votes with known sides")
    n = stacked.sum(axis=(1, 2))
    rows, columns = stacked.sum(axis=2), stacked.sum(axis=1)
    # Votes for response 1 on the left, less what the margins predict. Margins are fixed within each
    # annotator, so a better response is no side bias.
    excess = float((stacked[:, 0, 0] - rows[:, 0] * columns[:, 0] / n).sum())
    variance = float((rows.prod(axis=1) * columns.prod(axis=1) / (n**2 * (n - 1))).sum())
    if variance == 0:
        return Undefined("every annotator voted for one response, or saw one arrangement only")
    diagonal = float((stacked[:, 0, 0] * stacked[:, 1, 1] / n).sum())
    other = float((stacked[:, 0, 1] * stacked[:, 1, 0] / n).sum())
    odds = diagonal / other if other else Undefined("no vote went against the left")
    return PooledOddsRatio(odds, float(scipy.stats.chi2.sf(excess**2 / variance, 1)))
