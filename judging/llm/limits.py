"""What an endpoint may be asked: its limits, and the memory that its callers share."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

SECONDS_PER_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests under way at most, and requests and tokens a minute where they are bounded."""

    concurrency: int = 8
    rpm: int | None = None
    tpm: int | None = None

    def __post_init__(self) -> None:
        for value in (self.concurrency, self.rpm, self.tpm):
            if value is not None and value < 1:
                raise ValueError("A limit is at least 1.")


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds for which everybody stays away from the endpoint, and what it said."""

    seconds: float = 0.0
    why: str = ""


class GaveUp(Exception):
    """Whoever shares the limits sends nothing more; raised in place of a turn.

    So many of the call's requests before were cut off, and may have been billed.
    """

    possibly_billed = 0


class SharedLimits(Protocol):
    """One endpoint's pause, its place in the minute and its refusals, common to all who ask it."""

    @property
    def halvings(self) -> int:
        """How often callers had halved their windows when the last request was booked."""

    async def halve(self, seen: int) -> int:
        """A request was refused that left when so many halvings were known; how many are now.

        It makes one more unless somebody has halved since: one burst halves once.
        """

    async def reserve(self, limits: Limits, tokens: int) -> float:
        """Book one request of so many tokens; seconds until it may be sent."""

    async def settle(self, limits: Limits, unused_tokens: int) -> None:
        """Give back tokens that were booked and not used."""

    async def pause(self, seconds: float, why: str = "") -> None:
        """Keep everybody away; a shorter pause never cuts a longer one."""

    async def paused(self) -> Pause:
        """The pause that is left, if any."""

    async def close(self) -> None: ...


class ProcessLimits:
    """The shared memory of one process.

    Requests are spaced evenly: at R a minute one leaves every 60/R seconds, so that no window of a
    minute ever holds more than R. A request of T tokens likewise takes up T × 60/TPM seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paused_until = 0.0
        self._why = ""
        self.halvings = 0
        self._next_request = 0.0
        self._next_token = 0.0

    async def halve(self, seen: int) -> int:
        self.halvings += seen == self.halvings
        return self.halvings

    async def reserve(self, limits: Limits, tokens: int) -> float:
        now = self._clock()
        start = max(now, self._paused_until)
        if limits.rpm:
            start = max(start, self._next_request)
        if limits.tpm:
            start = max(start, self._next_token)
        if limits.rpm:
            self._next_request = start + SECONDS_PER_MINUTE / limits.rpm
        if limits.tpm:
            self._next_token = start + tokens * SECONDS_PER_MINUTE / limits.tpm
        return start - now

    async def settle(self, limits: Limits, unused_tokens: int) -> None:
        if limits.tpm:
            given_back = unused_tokens * SECONDS_PER_MINUTE / limits.tpm
            self._next_token = max(self._clock(), self._next_token - given_back)

    async def pause(self, seconds: float, why: str = "") -> None:
        until = self._clock() + seconds
        if until > self._paused_until:
            self._paused_until, self._why = until, why

    async def paused(self) -> Pause:
        left = self._paused_until - self._clock()
        return Pause(left, self._why) if left > 0 else Pause()

    async def close(self) -> None:
        """Nothing is held open."""
