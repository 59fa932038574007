"""When a request may be sent, and when it is sent again. Nothing else waits for an endpoint.

- `persist` and `insist` repeat a call by a `RetryPolicy`; the SDK's own retries are off.
- `Window` bounds the requests under way: it halves after a refusal, and grows again.
- `SharedLimits` is what all callers of one endpoint have in common: a pause, the requests and
  tokens of the minute, and the refusals. `ProcessLimits` keeps it for one process, `RedisLimits`
  for all workers, in the Redis that carries their queue.
"""

import asyncio
import hashlib
import logging
import random
import resource
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from judging.llm.client.errors import AttemptFailure, CallFailure, FailureKind, asked_wait
from judging.llm.client.messages import Reply

logger = logging.getLogger(__name__)
Result = TypeVar("Result")
SECONDS_PER_MINUTE = 60.0


class GaveUp(Exception):
    """Raised in place of a turn when the owner of the shared limits sends nothing more.

    `possibly_billed` counts the call's earlier requests that were cut off after they were sent.
    """

    possibly_billed = 0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long and how often a call is tried.

    `deadline` bounds a call from its first request on, waits included; `request` bounds each try.
    A call waits for a rate limit as long as the deadline lasts. Other failures get `tries`
    requests. A reply that can't be read may have been billed, so it gets only `unread_tries`.
    """

    deadline: float = 600.0
    request: float = 300.0
    tries: int = 8
    unread_tries: int = 3
    first_wait: float = 0.5
    longest_wait: float = 30.0

    def tries_of(self, kind: FailureKind) -> int | None:
        if kind is FailureKind.RATE_LIMIT:
            return None
        return self.unread_tries if kind is FailureKind.BAD_REPLY else self.tries

    def backoff(self, failures: int, draw: float) -> float:
        """Return an exponential wait, between half and the whole step so that callers spread out.

        Args:
            draw: A random number from 0 to 1.
        """
        step = min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 30))
        return step * (0.5 + draw / 2)


DEFAULT_RETRY = RetryPolicy()


@dataclass(slots=True)
class Patience:
    """One call's clock and its counts. The clock starts when the first request leaves."""

    policy: RetryPolicy
    started: float | None = None
    requests: int = 0
    possibly_billed: int = 0
    failures: Counter[FailureKind] = field(default_factory=Counter)

    def sending(self) -> None:
        self.requests += 1
        if self.started is None:
            self.started = time.monotonic()

    @property
    def elapsed(self) -> float:
        return 0.0 if self.started is None else time.monotonic() - self.started

    @property
    def left(self) -> float:
        return self.policy.deadline - self.elapsed

    def wait_after(self, failure: AttemptFailure) -> float | None:
        """Count the failure. Returns the seconds before the next request, or None to give up."""
        self.failures[failure.kind] += 1
        self.possibly_billed += failure.possibly_billed
        if not failure.kind.worth_repeating:
            return None
        tries = self.policy.tries_of(failure.kind)
        if tries is not None and self.failures[failure.kind] >= tries:
            return None
        wait = self.policy.backoff(self.failures[failure.kind], random.random())
        if failure.kind is not FailureKind.RATE_LIMIT:
            # A rate limit holds for all callers: each waits for it in its turn (SharedLimits).
            wait = max(wait, asked_wait(failure.headers) or 0.0)
        return wait if wait < self.left else None

    def reply(self, reply: Reply) -> Reply:
        return replace(
            reply,
            requests=self.requests,
            possibly_billed=self.possibly_billed,
            duration_ms=round(self.elapsed * 1000),
        )

    def failure(self, failure: AttemptFailure) -> CallFailure:
        return CallFailure(
            kind=failure.kind,
            message=failure.message,
            http_status=failure.http_status,
            requests=self.requests,
            possibly_billed=self.possibly_billed,
            duration_ms=round(self.elapsed * 1000),
            request_id=failure.request_id,
            until=failure.until,
        )


async def persist(
    attempt: Callable[[Patience], Awaitable[Reply | AttemptFailure]], policy: RetryPolicy
) -> Reply | CallFailure:
    """Attempt until there is a reply, a failure that repeating can't cure, or no time left."""
    patience = Patience(policy)
    try:
        outcome = await insist(attempt, patience)
    except GaveUp as stop:
        stop.possibly_billed = patience.possibly_billed
        raise
    if isinstance(outcome, AttemptFailure):
        return patience.failure(outcome)
    return patience.reply(outcome)


async def insist(
    attempt: Callable[[Patience], Awaitable[Result | AttemptFailure]], patience: Patience
) -> Result | AttemptFailure:
    """Attempt like `persist`, for callers that count requests themselves or read other results."""
    while True:
        outcome = await attempt(patience)
        if not isinstance(outcome, AttemptFailure):
            return outcome
        wait = patience.wait_after(outcome)
        if wait is None:
            return outcome
        await asyncio.sleep(wait)


