"""What a call is about: an example, one response alone, or contents that say nothing.

A run asks about the examples of its project, a pointwise run about its single responses. Contents
that say nothing show which answer a judge prefers without regard to what it is asked; they belong
to no example, and their part (`cc:X0`, `dc:3:X0`) says which of the run's own they are.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from django.db.models import Q

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
    Call,
    Form,
    Parse,
    Run,
    Sample,
    Subject,
    content_free,
    subject_field,
    subjects_of,
)

PAGE = 50
# By example the parts to ask, and how many samples of each.
Wanted = Mapping[int, Mapping[str, int]]


class Agenda(Protocol):
    """What a run asks of its examples by now.

    `open_ended`: once all that was asked has been answered, it may ask for more.
    """

    open_ended: bool

    def wanted(self, subjects: Sequence[Any]) -> Wanted: ...

    def follow_up(self, answered: Sequence["Ask"]) -> list["Ask"]:
        """What these answers leave to ask at once, before another pass over the examples."""
        return []


@dataclass(frozen=True, slots=True)
class Everything(Agenda):
    """Each part k times, whatever comes back."""

    parts: tuple[str, ...]
    k: int
    open_ended: bool = False

    def wanted(self, subjects: Sequence[Any]) -> Wanted:
        each = dict.fromkeys(self.parts, self.k)
        return {subject.pk: each for subject in subjects}


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to come: the `slots` of one part of its subject that it shall fill."""

    subject: Subject
    part: str
    slots: tuple[int, ...]
    attempt: int = 0

    def split(self, most_slots: int | None) -> Iterator["Ask"]:
        """Pieces that a server takes which gives at most so many choices a request."""
        size = most_slots or len(self.slots)
        for start in range(0, len(self.slots), size):
            yield replace(self, slots=self.slots[start : start + size])


@dataclass(frozen=True, slots=True)
class Retry:
    """Statuses that a person asked for again, of the calls up to `through`, the last one then.

    Not by time: the clocks of those who resume and of those who record may differ.
    """

    statuses: frozenset[str] = frozenset()
    through: int = 0

    @classmethod
    def of(cls, run: Run) -> "Retry":
        asked = run.parameters.get("retry", {})
        return cls(frozenset(asked.get("statuses", ())), asked.get("through", 0))


@dataclass(slots=True)
class History:
    """What one order of an example has seen so far."""

    in_flight: set[int] = field(default_factory=set)
    attempts: dict[int, int] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)

    def left(self, k: int) -> dict[int, list[int]]:
        """Slots to ask, by the attempt that it will be."""
        by_attempt: dict[int, list[int]] = defaultdict(list)
        for slot in range(k):
            if slot not in self.settled and slot not in self.in_flight:
                by_attempt[self.attempts.get(slot, -1) + 1].append(slot)
        return by_attempt


def asks_left(run: Run, agenda: Agenda | None = None) -> Iterator[list[Ask]]:
    """What is left, a page of subjects at a time. Without an agenda everything is asked."""
    agenda = agenda or Everything(run.parts, run.k)
    for subjects in pages(run):
        histories = read_histories(run, [subject.pk for subject in subjects])
        wanted = agenda.wanted(subjects)
        yield [
            Ask(subject, part, tuple(slots), attempt)
            for subject in subjects
            for part, k in wanted[subject.pk].items()
            for attempt, slots in sorted(histories[subject.pk, part].left(k).items())
        ]
    if inputs := content_free(run):
        histories = read_histories(run)
        yield [
            Ask(subject, part, tuple(slots), attempt)
            for part, subject in inputs.items()
            for attempt, slots in sorted(histories[None, part].left(1).items())
        ]


def pages(run: Run, size: int | None = None) -> Iterator[list[Any]]:
    """The run's examples, or its single responses, in import order."""
    subjects = subjects_of(run)
    last: tuple[int, int] | None = None
    while True:
        page = subjects.order_by("number", "pk")
        if last is not None:
            number, pk = last
            page = page.filter(Q(number__gt=number) | Q(number=number, pk__gt=pk))
        found = list(page[: size or PAGE])
        if not found:
            return
        yield found
        last = found[-1].number, found[-1].pk


