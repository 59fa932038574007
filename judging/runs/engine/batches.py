"""Batches in the database: which calls were handed in together, and what came of them.

A call of a batch stays claimed while the endpoint has it, whoever holds the run meanwhile.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import Count
from django.utils import timezone

from judging.core.processes import stop_requested
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.batches import COMPLETED, GONE, BatchClient, BatchError, BatchState
from judging.llm.client.errors import CallFailure, sentence
from judging.llm.client.messages import Reply
from judging.llm.prices import PriceSnapshot
from judging.runs import lifecycle
from judging.runs.engine import claims
from judging.runs.engine.claims import Claim
from judging.runs.engine.recording import Arrival
from judging.runs.engine.store import PumpStatus, RunStore
from judging.runs.models import Batch, Call, Run, content_free, subject_of
from judging.runs.samples import Ask

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


def default_price(run: Run) -> PriceSnapshot | None:
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


def fill(desk: RunStore) -> list[Batch]:
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


def claims_in(desk: RunStore, batch: Batch) -> dict[str, Claim]:
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


def forget(desk: RunStore, batch: Batch) -> None:
    """A batch that never reached its endpoint: its calls were not sent."""
    claims.give_back(desk.run.pk, desk.holder, list(claims_in(desk, batch).values()))
    batch.delete()


def note_reason(desk: RunStore, reason: str) -> None:
    Run.objects.filter(pk=desk.run.pk, holder=desk.holder).update(reason=reason)


def write(
    desk: RunStore,
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
        desk.write(arrivals[start : start + WRITTEN_TOGETHER], desk.known or EndpointCapabilities())
    not_done = [claim for name, claim in claimed.items() if name not in outcomes]
    lost = state.status in (COMPLETED, GONE) or len(outcomes) < state.completed
    (claims.lose if lost else claims.give_back)(desk.run.pk, desk.holder, not_done)
    Batch.objects.filter(pk=batch.pk).update(collected_at=timezone.now())
    if claimed and not outcomes and state.status != "cancelled":
        message = f": {state.message}" if state.message else ""
        reason = (NOTHING_BROUGHT if lost else NOTHING_DONE).format(
            status=state.status, message=message
        )
        lifecycle.pause(desk.run, reason=reason)


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


WATCH_SECONDS = 0.5
POLL_SECONDS = 15.0
# A cancelled batch is waited for so long; one that takes longer is collected by a resume.
CANCEL_SECONDS = 60.0
INTERRUPTED = (
    "Stopped at the keyboard. The endpoint goes on with the batches that it has: resume the run "
    "to collect them."
)
NOT_TAKEN = (
    "The endpoint did not take the batch: {message} {advice} Nothing recorded is lost. Resume to "
    "try again, or start a run without batches."
)
NOT_CANCELLED = (
    "The endpoint has not ended {n} of the run's batches: {message} It may go on with them and "
    "bill them. Resume the run to collect what they bring."
)


@dataclass
class BatchPump:
    """All of it waits on the endpoint: the calls in flight are those of the open batches."""

    desk: RunStore
    client: BatchClient
    thread: Executor
    report: Callable[["BatchPump"], None] = lambda pump: None
    open: dict[int, BatchState] = field(default_factory=dict)
    worker_ends: bool = False
    said: str = ""

    async def run(self) -> None:
        run = self.desk.run
        await self.on_desk(adopt, run, self.desk.holder)
        while await self.state() == Run.State.RUNNING:
            waiting = await self.on_desk(open_batches, run)
            if not waiting and not await self.fill():
                break
            over = [await self.advance(batch) for batch in waiting]
            if not all(over):
                await self.rest()
        if await self.state() == Run.State.CANCELLING:
            await self.cancel()
        after = Run.State.QUEUED if self.worker_ends else Run.State.DONE
        await self.on_desk(self.desk.settle, [], after)

    @property
    def note(self) -> str:
        done = sum(state.completed + state.failed for state in self.open.values())
        total = sum(state.total for state in self.open.values())
        return f"{done} of {total} calls done in {len(self.open)} open batches"

    async def on_desk(self, work: Callable[..., Any], *values: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, partial(work, *values))

    async def state(self) -> str | None:
        """The run's state; `queued` once this worker shall end."""
        in_flight = sum(state.total for state in self.open.values())
        state: str | None = await self.on_desk(self.desk.look, PumpStatus(in_flight, 0, None))
        self.report(self)
        if state == Run.State.RUNNING and stop_requested.is_set():
            self.worker_ends = True
            return Run.State.QUEUED
        return state

    async def fill(self) -> bool:
        """Claim what is left into batches. False when nothing is left, or no money for it."""
        if await self.on_desk(fill, self.desk):
            return True
        if self.desk.ready and await self.state() == Run.State.RUNNING:
            await self.on_desk(self.desk.pause_for_budget)
        return False

    async def advance(self, batch: Batch) -> bool:
        """Hand in the batch, or see how far it is; whether it is over and was collected."""
        state = await self.asked(self.look_after(batch))
        if state is None:
            return False
        self.desk.trouble.heard()
        await self.on_desk(note_state, batch, state)
        self.open[batch.pk] = state
        return state.finished and await self.collect(batch, state)

    async def look_after(self, batch: Batch) -> BatchState:
        if batch.remote_id:
            return await self.client.poll(batch.remote_id, mark(batch))
        claimed = await self.on_desk(claims_in, self.desk, batch)
        requests = {name: claim.request for name, claim in claimed.items()}
        return await self.client.submit(mark(batch), requests)

    async def collect(self, batch: Batch, state: BatchState) -> bool:
        claimed = await self.on_desk(claims_in, self.desk, batch)
        requests = {name: claim.request for name, claim in claimed.items()}
        outcomes = await self.asked(self.client.collect(state, requests))
        if outcomes is None:
            return False
        await self.on_desk(write, self.desk, batch, state, claimed, outcomes)
        del self.open[batch.pk]
        return True

    async def asked(self, asking: Awaitable[Any]) -> Any:
        """What the endpoint answers; None, and a pause where waiting will not mend it."""
        try:
            return await asking
        except BatchError as error:
            self.said = sentence(error.failure.message)
            await self.on_desk(self.refused, error.failure)
            return None

    def refused(self, failure: CallFailure) -> None:
        reason = self.desk.trouble.note(failure)
        if not failure.kind.worth_repeating:
            message, advice = sentence(failure.message), failure.kind.advice
            reason = " ".join(NOT_TAKEN.format(message=message, advice=advice).split())
        if reason:
            lifecycle.pause(self.desk.run, reason=reason)

    async def rest(self) -> None:
        """Until the next poll, or until the run is stopped."""
        until = time.monotonic() + POLL_SECONDS
        while time.monotonic() < until and await self.state() == Run.State.RUNNING:
            await asyncio.sleep(min(WATCH_SECONDS, POLL_SECONDS))

    async def cancel(self) -> None:
        """Cancel what is open, and collect what was done of it until then."""
        left = await self.on_desk(open_batches, self.desk.run)
        for batch in left:
            await self.asked(self.cancel_one(batch))
        until = time.monotonic() + CANCEL_SECONDS
        while left and time.monotonic() < until:
            left = [batch for batch in left if batch.pk and not await self.ended(batch)]
            if left:
                await asyncio.sleep(min(WATCH_SECONDS, POLL_SECONDS))
        if left:
            reason = NOT_CANCELLED.format(n=len(left), message=self.said)
            await self.on_desk(note_reason, self.desk, " ".join(reason.split()))

    async def ended(self, batch: Batch) -> bool:
        return bool(batch.remote_id) and await self.advance(batch)

    async def cancel_one(self, batch: Batch) -> None:
        if not batch.remote_id:
            found = await self.client.find(mark(batch))
            if found is None:
                await self.on_desk(forget, self.desk, batch)
                return
            await self.on_desk(note_state, batch, found)
        # A batch that is over already can't be cancelled, and is collected all the same.
        await self.client.cancel(batch.remote_id)

    def interrupt(self) -> None:
        """Ctrl-C: pause. The batches stay at their endpoint."""
        self.pausing = asyncio.ensure_future(
            self.on_desk(lifecycle.pause, self.desk.run, INTERRUPTED)
        )
