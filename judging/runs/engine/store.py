"""The database side of a pump, and what stops a run whose judge only fails or says nothing.

`copy_answers` takes answers of other runs of the project that were asked exactly the same. A copy
costs nothing, says which run it is from, and is read by today's parser like a fresh reply. What a
person has asked to repeat is always asked again.

Everything in RunStore is called from one thread, and never waits.
"""

import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from judging.core.formatting import usd
from judging.core.processes import stop_requested
from judging.core.sql import statements
from judging.core.text import printable
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.errors import CallFailure, FailureKind, sentence
from judging.llm.client.messages import Choice, Reply
from judging.llm.prices import PriceSnapshot
from judging.runs import endpoints, lifecycle
from judging.runs.engine import claims, recording
from judging.runs.engine.claims import Claim, next_seqs, place
from judging.runs.engine.recording import Arrival, read_again, save_samples
from judging.runs.models import (
    Batch,
    Call,
    Parse,
    Run,
    Sample,
    Stretch,
    n_subjects,
    place_of,
    subject_field,
)
from judging.runs.planning.agenda import Questioner, agenda_of, with_images
from judging.runs.planning.reuse import Place, ReusedRun, kept_samples, sources_of
from judging.runs.samples import Ask, asks_about, asks_about_nothing
from judging.runs.verdicts.rebuild import RankingStopped, rebuild_verdicts

FREE = Decimal(0)
_COPIED = ("raw_text", "reasoning", "refusal", "finish_reason", "logprobs")


def copy_answers(
    run: Run, holder: str, asks: Sequence[Ask], questioner: Questioner, sources: Sequence[ReusedRun]
) -> tuple[list[Ask], list[Ask]]:
    """Copy what others were asked the same. Returns what is left to ask, and what was copied.

    Nothing is copied unless `holder` holds the run and the run is running.
    """
    left, taken_over = list(asks), list[tuple[Ask, ReusedRun, list[Sample]]]()
    for source in sources:
        # A later attempt means that somebody asked to repeat it, so no earlier answer will do.
        wanted = [ask for ask in left if not ask.attempt and ask.subject.pk is not None]
        answers = _kept_answers(source, wanted)
        still: list[Ask] = []
        for ask in left:
            samples = answers.get((ask.subject.pk or 0, ask.part), {}) if ask in wanted else {}
            slots = [slot for slot in ask.slots if slot in samples]
            if not slots or not source.asked_the_same(ask, questioner):
                still.append(ask)
                continue
            same = replace(ask, slots=tuple(slots))
            taken_over.append((same, source, [samples[slot] for slot in slots]))
            if rest := tuple(slot for slot in ask.slots if slot not in samples):
                still.append(replace(ask, slots=rest))
        left = still
    # Without the run nothing was written, so everything is still to be asked.
    if not taken_over or not _write_copies(run, holder, taken_over, questioner):
        return list(asks), []
    return left, [ask for ask, _, _ in taken_over]


def _kept_answers(source: ReusedRun, asks: Sequence[Ask]) -> dict[Place, dict[int, Sample]]:
    """Return the last answer in each slot, by subject and part."""
    field = f"call__{subject_field(source.run)}"
    about = {f"{field}__in": {ask.subject.pk for ask in asks}}
    rows = kept_samples(source.run).filter(**about, call__part__in={ask.part for ask in asks})
    answers: defaultdict[Place, dict[int, Sample]] = defaultdict(dict)
    for sample in rows.select_related("call").order_by("attempt", "pk") if asks else ():
        subject = sample.call.example_id or sample.call.point_item_id or 0
        answers[subject, sample.call.part][sample.slot] = sample
    return answers


