"""The aligned parts of an example, as the judge saw them."""

from collections.abc import Iterable
from dataclasses import dataclass

from judging.errors import UserError
from judging.llm.marks import disarm
from judging.llm.parts import UNSPLIT, stage_of
from judging.models.examples import Example
from judging.models.runs import Run
from judging.runs.portia.settings import PortiaSettings, splitter
from judging.runs.portia.splits import aligned


@dataclass(frozen=True, slots=True)
class ShownStage:
    """Part i of both responses side by side. `similarity`: the sum over the parts, by meaning only.

    `other_splitter`: the version that split them then, where today's is another.
    """

    stage: str
    pairs: tuple[tuple[str, str], ...]
    similarity: float | None
    other_splitter: str


def shown_stages(run: Run, example: Example, parts: Iterable[str]) -> tuple[ShownStage, ...]:
    """Of the stages that these parts of the run belong to; none where responses stood whole.

    None either where the sentence model is gone by which they were aligned.
    """
    settings = PortiaSettings.of(run)
    if settings is None:
        return ()
    stages = dict.fromkeys(stage_of(part) for part in parts)
    try:
        today = splitter(settings.tokens)
    except UserError:
        return ()
    other = settings.splitter if settings.splitter != today else ""
    found = ((stage, aligned(example, stage, settings)) for stage in stages if stage != UNSPLIT)
    return tuple(
        ShownStage(
            stage,
            tuple(
                (disarm(one), disarm(two))
                for one, two in zip(alignment.parts_1, alignment.parts_2, strict=True)
            ),
            alignment.similarity,
            other,
        )
        for stage, alignment in found
        if alignment is not None
    )
