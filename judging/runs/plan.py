"""What is left to ask: which slots of which example and order have no answer yet.

The examples are read page by page in import order, so the memory does not grow with a project.
Both orders of an example follow each other, and the samples of one order are one request.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from django.db.models import Q

from judging.models.calls import Call, Sample
from judging.models.runs import Run
from judging.runs.subjects import Subject, content_free, subject_field, subjects_of

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
