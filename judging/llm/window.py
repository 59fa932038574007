"""How many requests may be under way: starts at the limit, halves on a refusal, grows again."""

import asyncio
from collections import deque


class Window:
    """Starts wide open. Slow start comes only after a first refusal.

    All who ask an endpoint count its refusals together, and each halves its window when the count
    has grown. After that each success opens one more place, up to the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = limit
        self.in_use = 0
        self._halvings: int | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    def follow(self, halvings: int) -> None:
        """Halve where somebody has since the last look; what was before the first one is past."""
        if self._halvings is not None and halvings > self._halvings:
            self.size = max(1, self.size // 2)
        self._halvings = halvings

    async def take(self) -> None:
        if self.in_use >= self.size or self._waiting:
            await self._turn()
        else:
            self.in_use += 1

    def give_back(self) -> None:
        self.in_use -= 1
        self._admit()

    def succeeded(self) -> None:
        if self.size < self.limit:
            self.size += 1
            self._admit()

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
