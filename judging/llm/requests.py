"""What a judge is asked, before any endpoint's peculiarities."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from judging.llm.messages import Message
from judging.llm.usage import estimate_prompt


@dataclass(frozen=True)
class JudgeRequest:
    """`schema` is a bare JSON schema; `top_logprobs` asks for the log-probabilities too.

    `fits`: where the model's context was too small, the tokens that this prompt leaves for a reply.
    """

    messages: tuple[Message, ...]
    model: str
    n: int = 1
    temperature: float = 1.0
    max_tokens: int = 1024
    schema: Mapping[str, object] | None = None
    top_logprobs: int | None = None
    fits: int | None = None

    def __post_init__(self) -> None:
        if not self.messages or self.n < 1 or self.max_tokens < 1:
            raise ValueError("A request has a message, n of at least 1 and a token to answer with.")

    @cached_property
    def prompt_tokens(self) -> int:
        """An estimate: the endpoint's own count is known only from its reply."""
        return estimate_prompt([message.content for message in self.messages])
