"""How long a server asks its callers to stay away, in any of the forms that servers use."""

import asyncio
import random
import re
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from judging.llm.client.errors import AttemptFailure, CallFailure, FailureKind
from judging.llm.client.limits import GaveUp
from judging.llm.client.messages import Reply

LONGEST_PAUSE = 120.0
UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6}
SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|us|µs|d|h|m|s)")
# As in "Please try again in 1m30s" and "Retry after 10 seconds".
STATED = re.compile(
    r"(?:try again|retry)(?: after| in) (\d[\d.]*(?:\s?(?:ms|[hms])[\d.]*)*)", re.IGNORECASE
)
# Larger numbers are moments: seconds or milliseconds since 1970.
EPOCH_SECONDS = 1e9
EPOCH_MILLISECONDS = 1e12


def asked_wait(
    headers: Mapping[str, str], message: str = "", now: float | None = None
) -> float | None:
    """Seconds until the server wants to be asked again, capped; None when it doesn't say."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    now = time.time() if now is None else now
    wait = _retry_after(lower, now)
    if wait is None:
        wait = _window_reset(lower, now)
    if wait is None and (stated := STATED.search(message)):
        wait = duration(stated[1].replace(" ", "").rstrip("."), now)
    return None if wait is None else min(max(wait, 0.0), LONGEST_PAUSE)


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    # A date is in the server's time: its own clock, when it tells it, is the one to compare with.
    server_now = _moment(headers.get("date", "")) or now
    return duration(value, server_now)


def _window_reset(headers: Mapping[str, str], now: float) -> float | None:
    """The reset of the exhausted limit; of the nearest one when the server doesn't say which."""
    resets: dict[str, float] = {}
    for name, value in headers.items():
        match = re.fullmatch(r"(?:x-|anthropic-)?ratelimit-(?:(.+)-)?reset(?:-(.+))?", name)
        wait = duration(value, now) if match else None
        if match and wait is not None:
            resets[match[1] or match[2] or ""] = wait
    exhausted = [wait for limit, wait in resets.items() if _remaining(headers, limit) == 0]
    if exhausted:
        return max(exhausted)
    return min(resets.values(), default=None)


def _remaining(headers: Mapping[str, str], limit: str) -> float | None:
    names = (
        f"x-ratelimit-remaining-{limit}" if limit else "x-ratelimit-remaining",
        f"anthropic-ratelimit-{limit}-remaining",
        f"ratelimit-remaining-{limit}" if limit else "ratelimit-remaining",
    )
    return next((n for name in names if (n := _number(headers.get(name))) is not None), None)


def duration(value: str, now: float) -> float | None:
    """Read `7`, `1.5`, `1m30s`, `20ms`, an HTTP or ISO date, or a moment since 1970."""
    number = _number(value)
    if number is not None:
        if number >= EPOCH_MILLISECONDS:
            return number / 1000 - now
        return number - now if number >= EPOCH_SECONDS else number
    spans = SPAN.findall(value)
    if spans and SPAN.sub("", value).strip() == "":
        return sum(float(amount) * UNITS[unit] for amount, unit in spans)
    moment = _moment(value)
    return None if moment is None else moment - now


def _number(value: str | None) -> float | None:
    if value is None or re.fullmatch(r"\d{1,20}(\.\d{1,20})?", value.strip()) is None:
        return None
    return float(value)


def _moment(value: str) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(value)
        except (ValueError, TypeError, IndexError):
            continue
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`deadline` bounds a call from its first request on, waits included; `request` each try.

    A rate limit is waited out as long as the deadline lasts; other troubles get `tries` requests,
    and a reply that can't be read, which may have been billed, gets `unread_tries`.
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
        """Exponential, between half and the whole of the step, so that callers spread out."""
        step = min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 30))
        return step * (0.5 + draw / 2)


@dataclass(slots=True)
class Patience:
    """One call's clock and tally. The clock starts when its first request leaves."""

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
        """Seconds before the next request, or None to give up."""
        self.failures[failure.kind] += 1
        self.possibly_billed += failure.possibly_billed
        if not failure.kind.worth_repeating:
            return None
        tries = self.policy.tries_of(failure.kind)
        if tries is not None and self.failures[failure.kind] >= tries:
            return None
        wait = self.policy.backoff(self.failures[failure.kind], random.random())
        if failure.kind is not FailureKind.RATE_LIMIT:
            # A rate limit's wait is everybody's, and is waited for before the next request.
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
        )


async def persist(
    attempt: Callable[[Patience], Awaitable[Reply | AttemptFailure]], policy: RetryPolicy
) -> Reply | CallFailure:
    """Attempt until there is a reply, a failure that repeating can't mend, or no time left."""
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
    while True:
        outcome = await attempt(patience)
        if not isinstance(outcome, AttemptFailure):
            return outcome
        wait = patience.wait_after(outcome)
        if wait is None:
            return outcome
        await asyncio.sleep(wait)


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
