"""One site and one token: what is asked again, after how long, and what is known already.

A request is repeated if no answer came, or if the site says that it can't answer now. A repeated
POST has the same idempotency key and the same body, so that the site does nothing twice.
"""

import json
import random
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeVar
from urllib.parse import urlencode
from uuid import uuid4

from fairjudge_client.errors import NotUnderstood, Unreachable, WaitTimeout, problem_of
from fairjudge_client.models import FieldError, Page
from fairjudge_client.reading import NotReadable, plain, read
from fairjudge_client.steps import (
    Call,
    Give,
    Lost,
    Pause,
    Read,
    Reply,
    Rows,
    Send,
    Steps,
    Work,
)
from fairjudge_client.tables import Upload

T = TypeVar("T")

# Rows of a page of a list.
MOST_ROWS = 1000
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 20.0
# Before a table that broke off is asked for once more.
TABLE_PAUSE = 1.0
# Longer than this the site's `Retry-After` isn't waited for.
LONGEST_RETRY_AFTER = 120.0
_TRY_LATER = (429, 502, 503, 504)
# What servers and proxies say before the site hears of a request.
_WITHOUT_REASON = {
    413: ("too_large", "This is larger than the site accepts. Nothing was changed. Send parts."),
    429: ("too_many_requests", "There were too many requests. Nothing was changed."),
}
# Bytes of answers that are kept for their ETag, the latest ones.
_MOST_KEPT = 8 * 2**20


@dataclass(frozen=True)
class _Kept:
    etag: str
    body: bytes