Histories = defaultdict[tuple[int | None, str], History]


def read_histories(run: Run, subject_ids: list[int] | None = None) -> Histories:
    """Of these subjects, or of the contents that say nothing."""
    histories: Histories = defaultdict(History)
    field = subject_field(run)
    if subject_ids is None:
        calls = Call.objects.filter(run=run, example=None, point_item=None)
    else:
        calls = Call.objects.filter(run=run, **{f"{field}__in": subject_ids})
    asked = calls.values_list(field, "part", "state", "slots")
    for subject_id, part, state, slots in asked:
        history = histories[subject_id, part]
        if state == Call.State.CLAIMED:
            history.in_flight.update(slots)
    if histories:
        add_samples(histories, run, calls)
    return histories


def add_samples(histories: Histories, run: Run, calls: Iterable[Call]) -> None:
    retry = Retry.of(run)
    samples = Sample.objects.filter(call__in=calls, parses__current=True).order_by("attempt")
    for subject_id, part, slot, attempt, status, call_id in samples.values_list(
        f"call__{subject_field(run)}",
        "call__part",
        "slot",
        "attempt",
        "parses__status",
        "call_id",
    ):
        history = histories[subject_id, part]
        history.attempts[slot] = attempt
        if status in retry.statuses and call_id <= retry.through:
            history.settled.discard(slot)
        else:
            history.settled.add(slot)


SAMPLES_PAGE = 500
Pair = tuple[Number, Number]


# There are few scores on a scale, and making them exact takes longer than anything else here.
exact_scores = lru_cache(maxsize=1000)(score_pair_from_scores)


@dataclass(frozen=True, slots=True)
class RecordedSample:
    """The last attempt at one slot, turned back to responses 1 and 2. `p_first` is by position."""

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
        return PromptVariant.parse(self.part).order

    def pair(self, form: str) -> Pair | None:
        """What `methods.verdict` takes: None for a sample without a verdict."""
        if self.status != Parse.Status.VALID:
            return None
        if form == Form.SCORE and self.score_1 is not None and self.score_2 is not None:
            return exact_scores(self.score_1, self.score_2)
        if form == Form.LIKERT and self.rating is not None:
            return score_pair_from_rating(self.rating)
        if form == Form.CHOICE and self.p_first is not None:
            p_first = Fraction(self.p_first)
            p_1, _ = PromptVariant.parse(self.part).shown(p_first, 1 - p_first)
            return score_pair_from_probability(p_1)
        return score_pair_from_outcome(Label(self.outcome)) if self.outcome else None


@dataclass(frozen=True, slots=True)
class ExampleSamples:
    """One example of the run; without samples where nothing was recorded yet.

    `counted` are the parts by which the verdict speaks; None where all of them are. `standing`
    says how far PORTIA has come with the example.
    """

    example_id: int
    external_id: str
    number: int
    samples: tuple[RecordedSample, ...]
    counted: tuple[str, ...] | None = None
    standing: StageProgress | None = None

    def of(self, order: str) -> list[RecordedSample]:
        """The samples that count in one order, whichever parts it was asked in."""
        return [
            sample
            for sample in self.samples
            if sample.order == order and (self.counted is None or sample.part in self.counted)
        ]

    def of_part(self, part: str) -> list[RecordedSample]:
        return [sample for sample in self.samples if sample.part == part]

    def pairs(self, order: str, form: str) -> list[Pair | None]:
        return [sample.pair(form) for sample in self.of(order)]


def recorded(run: Run, example_ids: list[int]) -> Iterator[ExampleSamples]:
    """These examples, in import order."""
    examples = run.project.examples.filter(pk__in=example_ids).order_by("number", "pk")
    if not run.stages:
        examples = examples.only("external_id", "number")
    yield from with_samples(run, examples)


