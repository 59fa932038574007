"""The method PORTIA: how a run splits and aligns, which stage an example is at, what was shown.

The settings are chosen when a run starts, and kept with it. Splitting and aligning are
deterministic and take milliseconds, so parts are not stored but found again when needed. A few
pairs are remembered, since the orders and samples of an example are asked one after the other. Of a
conversation, the text form of the response's own turns is split.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from django.conf import settings
from django.db.models import Count, Q, Sum

from judging.core.errors import UserError
from judging.dataset.models import Example
from judging.llm.prompts.marks import disarm
from judging.llm.prompts.templates import (
    UNSPLIT,
    NoResponseBlocks,
    PromptVariant,
    Template,
    response_blocks,
    stage_parts,
)
from judging.llm.sentence_models import load_sentence_model
from judging.methods.portia.alignment import (
    NAMED,
    Alignment,
    EmbeddingSimilarity,
    Similarity,
    length_aligned,
    semantically_aligned,
)
from judging.methods.portia.splitting import GrammarsMissing, boundaries, check_grammars
from judging.methods.portia.stages import (
    ALIGNMENTS,
    Settled,
    Stage,
    StageResult,
    next_stage,
    stages,
)
from judging.methods.verdicts.verdicts import Label, Number, outcome_of
from judging.runs.models import Call, Form, Method, Run, Verdict


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """`name` identifies the model on any machine: its folder's name and a digest of its files."""

    name: str
    similarity: Similarity


def sentence_model() -> SentenceModel:
    """Return the operator's sentence model. Raises UserError if there is none."""
    path = settings.FAIRJUDGE_SENTENCE_MODEL
    if not path:
        raise UserError(
            "Embeddings need a sentence model: name its folder by FAIRJUDGE_SENTENCE_MODEL. "
            "Nothing was started."
        )
    return _loaded(Path(path))


