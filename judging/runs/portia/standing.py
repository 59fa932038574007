"""How far an example has come by what was recorded of it (PORTIA, Algorithm 1)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from judging.llm.parts import stage_of
from judging.methods.outcomes import Label, Number, outcome_of
from judging.methods.portia.stages import Settled, Stage, StageResult, next_stage
from judging.runs.portia.settings import PortiaSettings

Pair = tuple[Number, Number]
Results = Mapping[Stage, StageResult]


class Splits(Protocol):
    """Whether both responses can be split, and whether anything in their parts is alike."""

    @property
    def splittable(self) -> bool: ...

    @property
    def overlapping(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Standing:
    """`last`: the stage whose samples speak; None where nothing was asked.

    `stage`: the one that settled the example, `none` where none did, None as long as one is due.
    """

    last: Stage | None
    stage: Stage | None


def stage_due(
    settings: PortiaSettings, results: Results, begun: Collection[Stage], splits: Splits
) -> Stage | Settled:
    """What is asked next, or how the example ended.

    results: of the stages that were asked in full; begun: of which something was recorded.
    The responses are split and aligned only where the records leave the answer open.
    """
    possible = list(_possible(settings, begun))
    found = {_next(settings, results, one) for one in possible}
    if len(found) != 1:
        likewise = [one for one in possible if one[0] == splits.splittable]
        found = {_next(settings, results, one) for one in likewise}
    if len(found) != 1:
        found = {_next(settings, results, (splits.splittable, splits.overlapping))}
    return found.pop()


def standing(
    settings: PortiaSettings, results: Results, begun: Collection[Stage], splits: Splits
) -> Standing:
    """As far as a verdict needs it: which stage is due plays no role."""
    possible = {_next(settings, results, one) for one in _possible(settings, begun)}
    pending = bool(possible) and all(isinstance(one, Stage) for one in possible)
    end = None if pending else stage_due(settings, results, begun, splits)
    if isinstance(end, Settled):
        return Standing(end.last, end.stage)
    asked = [stage for stage in settings.stages if stage in begun]
    return Standing(asked[-1] if asked else None, None)


def standing_of_recorded(stages: Sequence[Stage], results: Results) -> Standing:
    """Of a run that was recorded elsewhere: nothing is due, and the last stage asked speaks."""
    last = None
    for stage in stages:
        if stage in results:
            last = stage
            if results[stage].consistent:
                return Standing(stage, stage)
    return Standing(last, Stage.NONE if last else None)


def begun_stages(parts: Iterable[str]) -> set[Stage]:
    return {Stage(stage_of(part)) for part in parts}


def label_of(pairs: Sequence[Pair | None]) -> Label | None:
    """The label of the mean within an order; None without a valid sample."""
    valid = [pair for pair in pairs if pair is not None]
    if not valid:
        return None
    return outcome_of((sum(pair[0] for pair in valid), sum(pair[1] for pair in valid)))


def _next(settings: PortiaSettings, results: Results, splits: tuple[bool, bool]) -> Stage | Settled:
    return next_stage(
        results,
        splittable=splits[0],
        overlapping=splits[1],
        unsplit_first=settings.unsplit_first,
        alignments=settings.alignments,
    )


def _possible(settings: PortiaSettings, begun: Collection[Stage]) -> Iterable[tuple[bool, bool]]:
    """What may be true of the responses: by its plan exactly these stages come first."""
    for splits in ((False, False), (True, False), (True, True)):
        if set(settings.plan(*splits)[: len(begun)]) == set(begun):
            yield splits
