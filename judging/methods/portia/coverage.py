"""How many contradictions PORTIA removes, and how many luck would (arXiv:2310.01432, Table 1).

Asking again removes a contradiction by luck: independent random verdicts of two classes agree in
half of the cases at the next stage, in three quarters after two. So fixed coverage is always shown
with what it would be if the verdicts of the two orders were independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats
from judging.methods.intervals.bootstrap import (
    bootstrap_estimate,
    plus_two_mean,
    questions_at,
    ratio,
)
from judging.methods.intervals.estimates import Figure, Undefined, wilson
from judging.methods.portia.stages import STAGES, OrderLabels, Stage, StageLabels

NONE_INCONSISTENT = "the unsplit prompt was consistent on every example"
NO_CONTRAST = "no example was judged both ways"
_MISSING, _NOT_ASKED = 2, 3
_SIGNS = (1, 0, -1)
# The fallback to the unsplit prompt comes after the length-aligned one.
_RETRIES = (Stage.LENGTH, Stage.SEMANTIC, Stage.UNSPLIT)


@dataclass(frozen=True, slots=True)
class Consistency:
    """Shares of consistent examples (Table 1): unsplit, with PORTIA, and how much that gains.

    gain: PORTIA / unsplit - 1 over the examples that both have judged in both orders."""

    unsplit: Figure
    portia: Figure
    gain: Figure


@dataclass(frozen=True, slots=True)
class FixedCoverage:
    """Of the examples inconsistent when unsplit, how many PORTIA settled.

    coverage: the share (Table 1, with Wilson's interval).
    by_chance: 1 - product over the stages of (1 - sum_c P1(c) P2(c)), the share that independent
        verdicts with these frequencies would settle.
    beyond_chance: the difference of the two."""

    coverage: Figure
    by_chance: Figure
    beyond_chance: Figure


@dataclass(frozen=True, slots=True)
class StageUse:
    """One stage: examples asked, examples settled, and the share against chance.

    by_chance: sum_c P1(c) P2(c), from the frequencies of the labels within each order."""

    stage: Stage
    asked: int
    settled: int
    consistency: Figure
    by_chance: Figure


def consistency(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    rng: np.random.Generator,
    question: ArrayLike | None = None,
) -> Consistency:
    """Return the shares of consistent examples among those with a verdict in both orders (Table 1).

    Args: stages, unsplit, rng, question: as in `fixed_coverage`.
    Returns: shares, 0 to 1, and the relative gain."""
    final = stages.final
    after = wilson(int(final.consistent.sum()), int(final.both.sum()))
    if isinstance(unsplit, Undefined):
        return Consistency(unsplit, after, unsplit)
    before = wilson(int(unsplit.consistent.sum()), int(unsplit.both.sum()))
    rows = final.both & unsplit.both
    gain = bootstrap_estimate(
        lambda counts, values: ratio(counts @ values[:, 1], counts @ values[:, 0]) - 1,
        (unsplit.consistent[rows], final.consistent[rows]),
        rng,
        question=questions_at(question, rows),
        reason=NO_CONTRAST if not rows.any() else "no example was consistent when unsplit",
    )
    return Consistency(before, after, gain)


def fixed_coverage(
    stages: StageLabels | Undefined,
    unsplit: OrderLabels | Undefined,
    rng: np.random.Generator,
    *,
    own: bool = True,
    question: ArrayLike | None = None,
) -> FixedCoverage:
    """Return fixed coverage and its chance control, by resamples that both share.

    A stage in which an order has no valid sample settles nothing, and by chance neither.

    Args:
        stages: finished examples.
        unsplit: the unsplit prompt's labels, from these `stages` (`own`) or from another run.
        rng, question: as in `bootstrap_estimate`.
        own: False: the unsplit prompt was also a retry.
    Returns: shares, 0 to 1."""
    for missing in (stages, unsplit):
        if isinstance(missing, Undefined):
            return FixedCoverage(missing, missing, missing)
    assert isinstance(stages, StageLabels)
    assert isinstance(unsplit, OrderLabels)
    rows = unsplit.inconsistent
    if not rows.any():
        reason = Undefined(NONE_INCONSISTENT)
        return FixedCoverage(reason, reason, reason)
    retries = _RETRIES[:-1] if own else _RETRIES
    settled = stages.final.consistent[rows]
    columns = (settled, *(column for stage in retries for column in _codes(stages, stage, rows)))
    drawn_by = questions_at(question, rows)
    shared = int(rng.integers(2**63))
    by_chance, beyond = (
        bootstrap_estimate(statistic, columns, np.random.default_rng(shared), question=drawn_by)
        for statistic in (
            _chance_coverage,
            lambda counts, values: (
                counts @ values[:, 0] / counts.sum(axis=1) - _chance_coverage(counts, values)
            ),
        )
    )
    return FixedCoverage(wilson(int(settled.sum()), len(settled)), by_chance, beyond)


def _chance_coverage(counts: Floats, values: Floats) -> Floats:
    """(resamples,) share that independent verdicts would settle.

    counts: (resamples, cells).  values: (cells, 1 + 2 stages), after the first column the codes
    of both orders of each stage in turn: 1, 0, -1, 2 for missing, 3 for not asked.
    Stage s is asked of a share a_s of the examples still open, and settles q_s of those by
    chance, so 1 - a_s q_s stay open."""
    open_cells = np.ones(len(values), dtype=bool)
    still_open = np.ones(len(counts))
    for first, second in zip(values.T[1::2], values.T[2::2], strict=True):
        asked = open_cells & (first != _NOT_ASKED)
        n_asked = counts @ asked
        share = ratio(n_asked, counts @ open_cells, empty=0.0)
        still_open *= 1 - share * _agreement_by_chance(counts, asked, first, second, n_asked)
        open_cells &= (first != second) | (first >= _MISSING)
    return 1 - still_open


def _agreement_by_chance(
    counts: Floats, asked: Booleans, first: Floats, second: Floats, n_asked: Floats
) -> Floats:
    """(resamples,) sum_c P1(c) P2(c); a missing label agrees with nothing."""
    agree = np.zeros(len(counts))
    for sign in _SIGNS:
        agree += (counts @ (asked & (first == sign))) * (counts @ (asked & (second == sign)))
    return ratio(agree, n_asked**2, empty=0.0)


def _chance_of_one_stage(counts: Floats, values: Floats) -> Floats:
    everyone = np.ones(len(values), dtype=bool)
    return _agreement_by_chance(counts, everyone, values[:, 0], values[:, 1], counts.sum(axis=1))


def stage_use(
    stages: StageLabels, rng: np.random.Generator, question: ArrayLike | None = None
) -> list[StageUse]:
    """Count what each stage settled, and what it would settle by chance.

    Args: stages, rng, question: as in `fixed_coverage`.
    Returns: the stages that were asked, in the order of STAGES."""
    uses = []
    for index, stage in enumerate(STAGES):
        rows = stages.asked[:, index]
        found = stages.of(stage)
        settled = int(found.consistent.sum())
        n = int(rows.sum())
        if not n:
            continue
        by_chance = bootstrap_estimate(
            _chance_of_one_stage,
            _codes(stages, stage, rows),
            rng,
            question=questions_at(question, rows),
        )
        uses.append(StageUse(stage, n, settled, wilson(settled, n), by_chance))
    return uses


def stages_per_example(stages: StageLabels, question: ArrayLike | None = None) -> Figure:
    """Return what PORTIA costs in prompts: 1 is the unsplit prompt in both orders.

    Args: stages, question: as in `fixed_coverage`.
    Returns: mean number of stages asked per example, 1 to 3."""
    return plus_two_mean(stages.asked.sum(axis=1), (1, stages.asked.shape[1]), question)


def _codes(stages: StageLabels, stage: Stage, rows: Booleans) -> tuple[Floats, Floats]:
    """Codes of both orders, as `_chance_coverage` reads them."""
    index = STAGES.index(stage)
    labels = stages.labels[rows, index].astype(np.float64)
    labels[~stages.there[rows, index]] = _MISSING
    labels[~stages.asked[rows, index]] = _NOT_ASKED
    return labels[:, 0], labels[:, 1]
