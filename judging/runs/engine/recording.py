"""Writing down what came back: at once in the holder's journal, then in the database.

A transaction costs as much as the rows of some calls, so arrivals are written together: many calls
in one short transaction, each reply with its reading. Until then the journal has them, and the
process that takes the run over records them from there. So no answer that arrived is asked for
twice.

After a worker died, its runs go on by themselves. A call that it claimed but certainly never sent,
or that was only refused, is free again. Calls under way at its death are marked lost.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from judging.core import leases
from judging.core.errors import UserError
from judging.core.incidents import DATABASE_AWAY, incident
from judging.core.sql import statements
from judging.core.sql.statements import prepared
from judging.llm.client.errors import CallFailure
from judging.llm.client.messages import Choice, Reply, stored_logprobs
from judging.llm.parsing.parse import PARSER_VERSION, Parsed, Status, parse, turn_back
from judging.llm.prices import PriceSnapshot
from judging.llm.prompts.templates import Template
from judging.runs import lifecycle
from judging.runs.engine import claims
from judging.runs.engine.claims import FOLDER, Claim, forget, path_of, read_journal
from judging.runs.lifecycle import ZERO
from judging.runs.models import Call, Parse, Run, Sample, Share, content_free, subject_of
from judging.runs.planning.agenda import Questioner
from judging.runs.samples import Ask

log = logging.getLogger(__name__)


def read_choice(choice: Choice, template: Template, part: str, quoted: Sequence[str]) -> Parse:
    """Return the reading of a choice, without its sample. `quoted`: what the judge was shown."""
    parsed = parse(
        template, choice.text, choice.finish_reason, quoted=quoted, refusal=choice.refusal,
        logprobs=choice.logprobs, part=part,
    )  # fmt: skip
    return parse_row(parsed, template, part)


def read_again(sample: Sample, template: Template, part: str, quoted: Sequence[str]) -> Parse:
    """Return what today's parser reads in a stored reply. A cut prompt stays no judgment."""
    # The text may well be readable, but the judge never saw the whole prompt.
    if sample.call.noticed == Call.Notice.CUT:
        row = failed_parse(Status.TOO_LONG)
        row.sample = sample
        return row
    parsed = parse(
        template, sample.raw_text, sample.finish_reason, quoted=quoted, refusal=sample.refusal,
        logprobs=stored_logprobs(sample.logprobs), part=part,
    )  # fmt: skip
    row = parse_row(parsed, template, part)
    row.sample = sample
    return row


def failed_parse(status: str) -> Parse:
    """Return the reading of a slot whose call brought nothing to read."""
    return statements.new(Parse, version=PARSER_VERSION, status=Status(status).value)


def parse_row(parsed: Parsed, template: Template, part: str) -> Parse:
    reading = turn_back(parsed, template, part)
    return statements.new(
        Parse,
        version=PARSER_VERSION,
        parser="json_schema" if parsed.in_json else template.reply.value,
        status=reading.status.value,
        score_1=reading.score_1,
        score_2=reading.score_2,
        rating=reading.rating,
        p_first=reading.p_first,
        mass=reading.mass,
        bounded=parsed.bounded,
        outcome=reading.outcome.value if reading.outcome else None,
        # PostgreSQL stores no NUL in a text, and a judge's reply may contain one.
        evidence=reading.evidence.replace("\0", "\ufffd"),
        criteria={name: [str(score) for score in scores] for name, *scores in reading.criteria}
        or None,
        why=reading.why.replace("\0", "\ufffd"),
    )


CALL_RESULT = (
    "state", "finished_at", "duration_ms", "requests", "prompt_tokens", "cached_tokens",
    "written_tokens", "completion_tokens", "estimated", "reserved_usd", "usd", "model",
    "request_id", "reply_id", "http_status", "error_kind", "error", "noticed",
)  # fmt: skip
LONGEST_ERROR = 2000