def _write_copies(
    run: Run,
    holder: str,
    taken_over: Sequence[tuple[Ask, ReusedRun, list[Sample]]],
    questioner: Questioner,
) -> bool:
    now, asks = timezone.now(), [ask for ask, _, _ in taken_over]
    with transaction.atomic():
        # Reserving nothing still checks that this holder has the run, and locks its share.
        if not lifecycle.reserve_usd(run.pk, holder, FREE):
            return False
        seqs = next_seqs(run.pk, asks)
        calls = [
            statements.new(
                Call,
                run_id=run.pk,
                **place_of(ask.subject),
                part=ask.part,
                seq=next(seqs[*place(ask), ask.part]),
                slots=list(ask.slots),
                attempt=ask.attempt,
                state=Call.State.DONE,
                claimed_at=now,
                finished_at=now,
                usd=FREE,
                reserved_usd=FREE,
                reused_from=source.run.number,
            )
            for ask, source, _ in taken_over
        ]
        for call, (_, _, samples) in zip(calls, taken_over, strict=True):
            # The model that answered is that of the earlier call, which may have been resolved
            # since.
            call.model = samples[0].call.model
        statements.insert(Call, calls)
        pairs = []
        for call, (ask, _, samples) in zip(calls, taken_over, strict=True):
            quoted = questioner.quoted(ask.subject, ask.part)
            for index, sample in enumerate(samples):
                same = {name: getattr(sample, name) for name in _COPIED}
                fresh = statements.new(
                    Sample, call_id=call.pk, index=index, slot=sample.slot, attempt=0, **same
                )
                reading = read_again(sample, questioner.template, ask.part, quoted)
                pairs.append((fresh, reading))
        save_samples(pairs)
    return True


# This many failures in a row are the endpoint's fault; fewer may be due to single examples.
IN_A_ROW = 5
SILENT_SECONDS = 60.0
FINAL = (FailureKind.TOO_LONG, FailureKind.FILTERED)

REFUSED = (
    "The first {n} calls were all refused, so the run was paused before the others were sent: "
    "{message} Nothing recorded is lost. Fix what the endpoint complains about, then resume. "
    "Refused calls are sent again."
)
UNREAD = (
    "The replies to the first {n} calls can't be read, so the run was paused before the others "
    "were sent: {message} Nothing recorded is lost. Check the endpoint's address and any proxy in "
    "front of it, then resume. These calls are sent again."
)
SILENT = (
    "{n} calls in a row failed, and the endpoint has answered none for {seconds:.0f} s: {message} "
    "Nothing recorded is lost. Check that the endpoint runs, then resume. Failed calls are sent "
    "again."
)


LIMIT_OF_A_DAY = (
    "{message} The run was paused at once. Nothing recorded is lost, and refused calls cost "
    "nothing. A worker resumes the run by itself at {until}. You can also resume it earlier."
)
# Clocks differ a little.
AFTER_A_LIMIT = timedelta(seconds=5)


def moment_of(failure: CallFailure) -> datetime:
    """Return when the run should go on after a limit of a day."""
    seconds = time.time() if failure.until is None else failure.until
    return datetime.fromtimestamp(seconds, UTC) + AFTER_A_LIMIT


@dataclass
class CircuitBreaker:
    """Decides from the outcomes, in order of arrival, when to send nothing more.

    `answered`: the run has had an answer before, so refusals are about single examples.
    `reason`: a sentence for the run's page once nothing more should be sent.
    `until`: when to go on by itself, if the endpoint's limit ends then.
    """

    # The clock of the machine may jump, and a jump must not look like a silent endpoint.
    clock: Callable[[], float] = time.monotonic
    answered: bool = False
    refused: int = 0
    failed: int = 0
    reason: str = ""
    until: datetime | None = None
    heard_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.heard_at = self.clock()

    def note(self, outcome: Reply | CallFailure) -> str:
        """Note an outcome as it arrives, and return the reason to send nothing more, if any."""
        reason = self.after(outcome)
        self.reason = self.reason or reason
        return self.reason

    def heard(self) -> None:
        """Note that the endpoint answers."""
        self.refused = self.failed = 0
        self.heard_at = self.clock()

    def after(self, outcome: Reply | CallFailure) -> str:
        if not isinstance(outcome, CallFailure) or outcome.kind in FINAL:
            # An endpoint that says what it won't judge is working.
            self.answered = True
            self.heard()
            return ""
        if outcome.kind is FailureKind.DAY_LIMIT:
            self.until = self.until or moment_of(outcome)
            return LIMIT_OF_A_DAY.format(
                message=sentence(outcome.message), until=f"{self.until:%-d %B %Y, %H:%M} UTC"
            )
        if outcome.kind.pauses_run:
            return f"{sentence(outcome.message)} {outcome.kind.advice}".strip()
        # Single examples may be refused, for their length say. Only a run that had no answer at all
        # is stopped by refusals, since then its settings are to blame.
        if outcome.kind in (FailureKind.BAD_REQUEST, FailureKind.BAD_REPLY):
            self.refused += 1
            if not self.answered and self.refused >= IN_A_ROW:
                text = REFUSED if outcome.kind is FailureKind.BAD_REQUEST else UNREAD
                return text.format(n=self.refused, message=sentence(outcome.message))
        if outcome.kind is FailureKind.BAD_REQUEST:
            return ""
        self.failed += 1
        silent = self.clock() - self.heard_at
        # Both count: with hundreds of calls in flight, five failures may come within a second.
        if self.failed >= IN_A_ROW and silent >= SILENT_SECONDS:
            message = sentence(outcome.message)
            return SILENT.format(n=self.failed, seconds=silent, message=message)
        return ""


