"""One HTTP request to a judge and what came of it. Nothing here waits, repeats or adapts.

`Transport` asks for chat completions, which runs do all the time. `OpenAiClient` is for what is
asked rarely: models, batches and likelihoods. Both return an `AttemptFailure` for
whatever goes wrong, in words that hold no key.
"""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from judging.core.bounds import MEBIBYTE, MOST_INFLATED, TooLarge
from judging.core.text import storable, storable_json
from judging.llm.client.adaptation import EndpointCapabilities, body
from judging.llm.client.errors import (
    LONGEST_MESSAGE,
    AttemptFailure,
    FailureKind,
    classify_answer,
    holds_error,
)
from judging.llm.client.messages import LEAST_LOGPROB, Choice, JudgeRequest, Reply, TokenLogprobs
from judging.llm.endpoint import Endpoint
from judging.llm.prices import reported_usage

if TYPE_CHECKING:
    from httpx2 import Response as HttpResponse
    from openai import AsyncOpenAI

Answer = TypeVar("Answer")

CONNECT_SECONDS = 10.0
# Proxies add long headers, and an answer that was paid for must not fail for them.
LONGEST_HEADER = 2**17
# A hundred samples with all their log-probabilities stay below; an endless stream doesn't.
LONGEST_ANSWER = 2**28
# What any answer may take. Each token with its log-probabilities may take as much again as below.
SHORT_ANSWER = 8 * MEBIBYTE
TOKEN_BYTES = 256
# Calls of a whole batch come as one file.
LONGEST_FILE = 2**30
# Uvicorn, in front of many model servers, closes an idle connection after five seconds.
KEEPALIVE_SECONDS = 4.0
KEY_LIKE = re.compile(r"\b(sk|pk|key)-[\w*.-]{4,}")
AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
# Before these errors no byte of the request had left.
UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
# Accepts control characters in texts as they are.
LENIENT = json.JSONDecoder(strict=False)
LONGEST_ID = 200
# Where a model may put its answer instead of the text.
ELSEWHERE = ("tool_calls", "function_call", "audio", "reasoning_content", "reasoning")


class Opened(ABC):
    """Open inside `async with`: connections belong to one event loop."""

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


class Transport(Opened):
    """Sends a request in the form that its endpoint takes, and tells a reply from a failure.

    Requests go out on aiohttp, on which the openai package is built: the package's own request
    and response objects would take five times the CPU of a call.
    """

    def __init__(self, endpoint: Endpoint, key: str | None) -> None:
        path, _, query = endpoint.base_url.partition("?")
        self._url = f"{path}/chat/completions" + (f"?{query}" if query else "")
        self._base_url = endpoint.base_url
        self._headers = headers_for(endpoint, key)
        self._proxy = _proxy_for(endpoint.base_url)
        self._key = key
        self._session: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"Transport({self._base_url})"

    async def open(self) -> None:
        """Open a session for this event loop; the client's window bounds its connections."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
            # `send` bounds a request's whole time. Bytes that trickle in would extend every other
            # kind of timeout.
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
        """Return the reply that comes within the time, or what went wrong."""
        try:
            content = json.dumps(body(request, learned), ensure_ascii=False).encode()
        except UnicodeEncodeError:
            message = "The texts hold half a character (a lone surrogate) and can't be sent."
            return AttemptFailure(FailureKind.BAD_REQUEST, message)
        try:
            async with asyncio.timeout(seconds):
                return await self._post(content, request, learned)
        except UNSENT as error:
            # Before TimeoutError, which a timeout of the connection is as well.
            return _no_connection(error)
        except TimeoutError:
            return _no_answer(seconds)
        except (aiohttp.ClientError, OSError) as error:
            return _no_connection(error)

    async def _post(
        self, content: bytes, request: JudgeRequest, learned: EndpointCapabilities
    ) -> Reply | AttemptFailure:
        # Neither texts nor a key follow a redirect to an address that nobody has named.
        async with self.session.post(
            self._url, data=content, allow_redirects=False, proxy=self._proxy
        ) as answer:
            try:
                text = await _whole_text(answer, longest_answer(request))
            except TooLarge as error:
                return _too_large(error)
            outcome = read_answer(answer.status, text, answer.headers, request, learned)
        return outcome if isinstance(outcome, Reply) else _without_key(outcome, self._key)


def headers_for(endpoint: Endpoint, key: str | None) -> dict[str, str]:
    """Return a request's headers, with the key where this endpoint looks for it."""
    headers = {
        # Servers without keys still refuse requests without this header.
        "Authorization": f"Bearer {key or 'none'}",
        "Content-Type": "application/json",
        "Accept": "application/json",
        "User-Agent": "FairJudge",
    }
    return headers | _azure_key(endpoint, key)


