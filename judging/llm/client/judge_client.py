"""The judge client: one request in, a reply or a typed failure out, whatever the server does."""

import asyncio
import base64
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from judging.core import tracing
from judging.core.images import SCHEME, marked
from judging.core.text import storable
from judging.llm.client.adaptation import EndpointCapabilities, fit, learn
from judging.llm.client.errors import AttemptFailure, CallFailure, FailureKind, asked_wait, sentence
from judging.llm.client.limits import (
    DEFAULT_RETRY,
    Limits,
    Patience,
    Pause,
    ProcessLimits,
    RetryPolicy,
    SharedLimits,
    Window,
    persist,
)
from judging.llm.client.messages import JudgeRequest, Message, Reply
from judging.llm.client.transport import OpenAiClient, Opened, Transport
from judging.llm.endpoint import Endpoint

DEFAULT_LIMITS = Limits()
# A request meets at most as many refusals as it has parameters to adapt, some of them twice.
MOST_ADAPTATIONS = 12


class RequestWatch(Protocol):
    """Is told of each request, in the task that sends it."""

    def leaving(self) -> None:
        """Note that a request is about to be sent."""

    def cost_nothing(self) -> None:
        """Note that it was refused at no cost, or never reached the server."""


class JudgeClient(Opened):
    """Asks one endpoint, within its limits. Create it inside the coroutine that uses it.

    The first request to an unknown model goes alone, so that its refusals are met once and not by
    every call at the same time. A model that can't be used (no credit, no key, no such model) is
    not asked again: later calls get the same failure, with `requests` = 0.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        key: str | None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        shared: SharedLimits | None = None,
        retry: RetryPolicy = DEFAULT_RETRY,
        learned: Mapping[str, EndpointCapabilities] | None = None,
        watch: RequestWatch | None = None,
    ) -> None:
        self._watch = watch
        self.endpoint = endpoint
        self.limits = limits
        self._shared = shared or ProcessLimits()
        self._retry = retry
        self._learned = dict(learned or {})
        self._transport = Transport(endpoint, key)
        self._window = Window(limits.concurrency)
        self._scouts: dict[str, asyncio.Event] = {}
        self._hopeless: dict[str, AttemptFailure] = {}
        self._answered: set[str] = set()
        # Requests that are sent and not answered yet.
        self.under_way = 0

    async def open(self) -> None:
        await self._transport.open()

    async def close(self) -> None:
        await self._transport.close()
        await self._shared.close()

    def learned(self, model: str) -> EndpointCapabilities:
        return self._learned.get(model, EndpointCapabilities())

    @property
    def concurrency(self) -> int:
        """The most requests that may be under way now."""
        return self._window.size

    @property
    def in_use(self) -> int:
        """The places in use: requests under way, and those that wait for their turn."""
        return self._window.in_use

    def allow(self, places: int) -> None:
        """Change how many requests may be under way. Those that are come back first."""
        self._window.resize(places)

    async def paused(self) -> Pause:
        """Return for how long the endpoint wants no requests, and what it said."""
        return await self._shared.paused()

    async def complete(self, request: JudgeRequest) -> Reply | CallFailure:
        """Return the reply, or why there is none after all retries."""

        async def attempt(patience: Patience) -> Reply | AttemptFailure:
            return await self._scouted(request, patience)

        if scout := self._scouts.get(request.model):
            await scout.wait()
        return await persist(attempt, self._retry)

    async def _scouted(self, request: JudgeRequest, patience: Patience) -> Reply | AttemptFailure:
        """Attempt; if nothing is known of the model, all others wait for this attempt."""
        model = request.model
        if model in self._learned or model in self._scouts:
            return await self._attempt(request, patience)
        self._scouts[model] = asyncio.Event()
        try:
            outcome = await self._attempt(request, patience)
            self._learned.setdefault(model, EndpointCapabilities())
            return outcome
        finally:
            # Also after a failure or a cancellation, else the waiting calls would wait for ever.
            self._scouts.pop(model).set()

    async def _attempt(self, request: JudgeRequest, patience: Patience) -> Reply | AttemptFailure:
        # The place is taken before the turn is reserved, so that a booked turn is not left to wait
        # for a place.
        await self._window.take()
        try:
            # Asked again here, since the call may have waited while another one failed.
            if hopeless := self._hopeless.get(request.model):
                return hopeless
            booked = self._tokens_to_book(request)
            late = await self._turn(booked, patience)
            seen = self._shared.halvings
            self._window.follow(seen)
            outcome = late or await self._adapting(request, patience)
            if isinstance(outcome, Reply):
                await self._settle(booked, outcome)
            elif late is None:
                await self._note(outcome, request.model, seen)
            return outcome
        finally:
            self._window.give_back()

    async def _note(self, failure: AttemptFailure, model: str, seen: int) -> None:
        """Tell the other calls of a failure, before one of them gets this call's place.

        Args:
            seen: The number of halvings when the request left.
        """
        if failure.kind.pauses_run:
            self._hopeless[model] = failure
        elif failure.kind is FailureKind.RATE_LIMIT:
            self._window.follow(await self._shared.halve(seen))
            if wait := asked_wait(failure.headers, failure.message):
                await self._shared.pause(wait, failure.with_status)

    async def _settle(self, booked: int, reply: Reply) -> None:
        self._window.succeeded()
        used = reply.usage.prompt_tokens + reply.usage.completion_tokens
        if booked > used:
            await self._shared.settle(self.limits, booked - used)

    def _tokens_to_book(self, request: JudgeRequest) -> int:
        if self.limits.tpm is None:
            return 0
        return request.prompt_tokens + request.n * request.max_tokens

    async def _turn(self, tokens: int, patience: Patience) -> AttemptFailure | None:
        """Wait for the end of the pause and for this request's place in the minute."""
        try:
            # Before its first request a call has no deadline, and may wait as long as the pause
            # lasts.
            async with asyncio.timeout(patience.left if patience.requests else None):
                wait = await self._shared.reserve(self.limits, tokens)
                while wait > 0:
                    await asyncio.sleep(wait)
                    # The pause may have been prolonged meanwhile by another refusal.
                    wait = (await self._shared.paused()).seconds
        except TimeoutError:
            message = "The endpoint asked to wait for longer than the call's deadline."
            return AttemptFailure(FailureKind.RATE_LIMIT, message, 429)
        return None

    async def _adapting(self, request: JudgeRequest, patience: Patience) -> Reply | AttemptFailure:
        """Send, and send again in the form that a refusal asks for.

        What was learned is kept only once the adapted request has been answered.
        """
        known = learned = self.learned(request.model)
        refused: set[tuple[EndpointCapabilities, int | None]] = set()
        while len(refused) < MOST_ADAPTATIONS:
            refused.add((learned, request.fits))
            patience.sending()
            seconds = max(0.0, min(self._retry.request, patience.left))
            outcome = await self._send(request, learned, seconds)
            if isinstance(outcome, Reply):
                learned = _also_learned(request, learned, outcome)
                if learned != known:
                    self._keep(request.model, known, learned)
                self._answered.add(request.model)
                return outcome
            failure = outcome
            if fitted := fit(request, learned, failure):
                learned, request = fitted
            elif adapted := learn(learned, request, failure):
                learned = adapted
            else:
                break
            # Two refusals that ask for each other's form would be met for ever.
            if (learned, request.fits) in refused:
                break
        return self._in_context(request.model, failure)

    async def _send(
        self, request: JudgeRequest, learned: EndpointCapabilities, seconds: float
    ) -> Reply | AttemptFailure:
        if self._watch:
            self._watch.leaving()
        self.under_way += 1
        try:
            send = self._traced if tracing.service else self._transport.send
            outcome = await send(request, learned, seconds)
        finally:
            self.under_way -= 1
        if self._watch and isinstance(outcome, AttemptFailure) and not outcome.possibly_billed:
            self._watch.cost_nothing()
        return outcome

    async def _traced(
        self, request: JudgeRequest, learned: EndpointCapabilities, seconds: float
    ) -> Reply | AttemptFailure:
        """Send, in a span by the names that OpenTelemetry gives to requests to models."""
        about = {"gen_ai__request__model": request.model, "gen_ai__operation__name": "chat"}
        about |= {"fairjudge__endpoint": self.endpoint.name}
        with tracing.span(f"chat {request.model}", "client", of_its_own=True, **about) as span:
            outcome = await self._transport.send(request, learned, seconds)
            if isinstance(outcome, Reply):
                used = outcome.usage
                span.set(gen_ai__usage__input_tokens=used.prompt_tokens)
                span.set(gen_ai__usage__output_tokens=used.completion_tokens)
            else:
                span.set(error__type=outcome.kind.value)
                span.set(http__response__status_code=outcome.http_status)
                span.fail(outcome.kind.value)
            return outcome

    def _keep(self, model: str, known: EndpointCapabilities, learned: EndpointCapabilities) -> None:
        """Add what this call learned to what others have learned meanwhile."""
        before, after = known.to_json(), learned.to_json()
        # Only what changed: other calls may have learned other things since this one read them.
        new = {name: value for name, value in after.items() if value != before[name]}
        self._learned[model] = EndpointCapabilities.from_json(self.learned(model).to_json() | new)

    def _in_context(self, model: str, failure: AttemptFailure) -> AttemptFailure:
        """Take a refusal of a key or model that has answered before for one of this text alone.

        The statuses 401 and 404 stay what they are. So does a lack of credit, which may come at
        any time.
        """
        about_all = failure.kind in (FailureKind.AUTH, FailureKind.NOT_FOUND)
        if about_all and failure.http_status in (400, 403) and model in self._answered:
            return replace(failure, kind=FailureKind.BAD_REQUEST)
        return failure