# A shorter text may well be the same twice.
LEAST_REPEATED = 80
MOST_REMEMBERED = 100_000
# Reading more back would hold up the start of a long run.
MOST_RECALLED = 1_000
LONGEST_QUOTE = 80

NOTHING_READ = (
    "None of the first {n} calls brought a reply with a verdict, so the run was paused: {what}. "
    "Nothing recorded is lost, and these replies may have been billed. {advice} To go on with the "
    "same settings, resume the run: it isn't paused for this again."
)
ADVICE_UNREAD = {
    "cut": "Give more tokens per sample: resume with a higher maximum, and repeat the status "
    "truncated.",
    "elsewhere": "The model answers in another field than the text. Turn that off at the endpoint "
    "(thinking, tools), or give more tokens per sample.",
    "prompt": "Give the model a larger context at the endpoint, then repeat the status too_long.",
    "text": "Check that the template fits the model.",
}


@dataclass
class FirstReplies:
    """Counts what the first calls of a run brought, until one brings a verdict.

    `most`: the calls without any verdict after which the run pauses; None once that is settled,
    by a verdict or by a person who resumed the run.
    """

    most: int | None
    calls: int = 0
    brought: Counter[tuple[str, str]] = field(default_factory=Counter)
    reason: str = ""

    @classmethod
    def of(cls, run: Run) -> "FirstReplies":
        most = run.unread_calls
        answered = run.calls.filter(state=Call.State.DONE).count() if most else 0
        valid = Parse.objects.filter(sample__call__run=run, status=Parse.Status.VALID)
        if not most or answered >= most or (answered and valid.exists()):
            return cls(None)
        return cls(most, answered)

    def room(self, open_calls: int, concurrency: int) -> int | None:
        """Return how many more calls may be claimed before one has brought a verdict; None: all."""
        if self.most is None or self.reason:
            return None
        # All places in flight are used from the start, since a judge that works must not wait for
        # proof.
        return max(self.most, concurrency) - self.calls - open_calls

    def note(self, arrival: Arrival, parses: Sequence[Parse]) -> None:
        if self.most is None or isinstance(arrival.outcome, CallFailure):
            return
        if any(parse.status == Parse.Status.VALID for parse in parses):
            self.most = None
            return
        self.calls += 1
        for choice, parse in zip(arrival.outcome.choices, parses, strict=False):
            self.brought[described(choice, parse.status)] += 1
        if self.calls >= self.most and not self.reason:
            self.reason = self.in_words()

    def in_words(self) -> str:
        shown = [f"{n} × {what}" for (_, what), n in self.brought.most_common(4)]
        kinds = Counter[str]()
        for (kind, _), n in self.brought.items():
            kinds[kind] += n
        # The advice is for what happened most, as different causes need different remedies.
        most = max(kinds, key=lambda kind: kinds[kind], default="text")
        return NOTHING_READ.format(
            n=self.calls, what="; ".join(shown) or "no samples", advice=ADVICE_UNREAD[most]
        )


