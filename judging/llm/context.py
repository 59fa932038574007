"""What a prompt leaves of the model's context for the reply, in the words of the servers."""

import re
from dataclasses import replace

from judging.llm.adaptation import FEWEST_TOKENS, Learned
from judging.llm.errors import AttemptFailure, FailureKind
from judging.llm.requests import JudgeRequest
from judging.llm.usage import fewest_tokens

# Each names the context, and the prompt or what prompt and reply would be together. vLLM's later
# ones count a prompt only until it leaves no room for the reply.
STATEMENTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # OpenAI, Azure, DeepSeek, OpenRouter, llama-cpp-python, and vLLM until 0.8.
        r"maximum context length is (?P<context>\d+) tokens\W+however,? you requested (?:about )?"
        r"(?P<total>\d+) tokens \(.{1,80}?(?P<reply>\d+) (?:in|for) the +(?:completion|output)\)",
        # vLLM since then.
        r"maximum context length is (?P<context>\d+) tokens and your request has "
        r"(?P<prompt>\d+) input tokens",
        r"maximum context length is (?P<context>\d+) tokens\W+however,? you requested "
        r"\d+ output tokens and your prompt contains (?:at least )?\d+",
        r"you passed \d+ input (?:tokens|characters) and requested \d+ output tokens\W+however, "
        r"the model's context length is only (?P<context>\d+) tokens",
        # SGLang.
        r"maximum context length of (?P<context>\d+) tokens\W+you requested a total of "
        r"(?P<total>\d+) tokens: \d+ tokens from the input messages and (?P<reply>\d+) tokens",
        # Text Generation Inference.
        r"must be <= (?P<context>\d+)\W+given: (?P<prompt>\d+) \W?inputs\W? tokens and \d+",
        # Anthropic.
        r"exceed context limit: (?P<prompt>\d+) \+ \d+ > (?P<context>\d+)",
    )
)


def fit(
    request: JudgeRequest, learned: Learned, failure: AttemptFailure
) -> tuple[Learned, JudgeRequest] | None:
    """Ask for a reply that fits beside the prompt; None where the prompt alone is too long."""
    if failure.kind is not FailureKind.TOO_LONG:
        return None
    found = next(filter(None, (p.search(failure.message) for p in STATEMENTS)), None)
    if found is None:
        return None
    stated = {name: int(number) for name, number in found.groupdict().items()}
    sent = learned.reply_tokens(request)
    left = _room(stated, request, sent)
    if not FEWEST_TOKENS <= left < sent:
        return None
    return replace(learned, context=stated["context"]), replace(request, fits=left)


def _room(stated: dict[str, int], request: JudgeRequest, sent: int) -> int:
    context = stated["context"]
    if "prompt" in stated:
        return context - stated["prompt"]
    if "total" in stated:
        return context - (stated["total"] - stated["reply"])
    if context - sum(fewest_tokens(m.content) for m in request.messages) < FEWEST_TOKENS:
        return 0
    # The prompt was not counted to its end: by our own estimate, or else a good deal less.
    guessed = context - request.prompt_tokens
    return guessed if sent // 4 <= guessed < sent else sent // 4
