"""Where PORTIA fails: by category, length, length gap and position (PORTIA §4.2, App. B, M)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Integers
from judging.methods.bootstrap import bootstrap_estimate
from judging.methods.estimates import Figure, Undefined
from judging.methods.portia.coverage import NONE_INCONSISTENT, ratio
from judging.methods.portia.stage_labels import OrderLabels, StageLabels
from judging.methods.proportions import wilson

# Characters: Table 5 sums the two responses, Table 7 takes their difference.
LENGTH_STEP = 800
GAP_STEP = 300
MAX_BINS = 9


@dataclass(frozen=True, slots=True)
class CategoryFailures:
    """Examples of one category that stayed inconsistent to the end.

    rate: of the category's examples.  share: of all failures, which is what the paper's Table 2
    prints as failure rate, since its eight figures add up to 100 %.
    """

    category: str
    n: int
    failures: int
    rate: Figure
    share: Figure


@dataclass(frozen=True, slots=True)
class LengthBin:
    """Examples with low <= characters < high; the last bin has no upper end.

    frequency: share of all examples; the paper leaves out bins of under 2 or 3 %.
    """

    low: int
    high: int | None
    frequency: Figure
    unsplit: Figure
    portia: Figure


def failures_by_category(stages: StageLabels, categories: Sequence[str]) -> list[CategoryFailures]:
    """Of the examples with a verdict in both orders; most failures first, then by name."""
    final = stages.final
    names = np.asarray(categories, dtype=str)
    total = int(final.inconsistent.sum())
    found = []
    for name in np.unique(names[final.both]):
        rows = final.both & (names == name)
        n, failures = int(rows.sum()), int((rows & final.inconsistent).sum())
        share: Figure = wilson(failures, total) if total else Undefined("nothing failed")
        found.append(CategoryFailures(str(name), n, failures, wilson(failures, n), share))
    return sorted(found, key=lambda row: (-row.failures, row.category))


def inconsistency_by_length(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    lengths: Integers,
    step: int = LENGTH_STEP,
) -> list[LengthBin]:
    """Share inconsistent, unsplit and with PORTIA, by the characters of both responses (Table 5).

    lengths: (N, 2) characters of responses 1 and 2.
    """
    return _bins(stages.final, unsplit, lengths.sum(axis=1), step)


def inconsistency_by_gap(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    lengths: Integers,
    step: int = GAP_STEP,
) -> list[LengthBin]:
    """The same by the absolute difference of the lengths."""
    return _bins(stages.final, unsplit, np.abs(lengths[:, 0] - lengths[:, 1]), step)


def _bins(
    final: OrderLabels, unsplit: OrderLabels | Undefined, size: Integers, step: int
) -> list[LengthBin]:
    found = []
    for low, high, rows in _intervals(size, step):
        before: Figure = (
            unsplit
            if isinstance(unsplit, Undefined)
            else wilson(int(unsplit.inconsistent[rows].sum()), int(unsplit.both[rows].sum()))
        )
        after = wilson(int(final.inconsistent[rows].sum()), int(final.both[rows].sum()))
        found.append(LengthBin(low, high, wilson(int(rows.sum()), len(size)), before, after))
    return found


@dataclass(frozen=True, slots=True)
class GapCoverage:
    """Fixed coverage of the examples with low <= |difference of lengths| < high (Table 7).

    frequency: share of the examples inconsistent when unsplit.
    """

    low: int
    high: int | None
    frequency: Figure
    coverage: Figure


def coverage_by_gap(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    lengths: Integers,
    step: int = GAP_STEP,
) -> list[GapCoverage] | Undefined:
    """lengths: (N, 2) characters of responses 1 and 2."""
    if isinstance(unsplit, Undefined):
        return unsplit
    open_rows = unsplit.inconsistent
    if not open_rows.any():
        return Undefined(NONE_INCONSISTENT)
    gap = np.abs(lengths[:, 0] - lengths[:, 1])[open_rows]
    settled = stages.final.consistent[open_rows]
    return [
        GapCoverage(
            low,
            high,
            wilson(int(rows.sum()), len(gap)),
            wilson(int(settled[rows].sum()), int(rows.sum())),
        )
        for low, high, rows in _intervals(gap, step)
    ]


def _intervals(size: Integers, step: int) -> list[tuple[int, int | None, NDArray[np.bool_]]]:
    """Bins of equal width from 0 on, nine at most, of which the last has no upper end."""
    if not len(size):
        return []
    index = np.minimum(size // step, MAX_BINS - 1)
    return [
        (i * step, None if i == MAX_BINS - 1 else (i + 1) * step, index == i)
        for i in range(int(index.max()) + 1)
    ]


def first_position_share(
    labels: OrderLabels | Undefined,
    rng: np.random.Generator,
    question: ArrayLike | None = None,
) -> Figure:
    """Share of the verdicts that name the response shown first (Table 20); ties are left out.

    Both orders of an example count, so consistent examples add as many to either side, and what
    is off one half comes from the inconsistent ones.
    """
    if isinstance(labels, Undefined):
        return labels
    rows = labels.both
    signs = labels.labels[rows]
    # Shown second in the swapped order, response 1 loses where the first position wins.
    first = (signs[:, 0] == 1).astype(np.int64) + (signs[:, 1] == -1)
    decided = (signs != 0).sum(axis=1)
    return bootstrap_estimate(
        lambda counts, values: ratio(counts @ values[:, 0], counts @ values[:, 1]),
        (first, decided),
        rng,
        question=None if question is None else np.asarray(question)[rows],
        reason="no verdict but ties",
    )