@dataclass(frozen=True, slots=True)
class Arrival:
    """A call that ended, and how it ended."""

    claim: Claim
    outcome: Reply | CallFailure

    @property
    def settled(self) -> int:
        """Return how many slots get a sample from it."""
        slots = len(self.claim.ask.slots)
        if isinstance(self.outcome, CallFailure):
            return 0 if self.outcome.kind.pauses_run else slots
        return min(slots, len(self.outcome.choices))


Readings = Mapping[int, list[tuple[Sample, Parse]]]


def record(
    run_id: int,
    holder: str,
    arrivals: Sequence[Arrival],
    questioner: Questioner,
    price: PriceSnapshot | None,
    noted: Callable[[Arrival, Sequence[Parse]], None] = lambda arrival, parses: None,
) -> list[Ask]:
    """Write the arrivals, and return asks for what their replies left open.

    A call that was marked lost meanwhile belongs to another holder: its answer is dropped, since
    its slots have been asked for again. If the database fails, you can write the same arrivals
    again.

    Args:
        noted: Is told of each arrival that was written, and of its readings.
    """
    # Replies are parsed before the transaction, which must stay short while others wait for its
    # locks.
    read = {arrival.claim.call.pk: read_arrival(arrival, questioner, price) for arrival in arrivals}
    ours = save(run_id, holder, arrivals, read)
    for arrival in ours:
        noted(arrival, [parse for _, parse in read[arrival.claim.call.pk]])
    return [ask for arrival in ours for ask in left_open(arrival)]


def read_arrival(
    arrival: Arrival, questioner: Questioner, price: PriceSnapshot | None
) -> list[tuple[Sample, Parse]]:
    fill_in(arrival, price)
    return list(samples_in(arrival, questioner))


def save(run_id: int, holder: str, arrivals: Sequence[Arrival], read: Readings) -> list[Arrival]:
    """Write what was read in one transaction, and return the arrivals that were still ours."""
    with transaction.atomic():
        # Who takes over locks the share as well, so that no call is lost before this ends.
        lifecycle.lock_share(run_id, holder)
        still_ours = claimed_calls(holder, read)
        ours = [arrival for arrival in arrivals if arrival.claim.call.pk in still_ours]
        calls = [arrival.claim.call for arrival in ours]
        before = sum((arrival.claim.reserved or ZERO for arrival in ours), ZERO)
        freed = before - sum((call.reserved_usd or ZERO for call in calls), ZERO)
        spent = sum((call.usd or ZERO for call in calls), ZERO)
        statements.update(Call, calls, CALL_RESULT)
        save_samples([pair for call in calls for pair in read[call.pk]])
        lifecycle.settle_usd(run_id, holder, freed, spent)
    return ours


def claimed_calls(holder: str, ids: Iterable[int]) -> set[int]:
    return {pk for (pk,) in _still_claimed.all(ids=list(ids), holder=holder)}


@prepared
def _still_claimed(ids: list[int], holder: Any) -> QuerySet[Call, Any]:
    ours = Call.objects.filter(pk__in=ids, holder=holder, state=Call.State.CLAIMED)
    return ours.values_list("pk")


def save_samples(pairs: Sequence[tuple[Sample, Parse]]) -> None:
    """Write samples and readings by ids: setting related objects would double the cost of a row."""
    statements.insert(Sample, [sample for sample, _ in pairs])
    for sample, reading in pairs:
        reading.sample_id = sample.pk
    statements.insert(Parse, [reading for _, reading in pairs])


