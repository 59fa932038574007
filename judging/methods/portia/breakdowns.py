"""Where PORTIA fails: by category, length, length gap and position.

PORTIA (arXiv:2310.01432), §4.2 and appendices B, M and N."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.agreement.accuracy import Comparison, Design, accuracy, comparison, credit
from judging.methods.arrays import Booleans, Codes, Floats, Integers, Signs
from judging.methods.intervals.bootstrap import plus_two_mean, plus_two_ratio, questions_at, share
from judging.methods.intervals.estimates import Figure, Undefined
from judging.methods.portia.coverage import NONE_INCONSISTENT
from judging.methods.portia.stages import OrderLabels, StageLabels

# Characters: Table 5 sums the two responses, Table 7 takes their difference.
LENGTH_STEP = 800
GAP_STEP = 300
MAX_BINS = 9
NO_OVERLAP = "no example that the reference judged consistently"


@dataclass(frozen=True, slots=True)
class CategoryFailures:
    """Examples of one category that stayed inconsistent to the end.

    rate: of the category's examples.  share: of all failures, which is what the paper's Table 2
    prints as failure rate, since its eight figures add up to 100 %."""

    category: str
    n: int
    failures: int
    rate: Figure
    share: Figure


@dataclass(frozen=True, slots=True)
class LengthBin:
    """Examples with low <= characters < high; the last bin has no upper end.

    frequency: share of all examples; the paper leaves out bins of under 2 or 3 %."""

    low: int
    high: int | None
    frequency: Figure
    unsplit: Figure
    portia: Figure


def failures_by_category(
    stages: StageLabels, categories: Sequence[str], question: ArrayLike | None = None
) -> list[CategoryFailures]:
    """Count the examples that stayed inconsistent, by category (Table 2).

    Args:
        stages, categories: N finished examples, and each one's category.
        question: (N,) equal codes share a question.
    Returns: most failures first, then by name; examples without both verdicts are left out."""
    final, failed = stages.final, stages.final.inconsistent
    names = np.asarray(categories, dtype=str)
    failures = []
    for name in np.unique(names[final.both]):
        rows = final.both & (names == name)
        # The share of all failures, which the paper prints, also grows with the size of the
        # category, so both are given.
        rate = share(failed[rows], questions_at(question, rows))
        of_all = share(rows[failed], questions_at(question, failed), reason="nothing failed")
        counts = int(rows.sum()), int((rows & failed).sum())
        failures.append(CategoryFailures(str(name), *counts, rate, of_all))
    return sorted(failures, key=lambda row: (-row.failures, row.category))


def inconsistency_by_length(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    lengths: Integers,
    question: ArrayLike | None = None,
    step: int = LENGTH_STEP,
) -> list[LengthBin]:
    """Return the share inconsistent, unsplit and with PORTIA, by total length (Table 5).

    Args:
        stages, unsplit: finished examples, and the unsplit prompt's labels.
        lengths: (N, 2) characters of responses 1 and 2.
        question: (N,) equal codes share a question.
        step: width of the bins in characters.
    Returns: one bin after the other."""
    return _bins(stages.final, unsplit, lengths.sum(axis=1), step, question)


def inconsistency_by_gap(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    lengths: Integers,
    question: ArrayLike | None = None,
    step: int = GAP_STEP,
) -> list[LengthBin]:
    """Return the same by the absolute difference of the lengths.

    Args: stages, unsplit, lengths, question, step: as in `inconsistency_by_length`.
    Returns: one bin after the other."""
    return _bins(stages.final, unsplit, np.abs(lengths[:, 0] - lengths[:, 1]), step, question)


def _bins(
    final: OrderLabels,
    unsplit: OrderLabels | Undefined,
    size: Integers,
    step: int,
    question: ArrayLike | None,
) -> list[LengthBin]:
    def rate(labels: OrderLabels | Undefined, rows: Booleans) -> Figure:
        if isinstance(labels, Undefined):
            return labels
        there = labels.both & rows
        return share(labels.inconsistent[there], questions_at(question, there))

    return [
        LengthBin(low, high, share(rows, question), rate(unsplit, rows), rate(final, rows))
        for low, high, rows in _intervals(size, step)
    ]


@dataclass(frozen=True, slots=True)
class GapCoverage:
    """Fixed coverage of the examples with low <= |difference of lengths| < high (Table 7).

    frequency: share of the examples inconsistent when unsplit."""

    low: int
    high: int | None
    frequency: Figure
    coverage: Figure


def coverage_by_gap(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    lengths: Integers,
    question: ArrayLike | None = None,
    step: int = GAP_STEP,
) -> list[GapCoverage] | Undefined:
    """Return fixed coverage by the absolute difference of the lengths (Table 7).

    Args: stages, unsplit, lengths, question, step: as in `inconsistency_by_length`.
    Returns: one bin after the other, or Undefined without an inconsistent unsplit example."""
    if isinstance(unsplit, Undefined):
        return unsplit
    open_rows = unsplit.inconsistent
    if not open_rows.any():
        return Undefined(NONE_INCONSISTENT)
    gap = np.abs(lengths[:, 0] - lengths[:, 1])[open_rows]
    settled, asked = stages.final.consistent[open_rows], questions_at(question, open_rows)
    return [
        GapCoverage(low, high, share(rows, asked), share(settled[rows], questions_at(asked, rows)))
        for low, high, rows in _intervals(gap, step)
    ]


def _intervals(size: Integers, step: int) -> list[tuple[int, int | None, Booleans]]:
    """Bins of equal width from 0 on, nine at most, of which the last has no upper end."""
    if not len(size):
        return []
    # What is longer than eight steps shares the last bin.
    index = np.minimum(size // step, MAX_BINS - 1)
    return [
        (i * step, None if i == MAX_BINS - 1 else (i + 1) * step, index == i)
        for i in range(int(index.max()) + 1)
    ]


def first_position_share(
    labels: OrderLabels | Undefined, question: ArrayLike | None = None
) -> Figure:
    """Return how often verdicts name the response shown first (Table 20); ties are left out.

    Both orders of an example count, so consistent examples add equally to either side, and a
    distance from one half comes from the inconsistent ones.

    Args: labels, question: labels of both orders, and (N,) equal codes share a question.
    Returns: share, 0 to 1, or Undefined."""
    if isinstance(labels, Undefined):
        return labels
    rows = labels.both
    signs = labels.labels[rows]
    # Shown second in the swapped order, response 1 loses if the first position wins.
    first = (signs[:, 0] == 1).astype(np.int64) + (signs[:, 1] == -1)
    asked = questions_at(question, rows)
    decided = (signs != 0).sum(axis=1)
    return plus_two_ratio(first, decided, (0, 1), question=asked, reason="no verdict but ties")


@dataclass(frozen=True, slots=True)
class PortiaAgreement:
    """Agreement before and after PORTIA, and by how much it rose on the same examples.

    An inconsistent example has no label and counts as disagreement, as in the paper."""

    unsplit: Figure
    portia: Figure
    gain: Figure


def agreement_with_people(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    human: Signs,
    design: Design,
    question: Codes | None = None,
) -> PortiaAgreement:
    """Return agreement with people before and after PORTIA (Table 3), weighted by the design.

    Args:
        stages, unsplit: finished examples, and the unsplit prompt's labels.
        human, design: (N,) human signs, and which of them exist and why.
        question: (N,) equal codes share a question.
    Returns: shares, 0 to 1, and their difference."""
    final = stages.final
    after = comparison(final.labels[:, 0], final.consistent, human, design, question)
    if isinstance(after, Undefined):
        return PortiaAgreement(after, after, after)
    portia = accuracy(after, unjudged_wrong=True)
    if isinstance(unsplit, Undefined):
        return PortiaAgreement(unsplit, portia, unsplit)
    before = comparison(unsplit.labels[:, 0], unsplit.consistent, human, design, question)
    assert isinstance(before, Comparison)
    # Both are of the same labelled examples in the same order, so the gain is a paired difference.
    rose = _credit(after) - _credit(before)
    gain = plus_two_ratio(
        rose,
        np.ones(len(rose)),
        (-1, 1),
        weight=after.weight,
        stratum=after.stratum,
        question=after.question,
    )
    return PortiaAgreement(accuracy(before, unjudged_wrong=True), portia, gain)


def _credit(compared: Comparison) -> Floats:
    known = compared.knows_ties
    return credit(compared.judge, compared.judged, compared.human, knows_ties=known)


def agreement_with_reference(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    reference: OrderLabels,
    question: ArrayLike | None = None,
) -> PortiaAgreement:
    """Return agreement with a reference judge on what it labels consistently (Table 9).

    Args: stages, unsplit, reference, question: as in `agreement_with_people`.
    Returns: shares, 0 to 1, and their difference."""
    rows = reference.consistent
    if not rows.any():
        none = Undefined(NO_OVERLAP)
        return PortiaAgreement(none, none, none)
    asked = questions_at(question, rows)
    after = _alike(stages.final, reference, rows)
    portia = share(after, asked)
    if isinstance(unsplit, Undefined):
        return PortiaAgreement(unsplit, portia, unsplit)
    before = _alike(unsplit, reference, rows)
    gain = plus_two_mean(after.astype(np.float64) - before, (-1, 1), asked)
    return PortiaAgreement(share(before, asked), portia, gain)


def _alike(labels: OrderLabels, reference: OrderLabels, rows: Booleans) -> Booleans:
    same = labels.consistent & (labels.labels[:, 0] == reference.labels[:, 0])
    return np.asarray(same[rows])


@dataclass(frozen=True, slots=True)
class HumanTies:
    """Whether people call a tie where the judge contradicts itself (Appendix N).

    where_inconsistent, where_consistent: share of human ties.  p: Fisher's exact test, two-sided;
    None where the examples do not weigh the same or one side is empty."""

    where_inconsistent: Figure
    where_consistent: Figure
    p: float | None


def human_ties(
    labels: OrderLabels | Undefined, human: Signs, design: Design, question: Codes | None = None
) -> HumanTies:
    """Compare how often people say tie where the judge is and isn't consistent (Appendix N).

    Args: labels, human, design, question: as in `agreement_with_people`.
    Returns: both shares, 0 to 1, and the test."""
    if isinstance(labels, Undefined):
        return HumanTies(labels, labels, None)
    # Consistency takes the judge's place in the comparison, to use its weights and strata.
    compared = comparison(labels.consistent.astype(np.int8), labels.both, human, design, question)
    if isinstance(compared, Undefined):
        return HumanTies(compared, compared, None)
    rows = compared.judged
    consistent, tie = compared.judge[rows] == 1, compared.human[rows] == 0
    inside = compared.at(rows)
    shares = [_ties(inside, tie, where) for where in (~consistent, consistent)]
    table = [[int((tie & w).sum()), int((~tie & w).sum())] for w in (~consistent, consistent)]
    # Fisher's test counts examples, so it holds only if each weighs the same and is independent.
    testable = len(inside) > 0 and inside.plain and all(map(sum, table))
    p = float(scipy.stats.fisher_exact(table).pvalue) if testable else None
    return HumanTies(shares[0], shares[1], p)


def _ties(compared: Comparison, tie: Booleans, where: Booleans) -> Figure:
    return plus_two_ratio(
        tie[where],
        np.ones(int(where.sum())),
        (0, 1),
        weight=compared.weight[where],
        stratum=compared.stratum[where],
        question=compared.question[where],
        reason="no such example has a human label",
    )
