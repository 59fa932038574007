"""The pump of a run in batches: hand in, wait, collect, and hand in again what was not done."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from judging.llm.batches import BatchClient, BatchError, BatchState
from judging.llm.errors import CallFailure, sentence
from judging.models.calls import Batch
from judging.models.runs import Run
from judging.runs import batches, states
from judging.runs.desk import Desk, Standing
from judging.stopping import stop_requested

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

    desk: Desk
    client: BatchClient
    thread: Executor
    report: Callable[["BatchPump"], None] = lambda pump: None
    open: dict[int, BatchState] = field(default_factory=dict)
    worker_ends: bool = False
    said: str = ""

    async def run(self) -> None:
        run = self.desk.run
        await self.on_desk(batches.adopt, run, self.desk.holder)
        while await self.state() == Run.State.RUNNING:
            waiting = await self.on_desk(batches.open_batches, run)
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
        state: str | None = await self.on_desk(self.desk.look, Standing(in_flight, 0, None))
        self.report(self)
        if state == Run.State.RUNNING and stop_requested.is_set():
            self.worker_ends = True
            return Run.State.QUEUED
        return state

    async def fill(self) -> bool:
        """Claim what is left into batches. False when nothing is left, or no money for it."""
        if await self.on_desk(batches.fill, self.desk):
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
        await self.on_desk(batches.note_state, batch, state)
        self.open[batch.pk] = state
        return state.finished and await self.collect(batch, state)

    async def look_after(self, batch: Batch) -> BatchState:
        if batch.remote_id:
            return await self.client.poll(batch.remote_id, batches.mark(batch))
        claimed = await self.on_desk(batches.claims_in, self.desk, batch)
        requests = {name: claim.request for name, claim in claimed.items()}
        return await self.client.submit(batches.mark(batch), requests)

    async def collect(self, batch: Batch, state: BatchState) -> bool:
        claimed = await self.on_desk(batches.claims_in, self.desk, batch)
        requests = {name: claim.request for name, claim in claimed.items()}
        outcomes = await self.asked(self.client.collect(state, requests))
        if outcomes is None:
            return False
        await self.on_desk(batches.write, self.desk, batch, state, claimed, outcomes)
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
            states.pause(self.desk.run, reason=reason)

    async def rest(self) -> None:
        """Until the next poll, or until the run is stopped."""
        until = time.monotonic() + POLL_SECONDS
        while time.monotonic() < until and await self.state() == Run.State.RUNNING:
            await asyncio.sleep(min(WATCH_SECONDS, POLL_SECONDS))

    async def cancel(self) -> None:
        """Cancel what is open, and collect what was done of it until then."""
        left = await self.on_desk(batches.open_batches, self.desk.run)
        for batch in left:
            await self.asked(self.cancel_one(batch))
        until = time.monotonic() + CANCEL_SECONDS
        while left and time.monotonic() < until:
            left = [batch for batch in left if batch.pk and not await self.ended(batch)]
            if left:
                await asyncio.sleep(min(WATCH_SECONDS, POLL_SECONDS))
        if left:
            reason = NOT_CANCELLED.format(n=len(left), message=self.said)
            await self.on_desk(batches.note_reason, self.desk, " ".join(reason.split()))

    async def ended(self, batch: Batch) -> bool:
        return bool(batch.remote_id) and await self.advance(batch)

    async def cancel_one(self, batch: Batch) -> None:
        if not batch.remote_id:
            found = await self.client.find(batches.mark(batch))
            if found is None:
                await self.on_desk(batches.forget, self.desk, batch)
                return
            await self.on_desk(batches.note_state, batch, found)
        # A batch that is over already can't be cancelled, and is collected all the same.
        await self.client.cancel(batch.remote_id)

    def interrupt(self) -> None:
        """Ctrl-C: pause. The batches stay at their endpoint."""
        self.pausing = asyncio.ensure_future(self.on_desk(states.pause, self.desk.run, INTERRUPTED))