def fill_in(arrival: Arrival, price: PriceSnapshot | None) -> None:
    """Copy the outcome into the call."""
    call, outcome = arrival.claim.call, arrival.outcome
    call.finished_at = timezone.now()
    call.duration_ms = outcome.duration_ms
    call.requests = outcome.requests
    # Answers of a batch come without an id of the request that handed them in.
    call.request_id = call.request_id or outcome.request_id[:200]
    # Each request that may have been billed keeps what it can have cost reserved.
    held = (arrival.claim.reserved or ZERO) * outcome.possibly_billed
    call.reserved_usd = None if price is None else held
    if isinstance(outcome, CallFailure):
        call.state = Call.State.FAILED
        call.http_status = outcome.http_status
        call.error_kind = outcome.kind.value
        call.error = outcome.message[:LONGEST_ERROR]
        # A request that was cut off has no known cost, which is not the same as none.
        call.usd = None if outcome.possibly_billed or price is None else ZERO
        return
    usage = outcome.usage
    call.state = Call.State.DONE
    call.reply_id = outcome.reply_id
    call.http_status = 200
    call.prompt_tokens = usage.prompt_tokens
    call.cached_tokens = usage.cached_tokens
    call.written_tokens = usage.written_tokens
    call.completion_tokens = usage.completion_tokens
    call.estimated = usage.estimated
    call.model = outcome.model[:200]
    if usage.prompt_cut:
        call.noticed = Call.Notice.CUT
    call.usd = None if price is None else claims.rounded_up(price.cost(usage))


def samples_in(arrival: Arrival, questioner: Questioner) -> Iterator[tuple[Sample, Parse]]:
    """Yield a sample and its reading for each slot that the outcome settles.

    A failure that stops the run settles nothing: no judge has seen the question.
    """
    call, ask, outcome = arrival.claim.call, arrival.claim.ask, arrival.outcome
    if isinstance(outcome, CallFailure):
        if outcome.kind.pauses_run:
            return
        for index, slot in enumerate(ask.slots):
            place = {"call_id": call.pk, "index": index, "slot": slot, "attempt": ask.attempt}
            sample = statements.new(Sample, **place)
            yield sample, failed_parse(outcome.kind.status)
        return
    quoted = questioner.quoted(ask.subject, ask.part)
    # Some servers return fewer choices than n. What is missing is asked again by `left_open`.
    for index, (slot, choice) in enumerate(zip(ask.slots, outcome.choices, strict=False)):
        sample = sample_of(choice, call_id=call.pk, index=index, slot=slot, attempt=ask.attempt)
        if outcome.usage.prompt_cut:
            # Whatever the judge says, it is not about the whole text.
            yield sample, failed_parse(Status.TOO_LONG)
            continue
        yield sample, read_choice(choice, questioner.template, ask.part, quoted)


def sample_of(choice: Choice, **place: Any) -> Sample:
    return statements.new(
        Sample, raw_text=choice.text, reasoning=choice.reasoning or "",
        refusal=choice.refusal or "", finish_reason=choice.finish_reason[:40],
        logprobs=choice.logprobs_json(), completion_tokens=choice.completion_tokens, **place,
    )  # fmt: skip


def left_open(arrival: Arrival) -> Iterator[Ask]:
    """Yield an ask for the missing slots if the reply has fewer choices than asked for."""
    ask, outcome = arrival.claim.ask, arrival.outcome
    if isinstance(outcome, Reply) and len(outcome.choices) < len(ask.slots):
        missing = ask.slots[len(outcome.choices) :]
        yield replace(ask, slots=missing)


def default_price(run: Run) -> PriceSnapshot | None:
    """Return the price of a call outside of a batch."""
    kept = run.parameters["batch"]["usual_price"] if run.in_batches else run.price
    return PriceSnapshot.from_json(kept) if kept else None


@dataclass(frozen=True, slots=True)
class Left:
    """What one earlier holder left: its answers, already read, and which of its calls it sent."""

    holder: str
    sent: frozenset[int] | None
    arrivals: Sequence[Arrival]
    read: Readings


