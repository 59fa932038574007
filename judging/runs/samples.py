"""Samples of a run: which are still missing, and reading back what was recorded.

Everything is read page by page in import order, so memory does not grow with the project. The
orders of an example follow each other, and all samples of one order are one request.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from judging.dataset.models import Example
from judging.llm.prompts.templates import PromptVariant, stage_parts
from judging.methods.portia.stages import Stage, StageResult
from judging.methods.verdicts.verdicts import (
    Label,
    Number,
    score_pair_from_outcome,
    score_pair_from_probability,
    score_pair_from_rating,
    score_pair_from_scores,
)
from judging.runs.forms.portia import (
    ExampleSplits,
    PortiaSettings,
    StageProgress,
    begun_stages,
    label_of,
    stage_progress,
    standing_of_recorded,
)
from judging.runs.models import (
    SCORED,
    Call,
    Form,
    Parse,
    Run,
    Subject,
    content_free,
    subject_field,
    subjects_of,
)

PAGE = 50
# A run has few parts and many samples, so each part is parsed only once.
_order_of = lru_cache(maxsize=1000)(lambda part: PromptVariant.parse(part).order)
# The parts to ask about each subject, and how many samples of each part.
Wanted = Mapping[int, Mapping[str, int]]


class Agenda(Protocol):
    """What a run asks about its subjects at this moment.

    `open_ended`: whether it may ask for more about a subject once its answers are back.
    `waits`: whether it may ask for more once everything has been answered.
    """

    open_ended: bool = False
    waits: bool = False

    def wanted(self, subjects: Sequence[Any]) -> Wanted: ...

    def follow_up(self, answered: Sequence["Ask"]) -> list["Ask"]:
        """Return what these answers leave to ask at once, before the next pass."""
        return []


@dataclass(frozen=True, slots=True)
class Everything(Agenda):
    """Ask each part k times, whatever comes back."""

    parts: tuple[str, ...]
    k: int

    def wanted(self, subjects: Sequence[Any]) -> Wanted:
        samples_by_part = dict.fromkeys(self.parts, self.k)
        return {subject.pk: samples_by_part for subject in subjects}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to come, for some sample `slots` of one part of its subject."""

    subject: Subject
    part: str
    slots: tuple[int, ...]
    attempt: int = 0

    def split(self, most_slots: int | None) -> Iterator["Ask"]:
        """Yield pieces for a server that gives at most `most_slots` choices per request."""
        size = most_slots or len(self.slots)
        for start in range(0, len(self.slots), size):
            yield replace(self, slots=self.slots[start : start + size])


@dataclass(frozen=True, slots=True)
class Retry:
    """The statuses that a person wants repeated, for calls up to the id `through`.

    An id marks the moment, since the clocks of web server and worker may differ.
    """

    statuses: frozenset[str] = frozenset()
    through: int = 0

    @classmethod
    def of(cls, run: Run) -> "Retry":
        asked = run.parameters.get("retry", {})
        return cls(frozenset(asked.get("statuses", ())), asked.get("through", 0))


@dataclass(slots=True)
class History:
    """What is known of the slots of one part: in flight, settled, and the last attempt at each."""

    in_flight: set[int] = field(default_factory=set)
    attempts: dict[int, int] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)

    def left(self, k: int) -> dict[int, list[int]]:
        """Return the slots still to ask, by the number of their next attempt."""
        by_attempt: dict[int, list[int]] = defaultdict(list)
        for slot in range(k):
            if slot not in self.settled and slot not in self.in_flight:
                by_attempt[self.attempts.get(slot, -1) + 1].append(slot)
        return by_attempt


def asks_about(run: Run, agenda: Agenda, subjects: Sequence[Any]) -> list[Ask]:
    """Return what is left to ask about these subjects."""
    histories = read_histories(run, [subject.pk for subject in subjects])
    wanted = agenda.wanted(subjects)
    # All slots of a call share its attempt, so slots at different attempts need calls of their own.
    asks = [
        Ask(subject, part, tuple(slots), attempt)
        for subject in subjects
        for part, k in wanted[subject.pk].items()
        for attempt, slots in sorted(histories[subject.pk, part].left(k).items())
    ]
    # Each simulated annotator has a prompt of its own.
    return [single for ask in asks for single in ask.split(1)] if run.annotators else asks


def asks_about_nothing(run: Run) -> list[Ask]:
    """Return what is left to ask about the content-free inputs."""
    inputs = content_free(run)
    histories = read_histories(run) if inputs else {}
    return [
        Ask(subject, part, tuple(slots), attempt)
        for part, subject in inputs.items()
        for attempt, slots in sorted(histories[None, part].left(1).items())
    ]


