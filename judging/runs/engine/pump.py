"""The pump of a run: one coroutine that keeps the judge busy and writes down what comes back.

Calls are claimed a little ahead of the callers, who never wait for each other. Replies that come
within a moment are written together. All database work is done by one thread of its own.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connections
from django.utils import timezone

from judging.core.incidents import DATABASE_AWAY
from judging.core.processes import stop_requested
from judging.llm.client.errors import CallFailure
from judging.llm.client.judge_client import JudgeClient
from judging.llm.client.limits import GaveUp, Limits, Pause, SharedLimits
from judging.llm.client.messages import Reply
from judging.runs import lifecycle
from judging.runs.engine.claims import Claim, Journal
from judging.runs.engine.recording import Arrival
from judging.runs.engine.store import PumpStatus, RunStore
from judging.runs.models import Run


class Stopped(GaveUp):
    """The run stopped before this request could be sent."""


class StoppableRateLimiter:
    """An endpoint's limits, with a stop: a request that still waits when the run stops gives up.

    It also watches the client, and notes in the journal which calls have requests under way. Only
    these may have been billed if they are cut off.
    """

    def __init__(self, limits: SharedLimits, journal: Journal) -> None:
        self.limits = limits
        self.journal = journal
        self.stopped = asyncio.Event()
        self.calls: dict[asyncio.Task[Any] | None, int] = {}

    def expect(self, task: asyncio.Task[Any] | None, call_id: int) -> None:
        """Note that the task will send the call."""
        # A request knows nothing of its call, so it is known by the task that sends it.
        self.calls[task] = call_id

    def ended(self, task: asyncio.Task[Any] | None) -> bool:
        """Forget the task, and return whether its call may have been billed."""
        return self.calls.pop(task) in self.journal.under_way

    @contextmanager
    def sends(self, call_id: int) -> Iterator[None]:
        """Let the current task send the call."""
        task = asyncio.current_task()
        self.expect(task, call_id)
        try:
            yield
        finally:
            self.ended(task)

    def leaving(self) -> None:
        if (call_id := self.calls.get(asyncio.current_task())) is not None:
            self.journal.leaving(call_id)

    def cost_nothing(self) -> None:
        if (call_id := self.calls.get(asyncio.current_task())) is not None:
            self.journal.cost_nothing(call_id)

    @property
    def halvings(self) -> int:
        return self.limits.halvings

    async def halve(self, seen: int) -> int:
        return await self.limits.halve(seen)

    async def reserve(self, limits: Limits, tokens: int) -> float:
        wait = await self.limits.reserve(limits, tokens)
        while wait > 0 and not self.stopped.is_set():
            try:
                async with asyncio.timeout(wait):
                    await self.stopped.wait()
            except TimeoutError:
                # Another process may have met a limit meanwhile and made the pause longer.
                wait = (await self.limits.paused()).seconds
        if self.stopped.is_set():
            raise Stopped
        return 0.0

    async def settle(self, limits: Limits, unused_tokens: int) -> None:
        await self.limits.settle(limits, unused_tokens)

    async def pause(self, seconds: float, why: str = "") -> None:
        await self.limits.pause(seconds, why)

    async def paused(self) -> Pause:
        return await self.limits.paused()

    async def close(self) -> None:
        await self.limits.close()


# Replies that arrive within this time share a transaction, which costs as much as some calls.
GATHER_SECONDS = 0.1
WATCH_SECONDS = 0.5
# What came back is paid for, so the pump waits this long for a database that is away.
DATABASE_PATIENCE = 60.0
DATABASE_WAIT = 1.0
# After a stop, calls in flight get this long, or twice as long as the longest call so far.
LEAST_PATIENCE = 30.0
INTERRUPTED = "Stopped at the keyboard. What was recorded is kept: resume the run to go on."

CallOutcome = Reply | CallFailure


@dataclass
class Pump:
    """Asks one run's judge. `open` counts the calls that are claimed and not yet written."""

    store: RunStore
    client: JudgeClient
    limiter: StoppableRateLimiter
    thread: Executor
    concurrency: int
    report: Callable[["Pump"], None] = lambda pump: None
    open: int = 0
    places: int = 0
    workers: int = 1
    paused: Pause = field(default_factory=Pause)
    longest: float = 0.0
    stopped_at: float | None = None
    worker_ends: bool = False
    away: Exception | None = None
    arrived: list[Arrival] = field(default_factory=list)
    unsent: list[Claim] = field(default_factory=list)
    sending: set[asyncio.Task[CallOutcome]] = field(default_factory=set)

    def __post_init__(self) -> None:
        # A helper gets places once others have given them up.
        self.places = self.concurrency if self.store.leads else 0
        # The queue is short, so that a stop finds few claimed calls that were never sent.
        self.waiting: asyncio.Queue[Claim | None] = asyncio.Queue(self.batch)
        self.something_arrived = asyncio.Event()
        self.something_written = asyncio.Event()
        self.all_arrived = asyncio.Event()
        self.ended = False

    @property
    def batch(self) -> int:
        """Half a batch waits and half is being claimed: one call ahead for each caller."""
        return max(1, (self.places or self.concurrency) // 2)

    @property
    def room(self) -> int | None:
        """Return how many more calls may be claimed now; None: any number."""
        first = self.store.first_replies.room(self.open, self.concurrency)
        if self.places >= self.concurrency:
            return first
        here = 2 * self.places - self.open
        return here if first is None else min(here, first)

    async def run(self) -> None:
        """Ask until nothing is left or the run is stopped, and write everything that came back.

        Raises the database's error if it failed. The run is then queued again, or keeps this holder
        if the database has not come back.
        """
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(self.watch())
            writer = group.create_task(self.write())
            callers = [group.create_task(self.call()) for _ in range(self.concurrency)]
            try:
                await self.feed()
            except DATABASE_AWAY as error:
                self.miss_database(error)
            # One end for each caller: each takes one and leaves.
            for _ in callers:
                await self.waiting.put(None)
            await asyncio.wait(callers)
            self.ended = True
            self.something_arrived.set()
            self.all_arrived.set()
            await writer
            watcher.cancel()
        await self.in_thread(self.store.put_down, self.unsent)
        while not (self.goes_on or await self.in_thread(self.store.alone)):
            await asyncio.sleep(WATCH_SECONDS)
        after = Run.State.QUEUED if self.goes_on else Run.State.DONE
        self.store.tell = partial(self.report, self)
        await self.in_thread(self.store.settle, after)
        if self.away is not None:
            raise self.away

    @property
    def goes_on(self) -> bool:
        """Return True if another worker has to go on with the run."""
        self.worker_ends |= stop_requested.is_set()
        return self.worker_ends or self.away is not None or not self.store.leads

    @property
    def note(self) -> str:
        if self.store.ranking:
            return self.store.ranking
        if self.paused.seconds:
            why = f" ({self.paused.why})" if self.paused.why else ""
            return f"the endpoint asked to wait {self.paused.seconds:.0f} s{why}"
        others = f", {self.workers} workers" if self.workers > 1 else ""
        return f"{self.client.under_way} in flight{others}"

    async def in_thread(self, work: Callable[..., Any], *values: Any) -> Any:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self.thread, partial(work, *values))
        except DATABASE_AWAY:
            # The next attempt opens new connections.
            await loop.run_in_executor(self.thread, connections.close_all)
            raise

    def miss_database(self, error: Exception) -> None:
        """Send nothing more, and write what comes back: what was planned may be half claimed."""
        self.away = self.away or error
        self.stop()

    async def ask_alone(self) -> None:
        """Send one call first to a judge that has not answered lately: a bad key costs one call."""
        for claim in await self.claim(1):
            await self.send(claim)
            if self.arrived:
                self.something_written.clear()
                await self.something_written.wait()

    async def claim(self, most: int) -> list[Claim]:
        self.something_written.clear()
        claimed: list[Claim] = await self.in_thread(self.store.next_claims, most)
        self.open += len(claimed)
        return claimed

    async def feed(self) -> None:
        """Keep the callers supplied until there is nothing more to ask."""
        # Hundreds of callers with a wrong key would be hundreds of refusals, and some providers
        # lock it.
        if not self.store.known_good:
            await self.ask_alone()
        while self.stopped_at is None:
            room = self.room
            if room is not None and room < 1:
                self.something_written.clear()
                await self.something_written.wait()
                continue
            claimed = await self.claim(self.batch if room is None else min(room, self.batch))
            for claim in claimed:
                await self.waiting.put(claim)
            if claimed:
                continue
            if self.open:
                await self.something_written.wait()
            elif not self.store.leads:
                # Whatever is left, the run's holder sees to it.
                return
            elif not await self.in_thread(self.store.alone):
                await asyncio.sleep(WATCH_SECONDS)
            elif await self.in_thread(self.store.everything_asked):
                return
            else:
                await self.nothing_claimed()

    async def nothing_claimed(self) -> None:
        """Stop if what is left can't be claimed: for a stop, another holder, or the budget."""
        state = await self.in_thread(self.store.look, self.standing())
        if state == Run.State.RUNNING and not self.store.ready:
            # Another pass begins.
            return
        if state == Run.State.RUNNING:
            await self.in_thread(self.store.pause_for_budget)
        self.stop()

    async def call(self) -> None:
        while (claim := await self.waiting.get()) is not None:
            if self.stopped_at is None:
                await self.send(claim)
            else:
                self.unsent.append(claim)

    async def send(self, claim: Claim) -> None:
        sending = asyncio.create_task(self.client.complete(claim.request))
        self.sending.add(sending)
        self.limiter.expect(sending, claim.call.pk)
        started = time.monotonic()
        await asyncio.wait([sending])
        self.sending.discard(sending)
        billed = self.limiter.ended(sending)
        self.longest = max(self.longest, time.monotonic() - started)
        stopped = None if sending.cancelled() else sending.exception()
        if sending.cancelled() or isinstance(stopped, Stopped):
            # A call that was sent and cut off may be billed: it stays claimed and becomes lost.
            self.unsent.extend([] if billed else [claim])
            return
        outcome = sending.result()
        self.limiter.journal.arrived(claim.call.pk, outcome)
        self.arrived.append(Arrival(claim, outcome))
        if self.store.breaker.note(outcome):
            # Stop now, not when it is written: a server that refuses at once would get many more.
            self.stop()
        self.something_arrived.set()
        # Nothing else can arrive, so the writer needn't wait for company.
        if len(self.arrived) == self.open:
            self.all_arrived.set()

    async def write(self) -> None:
        while True:
            await self.something_arrived.wait()
            await self.gather()
            self.something_arrived.clear()
            arrivals, self.arrived = self.arrived, []
            if arrivals:
                await self.write_down(arrivals)
                self.limiter.journal.recorded(arrival.claim.call.pk for arrival in arrivals)
                self.open -= len(arrivals)
                if self.store.breaker.reason:
                    # What was read shows that going on is of no use.
                    self.stop()
            self.something_written.set()
            if self.ended and not self.arrived:
                return

    async def write_down(self, arrivals: Sequence[Arrival]) -> None:
        capabilities = self.client.learned(arrivals[0].claim.request.model)
        started = time.monotonic()
        while True:
            try:
                return await self.in_thread(self.store.write, arrivals, capabilities)
            except DATABASE_AWAY as error:
                self.miss_database(error)
                if time.monotonic() - started > DATABASE_PATIENCE:
                    raise
            await asyncio.sleep(DATABASE_WAIT)

    async def gather(self) -> None:
        """Wait a moment for more arrivals, unless every claimed call has arrived."""
        self.all_arrived.clear()
        if self.ended or len(self.arrived) == self.open:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                await self.all_arrived.wait()

    async def watch(self) -> None:
        """Notice a pause, a cancel or another holder within half a second."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self.paused = await self.client.paused()
            state = await self.look()
            if state != Run.State.RUNNING:
                self.stop()
            elif stop_requested.is_set() and self.stopped_at is None:
                self.worker_ends = True
                self.stop()
            elif self.stopped_at is None:
                await self.share()
            self.report(self)
            if self.stopped_at is not None and (state is None or self.out_of_patience):
                self.abandon()

    async def share(self) -> None:
        """Agree with the other workers on who has how many calls in flight, and keep house."""
        try:
            places, self.workers = await self.in_thread(self.store.places, self.client.in_use)
            await self.in_thread(self.store.keep_house)
        except DATABASE_AWAY as error:
            self.miss_database(error)
            return
        if places != self.places:
            self.places = min(places, self.concurrency)
            self.client.allow(self.places)
            self.something_written.set()

    async def look(self) -> str | None:
        """Return the state of the run; `running` while the database is away."""
        try:
            return await self.in_thread(self.store.look, self.standing())
        except DATABASE_AWAY as error:
            self.miss_database(error)
            return Run.State.RUNNING

    def stop(self) -> None:
        """Send nothing more."""
        if self.stopped_at is None:
            self.stopped_at = time.monotonic()
        self.limiter.stopped.set()
        self.something_written.set()

    @property
    def out_of_patience(self) -> bool:
        waited = time.monotonic() - (self.stopped_at or time.monotonic())
        patience = max(LEAST_PATIENCE, 2 * self.longest)
        # A worker that was asked to end is killed soon after this time.
        return waited > (settings.FAIRJUDGE_STOP_SECONDS if self.worker_ends else patience)

    def abandon(self) -> None:
        """Cut off calls in flight. They become lost, and a resume asks them again."""
        self.stop()
        for sending in self.sending:
            sending.cancel()

    def interrupt(self) -> None:
        """Pause on Ctrl-C; when pressed again, cut off calls in flight."""
        if self.stopped_at is not None:
            self.abandon()
            return
        self.stop()
        self.pausing = asyncio.ensure_future(
            self.in_thread(lifecycle.pause, self.store.run, INTERRUPTED)
        )

    def standing(self) -> PumpStatus:
        left = self.paused.seconds
        ends = timezone.now() + timedelta(seconds=round(left))
        until = ends.replace(microsecond=0) if left else None
        return PumpStatus(self.client.under_way, self.client.concurrency, until, self.paused.why)
