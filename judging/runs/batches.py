"""Batches in the database: which calls were handed in together, and what came of them.

A call of a batch stays claimed while the endpoint has it, whoever holds the run meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count
from django.utils import timezone

from judging.llm.adaptation import Learned
from judging.llm.batches import COMPLETED, GONE, BatchState
from judging.llm.errors import CallFailure
from judging.llm.prices import PriceSnapshot
from judging.llm.replies import Reply
from judging.models.calls import Batch, Call
from judging.models.runs import Run
from judging.runs import claims, states
from judging.runs.claims import Claim
from judging.runs.desk import Desk
from judging.runs.plan import Ask
from judging.runs.recording import Arrival
from judging.runs.subjects import content_free, subject_of

# A batch's requests and replies are in memory together, and its file has to be uploaded.
CALLS_A_BATCH = 2000
WRITTEN_TOGETHER = 200
MADE = "made"

NOTHING_DONE = (
    "The endpoint ended a batch ({status}) without doing any of it{message}. Nothing recorded is "
    "lost, and what a batch did not do costs nothing. Resume to hand the calls in again."
)
NOTHING_BROUGHT = (
    "The endpoint brought no answer of a batch ({status}){message}. They may have been billed. "
    "Nothing recorded is lost. Resume to hand the calls in again."
)


def wants_batches(run: Run) -> bool:
    return bool(run.parameters.get("batch"))


def usual_price(run: Run) -> PriceSnapshot | None:
    """What a call outside of a batch costs."""
    kept = run.parameters["batch"]["usual_price"]
    return PriceSnapshot.from_json(kept) if kept else None


def adopt(run: Run, holder: str) -> None:
    """Take over what an earlier holder handed in; a batch that got no calls is none."""
    run.batches.filter(collected_at=None, calls=None).delete()
    at_endpoint = Call.objects.filter(run=run, batch__isnull=False, state=Call.State.CLAIMED)
    at_endpoint.update(holder=holder)


def open_batches(run: Run) -> list[Batch]:
    return list(run.batches.filter(collected_at=None).order_by("pk"))


def fill(desk: Desk) -> list[Batch]:
    """Claim all that is left, or all that the budget holds, into new batches."""
    desk.start_plan()
    made = []
    while True:
        batch = Batch.objects.create(run=desk.run, state=MADE)
        claimed = desk.next_claims(CALLS_A_BATCH, batch)
        if claimed:
            made.append(batch)
        else:
            batch.delete()
        if len(claimed) < CALLS_A_BATCH:
            return made


def mark(batch: Batch) -> str:
    """The batch's name at its endpoint, where other installations may hand in theirs."""
    run = batch.run
    return f"{run.created_at:%Y%m%dT%H%M%S.%f} run {run.pk} batch {batch.pk}"


def claims_in(desk: Desk, batch: Batch) -> dict[str, Claim]:
    """The calls of the batch that have no result yet, by custom ID."""
    claimed = batch.calls.filter(state=Call.State.CLAIMED)
    calls = claimed.select_related("example", "point_item").order_by("pk")
    inputs = content_free(desk.run)
    found = {}
    for call in calls:
        ask = Ask(subject_of(call, inputs), call.part, tuple(call.slots), call.attempt)
        request = desk.questioner.request(ask.subject, ask.part, len(ask.slots))
        found[f"call-{call.pk}"] = Claim(call, ask, request, call.reserved_usd)
    return found


def note_state(batch: Batch, state: BatchState) -> None:
    """Keep what the endpoint says of the batch."""
    batch.remote_id = state.id
    batch.input_file = state.input_file
    batch.output_file = state.output_file
    batch.error_file = state.error_file
    batch.state = state.status[:30]
    batch.submitted_at = batch.submitted_at or timezone.now()
    batch.save()


def forget(desk: Desk, batch: Batch) -> None:
    """A batch that never reached its endpoint: its calls were not sent."""
    claims.give_back(desk.run.pk, desk.holder, list(claims_in(desk, batch).values()))
    batch.delete()


def note_reason(desk: Desk, reason: str) -> None:
    Run.objects.filter(pk=desk.run.pk, holder=desk.holder).update(reason=reason)


def write(
    desk: Desk,
    batch: Batch,
    state: BatchState,
    claimed: Mapping[str, Claim],
    outcomes: Mapping[str, Reply | CallFailure],
) -> None:
    """Record what was done. What was not is free to be asked again: it was not billed, unless
    the endpoint has done more than it brought.
    """
    arrivals = [Arrival(claimed[name], outcome) for name, outcome in outcomes.items()]
    # One answer shows that the endpoint works: refusals read first would say that it doesn't.
    arrivals.sort(key=lambda arrival: isinstance(arrival.outcome, CallFailure))
    for arrival in arrivals:
        desk.trouble.note(arrival.outcome)
    for start in range(0, len(arrivals), WRITTEN_TOGETHER):
        desk.write(arrivals[start : start + WRITTEN_TOGETHER], desk.known or Learned())
    not_done = [claim for name, claim in claimed.items() if name not in outcomes]
    lost = state.status in (COMPLETED, GONE) or len(outcomes) < state.completed
    (claims.lose if lost else claims.give_back)(desk.run.pk, desk.holder, not_done)
    Batch.objects.filter(pk=batch.pk).update(collected_at=timezone.now())
    if claimed and not outcomes and state.status != "cancelled":
        message = f": {state.message}" if state.message else ""
        reason = (NOTHING_BROUGHT if lost else NOTHING_DONE).format(
            status=state.status, message=message
        )
        states.pause(desk.run, reason=reason)


@dataclass(frozen=True, slots=True)
class BatchStanding:
    """An open batch, for the run's page."""

    remote_id: str
    state: str
    calls: int
    submitted_at: datetime | None


def standing_of(run: Run) -> Sequence[BatchStanding]:
    if not wants_batches(run):
        return ()
    rows = run.batches.filter(collected_at=None).order_by("pk").annotate(n=Count("calls"))
    found = rows.values_list("remote_id", "state", "n", "submitted_at")
    return tuple(BatchStanding(*values) for values in found)