def pages(run: Run, size: int | None = None, columns: tuple[str, ...] = ()) -> Iterator[list[Any]]:
    """Yield the run's examples or single responses in import order, or rows of these columns."""
    subjects = subjects_of(run)
    last: tuple[int, int] | None = None
    while True:
        page = subjects.order_by("number", "pk")
        # A page begins after the last row that was read. An offset would read all earlier rows
        # again, and skip some if examples were deleted meanwhile.
        if last is not None:
            page = page.later_than(*last)
        page = page.values_list(*columns, named=True) if columns else page
        rows = list(page[: size or PAGE])
        if not rows:
            return
        yield rows
        last = rows[-1].number, rows[-1].pk


Histories = defaultdict[tuple[int | None, str], History]


def read_histories(run: Run, subject_ids: list[int] | None = None) -> Histories:
    """Return the histories of these subjects; None for the content-free inputs."""
    histories: Histories = defaultdict(History)
    field = subject_field(run)
    if subject_ids is None:
        calls = Call.objects.filter(run=run, example=None, point_item=None)
    else:
        calls = Call.objects.filter(run=run, **{f"{field}__in": subject_ids})
    for subject_id, part, state, slots in calls.values_list(field, "part", "state", "slots"):
        history = histories[subject_id, part]
        if state == Call.State.CLAIMED:
            history.in_flight.update(slots)
    # A sample belongs to a call, so subjects without calls need no second query.
    if not histories:
        return histories
    retry = Retry.of(run)
    columns = "sample__attempt", "status", "sample__call_id"
    rows = Parse.objects.rows_that_count(run, subject_ids, *columns)
    for subject_id, part, slot, attempt, status, call_id in rows:
        history = histories[subject_id, part]
        history.attempts[slot] = attempt
        # A call after `through` was made since the person asked, so it settles the slot whatever it
        # brought. Otherwise the run would repeat the same failure for ever.
        if status not in retry.statuses or call_id > retry.through:
            history.settled.add(slot)
    return histories


SAMPLES_PAGE = 2000
NAMED = ("pk", "external_id", "number")
Pair = tuple[Number, Number]


# A scale has few scores, and making them exact takes longer than anything else here.
exact_scores = lru_cache(maxsize=1000)(score_pair_from_scores)


class RecordedSample(NamedTuple):
    """The reading that counts for one slot, by responses 1 and 2. `p_first` is by position."""

    part: str
    slot: int
    attempt: int
    status: str
    score_1: Decimal | None
    score_2: Decimal | None
    rating: Decimal | None
    p_first: float | None
    mass: float | None
    outcome: str | None

    @property
    def order(self) -> str:
        return _order_of(self.part)

    def pair(self, form: str) -> Pair | None:
        """Return what `methods.verdict` takes; None for a sample without a verdict.

        `verdicts.judge_figures.difference` says the same in SQL.
        """
        if self.status != Parse.Status.VALID:
            return None
        if form in SCORED and self.score_1 is not None and self.score_2 is not None:
            return exact_scores(self.score_1, self.score_2)
        if form == Form.LIKERT and self.rating is not None:
            return score_pair_from_rating(self.rating)
        if form == Form.CHOICE and self.p_first is not None:
            # A fraction holds the stored float exactly, so that 1 − p has no rounding error and a
            # probability of ½ stays a tie in both orders.
            p_first = Fraction(self.p_first)
            p_1, _ = PromptVariant.parse(self.part).shown(p_first, 1 - p_first)
            return score_pair_from_probability(p_1)
        return score_pair_from_outcome(Label(self.outcome)) if self.outcome else None


@dataclass(frozen=True, slots=True)
class ExampleSamples:
    """The recorded samples of one example, if any.

    `counted` are the parts that the verdict rests on, None for all. `standing` says how far PORTIA
    has come with the example.
    """

    example_id: int
    external_id: str
    number: int
    samples: tuple[RecordedSample, ...]
    counted: tuple[str, ...] | None = None
    standing: StageProgress | None = None

    def of(self, order: str) -> list[RecordedSample]:
        """Return the samples of one order that the verdict rests on, from all of its parts."""
        return [
            sample
            for sample in self.samples
            if sample.order == order and (self.counted is None or sample.part in self.counted)
        ]

    def of_part(self, part: str) -> list[RecordedSample]:
        return [sample for sample in self.samples if sample.part == part]

    def pairs(self, order: str, form: str) -> tuple[Pair | None, ...]:
        return tuple(sample.pair(form) for sample in self.of(order))


