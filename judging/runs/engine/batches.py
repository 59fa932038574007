"""Runs in batches: hand calls in, wait, collect the answers, and hand in what was not done.

A call stays claimed while the endpoint has its batch, even if the run gets another holder.
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
from judging.runs import lifecycle
from judging.runs.engine import claims
from judging.runs.engine.claims import Claim
from judging.runs.engine.recording import Arrival
from judging.runs.engine.store import PumpStatus, RunStore
from judging.runs.models import Batch, Call, Run, content_free, subject_of
from judging.runs.planning.agenda import with_images
from judging.runs.samples import Ask

# A batch is held in memory as a whole, and its file has to be uploaded.
CALLS_A_BATCH = 2000
WRITTEN_TOGETHER = 200
MADE = "made"

NOTHING_DONE = (
    "The endpoint ended a batch ({status}) without processing it{message}. Nothing recorded is "
    "lost, and calls that were not processed cost nothing. Resume to send the calls again."
)
NOTHING_BROUGHT = (
    "The endpoint returned no answers for a batch ({status}){message}. They may have been billed. "
    "Nothing recorded is lost. Resume to send the calls again."
)


def adopt(run: Run, holder: str) -> None:
    """Take over the batches of an earlier holder, and delete those that got no calls."""
    # A kill between making a batch and claiming its calls leaves one without any.
    run.batches.filter(collected_at=None, calls=None).delete()
    at_endpoint = Call.objects.filter(run=run, batch__isnull=False, state=Call.State.CLAIMED)
    at_endpoint.update(holder=holder)


def open_batches(run: Run) -> list[Batch]:
    return list(run.batches.filter(collected_at=None).order_by("pk"))


def fill(store: RunStore) -> list[Batch]:
    """Claim all that is left, as far as the budget reaches, into new batches."""
    store.start_plan()
    made = []
    while True:
        batch = Batch.objects.create(run=store.run, state=MADE)
        claimed = store.next_claims(CALLS_A_BATCH, batch)
        if claimed:
            made.append(batch)
        else:
            batch.delete()
        # Less than a full batch means that nothing is left, or that the budget ends here.
        if len(claimed) < CALLS_A_BATCH:
            return made


def mark(batch: Batch) -> str:
    """Return the batch's name at the endpoint, unique among all installations that use it."""
    run = batch.run
    # A kill after handing in leaves a batch whose id was never stored. By this name it is found
    # again.
    return f"{run.created_at:%Y%m%dT%H%M%S.%f} run {run.pk} batch {batch.pk}"


def claims_in(store: RunStore, batch: Batch) -> dict[str, Claim]:
    """Return the batch's calls without a result, by their custom ID."""
    claimed = batch.calls.filter(state=Call.State.CLAIMED)
    calls = claimed.select_related("example", "point_item").order_by("pk")
    inputs = content_free(store.run)
    claimed_by_id = {}
    for call in calls:
        ask = Ask(subject_of(call, inputs), call.part, tuple(call.slots), call.attempt)
        request = with_images(store.questioner.of_ask(ask))
        claimed_by_id[f"call-{call.pk}"] = Claim(call, ask, request, call.reserved_usd)
    return claimed_by_id


def note_state(batch: Batch, state: BatchState) -> None:
    """Store what the endpoint says about the batch."""
    batch.remote_id = state.id
    batch.input_file = state.input_file
    batch.output_file = state.output_file
    batch.error_file = state.error_file
    batch.state = state.status[:30]
    batch.submitted_at = batch.submitted_at or timezone.now()
    batch.save()


def forget(store: RunStore, batch: Batch) -> None:
    """Delete a batch that never reached its endpoint, and free its calls."""
    claims.give_back(store.run.pk, store.holder, list(claims_in(store, batch).values()))
    batch.delete()


def note_reason(store: RunStore, reason: str) -> None:
    Run.objects.filter(pk=store.run.pk, holder=store.holder).update(reason=reason)


