"""What an endpoint may be asked: its limits, and the memory that its callers share."""

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.exceptions import RedisError

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


logger = logging.getLogger(__name__)

# Redis's own clock counts, in microseconds, so that the workers' clocks need not agree.
NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function moment(key) return tonumber(redis.call('GET', key) or '0') end
local function keep(key, at)
  if at > now then
    redis.call('SET', key, string.format('%.0f', at), 'PX', math.ceil((at - now) / 1000) + 1000)
  end
end
"""
# KEYS: pause, requests, tokens, halvings. ARGV: microseconds that a request and its tokens take.
RESERVE = (
    NOW
    + """
local request, tokens = tonumber(ARGV[1]), tonumber(ARGV[2])
local start = math.max(now, moment(KEYS[1]))
if request > 0 then start = math.max(start, moment(KEYS[2])) end
if tokens > 0 then start = math.max(start, moment(KEYS[3])) end
if request > 0 then keep(KEYS[2], start + request) end
if tokens > 0 then keep(KEYS[3], start + tokens) end
return {start - now, moment(KEYS[4])}
"""
)
# KEYS: tokens. ARGV: microseconds to give back.
SETTLE = (
    NOW
    + """
local at = moment(KEYS[1])
if at > now then redis.call('SET', KEYS[1], string.format('%.0f', math.max(now, at - ARGV[1])),
  'KEEPTTL') end
return 0
"""
)
# KEYS: pause, why. ARGV: microseconds to pause for, and what the endpoint said.
PAUSE = (
    NOW
    + """
local at = now + ARGV[1]
if at > moment(KEYS[1]) then
  keep(KEYS[1], at)
  redis.call('SET', KEYS[2], ARGV[2], 'PX', math.ceil(ARGV[1] / 1000) + 1000)
end
return 0
"""
)
# KEYS: pause, why.
PAUSED = (
    NOW
    + """
return {math.max(0, moment(KEYS[1]) - now), redis.call('GET', KEYS[2]) or ''}
"""
)
# KEYS: halvings. ARGV: those that were known when the refused request left, milliseconds to keep.
HALVE = """
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count == tonumber(ARGV[1]) then
  count = count + 1
  redis.call('SET', KEYS[1], count, 'PX', ARGV[2])
end
return count
"""
# Later than any call ends, so that no worker takes an old refusal for a new one.
REMEMBERED_MS = 6 * 3600 * 1000
MICRO = 1_000_000


class RedisLimits:
    """One endpoint's pause, its requests and tokens a minute and its refusals, for all workers.

    Where Redis can't be reached, this worker goes on with its own memory: a rate limit that is
    not shared costs refusals, and a run that stops costs the run.
    """

    def __init__(self, url: str, base_url: str) -> None:
        name = hashlib.sha256(base_url.encode()).hexdigest()[:16]
        self._pause, self._requests, self._tokens, self._halvings, self._why = (
            f"fairjudge:{name}:{what}"
            for what in ("pause", "requests", "tokens", "halvings", "why")
        )
        self._redis = Redis.from_url(
            url, socket_timeout=2.0, socket_connect_timeout=2.0, decode_responses=True
        )
        self._alone = ProcessLimits()
        self._warned = False
        self.halvings = 0

    async def halve(self, seen: int) -> int:
        count = await self._run(HALVE, [self._halvings], seen, REMEMBERED_MS)
        if count is None:
            # Alone, this worker goes on from the last count that it knew.
            self.halvings += seen == self.halvings
        else:
            self.halvings = int(count)
        return self.halvings

    async def reserve(self, limits: Limits, tokens: int) -> float:
        alone = await self._alone.reserve(limits, tokens)
        request_span = SECONDS_PER_MINUTE / limits.rpm if limits.rpm else 0.0
        token_span = tokens * SECONDS_PER_MINUTE / limits.tpm if limits.tpm else 0.0
        keys = [self._pause, self._requests, self._tokens, self._halvings]
        answer = await self._run(RESERVE, keys, micro(request_span), micro(token_span))
        if answer is None:
            return alone
        wait, self.halvings = answer
        return int(wait) / MICRO

    async def settle(self, limits: Limits, unused_tokens: int) -> None:
        await self._alone.settle(limits, unused_tokens)
        if limits.tpm:
            given_back = unused_tokens * SECONDS_PER_MINUTE / limits.tpm
            await self._run(SETTLE, [self._tokens], micro(given_back))

    async def pause(self, seconds: float, why: str = "") -> None:
        await self._alone.pause(seconds, why)
        await self._run(PAUSE, [self._pause, self._why], micro(seconds), why)

    async def paused(self) -> Pause:
        alone = await self._alone.paused()
        answer = await self._run(PAUSED, [self._pause, self._why])
        if answer is None:
            return alone
        left, why = answer
        return Pause(int(left) / MICRO, why) if int(left) > 0 else Pause()

    async def close(self) -> None:
        await self._redis.aclose()

    async def _run(self, script: str, keys: list[str], *values: int | str) -> Any:
        """The script's answer, or None where Redis can't be reached."""
        try:
            return await self._redis.eval(script, len(keys), *keys, *map(str, values))
        except (RedisError, OSError) as error:
            if not self._warned:
                logger.warning("Redis can't be reached; limits are not shared: %s", error)
                self._warned = True
            return None


def micro(seconds: float) -> int:
    return round(seconds * MICRO)
