"""Which prompt PORTIA asks next, and which stage settles (arXiv:2310.01432, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from judging.methods.arrays import Booleans, Codes, Signs
from judging.methods.intervals.estimates import Undefined
from judging.methods.verdicts.verdicts import Label

NO_UNSPLIT = "not every example was asked unsplit; ask it first, or in another run"
NO_SEMANTIC = "the length-aligned prompt settled examples first; ask a run without it"


class Stage(StrEnum):
    """A prompt that is asked in both orders; NONE: no stage was consistent."""

    UNSPLIT = "unsplit"
    LENGTH = "length"
    SEMANTIC = "semantic"
    NONE = "none"


ALIGNMENTS = (Stage.LENGTH, Stage.SEMANTIC)


@dataclass(frozen=True, slots=True)
class StageResult:
    """The label of the mean within each order, turned back to responses 1 and 2.

    None: the order was asked and has no valid sample."""

    original: Label | None
    swapped: Label | None

    @property
    def consistent(self) -> bool:
        return self.original is not None and self.original == self.swapped


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing more is asked.

    stage: the one that gave the label, or NONE.
    last: the last stage asked; CS and BPDE come from its samples."""

    stage: Stage
    label: Label | None
    last: Stage


def next_stage(
    asked: Mapping[Stage, StageResult],
    *,
    splittable: bool,
    overlapping: bool,
    unsplit_first: bool = False,
    alignments: Collection[Stage] = ALIGNMENTS,
) -> Stage | Settled:
    """Decide what to ask next (Algorithm 1).

    Args:
        asked: results of the finished stages.
        splittable: both responses have enough boundaries (`length_aligned` is not None).
        overlapping: some similarity is above 0 (`semantically_aligned` is not None).
        unsplit_first: ask the unsplit prompt before any aligned one.
        alignments: LENGTH or SEMANTIC alone leaves the other out (Figure 3).
    Returns: the stage to ask in both orders, or how the example ended."""
    plan = stages(splittable, overlapping, unsplit_first, alignments)
    for stage in plan:
        if stage not in asked:
            return stage
        if asked[stage].consistent:
            return Settled(stage, asked[stage].original, stage)
    return Settled(Stage.NONE, None, plan[-1])


def stages(
    splittable: bool,
    overlapping: bool,
    unsplit_first: bool = False,
    alignments: Collection[Stage] = ALIGNMENTS,
) -> tuple[Stage, ...]:
    """Plan the stages of an example, which are asked in turn until one is consistent.

    Args: splittable, overlapping, unsplit_first, alignments: as in `next_stage`.
    Returns: the stages in order.
    Raises: ValueError without an alignment."""
    if not alignments or not set(alignments) <= set(ALIGNMENTS):
        raise ValueError("PORTIA aligns by length, by meaning, or by both")
    # A response with too few boundaries can't be split, so the plain prompt is all there is.
    plan = [Stage.UNSPLIT] if unsplit_first or not splittable else []
    if splittable:
        plan += [Stage.LENGTH] if Stage.LENGTH in alignments else []
        if Stage.SEMANTIC in alignments:
            plan.append(Stage.SEMANTIC if overlapping else Stage.UNSPLIT)
    # The unsplit prompt may be planned twice, first and as the fallback, and is asked once.
    return tuple(dict.fromkeys(plan))


# The last axis but one of the arrays.
STAGES = (Stage.UNSPLIT, Stage.LENGTH, Stage.SEMANTIC)


@dataclass(frozen=True, slots=True)
class OrderLabels:
    """labels, there: (N, 2) sign of the mean of each order, turned back, and if it exists."""

    labels: Signs
    there: Booleans

    @property
    def both(self) -> Booleans:
        return np.asarray(self.there.all(axis=1))

    @property
    def consistent(self) -> Booleans:
        return np.asarray(self.both & (self.labels[:, 0] == self.labels[:, 1]))

    @property
    def inconsistent(self) -> Booleans:
        return np.asarray(self.both & (self.labels[:, 0] != self.labels[:, 1]))


@dataclass(frozen=True, slots=True)
class StageLabels:
    """N finished examples, three stages, two orders.

    labels, there: (N, 3, 2) as in `OrderLabels`.
    asked: (N, 3) whether the stage was asked.
    last: (N,) index of the last stage asked, from which CS and BPDE come."""

    labels: Signs
    there: Booleans
    asked: Booleans
    last: Codes

    def __len__(self) -> int:
        return len(self.last)

    def of(self, stage: Stage) -> OrderLabels:
        """Return one stage; nothing is there if it was not asked."""
        index = STAGES.index(stage)
        there = self.there[:, index] & self.asked[:, index, None]
        return OrderLabels(self.labels[:, index], there)

    @property
    def final(self) -> OrderLabels:
        """The last stage of each example: consistent if it settled the example."""
        rows = np.arange(len(self))
        return OrderLabels(self.labels[rows, self.last], self.there[rows, self.last])

    @property
    def unsplit(self) -> OrderLabels | Undefined:
        """The unsplit stage as what PORTIA is compared with."""
        if not self.asked[:, STAGES.index(Stage.UNSPLIT)].all():
            return Undefined(NO_UNSPLIT)
        return self.of(Stage.UNSPLIT)


def without_semantic(stages: StageLabels) -> StageLabels:
    """Return the run as it would have been with length alignment alone (Figure 3).

    Args: stages: finished examples.
    Returns: the same examples."""
    length, semantic = STAGES.index(Stage.LENGTH), STAGES.index(Stage.SEMANTIC)
    asked = stages.asked.copy()
    asked[:, semantic] = False
    # An example that could not be split has no length stage, and keeps its last one.
    last = np.where(asked[:, length], length, stages.last)
    return StageLabels(stages.labels, stages.there, asked, last)


def without_length(stages: StageLabels) -> StageLabels | Undefined:
    """Return the run as it would have been with semantic alignment alone (Figure 3).

    Examples that a length-aligned prompt settled were not asked again: this needs its own run.

    Args: stages: finished examples.
    Returns: the same examples, or Undefined."""
    unsplit, length = STAGES.index(Stage.UNSPLIT), STAGES.index(Stage.LENGTH)
    if (stages.of(Stage.LENGTH).consistent).any():
        return Undefined(NO_SEMANTIC)
    asked = stages.asked.copy()
    asked[:, length] = False
    last = np.where(stages.last == length, unsplit, stages.last)
    return StageLabels(stages.labels, stages.there, asked, last)
