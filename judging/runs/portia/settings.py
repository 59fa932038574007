"""How a run splits and aligns: chosen when it starts, and kept with it."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Self

from judging.errors import UserError
from judging.llm.prompts import NoResponseBlocks, response_blocks
from judging.llm.templating import Template
from judging.methods.portia.similarity import NAMED
from judging.methods.portia.stages import ALIGNMENTS, Stage, stages
from judging.models.runs import Form, Method, Run
from judging.runs.portia.sentence_model import sentence_model

FEWEST_PARTS, MOST_PARTS = 2, 10
EMBEDDING = "embedding"
TOKENS = (*NAMED, EMBEDDING)
PARTS = 3
FORMS = (Form.SCORE, Form.RELATION, Form.LIKERT)
WITHOUT = tuple(stage.value for stage in ALIGNMENTS)


@dataclass(frozen=True, slots=True)
class PortiaSettings:
    """`parts`: into how many each response is split; `tokens`: what two parts have in common.

    `unsplit_first`: whether the whole responses are shown before any part. `alignments`: the two
    of the paper, or one alone (its Figure 3). `splitter`: the library that found the sentences.
    """

    parts: int = PARTS
    tokens: str = "word"
    unsplit_first: bool = False
    alignments: tuple[Stage, ...] = ALIGNMENTS
    splitter: str = ""

    @classmethod
    def of(cls, run: Run) -> Self | None:
        """None for another method, and for a run that was recorded elsewhere."""
        kept = run.parameters.get("portia")
        if not kept or "parts" not in kept:
            return None
        return cls(
            kept["parts"],
            kept["tokens"],
            kept["unsplit_first"],
            tuple(Stage(name) for name in kept["alignments"]),
            kept["splitter"],
        )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All that an example may come to, in the order of asking."""
        if self.unsplit_first:
            return (Stage.UNSPLIT, *self.alignments)
        return (*self.alignments, Stage.UNSPLIT)

    def plan(self, splittable: bool, overlapping: bool) -> tuple[Stage, ...]:
        return stages(splittable, overlapping, self.unsplit_first, self.alignments)

    def to_json(self) -> dict[str, Any]:
        return {
            "parts": self.parts,
            "tokens": self.tokens,
            "unsplit_first": self.unsplit_first,
            "alignments": [stage.value for stage in self.alignments],
            "splitter": self.splitter,
            "stages": [stage.value for stage in self.stages],
        }


@dataclass(frozen=True, slots=True)
class PortiaOptions:
    """What a person may say of PORTIA; None where it is left open."""

    parts: int | None = None
    tokens: str = ""
    unsplit_first: bool = False
    without: str = ""


def chosen_settings(
    method: str, form: str, template: Template, options: PortiaOptions
) -> PortiaSettings | None:
    """None for another method. Raises UserError for what can't be asked or split so."""
    if method != Method.PORTIA:
        if options != PortiaOptions():
            raise UserError(
                f"Parts, tokens and stages are settings of the method portia, and the method is "
                f"{method}. Nothing was started."
            )
        return None
    check_options(form, options)
    try:
        response_blocks(template)
    except NoResponseBlocks as error:
        raise UserError(f"{error} Nothing was started.") from None
    tokens = options.tokens or "word"
    return PortiaSettings(
        options.parts or PARTS,
        tokens,
        options.unsplit_first,
        tuple(stage for stage in ALIGNMENTS if stage != options.without),
        splitter(tokens),
    )


def check_options(form: str, options: PortiaOptions) -> None:
    if form not in FORMS:
        raise UserError(
            f"PORTIA asks for the forms {', '.join(FORMS)}, not {form}. Nothing was started."
        )
    if options.parts is not None and not FEWEST_PARTS <= options.parts <= MOST_PARTS:
        raise UserError(
            f"PORTIA splits a response into {FEWEST_PARTS} to {MOST_PARTS} parts, not "
            f"{options.parts}. Nothing was started."
        )
    if options.tokens not in ("", *TOKENS):
        raise UserError(
            f"Tokens {options.tokens} are not known. Nothing was started. Choose from: "
            f"{', '.join(TOKENS)}."
        )
    if options.without not in ("", *WITHOUT):
        raise UserError(
            f"PORTIA aligns by {' and by '.join(WITHOUT)}; {options.without} can't be left out. "
            "Nothing was started."
        )


def splitter(tokens: str) -> str:
    """What found the sentences, and what is alike in them."""
    sentences = f"sentencex {version('sentencex')}"
    return sentences if tokens in NAMED else f"{sentences}, {sentence_model().name}"


def check_splitter(run: Run) -> None:
    """A run goes on only under the sentence model that it was started with."""
    kept = PortiaSettings.of(run)
    if kept and kept.tokens == EMBEDDING and sentence_model().name not in kept.splitter:
        raise UserError(
            f"Run {run.name} was split by {kept.splitter}, and the sentence model is now "
            f"{sentence_model().name}. Nothing was sent."
        )