def described(choice: Choice, status: str) -> tuple[str, str]:
    """Return the kind of a reply without a verdict, and its description."""
    text = " ".join(printable(choice.text or "").split())
    if status == Parse.Status.TOO_LONG:
        return "prompt", "the server cut the prompt"
    if not text and choice.elsewhere:
        names = " and ".join(choice.elsewhere)
        cut = ", cut off" if status == Parse.Status.TRUNCATED else ""
        return "elsewhere", f"empty, with content in {names}{cut}"
    if status == Parse.Status.TRUNCATED:
        return "cut", "cut off by the token limit" + ("" if text else " before any text")
    if status in (Parse.Status.REFUSED, Parse.Status.FILTERED):
        reply = " ".join(printable(choice.refusal).split()) or text
        return "text", status + (f": “{shortened(reply)}”" if reply else "")
    if not text:
        return "elsewhere" if choice.reasoning else "text", "empty"
    return "text", f"not readable: “{shortened(text)}”"


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE].rstrip()}…"


State = Run.State
# How often a worker hands in what it spent, and a leader looks for dead workers and idle ones.
HAND_IN_SECONDS = 1.0
CALL_SECONDS = 2.0

OVER_BUDGET = (
    "The budget of {budget} can't cover another call: {spent} are spent, {reserved} may still be "
    "billed, and the next call may cost {needed}. Nothing recorded is lost. Raise the budget and "
    "resume."
)


@dataclass(frozen=True, slots=True)
class PumpStatus:
    """How the pump is doing, for the run's page."""

    in_flight: int
    window: int
    paused_until: datetime | None
    paused_why: str = ""

    def to_json(self) -> dict[str, object]:
        until = self.paused_until.isoformat() if self.paused_until else None
        return {
            "in_flight": self.in_flight,
            "window": self.window,
            "paused_until": until,
            "paused_why": self.paused_why,
        }


@dataclass(slots=True, eq=False)
class TakenStretch:
    """A stretch that this worker took: its subjects, and how many asks about them are not back."""

    stretch: Stretch
    subjects: list[Any]
    out: int = 0