def _also_learned(
    request: JudgeRequest, learned: EndpointCapabilities, reply: Reply
) -> EndpointCapabilities:
    """Return what an answer shows without a refusal: n ignored, one choice's tokens reported."""
    if len(reply.choices) < min(request.n, learned.max_n or request.n):
        learned = replace(learned, max_n=len(reply.choices))
    if reply.usage.one_choice:
        learned = replace(learned, usage_of_one_choice=True)
    return learned


LISTING_SECONDS = 20.0
# The most that the strictest server allows, of those that give any.
TOP_LOGPROBS = 20
MOST_NAMED = 10


class ListingError(Exception):
    """The models can't be listed, or none can be chosen. The message says what to do."""


async def list_models(endpoint: Endpoint, key: str | None) -> tuple[str, ...]:
    """Return the names of the models that the endpoint lists, in its own order."""
    async with OpenAiClient(endpoint, key) as openai_client:
        page = await openai_client.guarded(openai_client.client.models.list(), LISTING_SECONDS)
    if isinstance(page, AttemptFailure):
        raise ListingError(
            f"The endpoint {endpoint.name} did not list its models. {sentence(page.with_status)} "
            "Check that it runs, or name the model."
        )
    names = [getattr(model, "id", None) for model in page.data or []]
    return tuple(storable(name) for name in names if isinstance(name, str) and name)


