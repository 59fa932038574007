"""Read the JSON of a chat completion: what servers send, and what they should not have sent."""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from judging.core.text import storable, storable_json
from judging.llm.client.adaptation import EndpointCapabilities, body
from judging.llm.client.errors import LONGEST_MESSAGE, AttemptFailure, FailureKind, classify_answer
from judging.llm.client.messages import Choice, JudgeRequest, Reply, TokenLogprobs
from judging.llm.endpoint import Endpoint
from judging.llm.prices import Usage, reported_usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

# Stands for a probability of zero, which JSON can't write as a logarithm. OpenAI's own value.
LEAST_LOGPROB = -9999.0
# Takes control characters in a text as they are.
LENIENT = json.JSONDecoder(strict=False)


def read_completion(
    body: str, headers: Mapping[str, str], request: JudgeRequest, learned: EndpointCapabilities
) -> Reply | AttemptFailure:
    """A reply, or why an answer with HTTP 200 is none."""
    try:
        data = LENIENT.decode(body.removeprefix("\ufeff"))
        if "\\u" in body or "\0" in body:
            # Half a character gets into a text by an escape only.
            data = storable_json(data)
    except (ValueError, RecursionError):
        kind = storable(headers.get("content-type", "").partition(";")[0].strip()[:80])
        said = f": it is {kind}" if kind and "json" not in kind else ""
        return _unread(f"The endpoint's answer was cut off or is not JSON{said}.", headers)
    if not isinstance(data, dict):
        return _unread("The endpoint's answer is not a chat completion.", headers)
    found = data.get("choices")
    raw = [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []
    if raw and all(isinstance(c.get("error"), dict) for c in raw):
        # OpenRouter's way to say that the model failed while it wrote.
        return classify_answer(200, headers, json.dumps(raw[0]))
    if not raw:
        if data.get("error"):
            return classify_answer(200, headers, body)
        return _unread("The endpoint's answer holds no choices.", headers)
    raw.sort(key=lambda c: c["index"] if isinstance(c.get("index"), int) else 0)
    choices = tuple(_choice(c) for c in raw)
    usage = _usage(data.get("usage"), request, choices, learned)
    if len(choices) == 1 and choices[0].completion_tokens is None and not usage.estimated:
        choices = (_counted(choices[0], usage.completion_tokens),)
    return Reply(
        choices=choices[: request.n],
        usage=usage,
        model=str(data.get("model") or ""),
        request_id=storable(headers.get("x-request-id") or str(data.get("id") or "")),
        asked=request.n,
    )


def _unread(message: str, headers: Mapping[str, str]) -> AttemptFailure:
    return AttemptFailure(
        FailureKind.BAD_REPLY, message, 200, headers=headers, possibly_billed=True
    )


def _choice(raw: Mapping[str, Any]) -> Choice:
    found = raw.get("message")
    message = found if isinstance(found, dict) else {}
    # Some servers put the text of a completion where the older API had it.
    text, thought = _parts(message.get("content", raw.get("text")))
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str) and message[name]:
            thought = message[name]
            break
    logprobs = _logprobs(raw.get("logprobs"))
    return Choice(
        text=text,
        finish_reason=str(raw.get("finish_reason") or ""),
        reasoning=thought,
        logprobs=logprobs,
        completion_tokens=len(logprobs) if logprobs else None,
        refusal=str(message.get("refusal") or ""),
    )


def _parts(content: object) -> tuple[str | None, str]:
    """The text and the reasoning of a content that is a string or a list of typed parts."""
    if content is None or isinstance(content, str):
        return content, ""
    given: list[Any] = content if isinstance(content, list) else [content]
    parts: list[dict[str, Any]] = [
        part if isinstance(part, dict) else {"text": part} for part in given
    ]
    texts = [p["text"] for p in parts if _says(p) and isinstance(p.get("text"), str)]
    thoughts = [_parts(p["thinking"])[0] or "" for p in parts if "thinking" in p]
    return ("".join(texts) if texts else None), "".join(thoughts)


