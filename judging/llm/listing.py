"""What an endpoint serves: its models, and whether a model gives log-probabilities."""

from dataclasses import dataclass

from judging.llm.client import JudgeClient
from judging.llm.endpoint import Endpoint
from judging.llm.errors import AttemptFailure, CallFailure, sentence
from judging.llm.messages import Message
from judging.llm.package import Package
from judging.llm.requests import JudgeRequest
from judging.llm.storable import storable

LISTING_SECONDS = 20.0
# As many as the strictest server that gives any.
TOP_LOGPROBS = 20
MOST_NAMED = 10


class ListingError(Exception):
    """The models can't be listed, or none can be chosen; the message says what to do."""


async def list_models(endpoint: Endpoint, key: str | None) -> tuple[str, ...]:
    """The names of the models that the endpoint says it serves, in its own order."""
    async with Package(endpoint, key) as package:
        page = await package.guarded(package.client.models.list(), LISTING_SECONDS)
    if isinstance(page, AttemptFailure):
        raise ListingError(
            f"The endpoint {endpoint.name} did not list its models. {sentence(page.with_status)} "
            "Check that it runs, or name the model."
        )
    names = [getattr(model, "id", None) for model in page.data or []]
    return tuple(storable(name) for name in names if isinstance(name, str) and name)


def only_model(models: tuple[str, ...]) -> str:
    """The model to use when none was named: the only one there is."""
    if len(models) == 1:
        return models[0]
    if not models:
        raise ListingError("The endpoint serves no model. Name one.")
    named = ", ".join(models[:MOST_NAMED]) + (", …" if len(models) > MOST_NAMED else "")
    raise ListingError(f"The endpoint serves several models. Name one: {named}.")


@dataclass(frozen=True, slots=True)
class LogprobSupport:
    """Whether a model gives log-probabilities, and of how many tokens in a place."""

    supported: bool
    top: int = 0
    reason: str = ""


async def probe_logprobs(client: JudgeClient, model: str) -> LogprobSupport:
    """Ask for one token with its log-probabilities and look at what comes back."""
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
