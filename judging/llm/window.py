"""How many requests may be under way: starts at the limit, halves on a refusal, grows again."""

import asyncio
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A place under way; `epoch` counts the halvings before it was taken."""

    epoch: int


class Window:
    """Starts wide open. Slow start comes only after a first refusal.

    One burst of refusals halves the window once: refusals of requests that left before the last
    halving say nothing new. After it, each success opens one more place, up to the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = limit
        self.in_use = 0
        self.epoch = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> Place:
        if self.in_use >= self.size or self._waiting:
            await self._turn()
        else:
            self.in_use += 1
        return Place(self.epoch)

    def give_back(self) -> None:
        self.in_use -= 1
        self._admit()

    def succeeded(self) -> None:
        if self.size < self.limit:
            self.size += 1
            self._admit()

    def refused(self, place: Place) -> None:
        if place.epoch == self.epoch:
            self.size = max(1, self.size // 2)
            self.epoch += 1

    async def _turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def _admit(self) -> None:
        while self._waiting and self.in_use < self.size:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)