def recorded(run: Run, example_ids: list[int]) -> Iterator[ExampleSamples]:
    """Yield these examples in import order."""
    examples = run.project.examples.filter(pk__in=example_ids).order_by("number", "pk")
    if not run.stages:
        examples = examples.only("external_id", "number")
    yield from with_samples(run, examples)


def samples_of(run: Run) -> Iterator[ExampleSamples]:
    """Yield every example of the project in import order."""
    for examples in pages(run, SAMPLES_PAGE, () if run.stages else NAMED):
        yield from with_samples(run, examples)


def with_samples(run: Run, examples: Iterable[Any]) -> Iterator[ExampleSamples]:
    """Yield examples with their samples. Without PORTIA's stages, `NAMED` of them is enough."""
    examples, counted, stages = list(examples), run.counted_parts, run.stages
    attempts = last_attempts(run, [example.pk for example in examples])
    for example in examples:
        samples = tuple(attempts[example.pk])
        named = example.pk, example.external_id, example.number, samples
        if stages:
            yield by_stages(run, example, ExampleSamples(*named))
        else:
            yield ExampleSamples(*named, counted)


def by_stages(run: Run, example: Example, samples: ExampleSamples) -> ExampleSamples:
    """Return the example with the samples of its last PORTIA stage as those that count."""
    settings = PortiaSettings.of(run)
    results = {}
    begun = begun_stages(sample.part for sample in samples.samples)
    for stage in begun:
        orders = [samples.of_part(part) for part in stage_parts(stage)]
        # A stage counts once both orders are complete. Recorded runs have whatever was recorded.
        if settings is None or all(len(order) >= run.k for order in orders):
            results[stage] = StageResult(
                *(label_of([s.pair(run.form) for s in order]) for order in orders)
            )
    if settings is None:
        stands = standing_of_recorded([Stage(stage) for stage in run.stages], results)
    else:
        stands = stage_progress(settings, results, begun, ExampleSplits(example, settings))
    counted = stage_parts(stands.last) if stands.last else ()
    return replace(samples, counted=counted, standing=stands)


def last_attempts(run: Run, example_ids: list[int]) -> defaultdict[int, list[RecordedSample]]:
    columns = "sample__attempt", "status", "score_1", "score_2", "rating", "p_first", "mass"
    samples: defaultdict[int, list[RecordedSample]] = defaultdict(list)
    for pk, *values in Parse.objects.rows_that_count(run, example_ids, *columns, "outcome"):
        samples[pk].append(RecordedSample(*values))
    return samples


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A sample and what was read in it, by responses 1 and 2.

    `superseded`: the slot was asked again later, so this reply no longer counts.
    """

    slot: int
    attempt: int
    parse: Parse
    raw_text: str
    reasoning: str
    finish_reason: str
    superseded: bool


@dataclass(frozen=True, slots=True)
class OrderTranscript:
    part: str
    replies: tuple[RecordedReply, ...]
    unanswered: tuple[Call, ...]

    @property
    def begun(self) -> bool:
        return bool(self.replies or self.unanswered)


def transcript_of(run: Run, example: Example) -> tuple[OrderTranscript, ...]:
    """Return the example's replies in the method's order of asking, by three queries.

    For PORTIA only the stages that the example came to are returned.
    """
    calls = Call.objects.filter(run=run, example=example)
    # The one rule of what counts, so that the page marks what the figures leave out.
    that_count = {pk for *_, pk in Parse.objects.rows_that_count(run, [example.pk], "pk")}
    parses = (
        Parse.objects.filter(current=True, sample__call__in=calls)
        .select_related("sample__call")
        .order_by("sample__slot", "sample__attempt")
    )
    unanswered = calls.exclude(state=Call.State.DONE).order_by("seq")
    replies = [(parse.sample.call.part, reply(parse, that_count)) for parse in parses]
    orders = (
        OrderTranscript(
            part,
            tuple(text for of, text in replies if of == part),
            tuple(call for call in unanswered if call.part == part),
        )
        for part in run.parts
    )
    return tuple(order for order in orders if order.begun or not run.stages)


def reply(parse: Parse, that_count: Collection[int]) -> RecordedReply:
    sample = parse.sample
    return RecordedReply(
        slot=sample.slot,
        attempt=sample.attempt,
        parse=parse,
        raw_text=sample.raw_text or "",
        reasoning=sample.reasoning,
        finish_reason=sample.finish_reason,
        superseded=parse.pk not in that_count,
    )