def only_model(models: tuple[str, ...]) -> str:
    """Return the model to use if none was named. Raises ListingError unless there is one only."""
    if len(models) == 1:
        return models[0]
    if not models:
        raise ListingError("The endpoint serves no model. Name one.")
    named = ", ".join(models[:MOST_NAMED]) + (", …" if len(models) > MOST_NAMED else "")
    raise ListingError(f"The endpoint serves several models. Name one: {named}.")


@dataclass(frozen=True, slots=True)
class LogprobSupport:
    """Whether a model gives log-probabilities, and for how many tokens at each place."""

    supported: bool
    top: int = 0
    reason: str = ""


async def probe_logprobs(client: JudgeClient, model: str) -> LogprobSupport:
    """Ask for one token with its log-probabilities, and see what comes back."""
    request = JudgeRequest(
        messages=(Message("user", "Answer with the letter A or B: A"),),
        model=model,
        temperature=0.0,
        max_tokens=1,
        top_logprobs=TOP_LOGPROBS,
    )
    outcome = await client.complete(request)
    if isinstance(outcome, CallFailure):
        return LogprobSupport(False, reason=outcome.message)
    logprobs = outcome.choices[0].logprobs
    if not logprobs or not logprobs[0].top:
        reason = f"The model {model} gives no log-probabilities at this endpoint."
        return LogprobSupport(False, reason=reason)
    return LogprobSupport(True, top=len(logprobs[0].top))


async def probe_images(client: JudgeClient, model: str) -> str:
    """Show a small picture. Returns "" if the model answers, or else why it doesn't."""
    name = "0" * 64
    request = JudgeRequest(
        messages=(
            Message("user", f"{marked('', SCHEME + name)}\nWhich colour is this? One word."),
        ),
        model=model,
        temperature=0.0,
        max_tokens=16,
        images={name: f"data:image/png;base64,{base64.b64encode(_red(64)).decode()}"},
    )
    outcome = await client.complete(request)
    return outcome.message if isinstance(outcome, CallFailure) else ""


def _red(side: int) -> bytes:
    """Return a red square as a PNG file. Some models refuse pictures of fewer than 28 pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    rows = (b"\0" + b"\xff\0\0" * side) * side
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + body