def _azure_key(endpoint: Endpoint, key: str | None) -> dict[str, str]:
    """Return Azure's own header, for Azure alone."""
    host = urlsplit(endpoint.base_url).hostname or ""
    return {"api-key": key} if key and host.endswith(AZURE_HOSTS) else {}


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the machine's environment names for the address."""
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def longest_answer(request: JudgeRequest) -> int:
    """Return how many bytes an answer to this request may take once it is inflated."""
    tokens = request.n * request.max_tokens * (1 + (request.top_logprobs or 0))
    return min(LONGEST_ANSWER, SHORT_ANSWER + tokens * TOKEN_BYTES)


async def _whole_text(answer: aiohttp.ClientResponse, most: int) -> str:
    """Return the body. Raises TooLarge if it is longer than any reply.

    Its bytes are counted while they inflate. The head announces at most the compressed length.
    """
    if (answer.content_length or 0) > most:
        raise TooLarge(f"it is longer than {most // MEBIBYTE} MiB")
    content = await gathered(answer.content.iter_any(), most)
    try:
        return content.decode(answer.charset or "utf-8", errors="replace")
    except LookupError:
        return content.decode(errors="replace")


async def gathered(parts: AsyncIterable[bytes], most: int) -> bytearray:
    """Join the parts of a stream. Raises TooLarge as soon as there are more bytes."""
    content = bytearray()
    async for part in parts:
        content += part
        if len(content) > most:
            raise TooLarge(f"it is longer than {most // MEBIBYTE} MiB")
    return content


def _too_large(error: TooLarge) -> AttemptFailure:
    return _unread(f"The endpoint's answer is too long and was not read: {error}.")


def _without_key(failure: AttemptFailure, key: str | None) -> AttemptFailure:
    message = KEY_LIKE.sub("[key]", failure.message)
    return replace(failure, message=message.replace(key or "[key]", "[key]"))


def _no_answer(seconds: float) -> AttemptFailure:
    message = f"The endpoint did not answer within {seconds:.0f} seconds."
    return AttemptFailure(FailureKind.TIMEOUT, message, possibly_billed=True)