class RunStore:
    """One run as one of its workers sees it: what to send next, and writing what came back.

    `leads`: whether it is the run's holder, who also ends the run.
    """

    def __init__(self, run: Run, holder: str, *, leads: bool = True) -> None:
        self.run = run
        self.holder = holder
        self.leads = leads
        # How far the ranking is, in words, and who is told of it.
        self.ranking = ""
        self.tell: Callable[[], None] = lambda: None
        self.questioner = Questioner.of(run)
        self.price = PriceSnapshot.from_json(run.price) if run.price else None
        self.known, self.known_good = endpoints.recall(run)
        self.breaker = CircuitBreaker(answered=run.calls.filter(state=Call.State.DONE).exists())
        self.first_replies = FirstReplies.of(run)
        self.earlier_replies: OrderedDict[str, tuple[int, int] | None] = OrderedDict()
        self.recall_replies()
        self.settled = self.added = 0
        self.sources = sources_of(run) if run.parameters.get("reuse") else []
        self.standing: PumpStatus | None = None
        self.short_of_money = False
        self.called_at = self.handed_in_at = time.monotonic()
        self.start_plan()

    def start_plan(self) -> None:
        """Plan everything that is left. A helper plans on, where the others are."""
        self.planned_for = self.example_count()
        self.agenda = agenda_of(self.run)
        if self.leads:
            lifecycle.start_plan(self.run)
        self.asked_in_pass = False
        self.inputs_planned = False
        self.planned: dict[int, TakenStretch] = {}
        self.came_back: list[TakenStretch] = []
        self.finished: list[int] = []
        self.ready: deque[Ask] = deque()

    def example_count(self) -> int:
        return n_subjects(self.run)

    def next_claims(self, most: int, batch: Batch | None = None) -> list[Claim]:
        """Claim the next calls; none if nothing is left, money is short, or we lost the run."""
        while len(self.ready) < most and self.plan_more():
            pass
        self.asked_in_pass |= bool(self.ready)
        asks = [self.ready.popleft() for _ in range(min(most, len(self.ready)))]
        claimed = claims.claim(self.run.pk, self.holder, asks, self.questioner, self.price, batch)
        # What the budget didn't hold comes first again, so that examples are asked in their order.
        self.ready.extendleft(reversed(asks[len(claimed) :]))
        return [replace(call, request=with_images(call.request)) for call in claimed]

    def plan_more(self) -> bool:
        """Make asks of the next stretch ready. False if there is none for this worker now."""
        if self.came_back:
            back = self.came_back.pop()
            self.plan(back, asks_about(self.run, self.agenda, back.subjects))
            return True
        if stretch := lifecycle.take_stretch(self.run, self.holder, self.finished):
            self.finished = []
            planned = TakenStretch(stretch, lifecycle.subjects_in(self.run, stretch))
            asks = asks_about(self.run, self.agenda, planned.subjects)
            self.plan(planned, asks)
            return True
        self.finished = []
        if self.leads and not self.inputs_planned:
            self.inputs_planned = True
            self.ready.extend(self.pieces(asks_about_nothing(self.run)))
            return True
        return False

    def plan(self, planned: TakenStretch, asks: list[Ask]) -> None:
        """Make the asks about a stretch ready; without any, it is finished."""
        # Copies come before the split into requests: part of an ask may have been answered
        # elsewhere.
        pieces = self.pieces(self.without_copies(asks))
        if not pieces:
            self.finished.append(planned.stretch.pk)
            return
        planned.out = len(pieces)
        self.planned |= dict.fromkeys((subject.pk for subject in planned.subjects), planned)
        self.ready.extend(pieces)

    def pieces(self, asks: Iterable[Ask]) -> list[Ask]:
        return [piece for ask in asks for piece in ask.split(self.most_slots)]

    def note_back(self, arrivals: Sequence[Arrival], further: Sequence[Ask]) -> None:
        """Count what came back and what it left to ask. The last answer ends a stretch.

        Batches are planned from the start each time.
        """
        if self.run.in_batches:
            return
        for ask in further:
            if planned := self.planned.get(ask.subject.pk):
                planned.out += 1
        for arrival in arrivals:
            planned = self.planned.get(arrival.claim.ask.subject.pk)
            if planned is None:
                continue
            planned.out -= 1
            if planned.out == 0:
                self.forget_planned(planned)
                if self.agenda.open_ended:
                    self.came_back.append(planned)
                else:
                    self.finished.append(planned.stretch.pk)

    def forget_planned(self, planned: TakenStretch) -> None:
        for subject in planned.subjects:
            self.planned.pop(subject.pk, None)

    def without_copies(self, asks: list[Ask]) -> list[Ask]:
        """Copy what other runs were asked the same, if the run may, and return what is left."""
        left: list[Ask] = []
        while asks and self.sources:
            rest, copied = copy_answers(self.run, self.holder, asks, self.questioner, self.sources)
            left += rest
            self.settled += sum(len(ask.slots) for ask in copied)
            self.asked_in_pass |= bool(copied)
            # What a copy leads to may have been asked by the other run as well.
            asks = self.agenda.follow_up(copied)
            self.added += sum(len(ask.slots) for ask in asks)
        return left + asks

    @property
    def most_slots(self) -> int | None:
        return self.known.max_n if self.known else None

    def everything_asked(self) -> bool:
        """Return True if nothing is left to ask. Only the leader can tell, once it is alone.

        Another pass starts if an import added examples meanwhile, or if the agenda depends on what
        came back.
        """
        if self.ready or self.came_back:
            return False
        if self.planned:
            # Something never came back, so look at its stretch once more.
            self.came_back = list(dict.fromkeys(self.planned.values()))
            self.planned = {}
            return False
        # Another worker may have taken a stretch a moment ago, and only the database can tell.
        if not lifecycle.end_plan(self.run, self.holder):
            return False
        asked, waits = self.asked_in_pass, self.agenda.waits
        grown = self.planned_for != self.example_count()
        if not (grown or waits):
            return True
        self.start_plan()
        return not (grown or asked or not self.agenda.waits)

    def write(
        self,
        arrivals: Sequence[Arrival],
        now_known: EndpointCapabilities,
        price: PriceSnapshot | None = None,
    ) -> None:
        """Record the arrivals, and pause the run if its circuit breaker has tripped.

        `price`: for calls whose price is not the run's own.
        """
        for arrival in arrivals:
            self.notice(arrival)
        further = recording.record(
            self.run.pk,
            self.holder,
            arrivals,
            self.questioner,
            price or self.price,
            self.first_replies.note,
        )
        self.settled += sum(arrival.settled for arrival in arrivals)
        answered = any(not isinstance(arrival.outcome, CallFailure) for arrival in arrivals)
        # Kept once for all runs with this endpoint and model, so that the next one needn't learn it
        # again.
        if answered and (now_known != self.known or not self.known_good):
            endpoints.keep(self.run, now_known, self.known)
            self.known, self.known_good = now_known, True
        follow_up = self.agenda.follow_up([arrival.claim.ask for arrival in arrivals])
        self.added += sum(len(ask.slots) for ask in follow_up)
        pieces = self.pieces([*further, *follow_up])
        # What an answer leads to goes first, which finishes examples early and keeps few of them
        # open.
        self.ready.extendleft(reversed(pieces))
        self.note_back(arrivals, pieces)
        if not self.breaker.reason:
            self.breaker.reason = self.first_replies.reason
        if self.breaker.reason:
            lifecycle.pause(self.run, reason=self.breaker.reason, until=self.breaker.until)

    def recall_replies(self) -> None:
        """Remember the last replies that came before this run was paused or changed hands."""
        done = self.run.calls.filter(state=Call.State.DONE).exclude(reply_id="")
        for call in reversed(done.order_by("-pk").prefetch_related("samples")[:MOST_RECALLED]):
            samples = sorted(call.samples.all(), key=lambda sample: sample.index)
            self.is_repeated(call, call.reply_id, [sample.raw_text or "" for sample in samples])

    def notice(self, arrival: Arrival) -> None:
        """Mark a reply that repeats an earlier one with the same id, or has one text k times."""
        reply, call = arrival.outcome, arrival.claim.call
        if isinstance(reply, CallFailure):
            return
        texts = [choice.text or "" for choice in reply.choices] or [""]
        alike = len(texts) > 1 and len(set(texts)) == 1 and len(texts[0]) >= LEAST_REPEATED
        # At temperature 0 equal samples are what was asked for.
        if alike and self.run.temperature > 0:
            call.noticed = Call.Notice.IDENTICAL
        if reply.reply_id and self.is_repeated(call, reply.reply_id, texts):
            call.noticed = Call.Notice.REPEATED

    def is_repeated(self, call: Call, reply_id: str, texts: Sequence[str]) -> bool:
        """Return True if another call got these texts with this id, and remember them if not."""
        seen, content = self.earlier_replies, hash(tuple(texts))
        if not texts or len(texts[0]) < LEAST_REPEATED:
            # Short replies are alike by chance, but not to one question and with one id.
            content = hash((*texts, call.example_id, call.point_item_id, call.part))
        first = seen.setdefault(reply_id, (content, call.pk))
        if first is not None and first[0] != content:
            # A server that gives every reply the same id repeats nothing by it.
            seen[reply_id] = first = None
        if len(seen) > MOST_REMEMBERED:
            seen.popitem(last=False)
        return first is not None and first[1] != call.pk

    def look(self, standing: PumpStatus) -> str | None:
        """Write the pump's status if it changed, and return the run's state; None if we lost it."""
        if not self.leads:
            return self.look_as_helper(standing)
        ours = Run.objects.filter(pk=self.run.pk, holder=self.holder)
        if standing != self.standing:
            ours.update(progress=standing.to_json())
            self.standing = standing
        return ours.values_list("state", flat=True).first()

    def look_as_helper(self, standing: PumpStatus) -> str | None:
        """Do the same for a worker that helps, and lead the run if nobody does.

        To a helper that another run needs, this one looks queued.
        """
        ours = self.run.shares.filter(holder=self.holder)
        if standing != self.standing:
            ours.update(progress=standing.to_json())
            self.standing = standing
        share = ours.select_related("run").first()
        if share is None:
            return None
        if lifecycle.lead(share.run, self.holder):
            self.leads, self.inputs_planned = True, False
        # Runs share the workers fairly: a run that nobody works on comes before a helper's second
        # hand.
        elif lifecycle.others_wait(share.run):
            return State.QUEUED
        return share.run.state

    def places(self, in_use: int) -> tuple[int, int]:
        """Return how many calls this worker may have in flight now, and how many workers work."""
        if not lifecycle.allows_helpers():
            return self.run.concurrency, 1
        return lifecycle.agree_on_places(self.run, self.holder, in_use)

    def keep_house(self) -> None:
        """Hand in what was spent; as leader, bury dead workers and call for more."""
        now = time.monotonic()
        if self.price and now - self.handed_in_at > HAND_IN_SECONDS:
            self.handed_in_at = now
            lifecycle.hand_in(self.run.pk, self.holder)
        if self.leads and now - self.called_at > CALL_SECONDS and lifecycle.allows_helpers():
            self.called_at = now
            self.bury_dead()
            # Helpers would only multiply the calls of a run that may be about to stop.
            if self.known_good and self.first_replies.most is None and not self.short_of_money:
                lifecycle.call_helpers(self.run)

    def bury_dead(self) -> None:
        for share in self.run.shares.exclude(holder=self.holder):
            if lifecycle.is_lost(share):
                recording.bury(self.run, share)

    def alone(self) -> bool:
        """Return True if nobody else works on the run, or if we lost it."""
        ours = Run.objects.filter(pk=self.run.pk, holder=self.holder)
        if not (lifecycle.allows_helpers() and ours.exists()):
            return True
        self.bury_dead()
        return not self.run.shares.exclude(holder=self.holder).exists()

    def pause_for_budget(self) -> None:
        # Money that this worker holds but can't use is counted as free, so that the sentence is
        # true.
        lifecycle.hand_in(self.run.pk, self.holder, slice_too=True)
        self.run.refresh_from_db()
        ask = self.ready[0]
        request = self.questioner.of_ask(ask)
        reason = OVER_BUDGET.format(
            budget=usd(self.run.budget_usd),
            spent=usd(self.run.spent_usd),
            reserved=usd(self.run.reserved_usd),
            needed=usd(claims.upper_bound(request, self.price)),
        )
        lifecycle.pause(self.run, reason=reason)

    def put_down(self, unsent: Sequence[Claim]) -> None:
        """Free what was never sent, and give up what nobody can answer any more."""
        if self.look(PumpStatus(0, 0, None)) is None and self.leads:
            return
        claims.give_back(self.run.pk, self.holder, unsent)
        claims.lose_claims(self.run.pk, self.holder)
        if not self.leads:
            lifecycle.close_share(self.run.pk, self.holder)

    def settle(self, after_running: str) -> None:
        """As leader, rank the examples, and give the run its next state.

        `after_running` is `queued` if another worker is to go on.
        """
        state = self.look(PumpStatus(0, 0, None)) if self.leads else None
        if state is None:
            return
        if after_running == State.QUEUED and lifecycle.hand_over(self.run, self.holder):
            return
        lifecycle.close_share(self.run.pk, self.holder)
        # The next start plans again from what is recorded, so nothing of this plan may be left.
        self.run.stretches.all().delete()
        Run.objects.filter(pk=self.run.pk).update(planned_to=None)
        # Sums that were kept up call by call are checked once against the calls themselves.
        claims.recount(self.run.pk)
        if after_running == State.DONE:
            try:
                rebuild_verdicts(self.run, partial(self.ranks_on, state))
            except RankingStopped:
                # Unless somebody paused or cancelled the run, this worker ends. Another one ranks.
                after_running = State.QUEUED
        moves = {
            State.RUNNING: after_running,
            State.PAUSING: State.PAUSED,
            State.CANCELLING: State.CANCELLED,
        }
        lifecycle.settle(self.run.pk, self.holder, moves, progress={})
        lifecycle.make_primary(self.run)

    def ranks_on(self, state: str, done: int, total: int) -> bool:
        """Write how far the ranking is. False if a person or the worker's end stops it.

        A run that was paused or cancelled before is ranked by the answers that it has.

        Args:
            state: the state of the run when the ranking began.
        """
        held = Run.objects.filter(pk=self.run.pk, holder=self.holder)
        self.ranking = f"{done} of {total} examples ranked"
        self.tell()
        if not held.update(progress={"ranked": done, "to_rank": total}):
            # Another worker ranks the run, and its verdicts must not be deleted.
            raise RankingStopped
        is_wanted = held.filter(state=state).exists()
        return is_wanted and not (state == State.RUNNING and stop_requested.is_set())