def what_holders_left(run: Run) -> list[Left]:
    """Read the journals of all who claimed calls of the run that are still open, or share it."""
    open_calls = Call.objects.filter(run_id=run.pk, state=Call.State.CLAIMED, batch=None)
    holders = set(open_calls.order_by().values_list("holder", flat=True)) - {""}
    # A worker may have died between taking a share and its first claim.
    holders |= set(run.shares.values_list("holder", flat=True))
    return [left_by(run, holder, open_calls.filter(holder=holder)) for holder in sorted(holders)]


def left_by(run: Run, holder: str, open_calls: QuerySet[Call]) -> Left:
    content = read_journal(run.pk, holder)
    read: dict[int, list[tuple[Sample, Parse]]] = {}
    arrivals = []
    if not content.outcomes:
        return Left(holder, content.sent, (), {})
    try:
        questioner, price, inputs = Questioner.of(run), default_price(run), content_free(run)
    except UserError as error:
        log.warning("The journal of run %s was not read: %s", run.pk, error)
        return Left(holder, content.sent, (), {})
    # A call that is no longer claimed was recorded before the kill, or asked again by another
    # worker.
    answered = open_calls.filter(pk__in=content.outcomes)
    for call in answered.select_related("example", "point_item").order_by("pk"):
        ask = Ask(subject_of(call, inputs), call.part, tuple(call.slots), call.attempt)
        try:
            request = questioner.of_ask(ask)
            claim = Claim(call, ask, request, call.reserved_usd)
            arrival = Arrival(claim, content.outcomes[call.pk])
            read[call.pk] = read_arrival(arrival, questioner, price)
        except DATABASE_AWAY:
            raise
        except Exception:
            # One answer that can't be read must not keep the run from going on.
            incident(log, f"an answer in the journal of run {run.pk} could not be read")
            continue
        arrivals.append(arrival)
    return Left(holder, content.sent, arrivals, read)


def settle_left(run: Run, left: Sequence[Left]) -> None:
    """Settle what everybody left, of a run on which nobody works."""
    for of_one in left:
        settle_one(run, of_one)
    claims.lose_claims(run.pk)
    claims.recount(run.pk)


def settle_one(run: Run, left: Left) -> None:
    """Record the answers that had arrived, free what was never sent, and mark the rest lost."""
    # Runs that an earlier version worked on have no shares.
    Share.objects.get_or_create(run=run, holder=left.holder)
    save_safely(run.pk, left)
    if left.sent is not None:
        # Without a trustworthy journal every open call may have been sent, so none is freed.
        theirs = Call.objects.filter(
            run_id=run.pk, state=Call.State.CLAIMED, batch=None, holder=left.holder
        )
        claimed = theirs.values_list("pk", flat=True)
        claims.free(run.pk, left.holder, theirs.filter(pk__in=set(claimed) - left.sent))
    claims.lose_claims(run.pk, left.holder)
    lifecycle.close_share(run.pk, left.holder)


def save_safely(run_id: int, left: Left) -> None:
    try:
        with transaction.atomic():
            save(run_id, left.holder, left.arrivals, left.read)
    except DATABASE_AWAY:
        raise
    except Exception:
        # One row that the database refuses would otherwise take all the others with it.
        for arrival in left.arrivals if len(left.arrivals) > 1 else ():
            only = arrival.claim.call.pk
            save_safely(run_id, replace(left, arrivals=[arrival], read={only: left.read[only]}))
        if len(left.arrivals) == 1:
            incident(log, f"an answer in the journal of run {run_id} could not be recorded")


def forget_journals(run_id: int, left: Sequence[Left]) -> None:
    for of_one in left:
        forget(path_of(run_id, of_one.holder))


State = Run.State
AFTER_A_DEATH = {
    State.RUNNING: State.QUEUED,
    State.PAUSING: State.PAUSED,
    State.CANCELLING: State.CANCELLED,
}