class Window:
    """How many of this client's requests may be under way: all of them, until a refusal.

    All callers of an endpoint count its refusals together, and each halves its window when the
    count has grown. Then each success opens one more place, up to the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = limit
        self.in_use = 0
        self._halvings: int | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    def follow(self, halvings: int) -> None:
        """Halve the window if the count has grown. The first count only sets where to start."""
        if self._halvings is not None and halvings > self._halvings:
            self.size = max(min(1, self.limit), self.size // 2)
        self._halvings = halvings

    def resize(self, limit: int) -> None:
        """Change the limit. A window that refusals have made smaller grows as before."""
        whole = self.size == self.limit
        self.limit = limit
        self.size = limit if whole else min(self.size, limit)
        self._admit()

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
                # The place was given just before the caller was cancelled: pass it on.
                self.give_back()
            raise

    def _admit(self) -> None:
        while self._waiting and self.in_use < self.size:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most requests under way, and the most requests and tokens a minute; None: no bound."""

    concurrency: int = 8
    rpm: int | None = None
    tpm: int | None = None

    def __post_init__(self) -> None:
        for value in (self.concurrency, self.rpm, self.tpm):
            if value is not None and value < 1:
                raise ValueError("A limit is at least 1.")


# The database, the log, the queue, and what modules open while they work.
OTHER_FILES = 100


def room_for(connections: int) -> int:
    """How many connections this process may have open at once, next to its other files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(connections, soft - OTHER_FILES))


@dataclass(frozen=True, slots=True)
class Pause:
    """The seconds for which all callers leave the endpoint alone, and what it said."""

    seconds: float = 0.0
    why: str = ""


class SharedLimits(Protocol):
    """One endpoint's pause, its next place in the minute and its refusals, for all callers."""

    @property
    def halvings(self) -> int:
        """The number of halvings when the last request was booked."""

    async def halve(self, seen: int) -> int:
        """Report a refusal. Returns the number of halvings now.

        Args:
            seen: The number when the refused request left. If another caller has halved since,
                nothing is added, so that one burst of refusals halves once.
        """

    async def reserve(self, limits: Limits, tokens: int) -> float:
        """Book a place for one request. Returns the seconds until it may be sent."""

    async def settle(self, limits: Limits, unused_tokens: int) -> None:
        """Give back tokens that were booked and not used."""

    async def pause(self, seconds: float, why: str = "") -> None:
        """Keep all callers away. A shorter pause never cuts a longer one."""

    async def paused(self) -> Pause:
        """Return the rest of the pause, if there is one."""

    async def close(self) -> None: ...


class ProcessLimits:
    """The shared limits of one process.

    Requests are spaced evenly: at R a minute one leaves every 60/R seconds, so that no minute,
    wherever it begins, holds more than R. A request of T tokens takes up T × 60/TPM seconds.
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
        """Do nothing: limits within the process hold nothing open."""


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
# KEYS: halvings. ARGV: the halvings when the refused request left, milliseconds to keep.
HALVE = """
local count = tonumber(redis.call('GET', KEYS[1]) or '0')
if count == tonumber(ARGV[1]) then
  count = count + 1
  redis.call('SET', KEYS[1], count, 'PX', ARGV[2])
end
return count
"""
# Longer than any call lasts, so that no worker takes an old refusal for a new one.
REMEMBERED_MS = 6 * 3600 * 1000
MICRO = 1_000_000
REDIS_CONNECTIONS = 8
# A busy process is late to see an answer.
REDIS_SECONDS = 5.0
TRY_AGAIN_SECONDS = 2.0


class RedisLimits:
    """The shared limits of all workers.

    If Redis can't be reached, this worker goes on with limits of its own: a rate limit that is
    not shared costs some refusals, and stopping would cost the run.
    """

    def __init__(self, url: str, base_url: str) -> None:
        name = hashlib.sha256(base_url.encode()).hexdigest()[:16]
        self._pause, self._requests, self._tokens, self._halvings, self._why = (
            f"fairjudge:{name}:{what}"
            for what in ("pause", "requests", "tokens", "halvings", "why")
        )
        # The package comes with the extra `postgres`: only a site that uses Redis has it.
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.exceptions import RedisError

        # An ordinary pool fails if more callers ask than it has connections. This one lets them
        # wait, and Redis answers each within a fraction of a millisecond.
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=REDIS_CONNECTIONS,
            socket_timeout=REDIS_SECONDS,
            socket_connect_timeout=REDIS_SECONDS,
            decode_responses=True,
        )
        self._redis = Redis.from_pool(pool)
        self._away_until = 0.0
        self._failure = RedisError
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
        answer = await self._run(RESERVE, keys, _micro(request_span), _micro(token_span))
        if answer is None:
            return alone
        wait, self.halvings = answer
        return int(wait) / MICRO

    async def settle(self, limits: Limits, unused_tokens: int) -> None:
        await self._alone.settle(limits, unused_tokens)
        if limits.tpm:
            given_back = unused_tokens * SECONDS_PER_MINUTE / limits.tpm
            await self._run(SETTLE, [self._tokens], _micro(given_back))

    async def pause(self, seconds: float, why: str = "") -> None:
        await self._alone.pause(seconds, why)
        await self._run(PAUSE, [self._pause, self._why], _micro(seconds), why)

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
        """Return the script's answer, or None if Redis can't be reached."""
        if time.monotonic() < self._away_until:
            return None
        try:
            return await self._redis.eval(script, len(keys), *keys, *map(str, values))
        except (self._failure, OSError) as error:
            # Hundreds of callers must not each find out for themselves.
            self._away_until = time.monotonic() + TRY_AGAIN_SECONDS
            if not self._warned:
                logger.warning("Redis can't be reached; limits are not shared: %s", error)
                self._warned = True
            return None


def _micro(seconds: float) -> int:
    return round(seconds * MICRO)