def write(
    store: RunStore,
    batch: Batch,
    state: BatchState,
    claimed: Mapping[str, Claim],
    outcomes: Mapping[str, Reply | CallFailure],
) -> None:
    """Record what was done, and free the rest to be asked again.

    The rest was not billed, unless the endpoint did more than it delivered: then it is lost.
    """
    arrivals = [Arrival(claimed[name], outcome) for name, outcome in outcomes.items()]
    # Answers go first. One shows that the endpoint works, which refusals read first would hide.
    arrivals.sort(key=lambda arrival: isinstance(arrival.outcome, CallFailure))
    for arrival in arrivals:
        store.breaker.note(arrival.outcome)
    for start in range(0, len(arrivals), WRITTEN_TOGETHER):
        store.write(
            arrivals[start : start + WRITTEN_TOGETHER], store.known or EndpointCapabilities()
        )
    not_done = [claim for name, claim in claimed.items() if name not in outcomes]
    # An endpoint that has ended normally bills what it processed, delivered or not.
    lost = state.status in (COMPLETED, GONE) or len(outcomes) < state.completed
    (claims.lose if lost else claims.give_back)(store.run.pk, store.holder, not_done)
    Batch.objects.filter(pk=batch.pk).update(collected_at=timezone.now())
    if claimed and not outcomes and state.status != "cancelled":
        message = f": {state.message}" if state.message else ""
        reason = (NOTHING_BROUGHT if lost else NOTHING_DONE).format(
            status=state.status, message=message
        )
        lifecycle.pause(store.run, reason=reason)


@dataclass(frozen=True, slots=True)
class BatchStanding:
    """An open batch, for the run's page."""

    remote_id: str
    state: str
    calls: int
    submitted_at: datetime | None


def standing_of(run: Run) -> Sequence[BatchStanding]:
    rows = run.batches.filter(collected_at=None).order_by("pk").annotate(n=Count("calls"))
    columns = rows.values_list("remote_id", "state", "n", "submitted_at")
    return tuple(BatchStanding(*values) for values in columns)


WATCH_SECONDS = 0.5
POLL_SECONDS = 15.0
# How long to wait for a cancelled batch. A resume collects one that takes longer.
CANCEL_SECONDS = 60.0
INTERRUPTED = (
    "Stopped at the keyboard. The endpoint goes on with the batches that it has. Resume the run "
    "to collect them."
)
NOT_TAKEN = (
    "The endpoint did not accept the batch: {message} {advice} Nothing recorded is lost. Resume "
    "to try again, or start a run without batches."
)
NOT_CANCELLED = (
    "The endpoint has not ended {n} of the run's batches: {message} It may go on with them and "
    "bill them. Resume the run to collect their answers."
)