def take_over(run: Run, holder: str) -> bool:
    """Lead the run, record what an earlier holder's journal has, and mark the rest lost.

    False if it has another holder, is over, or helpers still work on it.
    """
    if not Run.objects.filter(leases.abandoned(run), pk=run.pk).exists() or lifecycle.helpers(
        run.pk
    ):
        return False
    left = what_holders_left(run)
    with transaction.atomic():
        lock_shares(run)
        if not lifecycle.take(run, holder):
            return False
        settle_left(run, left)
        lifecycle.open_share(run.pk, holder, run.concurrency)
    forget_journals(run.pk, left)
    return True


def lock_shares(run: Run) -> None:
    """Wait until nobody writes down answers of the run."""
    list(run.shares.select_for_update().values_list("pk").order_by("pk"))


def recover(run: Run) -> bool:
    """Move a run that lost its holder to its next state; a running run is queued again."""
    after = AFTER_A_DEATH.get(State(run.state))
    if after is None or not Run.objects.filter(leases.abandoned(run), pk=run.pk).exists():
        return False
    if lifecycle.helpers(run.pk):
        # One of them leads it at once.
        return False
    # Its batches must be cancelled at the endpoint, and only a worker can do that.
    if after == State.CANCELLED and lifecycle.has_open_batches(run.pk):
        return send_again(run)
    left = what_holders_left(run)
    with transaction.atomic():
        lock_shares(run)
        ownerless = Run.objects.filter(leases.abandoned(run), pk=run.pk, state=run.state)
        if not ownerless.update(
            state=after, holder="", lease_until=timezone.now() + lifecycle.SEND_AGAIN
        ):
            return False
        settle_left(run, left)
        lifecycle.tell_of(run.pk)
        if after == State.QUEUED:
            lifecycle.send(run.pk)
    forget_journals(run.pk, left)
    return True


def bury(run: Run, share: Share) -> bool:
    """Take back what a dead worker had of a run on which others go on. False if it lives."""
    open_calls = Call.objects.filter(run_id=run.pk, state=Call.State.CLAIMED, batch=None)
    left = left_by(run, share.holder, open_calls.filter(holder=share.holder))
    with transaction.atomic():
        dead = Share.objects.select_for_update().filter(leases.abandoned(share), pk=share.pk)
        if not dead.exists():
            return False
        settle_one(run, left)
    forget(path_of(run.pk, share.holder))
    return True


def sweep() -> int:
    """Send abandoned and due runs to workers again, and return their number.

    Workers call it every 15 s.
    """
    held = Run.objects.filter(state__in=AFTER_A_DEATH)
    recovered = sum(recover(run) for run in held)
    due = Run.objects.filter(state=State.PAUSED, resume_at__lte=timezone.now())
    recovered += sum(lifecycle.resume_when_due(run) for run in due)
    waiting = Run.objects.filter(leases.over(), state=State.QUEUED)
    recovered += sum(send_again(run) for run in waiting)
    remove_old_journals()
    return recovered


def send_again(run: Run) -> bool:
    """Wake a worker for a waiting run whose message or worker was lost."""
    with transaction.atomic():
        same = Run.objects.filter(leases.over(), pk=run.pk, state=run.state, holder=run.holder)
        if not same.update(holder="", lease_until=timezone.now() + lifecycle.SEND_AGAIN):
            return False
        lifecycle.send(run.pk)
    return True


def remove_old_journals() -> None:
    """Remove journals that nobody needs: another machine took the run over, or it was deleted."""
    folder = settings.FAIRJUDGE_DATA / FOLDER
    for path in folder.glob("*-*") if folder.is_dir() else ():
        run_id, _, token = path.name.removesuffix(".new").partition("-")
        if not run_id.isdecimal():
            continue
        held = Run.objects.filter(pk=run_id, holder__endswith=f":{token}")
        shared = Share.objects.filter(run_id=run_id, holder__endswith=f":{token}")
        calls = Call.objects.filter(
            run_id=run_id, state=Call.State.CLAIMED, holder__endswith=f":{token}"
        )
        if not (held.exists() or shared.exists() or calls.exists()):
            forget(path)
