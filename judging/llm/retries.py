"""The one place that waits before a request is sent again."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from judging.llm.errors import AttemptFailure, CallFailure, FailureKind
from judging.llm.limits import GaveUp
from judging.llm.replies import Reply
from judging.llm.waits import asked_wait

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
