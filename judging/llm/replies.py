"""What came back from a judge."""

from dataclasses import dataclass

from judging.llm.usage import Usage


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One token of the reply, and the likeliest tokens in its place, likeliest first."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One completion. `reasoning` is what the endpoint keeps apart, and is never parsed."""

    text: str | None
    finish_reason: str
    reasoning: str = ""
    logprobs: tuple[TokenLogprobs, ...] | None = None
    completion_tokens: int | None = None
    refusal: str = ""

    def logprobs_json(self) -> list[dict[str, object]] | None:
        if self.logprobs is None:
            return None
        return [
            {"token": t.token, "logprob": t.logprob, "top": [list(pair) for pair in t.top]}
            for t in self.logprobs
        ]


@dataclass(frozen=True, slots=True)
class Reply:
    """`asked` choices were asked for; a server that caps or ignores n gives fewer.

    Of the `requests` that the call took, `possibly_billed` were cut off after they were sent.
    """

    choices: tuple[Choice, ...]
    usage: Usage
    model: str
    request_id: str
    asked: int
    requests: int = 1
    possibly_billed: int = 0
    duration_ms: int = 0
