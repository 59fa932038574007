"""Ask a loopback server through the real client, from a plain test function."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.errors import CallFailure
from judging.llm.client.judge_client import JudgeClient
from judging.llm.client.limits import Limits, RetryPolicy
from judging.llm.client.messages import JudgeRequest, Message, Reply
from judging.llm.endpoint import Endpoint
from tests.loopback import LoopbackServer

MODEL = "loopback-judge"
QUICK = RetryPolicy(deadline=20.0, request=10.0, first_wait=0.01, longest_wait=0.05)
KNOWN = {MODEL: EndpointCapabilities()}


def make_request(text: str = "Which response is better?", **fields: Any) -> JudgeRequest:
    system = fields.pop("system", None)
    messages = (Message("system", system),) if system else ()
    return JudgeRequest((*messages, Message("user", text)), fields.pop("model", MODEL), **fields)


def client_of(
    server: LoopbackServer,
    *,
    key: str | None = None,
    concurrency: int = 8,
    retry: RetryPolicy = QUICK,
    learned: Mapping[str, EndpointCapabilities] | None = None,
    **options: Any,
) -> JudgeClient:
    limits = options.pop("limits", Limits(concurrency))
    endpoint = Endpoint("loopback", server.base_url)
    return JudgeClient(endpoint, key, limits, retry=retry, learned=learned, **options)


def ask_all(
    server: LoopbackServer, requests: list[JudgeRequest], **options: Any
) -> list[Reply | CallFailure]:
    """All at once; the outcomes in the order of the requests."""

    async def main() -> list[Reply | CallFailure]:
        async with client_of(server, **options) as client:
            async with asyncio.timeout(60):
                return await asyncio.gather(*(client.complete(request) for request in requests))

    return asyncio.run(main())


def ask(
    server: LoopbackServer, request: JudgeRequest | None = None, **options: Any
) -> Reply | CallFailure:
    return ask_all(server, [request or make_request()], **options)[0]


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that the server or the client is about to do."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def told_to_wait(shared: Any) -> asyncio.Event:
    """Set once the callers of these limits were told to wait, however soon the wait is over."""
    told, pause = asyncio.Event(), shared.pause

    async def telling(seconds: float, why: str = "") -> None:
        await pause(seconds, why)
        told.set()

    shared.pause = telling
    return told


def replied(outcome: Reply | CallFailure) -> Reply:
    assert isinstance(outcome, Reply), outcome
    return outcome


def failed(outcome: Reply | CallFailure) -> CallFailure:
    assert isinstance(outcome, CallFailure), outcome
    return outcome
