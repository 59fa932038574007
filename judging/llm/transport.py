"""One HTTP request by the openai package: its retries are off, and nothing here waits."""

import asyncio
import re
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
import openai

from judging.llm.adaptation import Learned, body
from judging.llm.completions import read_completion
from judging.llm.endpoint import Endpoint
from judging.llm.errors import LONGEST_MESSAGE, AttemptFailure, FailureKind, classify_answer
from judging.llm.replies import Reply
from judging.llm.requests import JudgeRequest

Answer = TypeVar("Answer")

CONNECT_SECONDS = 10.0
# The package would draw a key from the system's random source for each call, and send it nowhere.
UNDRAWN: Any = {"idempotency_key": "none"}
KEY_LIKE = re.compile(r"\b(sk|pk|key)-[\w*.-]{4,}")
AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")


def open_client(endpoint: Endpoint, key: str | None) -> openai.AsyncOpenAI:
    """A client for this event loop. Its aiohttp transport is the fastest one measured."""
    base_url, _, query = endpoint.base_url.partition("?")
    host = urlsplit(base_url).hostname or ""
    return openai.AsyncOpenAI(
        # Left out, the package would read OPENAI_API_KEY and send it to any endpoint.
        api_key=key or "none",
        base_url=base_url,
        default_query=dict([query.split("=", 1)]) if query else None,
        default_headers={"api-key": key} if key and host.endswith(AZURE_HOSTS) else None,
        max_retries=0,
        # A request's time is bounded as a whole by who sends it: bytes that trickle in extend
        # every other kind of timeout.
        timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
        # Neither texts nor a key follow a redirect to an address that nobody has named.
        http_client=openai.DefaultAioHttpClient(follow_redirects=False),
    )


class Transport:
    """Sends a request as its endpoint takes it, and tells a reply from a failure."""

    def __init__(self, endpoint: Endpoint, key: str | None) -> None:
        self._endpoint = endpoint
        self._key = key
        self._client: openai.AsyncOpenAI | None = None

    def __repr__(self) -> str:
        return f"Transport({self._endpoint.base_url})"

    async def open(self) -> None:
        self._client = open_client(self._endpoint, self._key)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    @property
    def client(self) -> openai.AsyncOpenAI:
        if self._client is None:
            raise RuntimeError("Use the judge client inside `async with`.")
        return self._client

    async def send(
        self, request: JudgeRequest, learned: Learned, seconds: float
    ) -> Reply | AttemptFailure:
        # By path: the typed method checks every field of the body, and takes half of the time of
        # a call for it.
        sending = self.client.post(
            "/chat/completions",
            cast_to=openai.HttpxBinaryResponseContent,
            body=body(request, learned),
            options=UNDRAWN,
        )
        answer = await self.guarded(sending, seconds)
        if isinstance(answer, AttemptFailure):
            return answer
        return read_completion(answer.text, answer.response.headers, request, learned)

    async def guarded(self, sending: Awaitable[Answer], seconds: float) -> Answer | AttemptFailure:
        """What comes back within the time, or what went wrong, in words that hold no key."""
        try:
            async with asyncio.timeout(seconds):
                return await sending
        except TimeoutError:
            message = f"The endpoint did not answer within {seconds:.0f} seconds."
            return AttemptFailure(FailureKind.TIMEOUT, message, possibly_billed=True)
        except openai.APIStatusError as error:
            answered = error.response
            failure = classify_answer(error.status_code, answered.headers, answered.text)
            return self._without_key(failure)
        except (openai.OpenAIError, aiohttp.ClientError, OSError) as error:
            return _cut_off(error)
        except UnicodeEncodeError:
            message = "The texts hold half a character (a lone surrogate) and can't be sent."
            return AttemptFailure(FailureKind.BAD_REQUEST, message)

    def _without_key(self, failure: AttemptFailure) -> AttemptFailure:
        message = KEY_LIKE.sub("[key]", failure.message)
        return replace(failure, message=message.replace(self._key or "[key]", "[key]"))


def _cut_off(error: Exception) -> AttemptFailure:
    """No answer came through; unless no connection was made, the server may have worked for it."""
    causes = [error]
    while isinstance(cause := causes[-1].__cause__, Exception):
        causes.append(cause)
    reason = " ".join(str(causes[min(1, len(causes) - 1)]).split())
    return AttemptFailure(
        FailureKind.TRANSIENT,
        f"The connection to the endpoint failed: {reason}"[:LONGEST_MESSAGE],
        possibly_billed=not any(isinstance(c, aiohttp.ClientConnectorError) for c in causes),
    )
