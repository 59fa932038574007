"""What is opened in the coroutine that uses it, and closed with it."""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from dataclasses import replace
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from judging.llm.client.adaptation import EndpointCapabilities, body
from judging.llm.client.completions import read_completion
from judging.llm.client.errors import LONGEST_MESSAGE, AttemptFailure, FailureKind, classify_answer
from judging.llm.client.messages import JudgeRequest, Reply
from judging.llm.endpoint import Endpoint


class Opened(ABC):
    """Open inside `async with`: connections belong to one event loop."""

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


CONNECT_SECONDS = 10.0
# Proxies add long headers, and an answer that was paid for must not fail for them.
LONGEST_HEADER = 2**17
# A hundred samples with all their log-probabilities stay below; a stream without an end does not.
LONGEST_ANSWER = 2**28
# Uvicorn, in front of many model servers, closes an idle connection after five seconds.
KEEPALIVE_SECONDS = 4.0
KEY_LIKE = re.compile(r"\b(sk|pk|key)-[\w*.-]{4,}")
AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
# Before these no byte of the request had left.
UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


def headers_for(endpoint: Endpoint, key: str | None) -> dict[str, str]:
    """The key where this endpoint looks for it."""
    sent = {
        # Servers without keys still refuse requests without this header.
        "Authorization": f"Bearer {key or 'none'}",
        "Content-Type": "application/json",
        "Accept": "application/json",
        "User-Agent": "FairJudge",
    }
    return sent | azure_key(urlsplit(endpoint.base_url).hostname, key)


def azure_key(host: str | None, key: str | None) -> dict[str, str]:
    """Azure's own header, for Azure alone."""
    return {"api-key": key} if key and (host or "").endswith(AZURE_HOSTS) else {}


def proxy_for(url: str) -> str | None:
    """The proxy that the machine's environment names for the address."""
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


class Transport(Opened):
    """Sends a request as its endpoint takes it, and tells a reply from a failure.

    The openai package would take five times the CPU of a call for its request and response
    objects, so requests go out on aiohttp, which is beneath it.
    """

    def __init__(self, endpoint: Endpoint, key: str | None) -> None:
        path, _, query = endpoint.base_url.partition("?")
        self._url = f"{path}/chat/completions" + (f"?{query}" if query else "")
        self._base_url = endpoint.base_url
        self._headers = headers_for(endpoint, key)
        self._proxy = proxy_for(endpoint.base_url)
        self._key = key
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"Transport({self._base_url})"

    async def open(self) -> None:
        """A session for this event loop; the client's window bounds its connections."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
            # A request's time is bounded as a whole by who sends it: bytes that trickle in extend
            # every other kind of timeout.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("Use the judge client inside `async with`.")
        return self._session

    async def send(
        self, request: JudgeRequest, learned: EndpointCapabilities, seconds: float
    ) -> Reply | AttemptFailure:
        """What comes back within the time, or what went wrong, in words that hold no key."""
        try:
            content = json.dumps(body(request, learned), ensure_ascii=False).encode()
        except UnicodeEncodeError:
            message = "The texts hold half a character (a lone surrogate) and can't be sent."
            return AttemptFailure(FailureKind.BAD_REQUEST, message)
        try:
            async with asyncio.timeout(seconds):
                return await self._post(content, request, learned)
        except UNSENT as error:
            return cut_off(error)
        except TimeoutError:
            return no_answer(seconds)
        except (aiohttp.ClientError, OSError) as error:
            return cut_off(error)

    async def _post(
        self, content: bytes, request: JudgeRequest, learned: EndpointCapabilities
    ) -> Reply | AttemptFailure:
        # Neither texts nor a key follow a redirect to an address that nobody has named.
        async with self.session.post(
            self._url, data=content, allow_redirects=False, proxy=self._proxy
        ) as answer:
            text, headers = await whole_text(answer), answer.headers
            if text is None:
                return too_much()
            if 200 <= answer.status < 300:
                outcome = read_completion(text, headers, request, learned)
            else:
                outcome = classify_answer(answer.status, headers, text)
        return outcome if isinstance(outcome, Reply) else without_key(outcome, self._key)


async def whole_text(answer: aiohttp.ClientResponse) -> str | None:
    """The body, or None where there is more than any reply has."""
    if answer.content_length is not None:
        within = answer.content_length <= LONGEST_ANSWER
        return await answer.text(errors="replace") if within else None
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        if len(body) > LONGEST_ANSWER:
            return None
    try:
        return body.decode(answer.charset or "utf-8", errors="replace")
    except LookupError:
        return body.decode(errors="replace")


def too_much() -> AttemptFailure:
    message = f"The endpoint's answer is longer than {LONGEST_ANSWER >> 20} MiB and was not read."
    return AttemptFailure(FailureKind.BAD_REPLY, message, 200, possibly_billed=True)


def without_key(failure: AttemptFailure, key: str | None) -> AttemptFailure:
    message = KEY_LIKE.sub("[key]", failure.message)
    return replace(failure, message=message.replace(key or "[key]", "[key]"))


def no_answer(seconds: float) -> AttemptFailure:
    message = f"The endpoint did not answer within {seconds:.0f} seconds."
    return AttemptFailure(FailureKind.TIMEOUT, message, possibly_billed=True)


def cut_off(error: BaseException) -> AttemptFailure:
    """No answer came through; unless no connection was made, the server may have worked for it."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return AttemptFailure(
        FailureKind.TRANSIENT,
        f"The connection to the endpoint failed: {reason}"[:LONGEST_MESSAGE],
        possibly_billed=not isinstance(error, UNSENT),
    )