@cache
def _loaded(path: Path) -> SentenceModel:
    similarity = EmbeddingSimilarity(load_sentence_model(path))
    # A folder's name says little: a model that was trained further aligns differently.
    digest = hashlib.sha256()
    for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
        digest.update(str(file.relative_to(path)).encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return SentenceModel(f"{path.resolve().name} {digest.hexdigest()[:12]}", similarity)


# With one part nothing is split.
FEWEST_PARTS, MOST_PARTS = 2, 10
EMBEDDING = "embedding"
TOKENS = (*NAMED, EMBEDDING)
# The paper's k, which balances calls and consistency.
PARTS = 3
FORMS = (Form.SCORE, Form.RELATION, Form.LIKERT)
WITHOUT = tuple(stage.value for stage in ALIGNMENTS)


@dataclass(frozen=True, slots=True)
class PortiaSettings:
    """How a run splits and aligns.

    `parts`: into how many parts each response is split. `tokens`: what makes two parts alike.
    `unsplit_first`: whether the whole responses are shown before any part. `alignments`: the two of
    the paper, or one alone (its Figure 3). `splitter`: the library that found the sentences.
    """

    parts: int = PARTS
    tokens: str = "word"
    unsplit_first: bool = False
    alignments: tuple[Stage, ...] = ALIGNMENTS
    splitter: str = ""

    @classmethod
    def of(cls, run: Run) -> Self | None:
        """Return the run's settings; None for other methods and for recorded runs."""
        kept = run.parameters.get("portia")
        # Recorded runs keep their stages alone, since nobody knows how they were split.
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
        """All stages that an example may come to, in the order of asking."""
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
    """The settings that a person may choose; None is the default."""

    parts: int | None = None
    tokens: str = ""
    unsplit_first: bool = False
    without: str = ""


def chosen_settings(
    method: str, form: str, template: Template, options: PortiaOptions
) -> PortiaSettings | None:
    """Return the settings; None for other methods. Raises UserError if they are impossible."""
    if method != Method.PORTIA:
        if options != PortiaOptions():
            raise UserError(
                f"Parts, tokens and stages are settings of the method portia, and the method is "
                f"{method}. Nothing was started."
            )
        return None
    check_options(form, options)
    try:
        # Parts take the place of whole responses, so the template needs a block for each.
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
    """Return what finds and compares sentences. Raises UserError if it is missing."""
    try:
        check_grammars()
    except GrammarsMissing as error:
        raise UserError(f"{error}. Nothing was started.") from None
    sentences = f"sentencex {version('sentencex')}"
    return sentences if tokens in NAMED else f"{sentences}, {sentence_model().name}"


def check_splitter(run: Run) -> None:
    """Raise UserError if the sentence model is not the one that the run was started with."""
    kept = PortiaSettings.of(run)
    if kept:
        splitter(kept.tokens)
    if kept and kept.tokens == EMBEDDING and sentence_model().name not in kept.splitter:
        raise UserError(
            f"Run {run.name} was split by {kept.splitter}, and the sentence model is now "
            f"{sentence_model().name}. Nothing was sent."
        )


# Enough for examples whose orders and samples are asked at about the same time.
REMEMBERED = 64


def aligned(example: Example, stage: str, settings: PortiaSettings) -> Alignment | None:
    """Return the aligned parts; None if a response is too short to split or nothing is alike."""
    texts = example.response_1, example.response_2
    if stage == Stage.LENGTH:
        return _by_length(*texts, settings.parts)
    return _by_meaning(*texts, settings.parts, settings.tokens)


@dataclass(frozen=True, slots=True)
class ExampleSplits:
    """Whether the responses can be split, and whether anything in them is alike."""

    example: Example
    settings: PortiaSettings

    @property
    def splittable(self) -> bool:
        return aligned(self.example, Stage.LENGTH, self.settings) is not None

    @property
    def overlapping(self) -> bool:
        return aligned(self.example, Stage.SEMANTIC, self.settings) is not None


@lru_cache(maxsize=2 * REMEMBERED)
def _boundaries(text: str) -> tuple[int, ...]:
    return boundaries(text)


@lru_cache(maxsize=REMEMBERED)
def _by_length(text_1: str, text_2: str, k: int) -> Alignment | None:
    return length_aligned(text_1, _boundaries(text_1), text_2, _boundaries(text_2), k)


@lru_cache(maxsize=REMEMBERED)
def _by_meaning(text_1: str, text_2: str, k: int, tokens: str) -> Alignment | None:
    texts = text_1, _boundaries(text_1), text_2, _boundaries(text_2)
    by = sentence_model().similarity if tokens == EMBEDDING else tokens
    return semantically_aligned(*texts, k, by)


Pair = tuple[Number, Number]
Results = Mapping[Stage, StageResult]


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far an example has come (PORTIA, Algorithm 1).

    `last`: the stage whose samples the verdict rests on; None if nothing was asked. `stage`: the
    one that settled the example, `none` if no stage did, None while a stage is due.
    """

    last: Stage | None
    stage: Stage | None


def stage_due(
    settings: PortiaSettings, results: Results, begun: Collection[Stage], splits: ExampleSplits
) -> Stage | Settled:
    """Return what is asked next, or how the example ended.

    The responses are split and aligned only if the records leave the answer open.

    Args:
        results: Of the stages that were asked in full.
        begun: The stages with anything recorded.
    """
    possible = list(_possible(settings, begun))
    due = {_next(settings, results, guess) for guess in possible}
    if len(due) != 1:
        # Splitting takes milliseconds, aligning by meaning far longer. So it is asked only if
        # needed.
        likewise = [guess for guess in possible if guess[0] == splits.splittable]
        due = {_next(settings, results, guess) for guess in likewise}
    if len(due) != 1:
        due = {_next(settings, results, (splits.splittable, splits.overlapping))}
    return due.pop()


def stage_progress(
    settings: PortiaSettings, results: Results, begun: Collection[Stage], splits: ExampleSplits
) -> StageProgress:
    """Return how far the example is, as a verdict needs it: which stage is due plays no role."""
    possible = {_next(settings, results, guess) for guess in _possible(settings, begun)}
    pending = bool(possible) and all(isinstance(due, Stage) for due in possible)
    end = None if pending else stage_due(settings, results, begun, splits)
    if isinstance(end, Settled):
        return StageProgress(end.last, end.stage)
    asked = [stage for stage in settings.stages if stage in begun]
    return StageProgress(asked[-1] if asked else None, None)


def standing_of_recorded(stages: Sequence[Stage], results: Results) -> StageProgress:
    """Return how far an example of a recorded run came: nothing is due, its last stage counts."""
    last = None
    for stage in stages:
        # Recorded runs may leave stages out, such as those of examples that could not be split.
        if stage in results:
            last = stage
            if results[stage].consistent:
                return StageProgress(stage, stage)
    return StageProgress(last, Stage.NONE if last else None)


def begun_stages(parts: Iterable[str]) -> set[Stage]:
    return {Stage(PromptVariant.parse(part).stage) for part in parts}


def label_of(pairs: Sequence[Pair | None]) -> Label | None:
    """Return the label of the mean within an order; None without a valid sample."""
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
    """Yield what may be true of the responses, given that exactly these stages came first."""
    for splits in ((False, False), (True, False), (True, True)):
        if set(settings.plan(*splits)[: len(begun)]) == set(begun):
            yield splits


@dataclass(frozen=True, slots=True)
class StageCalls:
    """One stage: examples begun, calls, cost, and examples settled. `usd`: None if unknown."""

    stage: str
    examples: int
    calls: int
    usd: Decimal | None
    settled: int


def stage_calls(run: Run) -> tuple[StageCalls, ...]:
    """Return the stages that were asked, in the order of asking. Two queries."""
    counted = {
        stage: (
            Count("example", distinct=True, filter=Q(part__in=stage_parts(stage))),
            Count("pk", filter=Q(part__in=stage_parts(stage))),
            Sum("usd", filter=Q(part__in=stage_parts(stage)), default=Decimal(0)),
        )
        for stage in run.stages
    }
    names = ("examples", "calls", "usd")
    sums = run.calls.aggregate(
        **{
            f"{stage}_{name}": sum_
            for stage, sums in counted.items()
            for name, sum_ in zip(names, sums, strict=True)
        }
    )
    priced = run.price is not None
    ended = Verdict.objects.filter(run=run).order_by().values_list("stage").annotate(n=Count("pk"))
    settled = dict(ended)
    return tuple(
        StageCalls(
            stage,
            sums[f"{stage}_examples"],
            sums[f"{stage}_calls"],
            sums[f"{stage}_usd"] if priced else None,
            settled.get(stage, 0),
        )
        for stage in run.stages
        if sums[f"{stage}_calls"]
    )


def slots_expected(run: Run, examples: int) -> dict[str, int]:
    """Return by part the slots that are sure to be asked; their number grows during the run.

    Examples not begun count for the first stage, and both orders count once one was claimed.
    """
    asked = run.calls.exclude(example=None).order_by()
    by_part = dict(asked.values_list("part").annotate(n=Count("example", distinct=True)))
    waiting = examples - asked.aggregate(n=Count("example", distinct=True))["n"]
    expected = {}
    for stage in run.stages:
        # One order may be claimed before the other, and both are certain to be asked.
        begun = max(by_part.get(part, 0) for part in stage_parts(stage))
        begun += max(0, waiting) if stage == run.stages[0] else 0
        expected |= {part: begun * run.k for part in stage_parts(stage) if begun}
    return expected


def last_stages(run: Run) -> dict[int, str]:
    """Return by example the stage that its verdict rests on. Two queries, without any text."""
    verdicts = Verdict.objects.filter(run=run).exclude(stage="").values_list("example", "stage")
    settled = {pk: stage for pk, stage in verdicts if stage != Stage.NONE}
    # Without a settling stage, the last one that was asked counts, and only the calls tell it.
    open_ones = Verdict.objects.filter(run=run, stage__in=("", Stage.NONE)).values("example")
    asked = Call.objects.filter(run=run, example__in=open_ones).values_list("example", "part")
    places = {stage: place for place, stage in enumerate(run.stages)}
    last: dict[int, int] = {}
    for pk, part in asked.distinct().order_by():
        last[pk] = max(last.get(pk, 0), places.get(PromptVariant.parse(part).stage, 0))
    return settled | {pk: run.stages[place] for pk, place in last.items()}


@dataclass(frozen=True, slots=True)
class ShownStage:
    """The aligned parts of an example, as the judge saw them: part i of both responses in a pair.

    `similarity`: the sum over the parts, only for the alignment by meaning. `other_splitter`: the
    version that split them then, if today's is another.
    """

    stage: str
    pairs: tuple[tuple[str, str], ...]
    similarity: float | None
    other_splitter: str


def shown_stages(run: Run, example: Example, parts: Iterable[str]) -> tuple[ShownStage, ...]:
    """Return the stages of these parts that showed responses in parts.

    Nothing is returned either if the sentence model that aligned them is gone.
    """
    settings = PortiaSettings.of(run)
    if settings is None:
        return ()
    stages = dict.fromkeys(PromptVariant.parse(part).stage for part in parts)
    try:
        # Another version may split elsewhere, and then these are not the parts that the judge saw.
        today = splitter(settings.tokens)
    except UserError:
        return ()
    other = settings.splitter if settings.splitter != today else ""
    shown = ((stage, aligned(example, stage, settings)) for stage in stages if stage != UNSPLIT)
    return tuple(
        ShownStage(
            stage,
            tuple(
                (disarm(part_1), disarm(part_2))
                for part_1, part_2 in zip(alignment.parts_1, alignment.parts_2, strict=True)
            ),
            alignment.similarity,
            other,
        )
        for stage, alignment in shown
        if alignment is not None
    )