def _no_connection(error: BaseException) -> AttemptFailure:
    """Describe a lost connection. If it had been made, the server may have worked for it."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return AttemptFailure(
        FailureKind.TRANSIENT,
        f"The connection to the endpoint failed: {reason}"[:LONGEST_MESSAGE],
        possibly_billed=not isinstance(error, UNSENT),
    )


def read_answer(
    status: int,
    text: str,
    headers: Mapping[str, str],
    request: JudgeRequest,
    learned: EndpointCapabilities,
) -> Reply | AttemptFailure:
    """Read an HTTP answer to a request for chat completions."""
    if 200 <= status < 300:
        return read_completion(text, headers, request, learned)
    return classify_answer(status, headers, text)


def read_completion(
    text: str, headers: Mapping[str, str], request: JudgeRequest, learned: EndpointCapabilities
) -> Reply | AttemptFailure:
    """Return the reply in an answer with HTTP 200, or why it holds none."""
    try:
        data = LENIENT.decode(text.removeprefix("\ufeff"))
        if "\\u" in text or "\0" in text:
            # Half a character gets into a text by an escape only.
            data = storable_json(data)
    except (ValueError, RecursionError):
        if event := _EVENT.search(text):
            # A proxy may stream although nobody asked it to, and then its errors come so too.
            return _in_a_stream(event[1], headers)
        kind = storable(headers.get("content-type", "").partition(";")[0].strip()[:80])
        it_is = f": it is {kind}" if kind and "json" not in kind else ""
        return _unread(f"The endpoint's answer was cut off or is not JSON{it_is}.", headers)
    if isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict):
        # Google wraps its errors in a list.
        data = data[0]
    if not isinstance(data, dict):
        return _unread("The endpoint's answer is not a chat completion.", headers)
    listed = data.get("choices")
    raw = [c for c in listed if isinstance(c, dict)] if isinstance(listed, list) else []
    if raw and all(isinstance(c.get("error"), dict) for c in raw):
        # OpenRouter's way to say that the model failed while it wrote, which it may bill.
        failure = classify_answer(200, headers, json.dumps(raw[0]))
        return replace(failure, possibly_billed=True)
    if not raw:
        if holds_error(data):
            return classify_answer(200, headers, text)
        return _unread("The endpoint's answer holds no choices.", headers)
    raw.sort(key=lambda c: c["index"] if isinstance(c.get("index"), int) else 0)
    choices = tuple(_choice(c) for c in raw)
    usage = reported_usage(
        data.get("usage"),
        messages=[message.content for message in request.messages],
        texts=[(c.text or "") + c.reasoning for c in choices],
        counted=[c.completion_tokens for c in choices],
        one_choice_only=learned.usage_of_one_choice,
    )
    if len(choices) == 1 and choices[0].completion_tokens is None and not usage.estimated:
        choices = (replace(choices[0], completion_tokens=usage.completion_tokens),)
    return Reply(
        choices=choices[: request.n],
        usage=usage,
        model=str(data.get("model") or ""),
        request_id=storable(headers.get("x-request-id") or str(data.get("id") or "")),
        asked=request.n,
        reply_id=storable(str(data.get("id") or ""))[:LONGEST_ID],
    )


_EVENT = re.compile(r"\A\s*(?:(?:event|id|retry):[^\n]*\n\s*|:[^\n]*\n\s*)*data:[ \t]*(\{[^\r\n]*)")


def _in_a_stream(event: str, headers: Mapping[str, str]) -> AttemptFailure:
    try:
        data = LENIENT.decode(event)
    except (ValueError, RecursionError):
        data = {}
    if isinstance(data, dict) and not data.get("choices") and holds_error(data):
        return classify_answer(200, headers, event)
    return _unread("The endpoint's answer is a stream, which was not asked for.", headers)


def _unread(message: str, headers: Mapping[str, str] | None = None) -> AttemptFailure:
    return AttemptFailure(
        FailureKind.BAD_REPLY, message, 200, headers=headers or {}, possibly_billed=True
    )


def _choice(raw: Mapping[str, Any]) -> Choice:
    message = raw["message"] if isinstance(raw.get("message"), dict) else {}
    # Some servers put the text of a completion where the older API had it.
    text, reasoning = _text_and_reasoning(message.get("content", raw.get("text")))
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str) and message[name]:
            reasoning = message[name]
            break
    logprobs = _logprobs(raw.get("logprobs"))
    return Choice(
        text=text,
        finish_reason=str(raw.get("finish_reason") or ""),
        reasoning=reasoning,
        logprobs=logprobs,
        completion_tokens=len(logprobs) if logprobs else None,
        refusal=str(message.get("refusal") or ""),
        elsewhere=() if text else tuple(name for name in ELSEWHERE if message.get(name)),
    )


def _text_and_reasoning(content: object) -> tuple[str | None, str]:
    """Read a content that is a string or a list of typed parts."""
    if content is None or isinstance(content, str):
        return content, ""
    listed: list[Any] = content if isinstance(content, list) else [content]
    parts = [part if isinstance(part, dict) else {"text": part} for part in listed]
    texts = [
        part["text"]
        for part in parts
        if part.get("type", "text") in ("text", "output_text") and isinstance(part.get("text"), str)
    ]
    thoughts = [_text_and_reasoning(p["thinking"])[0] or "" for p in parts if "thinking" in p]
    return ("".join(texts) if texts else None), "".join(thoughts)


def _logprobs(raw: object) -> tuple[TokenLogprobs, ...] | None:
    content = raw.get("content") if isinstance(raw, dict) else None
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        return None
    tokens = []
    for entry in content:
        listed = entry.get("top_logprobs")
        top = [t for t in listed if isinstance(t, dict)] if isinstance(listed, list) else []
        pairs = [(str(t.get("token", "")), _logprob(t.get("logprob"))) for t in top]
        pairs.sort(key=lambda pair: -pair[1])
        token, logprob = str(entry.get("token", "")), _logprob(entry.get("logprob"))
        tokens.append(TokenLogprobs(token, logprob, tuple(pairs)))
    return tuple(tokens) or None


def _logprob(value: object) -> float:
    """Return a finite number. NaN compares as smaller than nothing, so it ends at the least one."""
    if not isinstance(value, (int, float)) or not value >= LEAST_LOGPROB:
        return LEAST_LOGPROB
    return float(min(value, 0))


class OpenAiClient(Opened):
    """The openai package's client for one endpoint, with its errors in our words."""

    def __init__(self, endpoint: Endpoint, key: str | None) -> None:
        self.endpoint = endpoint
        self._key = key
        self._client: AsyncOpenAI | None = None

    async def open(self) -> None:
        self._client = open_client(self.endpoint, self._key)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    @property
    def client(self) -> "AsyncOpenAI":
        if self._client is None:
            raise RuntimeError("Use the batch client inside `async with`.")
        return self._client

    async def guarded(self, sending: Awaitable[Answer], seconds: float) -> Answer | AttemptFailure:
        """Return the answer that comes within the time, or what went wrong."""
        import openai

        try:
            async with asyncio.timeout(seconds):
                return await sending
        except TimeoutError:
            return _no_answer(seconds)
        except openai.APIStatusError as error:
            answer = error.response
            failure = classify_answer(error.status_code, answer.headers, answer.text)
            return _without_key(failure, self._key)
        except (openai.OpenAIError, aiohttp.ClientError, OSError) as error:
            return _no_connection(_network_error(error))
        except TooLarge as error:
            return _too_large(error)
        except AttributeError:
            # The package takes any page for what was asked for.
            message = "The answer is another page than was asked for."
            return AttemptFailure(FailureKind.BAD_REPLY, message)


