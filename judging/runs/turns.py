"""An endpoint's limits with a stop: whoever waits for a turn when the run stops gives up."""

import asyncio
from typing import Any

from judging.llm.limits import GaveUp, Limits, Pause, SharedLimits
from judging.runs.departures import Departures


class Stopped(GaveUp):
    """The run stopped before this request's turn came."""


class StoppableLimits:
    """Waits in place of the client, so that nothing more is sent after the stop.

    `sent` holds the calls that have had a turn: only these, cut off, may have been billed.
    """

    def __init__(self, limits: SharedLimits, departures: Departures) -> None:
        self.limits = limits
        self.departures = departures
        self.stopped = asyncio.Event()
        self.calls: dict[asyncio.Task[Any], int] = {}
        self.sent: set[int] = set()

    def expect(self, task: asyncio.Task[Any], call_id: int) -> None:
        """The task is to send the call."""
        self.calls[task] = call_id

    def ended(self, task: asyncio.Task[Any]) -> bool:
        """The task is over; whether it had a turn."""
        call_id = self.calls.pop(task)
        had_a_turn = call_id in self.sent
        self.sent.discard(call_id)
        return had_a_turn

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
                wait = (await self.limits.paused()).seconds
        if self.stopped.is_set():
            raise Stopped
        self.note_departure()
        return 0.0

    def note_departure(self) -> None:
        task = asyncio.current_task()
        call_id = self.calls.get(task) if task else None
        if call_id is not None and call_id not in self.sent:
            self.departures.add(call_id)
            self.sent.add(call_id)

    async def settle(self, limits: Limits, unused_tokens: int) -> None:
        await self.limits.settle(limits, unused_tokens)

    async def pause(self, seconds: float, why: str = "") -> None:
        await self.limits.pause(seconds, why)

    async def paused(self) -> Pause:
        return await self.limits.paused()

    async def close(self) -> None:
        await self.limits.close()