def samples_of(run: Run) -> Iterator[ExampleSamples]:
    """Every judged example of the project, in import order."""
    for examples in pages(run, SAMPLES_PAGE):
        yield from with_samples(run, examples)


def with_samples(run: Run, examples: Iterable[Example]) -> Iterator[ExampleSamples]:
    examples = list(examples)
    found = last_attempts(run, [example.pk for example in examples])
    for example in examples:
        samples = tuple(found[example.pk])
        named = example.pk, example.external_id, example.number, samples
        if run.stages:
            yield by_stages(run, example, ExampleSamples(*named))
        else:
            yield ExampleSamples(*named, run.counted_parts)


def by_stages(run: Run, example: Example, found: ExampleSamples) -> ExampleSamples:
    """The same with the samples that count: those of the last stage that PORTIA asked."""
    settings = PortiaSettings.of(run)
    results = {}
    begun = begun_stages(sample.part for sample in found.samples)
    for stage in begun:
        orders = [found.of_part(part) for part in stage_parts(stage)]
        if settings is None or all(len(order) >= run.k for order in orders):
            results[stage] = StageResult(
                *(label_of([s.pair(run.form) for s in order]) for order in orders)
            )
    if settings is None:
        stands = standing_of_recorded([Stage(stage) for stage in run.stages], results)
    else:
        stands = stage_progress(settings, results, begun, ExampleSplits(example, settings))
    counted = stage_parts(stands.last) if stands.last else ()
    return replace(found, counted=counted, standing=stands)


def last_attempts(run: Run, example_ids: list[int]) -> defaultdict[int, list[RecordedSample]]:
    parses = Parse.objects.filter(
        current=True, sample__call__run=run, sample__call__example__in=example_ids
    )
    rows = parses.order_by(
        "sample__call__example_id", "sample__call__part", "sample__slot", "sample__attempt"
    ).values_list(
        "sample__call__example_id",
        "sample__call__part",
        "sample__slot",
        "sample__attempt",
        "status",
        "score_1",
        "score_2",
        "rating",
        "p_first",
        "mass",
        "outcome",
    )
    found: defaultdict[int, list[RecordedSample]] = defaultdict(list)
    for example_id, *values in rows.iterator(chunk_size=2000):
        sample, earlier = RecordedSample(*values), found[example_id]
        if earlier and (earlier[-1].part, earlier[-1].slot) == (sample.part, sample.slot):
            earlier[-1] = sample
        else:
            earlier.append(sample)
    return found


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A sample and what was read in it, its numbers turned back to responses 1 and 2.

    `superseded`: the same slot was asked again later, so this reply no longer counts.
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
    """In the method's order of asking; two queries, however many samples.

    Of PORTIA's stages those that the example came to.
    """
    calls = Call.objects.filter(run=run, example=example)
    parses = (
        Parse.objects.filter(current=True, sample__call__in=calls)
        .select_related("sample__call")
        .order_by("sample__slot", "sample__attempt")
    )
    last = {(p.sample.call.part, p.sample.slot): p.sample.attempt for p in parses}
    unanswered = calls.exclude(state=Call.State.DONE).order_by("seq")
    replies = [(parse.sample.call.part, reply(parse, last)) for parse in parses]
    orders = (
        OrderTranscript(
            part,
            tuple(found for of, found in replies if of == part),
            tuple(call for call in unanswered if call.part == part),
        )
        for part in run.parts
    )
    return tuple(order for order in orders if order.begun or not run.stages)


def reply(parse: Parse, last: dict[tuple[str, int], int]) -> RecordedReply:
    sample = parse.sample
    return RecordedReply(
        slot=sample.slot,
        attempt=sample.attempt,
        parse=parse,
        raw_text=sample.raw_text or "",
        reasoning=sample.reasoning,
        finish_reason=sample.finish_reason,
        superseded=last[sample.call.part, sample.slot] != sample.attempt,
    )
