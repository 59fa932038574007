"""Writing down what came back: many calls in one short transaction, each reply with its reading.

A transaction costs as much as the rows of some calls, so arrivals are written together.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from judging.core.sql import statements
from judging.core.sql.statements import prepared
from judging.llm.client.errors import CallFailure
from judging.llm.client.messages import Choice, Reply, TokenLogprobs
from judging.llm.parsing.parse import PARSER_VERSION, Parsed, Status, parse, turn_back
from judging.llm.prices import PriceSnapshot
from judging.llm.prompts.templates import Template
from judging.runs.engine import claims
from judging.runs.engine.claims import ZERO, Claim
from judging.runs.models import Call, Parse, Run, Sample
from judging.runs.planning.agenda import Questioner
from judging.runs.samples import Ask


def read_choice(choice: Choice, template: Template, part: str, quoted: Sequence[str]) -> Parse:
    """Return the reading of a choice, without its sample. `quoted`: what the judge was shown."""
    parsed = parse(
        template,
        choice.text,
        choice.finish_reason,
        quoted=quoted,
        refusal=choice.refusal,
        logprobs=choice.logprobs,
        part=part,
    )
    return parse_row(parsed, template, part)


def read_again(sample: Sample, template: Template, part: str, quoted: Sequence[str]) -> Parse:
    """Return what today's parser reads in a stored reply."""
    parsed = parse(
        template,
        sample.raw_text,
        sample.finish_reason,
        quoted=quoted,
        refusal=sample.refusal,
        logprobs=stored_logprobs(sample.logprobs),
        part=part,
    )
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
        parser=template.reply.value,
        status=reading.status.value,
        score_1=reading.score_1,
        score_2=reading.score_2,
        rating=reading.rating,
        p_first=reading.p_first,
        mass=reading.mass,
        bounded=parsed.bounded,
        outcome=reading.outcome.value if reading.outcome else None,
        evidence=reading.evidence.replace("\0", "\ufffd"),
    )


def stored_logprobs(stored: list[dict[str, Any]] | None) -> tuple[TokenLogprobs, ...] | None:
    if stored is None:
        return None
    return tuple(
        TokenLogprobs(
            entry["token"],
            entry["logprob"],
            tuple((token, logprob) for token, logprob in entry["top"]),
        )
        for entry in stored
    )


CALL_RESULT = (
    "state", "finished_at", "duration_ms", "requests", "prompt_tokens", "cached_tokens",
    "completion_tokens", "estimated", "reserved_usd", "usd", "model", "request_id", "http_status",
    "error_kind", "error",
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


def record(
    run_id: int,
    holder: str,
    arrivals: Sequence[Arrival],
    questioner: Questioner,
    price: PriceSnapshot | None,
) -> list[Ask]:
    """Write the arrivals, and return asks for what their replies left open.

    A call that was marked lost meanwhile belongs to another holder: its answer is dropped, since
    its slots have been asked for again. If the database fails, you can write the same arrivals
    again.
    """
    for arrival in arrivals:
        fill_in(arrival, price)
    read = {arrival.claim.call.pk: list(samples_in(arrival, questioner)) for arrival in arrivals}
    with transaction.atomic():
        still_ours = claimed_calls(run_id, holder, read)
        ours = [arrival for arrival in arrivals if arrival.claim.call.pk in still_ours]
        calls = [arrival.claim.call for arrival in ours]
        before = sum((arrival.claim.reserved or ZERO for arrival in ours), ZERO)
        released = before - sum((call.reserved_usd or ZERO for call in calls), ZERO)
        claims.reconcile(run_id, released, sum((call.usd or ZERO for call in calls), ZERO))
        statements.update(Call, calls, CALL_RESULT)
        save_samples([pair for call in calls for pair in read[call.pk]])
    return [ask for arrival in ours for ask in left_open(arrival)]


def claimed_calls(run_id: int, holder: str, ids: Iterable[int]) -> set[int]:
    """Return the calls not marked lost; none can be before the transaction ends."""
    if connection.features.has_select_for_update:
        # All writers lock the run before its calls, so that no two wait for each other.
        _locked_run.all(run=run_id)
    return {pk for (pk,) in _still_claimed.all(ids=list(ids), holder=holder)}


@prepared
def _locked_run(run: Any) -> QuerySet[Run, Any]:
    return Run.objects.select_for_update().filter(pk=run).values_list("pk")


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
    call.request_id = outcome.request_id[:200]
    # Each request that may have been billed keeps what it can have cost reserved.
    held = (arrival.claim.reserved or ZERO) * outcome.possibly_billed
    call.reserved_usd = None if price is None else held
    if isinstance(outcome, CallFailure):
        call.state = Call.State.FAILED
        call.http_status = outcome.http_status
        call.error_kind = outcome.kind.value
        call.error = outcome.message[:LONGEST_ERROR]
        call.usd = None if outcome.possibly_billed or price is None else ZERO
        return
    usage = outcome.usage
    call.state = Call.State.DONE
    call.http_status = 200
    call.prompt_tokens = usage.prompt_tokens
    call.cached_tokens = usage.cached_tokens
    call.completion_tokens = usage.completion_tokens
    call.estimated = usage.estimated
    call.model = outcome.model[:200]
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
    for index, (slot, choice) in enumerate(zip(ask.slots, outcome.choices, strict=False)):
        sample = sample_of(choice, call_id=call.pk, index=index, slot=slot, attempt=ask.attempt)
        yield sample, read_choice(choice, questioner.template, ask.part, quoted)


def sample_of(choice: Choice, **place: Any) -> Sample:
    return statements.new(
        Sample,
        raw_text=choice.text,
        reasoning=choice.reasoning or "",
        refusal=choice.refusal or "",
        finish_reason=choice.finish_reason[:40],
        logprobs=choice.logprobs_json(),
        completion_tokens=choice.completion_tokens,
        **place,
    )


def left_open(arrival: Arrival) -> Iterator[Ask]:
    """Yield an ask for the missing slots if the reply has fewer choices than asked for."""
    ask, outcome = arrival.claim.ask, arrival.outcome
    if isinstance(outcome, Reply) and len(outcome.choices) < len(ask.slots):
        missing = ask.slots[len(outcome.choices) :]
        yield replace(ask, slots=missing)
