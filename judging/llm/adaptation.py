"""How an endpoint differs, and the body of a request that it will accept."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Literal, Self

from judging.llm.messages import Message
from judging.llm.requests import JudgeRequest

TokensField = Literal["max_tokens", "max_completion_tokens"]
SchemaMode = Literal["json_schema", "plain_schema", "json_object", "none"]
# A reply that is allowed fewer holds no verdict.
FEWEST_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Learned:
    """What one model at one endpoint takes. The defaults are what OpenAI's first API took."""

    max_n: int | None = None
    tokens_field: TokensField = "max_tokens"
    max_tokens: int | None = None
    context: int | None = None
    temperature: bool = True
    system_role: bool = True
    schema: SchemaMode = "json_schema"
    logprobs: bool = True
    max_top_logprobs: int | None = None
    usage_of_one_choice: bool = False

    def reply_tokens(self, request: JudgeRequest) -> int:
        """The most tokens that the request may allow each reply."""
        most = min(request.max_tokens, self.max_tokens or request.max_tokens)
        if request.fits is not None:
            return min(most, request.fits)
        if self.context is None:
            return most
        # The prompt's length is an estimate: where much hangs on it, the server is to count.
        left = self.context - request.prompt_tokens
        return left if most // 2 < left < most else most

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in data.items() if k in known})  # type: ignore[arg-type]

    def notes(self) -> tuple[str, ...]:
        """One sentence for each difference, for the run's page."""
        return tuple(sentence for differs, sentence in self._differences() if differs)

    def _differences(self) -> Iterator[tuple[bool, str]]:
        most = "one choice" if self.max_n == 1 else f"{self.max_n} choices"
        yield self.max_n is not None, f"The server gives at most {most} a request."
        yield (
            self.tokens_field != "max_tokens",
            "The server takes max_completion_tokens in place of max_tokens.",
        )
        yield (
            self.max_tokens is not None,
            f"The model writes at most {self.max_tokens} tokens a sample: where the run allows "
            "more, replies are cut off there.",
        )
        yield (
            self.context is not None,
            f"The model's context holds {self.context} tokens: where a prompt leaves less of it "
            "than the run allows a sample, the reply gets what is left.",
        )
        yield (
            not self.temperature,
            "The model's temperature is fixed: the run's temperature was not used.",
        )
        yield (
            not self.system_role,
            "The model takes no system message: it was put before the first user message.",
        )
        yield self.schema != "json_schema", SCHEMA_NOTES[self.schema]
        yield not self.logprobs, "The model gives no log-probabilities."
        yield (
            self.max_top_logprobs is not None,
            f"The server gives at most {self.max_top_logprobs} top log-probabilities.",
        )
        yield (
            self.usage_of_one_choice,
            "The server reports the tokens of one choice only: the others are estimated.",
        )


SCHEMA_NOTES: dict[SchemaMode, str] = {
    "json_schema": "",
    "plain_schema": "The server takes no bounds in a JSON schema: lengths and ranges were not "
    "enforced.",
    "json_object": "The server takes no JSON schema: it was asked for a JSON object.",
    "none": "The server takes no response format: the reply's form was not enforced.",
}


def body(request: JudgeRequest, learned: Learned) -> dict[str, object]:
    """The JSON that is sent: nothing in it that this endpoint is known to refuse."""
    messages = request.messages if learned.system_role else _folded(request.messages)
    sent: dict[str, object] = {
        "model": request.model,
        "messages": [{"role": m.role, "content": m.content} for m in messages],
        learned.tokens_field: learned.reply_tokens(request),
    }
    if learned.temperature:
        sent["temperature"] = request.temperature
    if (n := min(request.n, learned.max_n or request.n)) > 1:
        sent["n"] = n
    if request.top_logprobs is not None and learned.logprobs:
        top = min(request.top_logprobs, learned.max_top_logprobs or request.top_logprobs)
        sent |= {"logprobs": True, "top_logprobs": top}
    if request.schema is not None and learned.schema != "none":
        sent["response_format"] = _response_format(request.schema, learned.schema)
    return sent


def _response_format(schema: Mapping[str, object], mode: SchemaMode) -> dict[str, object]:
    if mode == "json_object":
        return {"type": "json_object"}
    taken = _unbounded(schema) if mode == "plain_schema" else schema
    named = {"name": "verdict", "schema": taken, "strict": True}
    return {"type": "json_schema", "json_schema": named}


BOUNDS = {"minLength", "maxLength", "minimum", "maximum", "pattern", "minItems", "maxItems"}


def _unbounded(schema: object) -> object:
    """The schema's structure without its bounds."""
    if isinstance(schema, Mapping):
        return {name: _unbounded(v) for name, v in schema.items() if name not in BOUNDS}
    return [_unbounded(v) for v in schema] if isinstance(schema, list) else schema


def _folded(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    system = [m.content for m in messages if m.role == "system"]
    others = [m for m in messages if m.role != "system"]
    if not system:
        return messages
    if others and others[0].role == "user":
        system.append(others.pop(0).content)
    return (Message("user", "\n\n".join(system)), *others)