def open_client(endpoint: Endpoint, key: str | None) -> "AsyncOpenAI":
    """Return the package's client for this event loop, without its retries."""
    # The import would be a quarter of the time in which a process starts, so it waits until here.
    import openai

    base_url, _, query = endpoint.base_url.partition("?")
    return openai.AsyncOpenAI(
        # If left out, the package would read OPENAI_API_KEY and send it to any endpoint.
        api_key=key or "none",
        base_url=base_url,
        default_query=dict([query.split("=", 1)]) if query else None,
        default_headers=_azure_key(endpoint, key),
        max_retries=0,
        timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
        # Neither texts nor a key follow a redirect to an address that nobody has named.
        http_client=openai.DefaultAioHttpClient(
            follow_redirects=False, event_hooks={"response": [_read_within_bounds]}
        ),
    )


async def _read_within_bounds(response: "HttpResponse") -> None:
    """Read the body before the package does, which would inflate it without a bound."""
    most = LONGEST_FILE if response.url.path.endswith("/content") else LONGEST_ANSWER

    async def parts() -> AsyncIterator[bytes]:
        inflated = 0
        async for part in response.aiter_bytes():
            inflated += len(part)
            if inflated > max(SHORT_ANSWER, MOST_INFLATED * response.num_bytes_downloaded):
                raise TooLarge("it inflates more than any text does")
            yield part

    try:
        response._content = bytes(await gathered(parts(), most))
    finally:
        await response.aclose()


def _network_error(error: BaseException) -> BaseException:
    """Return what the network said, beneath the package's own errors."""
    while error.__cause__ is not None and not isinstance(error, aiohttp.ClientError):
        error = error.__cause__
    return error
