"""The openai package, for what is asked besides completions: models, files and batches.

It takes a quarter of the time in which a process starts, so it is imported where it is used.
"""

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import aiohttp

from judging.llm.client.errors import AttemptFailure, FailureKind, classify_answer
from judging.llm.client.transport import (
    CONNECT_SECONDS,
    Opened,
    azure_key,
    cut_off,
    no_answer,
    without_key,
)
from judging.llm.endpoint import Endpoint

if TYPE_CHECKING:
    from openai import AsyncOpenAI

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
