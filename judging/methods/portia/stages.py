"""Which prompt PORTIA asks next, and which stage settled an example (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from judging.methods.outcomes import Label


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

    None: the order was asked and has no valid sample.
    """

    original: Label | None
    swapped: Label | None

    @property
    def consistent(self) -> bool:
        return self.original is not None and self.original == self.swapped


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing more is asked.

    stage: the one that gave the label, or NONE.
    last: the last stage asked; CS and BPDE come from its samples.
    """

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
    """The stage to ask in both orders, or how the example ended.

    asked: results of the finished stages.
    splittable: both responses have enough boundaries (`length_aligned` is not None).
    overlapping: some similarity is above 0 (`semantically_aligned` is not None).
    unsplit_first: ask the unsplit prompt before any aligned one.
    alignments: LENGTH or SEMANTIC alone leaves the other out (Figure 3).
    """
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
    """The stages of an example in the order in which they are asked until one is consistent."""
    if not alignments or not set(alignments) <= set(ALIGNMENTS):
        raise ValueError("PORTIA aligns by length, by meaning, or by both")
    plan = [Stage.UNSPLIT] if unsplit_first or not splittable else []
    if splittable:
        plan += [Stage.LENGTH] if Stage.LENGTH in alignments else []
        if Stage.SEMANTIC in alignments:
            plan.append(Stage.SEMANTIC if overlapping else Stage.UNSPLIT)
    return tuple(dict.fromkeys(plan))