class Session(ABC):
    """Takes the steps of methods. The two kinds of it are in `transport`.

    Args:
        retries: How often a request is repeated, at most.
        frames: Which DataFrames tables are: pandas, polars or arrow.
        progress: Whether waiting shows a line; None: on a terminal and in a notebook.
    """

    def __init__(self, *, retries: int, frames: str | None, progress: bool | None) -> None:
        self.retries, self.frames, self.progress = retries, frames, progress
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = Lock()
        self._has_answered = False

    @abstractmethod
    def take(self, steps: Steps[T]) -> Any:
        """Take all steps. Return the outcome, or something to await for it."""

    @abstractmethod
    def rows(self, steps: Rows[T]) -> Any:
        """Return an iterator of what the steps give."""

    @abstractmethod
    def without_token(self, text: str) -> str:
        """Return the text with the token blackened."""

    def ask(self, call: Call[T], within: float | None = None) -> Steps[T]:
        """Send the request of a call, as often as needed, and return what it answers.

        Args:
            within: Seconds to wait for an answer that isn't ready yet.
        """
        if call.rows is None:
            has_body = call.body is not None
            content = json.dumps(call.body, default=plain, allow_nan=False) if has_body else ""
            reply = yield from self._answered(call, content.encode() or None, within)
            return self._read(call, reply)
        upload = Upload(call.rows)
        try:
            yield Work(upload.prepare)
            reply = yield from self._answered(call, upload, within)
        finally:
            upload.close()
        return self._read(call, reply)

    def opened(self, call: Call[Any]) -> Steps[Reply]:
        """Send the request of a call and leave its answer open to be read, if its status is 200."""
        return (yield from self._exchange(_request(call, None, is_streamed=True)))

    def _answered(
        self, call: Call[Any], content: "bytes | Upload | None", within: float | None
    ) -> Steps[Reply]:
        request = _request(call, content)
        until = None if within is None else time.monotonic() + within
        while True:
            reply = yield from self._exchange(request)
            if reply.status != 202 or call.method != "GET":
                return reply
            pause = _retry_after(reply.headers) or FIRST_PAUSE
            if until is not None and time.monotonic() + pause > until:
                raise WaitTimeout("This is still being computed. Ask again later.", state="202")
            yield Pause(pause)

    def _exchange(self, request: Send) -> Steps[Reply]:
        """Return the first answer that counts. Repeat the request until there is one.

        Raises:
            Unreachable: No answer came.
            Problem: The site refuses, or still can't answer.
        """
        kept = self._known(request)
        if kept is not None:
            request = _with_header(request, "If-None-Match", kept.etag)
        attempt = 0
        while True:
            attempt += 1
            try:
                reply: Reply = yield request
            except Lost as lost:
                # A name that is misspelt stays misspelt. A site that answered will be back.
                most = self.retries if lost.was_sent or self._has_answered else 1
                if attempt > most:
                    raise self._unreachable(str(lost), attempt) from None
                yield Pause(_pause(attempt))
                continue
            self._has_answered = True
            wait = self._wait_before_repeating(request, reply, attempt)
            if wait is None:
                return self._counted(request, reply, kept)
            yield Pause(wait)

    def _wait_before_repeating(self, request: Send, reply: Reply, attempt: int) -> float | None:
        if attempt > self.retries:
            return None
        if reply.status in _TRY_LATER:
            asked = _retry_after(reply.headers)
            if asked is None:
                return _pause(attempt)
            return asked if asked <= LONGEST_RETRY_AFTER else None
        # The key is ours alone: if the site has it from an attempt before, that one is under way.
        is_under_way = reply.status == 409 and attempt > 1 and "Idempotency-Key" in request.headers
        if is_under_way and _problem(reply).get("code") == "idempotency_key_reused":
            return _pause(attempt)
        return None

    def _counted(self, request: Send, reply: Reply, kept: _Kept | None) -> Reply:
        if reply.status == 304 and kept is not None:
            return Reply(200, reply.headers, kept.body)
        if reply.status >= 400:
            raise self._problem_of(reply)
        if reply.status >= 300:
            target = reply.headers.get("location", "")
            raise NotUnderstood(
                self.without_token(
                    f"The site sends you to {target or 'another address'}. The token isn't sent "
                    "there. Give that address as the URL if you trust it."
                ),
                status=reply.status,
            )
        is_whole = request.method == "GET" and not request.is_streamed and reply.status == 200
        if is_whole and "etag" in reply.headers:
            with self._lock:
                self._kept[request.path] = _Kept(reply.headers["etag"], reply.body)
                self._kept.move_to_end(request.path)
                size = sum(len(one.body) for one in self._kept.values())
                while size > _MOST_KEPT:
                    size -= len(self._kept.popitem(last=False)[1].body)
        return reply

    def _known(self, request: Send) -> _Kept | None:
        if request.method != "GET" or request.is_streamed:
            return None
        with self._lock:
            return self._kept.get(request.path)

    def _problem_of(self, reply: Reply) -> Exception:
        problem = _problem(reply)
        wait = _retry_after(reply.headers)
        if not isinstance(problem.get("code"), str):
            if reply.status in _WITHOUT_REASON:
                code, said = _WITHOUT_REASON[reply.status]
                return problem_of(reply.status, code, said, retry_after=wait)
            said = f"The site answered with status {reply.status} and no reason that can be read."
            if reply.status < 500:
                said += " Is the URL that of a FairJudge site?"
            if reply.status in _TRY_LATER or reply.status >= 500:
                return problem_of(reply.status, "unavailable", said, retry_after=wait)
            return NotUnderstood(said, status=reply.status)
        errors: list[FieldError] = []
        with suppress(NotReadable):
            errors = read(list[FieldError], problem.get("errors") or [])
        return problem_of(
            reply.status,
            problem["code"],
            self.without_token(str(problem.get("detail", ""))),
            field=problem.get("field"),
            errors=errors,
            retry_after=wait,
        )

    def _unreachable(self, reason: str, attempts: int) -> Unreachable:
        times = "once" if attempts == 1 else f"{attempts} times"
        return Unreachable(
            self.without_token(f"The site didn't answer, although it was asked {times}: {reason}.")
        )

    def _read(self, call: Call[T], reply: Reply) -> T:
        if call.answer is None:
            return reply.body  # type: ignore[return-value]
        try:
            answer: T = read(call.answer, json.loads(reply.body))
        except (ValueError, NotReadable) as error:
            raise NotUnderstood(
                f"The answer of {call.operation} isn't one of FairJudge's: {error}. Is the URL "
                "that of a FairJudge site?",
                status=reply.status,
            ) from None
        return answer


