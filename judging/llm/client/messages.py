"""What a judge is asked and what it answers, before and after any endpoint's peculiarities."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from judging.core.images import SCHEME, TOKENS, without_images
from judging.llm.prices import Usage, estimate_prompt

# This means a probability of zero, which JSON can't write as a logarithm. OpenAI's own value.
LEAST_LOGPROB = -9999.0
MessageRole = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    role: MessageRole
    content: str


@dataclass(frozen=True, slots=True)
class CacheMarks:
    """How far a prompt repeats others, so that the provider can be told what to keep.

    message, characters: the prompt of the other order is the same up to these characters of this
    message. whole: the same prompt is asked again for other samples.
    """

    message: int
    characters: int
    whole: bool


@dataclass(frozen=True)
class JudgeRequest:
    """`schema` is a bare JSON schema; `top_logprobs` asks for log-probabilities too.

    `described`: the prompt asks for this JSON too, so that a server without schemas can be asked
    for a JSON object. Otherwise it is asked for text.
    `marks` change what a prompt costs and not what is asked, so they don't make another request.

    `images` are data URLs by hash. In a message each is Markdown, and is sent in its place.

    `fits` is set once the model's context proved too small: the tokens left for each reply.
    """

    messages: tuple[Message, ...]
    model: str
    n: int = 1
    temperature: float = 1.0
    max_tokens: int = 1024
    schema: Mapping[str, object] | None = None
    described: bool = True
    top_logprobs: int | None = None
    fits: int | None = None
    marks: CacheMarks | None = field(default=None, compare=False)
    images: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.messages or self.n < 1 or self.max_tokens < 1:
            raise ValueError("A request has a message, n of at least 1 and a token to answer with.")

    @cached_property
    def prompt_tokens(self) -> int:
        """An estimate, since the endpoint's own count comes only with its reply."""
        texts = [message.content for message in self.messages]
        if not any(SCHEME in text for text in texts):
            return estimate_prompt(texts)
        stripped = [without_images(text) for text in texts]
        return estimate_prompt([text for text, _ in stripped]) + TOKENS * sum(
            n for _, n in stripped
        )


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One token of the reply, and the likeliest tokens at its place, likeliest first."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One completion. The endpoint returned `reasoning` separately, and it is never parsed.

    `elsewhere` names the other fields of the message that hold something: tool calls, audio.
    """

    text: str | None
    finish_reason: str
    reasoning: str = ""
    logprobs: tuple[TokenLogprobs, ...] | None = None
    completion_tokens: int | None = None
    refusal: str = ""
    elsewhere: tuple[str, ...] = ()

    def logprobs_json(self) -> list[dict[str, object]] | None:
        if self.logprobs is None:
            return None
        return [
            {"token": t.token, "logprob": t.logprob, "top": [list(pair) for pair in t.top]}
            for t in self.logprobs
        ]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a call. A server that caps or ignores n gives fewer choices than `asked`.

    Of the call's `requests`, `possibly_billed` were cut off after they were sent. `reply_id` is in
    the reply itself, and a cache that gives it again repeats it.
    """

    choices: tuple[Choice, ...]
    usage: Usage
    model: str
    request_id: str
    asked: int
    requests: int = 1
    possibly_billed: int = 0
    duration_ms: int = 0
    reply_id: str = ""


def stored_logprobs(stored: list[dict[str, Any]] | None) -> tuple[TokenLogprobs, ...] | None:
    """Return what `Choice.logprobs_json` wrote."""
    if stored is None:
        return None
    return tuple(
        TokenLogprobs(
            entry["token"],
            entry["logprob"],
            tuple((token, logprob) for token, logprob in entry["top"]),
        )
        for entry in stored
    )
