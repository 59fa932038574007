"""An endpoint's limits with a stop: whoever waits for a turn when the run stops gives up."""

import asyncio

from judging.llm.limits import GaveUp, Limits, Pause, SharedLimits


class Stopped(GaveUp):
    """The run stopped before this request's turn came."""


class StoppableLimits:
    """Waits in place of the client, so that nothing more is sent after the stop.

    `sent` holds the tasks that have had a turn: only these, cut off, may have been billed.
    """

    def __init__(self, limits: SharedLimits) -> None:
        self.limits = limits
        self.stopped = asyncio.Event()
        self.sent: set[asyncio.Task[object] | None] = set()

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
        self.sent.add(asyncio.current_task())
        return 0.0

    async def settle(self, limits: Limits, unused_tokens: int) -> None:
        await self.limits.settle(limits, unused_tokens)

    async def pause(self, seconds: float, why: str = "") -> None:
        await self.limits.pause(seconds, why)

    async def paused(self) -> Pause:
        return await self.limits.paused()

    async def close(self) -> None:
        await self.limits.close()