def _says(part: Mapping[str, Any]) -> bool:
    """Whether a part is of the answer, and not of the reasoning."""
    return part.get("type", "text") in ("text", "output_text")


def _logprobs(raw: object) -> tuple[TokenLogprobs, ...] | None:
    content = raw.get("content") if isinstance(raw, dict) else None
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        return None
    tokens = []
    for entry in content:
        found = entry.get("top_logprobs")
        top = [t for t in found if isinstance(t, dict)] if isinstance(found, list) else []
        pairs = [(str(t.get("token", "")), _logprob(t.get("logprob"))) for t in top]
        pairs.sort(key=lambda pair: -pair[1])
        token = TokenLogprobs(
            str(entry.get("token", "")), _logprob(entry.get("logprob")), tuple(pairs)
        )
        tokens.append(token)
    return tuple(tokens) or None


def _logprob(value: object) -> float:
    """A finite number: NaN compares as smaller than nothing and ends at the least one too."""
    if not isinstance(value, (int, float)) or not value >= LEAST_LOGPROB:
        return LEAST_LOGPROB
    return float(min(value, 0))


def _counted(choice: Choice, tokens: int) -> Choice:
    return Choice(
        choice.text,
        choice.finish_reason,
        choice.reasoning,
        choice.logprobs,
        tokens,
        choice.refusal,
    )


def _usage(
    report: object,
    request: JudgeRequest,
    choices: tuple[Choice, ...],
    learned: EndpointCapabilities,
) -> Usage:
    return reported_usage(
        report,
        messages=[message.content for message in request.messages],
        texts=[(c.text or "") + c.reasoning for c in choices],
        counted=[c.completion_tokens for c in choices],
        one_choice_only=learned.usage_of_one_choice,
    )


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


Answer = TypeVar("Answer")


def open_client(endpoint: Endpoint, key: str | None) -> "AsyncOpenAI":
    """A client for this event loop: its retries are off, and it reads no key of its own."""
    import openai

    base_url, _, query = endpoint.base_url.partition("?")
    return openai.AsyncOpenAI(
        # Left out, the package would read OPENAI_API_KEY and send it to any endpoint.
        api_key=key or "none",
        base_url=base_url,
        default_query=dict([query.split("=", 1)]) if query else None,
        default_headers=azure_key(urlsplit(base_url).hostname, key),
        max_retries=0,
        timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
        # Neither texts nor a key follow a redirect to an address that nobody has named.
        http_client=openai.DefaultAioHttpClient(follow_redirects=False),
    )


class OpenAiClient(Opened):
    """The package's client for one endpoint, and its errors in our words."""

    def __init__(self, endpoint: Endpoint, key: str | None) -> None:
        self._endpoint = endpoint
        self._key = key
        self._client: AsyncOpenAI | None = None

    async def open(self) -> None:
        self._client = open_client(self._endpoint, self._key)

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
        """What comes back within the time, or what went wrong, in words that hold no key."""
        import openai

        try:
            async with asyncio.timeout(seconds):
                return await sending
        except TimeoutError:
            return no_answer(seconds)
        except openai.APIStatusError as error:
            answered = error.response
            failure = classify_answer(error.status_code, answered.headers, answered.text)
            return without_key(failure, self._key)
        except (openai.OpenAIError, aiohttp.ClientError, OSError) as error:
            return cut_off(_cause(error))
        except AttributeError:
            # The package takes any page for what was asked for.
            message = "The answer is another page than was asked for."
            return AttemptFailure(FailureKind.BAD_REPLY, message)


def _cause(error: BaseException) -> BaseException:
    """What the network said, beneath the package's own errors."""
    while error.__cause__ is not None and not isinstance(error, aiohttp.ClientError):
        error = error.__cause__
    return error