def pages(
    session: Session,
    call_at: Callable[[str], Call[Page[Any]]],
    made: Callable[[Any], T] = lambda row: row,
) -> Rows[T]:
    """Hand out a list page by page.

    Args:
        call_at: Returns the request of the page at a cursor.
        made: Turns a row of the answer into what is handed out.
    """
    cursor = ""
    while True:
        page = yield from session.ask(call_at(cursor))
        yield Give([made(row) for row in page.items])
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


BROKEN_OFF = "broken_off"
# The last bytes of a whole file, of this number. A ZIP's, without a comment, begin with the mark.
_LAST = 22
_ENDS: dict[str, Callable[[bytes], bool]] = {
    "parquet": lambda last: last.endswith(b"PAR1"),
    "arrow": lambda last: last.endswith(b"ARROW1"),
    **dict.fromkeys(("xlsx", "zip"), lambda last: last.startswith(b"PK\x05\x06")),
}


# Given the body of a 202, waits for the worker and returns the request of the file.
Left = Callable[[bytes], Steps[Call[Any]]]


def saved(session: Session, call: Call[Any], target: Path, left: Left | None = None) -> Steps[Path]:
    """Write a whole answer to a file, or leave the file as it was."""
    partial = target.with_name(f"{target.name}.part")
    try:
        with partial.open("wb") as file:
            kind = target.suffix.lower().removeprefix(".")
            yield from written(session, call, file, kind, left)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def written(
    session: Session, call: Call[Any], file: IO[bytes], kind: str, left: Left | None = None
) -> Steps[None]:
    """Write a whole answer to an open file. If it breaks off, begin again."""
    is_whole = _ENDS.get(kind)
    for is_last in attempts(session):
        file.seek(0)
        file.truncate()
        try:
            reply = yield from session.opened(call)
            if reply.status == 202 and left is not None:
                call = yield from left(reply.body)
                yield from session.opened(call)
            last = b""
            while piece := (yield Read()):
                file.write(piece)
                last = (last + piece)[-_LAST:]
            if is_whole is None or is_whole(last):
                return
            # A proxy in between may end an answer as if it were whole.
            raise Lost("its end is missing", was_sent=True)
        except Lost as lost:
            if is_last:
                raise broken_off(lost) from None
        yield Pause(TABLE_PAUSE)


def attempts(session: Session) -> Iterator[bool]:
    """Yield once for each attempt at a whole file, and whether it is the last one."""
    return (n == session.retries for n in range(session.retries + 1))


def broken_off(lost: Lost) -> Unreachable:
    return Unreachable(
        f"The table broke off before its end ({lost}). Ask for it again.", code=BROKEN_OFF
    )


def _request(
    call: Call[Any], content: "bytes | Upload | None", *, is_streamed: bool = False
) -> Send:
    headers: dict[str, str] = {**call.headers}
    if call.method != "GET":
        headers["Idempotency-Key"] = call.key or uuid4().hex
    if isinstance(content, Upload):
        headers |= {"Content-Type": content.content_type, "Content-Length": str(content.size)}
    elif content is not None:
        headers["Content-Type"] = "application/json"
    query = [pair for name, value in call.query.items() for pair in _in_query(name, value)]
    path = f"{call.path}?{urlencode(query)}" if query else call.path
    return Send(call.method, path, headers, content, is_streamed)


def _in_query(name: str, value: Any) -> Iterator[tuple[str, str]]:
    values = value if isinstance(value, list | tuple) else [value]
    for one in values:
        if one is not None:
            yield name, str(one).lower() if isinstance(one, bool) else str(one)


def _with_header(request: Send, name: str, value: str) -> Send:
    headers = {**request.headers, name: value}
    return Send(request.method, request.path, headers, request.content, request.is_streamed)


def _problem(reply: Reply) -> Mapping[str, Any]:
    try:
        found = json.loads(reply.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _pause(attempt: int) -> float:
    """Return seconds that double with each attempt, spread so that clients don't come at once."""
    longest = min(FIRST_PAUSE * 2.0 ** (attempt - 1), LONGEST_PAUSE)
    return longest * random.uniform(0.5, 1.0)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
