"""Waiting for work that takes long: asked about seldom, with a line that says how far it is."""

import time
from collections.abc import Callable
from typing import TypeVar

from fairjudge_client.errors import NotFinished, WaitTimeout
from fairjudge_client.progress import Progress
from fairjudge_client.session import Session
from fairjudge_client.steps import Call, Pause, Steps

T = TypeVar("T")

FIRST, LONGEST, GROWTH = 0.5, 5.0, 1.3


def waited(
    session: Session,
    call: Call[T],
    name: str,
    *,
    has_ended: Callable[[T], bool],
    show: Callable[[Progress, T], None],
    timeout: float | None,
    progress: bool | None,
) -> Steps[T]:
    """Ask until the work has ended, and return its last standing.

    An unchanged standing comes without a body, since the site compares its ETag.

    Raises:
        WaitTimeout: It goes on after `timeout` seconds.
    """
    until = None if timeout is None else time.monotonic() + timeout
    pause = FIRST
    with Progress(session.progress if progress is None else progress) as line:
        while True:
            standing = yield from session.ask(call)
            show(line, standing)
            if has_ended(standing):
                return standing
            left = LONGEST if until is None else until - time.monotonic()
            if left <= 0:
                state = str(getattr(standing, "state", ""))
                raise WaitTimeout(
                    f"The {name} is still {state} after {timeout:g} s. It goes on. Wait again, or "
                    "look at it later.",
                    state=state,
                )
            yield Pause(min(pause, left))
            pause = min(pause * GROWTH, LONGEST)


def other_end(what: str, state: str, reason: str) -> NotFinished:
    said = f"{what} is {state}" + (f": {reason}" if reason else ".")
    return NotFinished(said, state=state, reason=reason)