@dataclass
class BatchPump:
    """Works on a run in batches. `open`: the last known state of each open batch."""

    store: RunStore
    client: BatchClient
    thread: Executor
    report: Callable[["BatchPump"], None] = lambda pump: None
    open: dict[int, BatchState] = field(default_factory=dict)
    worker_ends: bool = False
    said: str = ""

    async def run(self) -> None:
        run = self.store.run
        await self.in_thread(adopt, run, self.store.holder)
        while await self.state() == Run.State.RUNNING:
            waiting = await self.in_thread(open_batches, run)
            if not waiting and not await self.fill():
                break
            over = [await self.advance(batch) for batch in waiting]
            if not all(over):
                await self.rest()
        # A batch goes on without us, so a cancelled run must tell the endpoint and take what is
        # done.
        if await self.state() == Run.State.CANCELLING:
            await self.cancel()
        after = Run.State.QUEUED if self.worker_ends else Run.State.DONE
        await self.in_thread(self.store.put_down, [])
        self.store.tell = partial(self.report, self)
        await self.in_thread(self.store.settle, after)

    @property
    def note(self) -> str:
        if self.store.ranking:
            return self.store.ranking
        done = sum(state.completed + state.failed for state in self.open.values())
        total = sum(state.total for state in self.open.values())
        among = "1 open batch" if len(self.open) == 1 else f"{len(self.open)} open batches"
        return f"{done} of {total} calls done in {among}"

    async def in_thread(self, work: Callable[..., Any], *values: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.thread, partial(work, *values))

    async def state(self) -> str | None:
        """Return the run's state; `queued` once this worker is to end."""
        in_flight = sum(state.total for state in self.open.values())
        state: str | None = await self.in_thread(self.store.look, PumpStatus(in_flight, 0, None))
        self.report(self)
        if state == Run.State.RUNNING and stop_requested.is_set():
            self.worker_ends = True
            return Run.State.QUEUED
        return state

    async def fill(self) -> bool:
        """Claim what is left into batches. False if nothing is left or the budget is used up."""
        if await self.in_thread(fill, self.store):
            return True
        if self.store.ready and await self.state() == Run.State.RUNNING:
            # Calls are ready but none could be claimed: only the budget can have stopped them.
            await self.in_thread(self.store.pause_for_budget)
        return False

    async def advance(self, batch: Batch) -> bool:
        """Hand in or poll the batch. True if it has ended and was collected."""
        state = await self.asked(self.look_after(batch))
        if state is None:
            return False
        # A poll that is answered shows that the endpoint lives, although no call has come back.
        self.store.breaker.heard()
        await self.in_thread(note_state, batch, state)
        self.open[batch.pk] = state
        return state.finished and await self.collect(batch, state)

    async def look_after(self, batch: Batch) -> BatchState:
        if batch.remote_id:
            return await self.client.poll(batch.remote_id, mark(batch))
        claimed = await self.in_thread(claims_in, self.store, batch)
        requests = {name: claim.request for name, claim in claimed.items()}
        return await self.client.submit(mark(batch), requests)

    async def collect(self, batch: Batch, state: BatchState) -> bool:
        claimed = await self.in_thread(claims_in, self.store, batch)
        requests = {name: claim.request for name, claim in claimed.items()}
        outcomes = await self.asked(self.client.collect(state, requests))
        if outcomes is None:
            return False
        await self.in_thread(write, self.store, batch, state, claimed, outcomes)
        del self.open[batch.pk]
        return True

    async def asked(self, asking: Awaitable[Any]) -> Any:
        """Return the endpoint's answer; None on a failure, which pauses the run if it will last."""
        try:
            return await asking
        except BatchError as error:
            self.said = sentence(error.failure.message)
            await self.in_thread(self.refused, error.failure)
            return None

    def refused(self, failure: CallFailure) -> None:
        reason = self.store.breaker.note(failure)
        if not failure.kind.worth_repeating:
            message, advice = sentence(failure.message), failure.kind.advice
            reason = " ".join(NOT_TAKEN.format(message=message, advice=advice).split())
        if reason:
            lifecycle.pause(self.store.run, reason=reason)

    async def rest(self) -> None:
        """Wait for the next poll, or until the run is stopped."""
        until = time.monotonic() + POLL_SECONDS
        while time.monotonic() < until and await self.state() == Run.State.RUNNING:
            await asyncio.sleep(min(WATCH_SECONDS, POLL_SECONDS))

    async def cancel(self) -> None:
        """Cancel the open batches, and collect what they have done."""
        left = await self.in_thread(open_batches, self.store.run)
        for batch in left:
            await self.asked(self.cancel_one(batch))
        until = time.monotonic() + CANCEL_SECONDS
        while left and time.monotonic() < until:
            left = [batch for batch in left if batch.pk and not await self.ended(batch)]
            if left:
                await asyncio.sleep(min(WATCH_SECONDS, POLL_SECONDS))
        if left:
            reason = NOT_CANCELLED.format(n=len(left), message=self.said)
            await self.in_thread(note_reason, self.store, " ".join(reason.split()))

    async def ended(self, batch: Batch) -> bool:
        return bool(batch.remote_id) and await self.advance(batch)

    async def cancel_one(self, batch: Batch) -> None:
        if not batch.remote_id:
            # It may have been handed in although the answer with its id was lost.
            at_endpoint = await self.client.find(mark(batch))
            if at_endpoint is None:
                await self.in_thread(forget, self.store, batch)
                return
            await self.in_thread(note_state, batch, at_endpoint)
        # A batch that has ended can't be cancelled; it is still collected.
        await self.client.cancel(batch.remote_id)

    def interrupt(self) -> None:
        """Pause on Ctrl-C. The batches stay at their endpoint."""
        self.pausing = asyncio.ensure_future(
            self.in_thread(lifecycle.pause, self.store.run, INTERRUPTED)
        )
