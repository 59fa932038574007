"""How many contradictions PORTIA removes, and how many luck would (arXiv:2310.01432, Table 1).

Asking again removes a contradiction by luck: independent random verdicts of two classes agree in
half of the cases at the next stage, in three quarters after two. So fixed coverage is always shown
with what it would be if the verdicts of the two orders were independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats
from judging.methods.intervals.bootstrap import (
    ONE_QUESTION,
    Array,
    design_effect,
    left_out,
    plus_two_mean,
    questions_at,
    ratio,
    share,
)
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.portia.stages import STAGES, OrderLabels, Stage, StageLabels

NONE_INCONSISTENT = "the unsplit prompt was consistent on every example"
NO_CONTRAST = "no example was judged both ways"
# With fewer contradictions what chance would settle is too uncertain for an interval.
FEWEST = 20
FEW = f"fewer than {FEWEST} questions with a contradiction, too few for an interval"
CONTROL = "a control without an interval"
_SIGNS = np.array([1, 0, -1])
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
    """How many of the examples that were inconsistent when unsplit PORTIA settled.

    coverage: the share (Table 1, with Wilson's interval).
    by_chance: 1 - product over the stages of (1 - sum_c P1(c) P2(c)), the share that independent
        verdicts with these frequencies would settle; without an interval.
    beyond_chance: the difference of the two, which has one."""

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
    stages: StageLabels, unsplit: OrderLabels | Undefined, question: ArrayLike | None = None
) -> Consistency:
    """Return the shares of consistent examples among those with a verdict in both orders (Table 1).

    Args: stages, unsplit, question: as in `fixed_coverage`.
    Returns: shares, 0 to 1, and the relative gain."""
    final = stages.final
    after = share(final.consistent[final.both], questions_at(question, final.both))
    if isinstance(unsplit, Undefined):
        return Consistency(unsplit, after, unsplit)
    before = share(unsplit.consistent[unsplit.both], questions_at(question, unsplit.both))
    rows = final.both & unsplit.both
    gain = relative_gain(
        final.consistent[rows], unsplit.consistent[rows], questions_at(question, rows)
    )
    return Consistency(before, after, gain)


def relative_gain(after: Booleans, before: Booleans, question: Array | None = None) -> Figure:
    """Return the ratio of two shares of the same examples, less 1.

    The interval is that of Bonett and Price (Statistics in Medicine 25, 2006, pp. 3039-3047): two
    of Wilson's, each narrower by as much as the pairs tell. If questions repeat, the examples count
    as many as they are worth for the difference.

    Args: after, before, question: (n,) what was consistent, and equal codes share a question.
    Returns: -1 or more, or Undefined."""
    n = len(after)
    if not n or not before.any():
        return Undefined(NO_CONTRAST if not n else "no example was consistent when unsplit")
    value = float(after.sum() / before.sum())
    effect, questions = 1.0, n
    if question is not None:
        effect, questions = design_effect(after - value * before, question)
    if questions < 2:
        return Estimate(value - 1, n, note=ONE_QUESTION)
    # Examples that neither prompt made consistent say nothing about the ratio.
    either, changed = ((after | before).sum() / effect, (after ^ before).sum() / effect)
    counts = np.array([after.sum(), before.sum()]) / effect
    left = np.sqrt((1 - (counts + 1) / (either + 2)) / (counts + 1)).sum()
    narrower = np.sqrt((changed + 2) / (counts + 1).prod()) / left
    z = float(scipy.stats.t.ppf(0.975, questions - 1)) * narrower
    reach = z * np.sqrt(z * z + 4 * counts * (1 - counts / either))
    low, high = ((2 * counts + z * z + side * reach) / (2 * (either + z * z)) for side in (-1, 1))
    # The smallest ratio pairs the lower limit of one share with the upper limit of the other.
    limits = float(low[0] / high[1]) - 1, float(high[0] / max(low[1], 1e-12)) - 1
    return Estimate(value - 1, n, *limits)


def fixed_coverage(
    stages: StageLabels | Undefined,
    unsplit: OrderLabels | Undefined,
    *,
    own: bool = True,
    question: ArrayLike | None = None,
) -> FixedCoverage:
    """Return fixed coverage, its chance control, and how far it is beyond that.

    A stage in which an order has no valid sample settles nothing, and by chance neither. The
    interval of the difference is a jackknife by question.

    Args:
        stages: finished examples.
        unsplit: the unsplit prompt's labels, from these `stages` (`own`) or from another run.
        own: False: the unsplit prompt was also a retry.
        question: (N,) equal codes share a question.
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
    # In its own run the unsplit stage is the baseline, and being asked once it can't be a retry.
    retries = _RETRIES[:-1] if own else _RETRIES
    settled, still_open, columns = stages.final.consistent[rows], np.ones(rows.sum(), bool), []
    for stage in retries:
        counted = _columns(stages, stage, rows)
        columns += [still_open[:, None], counted]
        still_open = still_open & ~stages.of(stage).consistent[rows]
    asked, n = questions_at(question, rows), len(settled)
    # Sums of these columns are all that the jackknife needs, so each question is left out by one
    # subtraction.
    every = np.hstack((settled[:, None], np.ones((n, 1)), *columns)).astype(np.float64)
    total, without = left_out(every, asked)
    chance, value = _chance(total), float(total[0] / n - _chance(total))
    beyond = Estimate(value, n, note=FEW)
    if len(without) >= FEWEST:
        left = ratio(without[:, 0], without[:, 1]) - _chance(without)
        apart = left - left.mean()
        # The jackknife's variance: estimates that share all but one question hardly differ, which
        # (G - 1) / G times their sum of squares makes up for.
        error = np.sqrt((len(left) - 1) / len(left) * float(apart @ apart))
        half = float(scipy.stats.t.ppf(0.975, len(left) - 1) * error)
        beyond = Estimate(value, n, max(-1.0, value - half), min(1.0, value + half))
    return FixedCoverage(share(settled, asked), Estimate(float(chance), n, note=CONTROL), beyond)


def _columns(stages: StageLabels, stage: Stage, rows: Booleans) -> Booleans:
    """(rows, 7) asked, and for each order whether it said win, tie or lose."""
    labels, asked = stages.of(stage), stages.asked[rows, STAGES.index(stage)]
    verdicts = (labels.labels[rows][:, :, None] == _SIGNS) & labels.there[rows][:, :, None]
    return np.column_stack((asked, verdicts.reshape(len(asked), 6)))


def _chance(sums: Floats) -> Floats:
    """(...,) share that independent verdicts would settle.

    sums: (..., 2 + 8 stages), after settled and n for each stage how many examples were still open,
    and those of `_columns`. A stage is asked of a share a of the open ones, and settles q of those
    by chance, so 1 - a q stay open."""
    left = np.ones(sums.shape[:-1])
    for start in range(2, sums.shape[-1], 8):
        still_open, asked = sums[..., start], sums[..., start + 1]
        left = left * (1 - ratio(_alike(sums[..., start + 2 : start + 8]), still_open * asked, 0.0))
    return 1 - left


def _alike(verdicts: Floats) -> Floats:
    """sum_c n1(c) n2(c); a missing label agrees with nothing. verdicts: (..., 6)."""
    return np.asarray((verdicts[..., :3] * verdicts[..., 3:]).sum(axis=-1))


def stage_use(stages: StageLabels, question: ArrayLike | None = None) -> list[StageUse]:
    """Count what each stage settled, and what it would settle by chance.

    Args: stages, question: as in `fixed_coverage`.
    Returns: the stages that were asked, in the order of STAGES."""
    uses = []
    for index, stage in enumerate(STAGES):
        rows = stages.asked[:, index]
        n = int(rows.sum())
        if not n:
            continue
        consistent = stages.of(stage).consistent[rows]
        sums = _columns(stages, stage, rows).sum(axis=0, dtype=np.float64)
        by_chance = Estimate(float(_alike(sums[1:])) / n**2, n, note=CONTROL)
        rate = share(consistent, questions_at(question, rows))
        uses.append(StageUse(stage, n, int(consistent.sum()), rate, by_chance))
    return uses


def stages_per_example(stages: StageLabels, question: ArrayLike | None = None) -> Figure:
    """Return what PORTIA costs in prompts: 1 is the unsplit prompt in both orders.

    Args: stages, question: as in `fixed_coverage`.
    Returns: mean number of stages asked per example, 1 to 3."""
    return plus_two_mean(stages.asked.sum(axis=1), (1, stages.asked.shape[1]), question)
