"""The only code that sends anything: httpx takes the steps of methods, in a thread or a loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from typing import Any, TypeVar

import httpx

from fairjudge_client.session import Session
from fairjudge_client.steps import Give, Lost, Pause, Read, Reply, Rows, Send, Steps, Work
from fairjudge_client.tables import Upload

T = TypeVar("T")

# Seconds for an answer whose request is large or that takes the site long, such as a table.
LONG = 600.0
_BEFORE_SENDING = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol)


class _Bearer(httpx.Auth):
    """Adds the token to requests. Nothing shows it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request

    def without(self, text: str) -> str:
        return text.replace(self._token, "[token]")


class _HttpxSession(Session):
    """What both sessions share: the options of httpx's clients, requests and errors."""

    def __init__(self, url: str, token: str, *, timeout: float, **options: Any) -> None:
        super().__init__(**options)
        self.url = url
        self._bearer, self._timeout = _Bearer(token), timeout

    def __repr__(self) -> str:
        return f"<session at {self.url}>"

    def __reduce__(self) -> Any:
        raise TypeError("A client holds a token, so it can't be pickled. Make one where you are.")

    def without_token(self, text: str) -> str:
        return self._bearer.without(text)

    @property
    def _options(self) -> dict[str, Any]:
        agent = "fairjudge-client (Python)"
        return {
            "base_url": self.url,
            "auth": self._bearer,
            "timeout": httpx.Timeout(self._timeout, pool=None),
            "headers": {"Accept": "application/json, */*;q=0.5", "User-Agent": agent},
            # The token would go wherever the answer says.
            "follow_redirects": False,
        }

    def _arguments(self, step: Send, content: Any) -> dict[str, Any]:
        is_long = step.is_streamed or isinstance(step.content, Upload)
        read = max(LONG, self._timeout) if is_long else self._timeout
        return {
            "method": step.method,
            "url": step.path,
            "headers": dict(step.headers),
            "content": content,
            "timeout": httpx.Timeout(self._timeout, read=read, pool=None),
        }


def _lost(error: httpx.HTTPError | httpx.InvalidURL) -> Lost:
    said = str(error).strip().rstrip(".") or type(error).__name__
    return Lost(said, was_sent=not isinstance(error, _BEFORE_SENDING))


def _reply(response: httpx.Response, body: bytes) -> Reply:
    headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, body)


class BlockingSession(_HttpxSession):
    """Takes steps in the calling thread."""

    def __init__(self, url: str, token: str, **options: Any) -> None:
        super().__init__(url, token, **options)
        self._http = httpx.Client(**self._options)

    def close(self) -> None:
        self._http.close()

    def take(self, steps: Steps[T]) -> T:
        with ExitStack() as held:
            held.callback(steps.close)
            answers = _Blocking(self, held)
            try:
                step = next(steps)
                while True:
                    step = _resumed(steps, *answers.of(step))
            except StopIteration as done:
                outcome: T = done.value
                return outcome

    def rows(self, steps: Rows[T]) -> Iterator[T]:
        with ExitStack() as held:
            held.callback(steps.close)
            answers = _Blocking(self, held)
            try:
                step = next(steps)
                while True:
                    if isinstance(step, Give):
                        yield from step.rows
                        step = next(steps)
                    else:
                        step = _resumed(steps, *answers.of(step))
            except StopIteration:
                return


class _Blocking:
    """The outcomes of the steps of one method, and the answer that it reads piece by piece."""

    def __init__(self, session: BlockingSession, held: ExitStack) -> None:
        self._session, self._held = session, held
        self._pieces: Iterator[bytes] = iter(())

    def of(self, step: Any) -> tuple[Any, Lost | None]:
        try:
            return self._outcome(step), None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return None, _lost(error)

    def _outcome(self, step: Any) -> Any:
        match step:
            case Send():
                return self._send(step)
            case Read():
                return next(self._pieces, b"")
            case Pause():
                return time.sleep(step.seconds)
            case Work():
                return step.function()

    def _send(self, step: Send) -> Reply:
        content = step.content.pieces() if isinstance(step.content, Upload) else step.content
        stream = self._session._http.stream(**self._session._arguments(step, content))
        if not step.is_streamed:
            with stream as response:
                return _reply(response, response.read())
        response = self._held.enter_context(stream)
        if response.status_code != 200:
            return _reply(response, response.read())
        self._pieces = response.iter_bytes()
        return _reply(response, b"")


class AwaitingSession(_HttpxSession):
    """Takes steps in the running loop."""

    def __init__(self, url: str, token: str, **options: Any) -> None:
        super().__init__(url, token, **options)
        self._http = httpx.AsyncClient(**self._options)

    async def close(self) -> None:
        await self._http.aclose()

    async def take(self, steps: Steps[T]) -> T:
        async with AsyncExitStack() as held:
            held.callback(steps.close)
            answers = _Awaiting(self, held)
            try:
                step = next(steps)
                while True:
                    step = _resumed(steps, *await answers.of(step))
            except StopIteration as done:
                outcome: T = done.value
                return outcome

    async def rows(self, steps: Rows[T]) -> AsyncIterator[T]:
        async with AsyncExitStack() as held:
            held.callback(steps.close)
            answers = _Awaiting(self, held)
            try:
                step = next(steps)
                while True:
                    if isinstance(step, Give):
                        for row in step.rows:
                            yield row
                        step = next(steps)
                    else:
                        step = _resumed(steps, *await answers.of(step))
            except StopIteration:
                return


class _Awaiting:
    """The same in a loop."""

    def __init__(self, session: AwaitingSession, held: AsyncExitStack) -> None:
        self._session, self._held = session, held
        self._pieces: AsyncIterator[bytes] | None = None

    async def of(self, step: Any) -> tuple[Any, Lost | None]:
        try:
            return await self._outcome(step), None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return None, _lost(error)

    async def _outcome(self, step: Any) -> Any:
        match step:
            case Send():
                return await self._send(step)
            case Read():
                return await anext(self._pieces, b"") if self._pieces else b""
            case Pause():
                return await asyncio.sleep(step.seconds)
            case Work():
                return await asyncio.to_thread(step.function)

    async def _send(self, step: Send) -> Reply:
        content = _in_loop(step.content) if isinstance(step.content, Upload) else step.content
        stream = self._session._http.stream(**self._session._arguments(step, content))
        if not step.is_streamed:
            async with stream as response:
                return _reply(response, await response.aread())
        response = await self._held.enter_async_context(stream)
        if response.status_code != 200:
            return _reply(response, await response.aread())
        self._pieces = response.aiter_bytes()
        return _reply(response, b"")


async def _in_loop(upload: Upload) -> AsyncIterator[bytes]:
    for piece in upload.pieces():
        yield piece


def _resumed(steps: Generator[Any, Any, Any], outcome: Any, lost: Lost | None) -> Any:
    return steps.throw(lost) if lost is not None else steps.send(outcome)
