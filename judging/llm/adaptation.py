"""How an endpoint differs, learned from its own refusals, and the body that it will accept."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, Self

from judging.llm.errors import AttemptFailure, FailureKind
from judging.llm.messages import Message
from judging.llm.requests import JudgeRequest

TokensField = Literal["max_tokens", "max_completion_tokens"]
SchemaMode = Literal["json_schema", "plain_schema", "json_object", "none"]


@dataclass(frozen=True, slots=True)
class Learned:
    """What one model at one endpoint takes. The defaults are what OpenAI's first API took."""

    max_n: int | None = None
    tokens_field: TokensField = "max_tokens"
    temperature: bool = True
    system_role: bool = True
    schema: SchemaMode = "json_schema"
    logprobs: bool = True
    max_top_logprobs: int | None = None
    usage_of_one_choice: bool = False

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in data.items() if k in known})  # type: ignore[arg-type]

    def notes(self) -> tuple[str, ...]:
        """One sentence for each difference, for the run's page."""
        found = {
            f"The server gives at most {self.max_n} choice(s) a request.": self.max_n is not None,
            "The server takes max_completion_tokens in place of max_tokens.": self.tokens_field
            != "max_tokens",
            "The model's temperature is fixed: the run's temperature was not used.": (
                not self.temperature
            ),
            "The model takes no system message: it was put in front of the first user message.": (
                not self.system_role
            ),
            "The server takes no bounds in a JSON schema: lengths and ranges were not enforced.": (
                self.schema == "plain_schema"
            ),
            "The server takes no JSON schema: it was asked for a JSON object.": self.schema
            == "json_object",
            "The server takes no response format: the reply's form was not enforced.": self.schema
            == "none",
            "The model gives no log-probabilities.": not self.logprobs,
            f"The server gives at most {self.max_top_logprobs} top log-probabilities.": (
                self.max_top_logprobs is not None
            ),
            "The server reports the tokens of one choice only: the others are estimated.": (
                self.usage_of_one_choice
            ),
        }
        return tuple(sentence for sentence, holds in found.items() if holds)


def body(request: JudgeRequest, learned: Learned) -> dict[str, object]:
    """The JSON that is sent: nothing in it that this endpoint is known to refuse."""
    messages = request.messages if learned.system_role else _folded(request.messages)
    sent: dict[str, object] = {
        "model": request.model,
        "messages": [{"role": m.role, "content": m.content} for m in messages],
        learned.tokens_field: request.max_tokens,
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


REFUSAL = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|permitted|must|only|at most|maximum|greater"
    r"|less than|cannot|can't|invalid|allowed|not a valid|exceed|range|too (many|large|high)"
    r"|extra (fields|inputs)|between|disabled|default",
    re.IGNORECASE,
)
# How messages name a parameter when the error has no field for it.
NAMED = {
    "response_format": r"response_format|json_schema|json_object|structured output|guided|grammar"
    r"|['\"]messages['\"] must contain the word ['\"]json['\"]",
    "max_completion_tokens": r"max_completion_tokens",
    "max_tokens": r"max_tokens",
    "top_logprobs": r"top_logprobs|sample logprobs",
    "logprobs": r"\blogprobs?\b",
    "temperature": r"\btemperature\b",
    "messages": r"\bsystem\b.{0,40}\brole|\brole.{0,80}\bsystem\b|only user and assistant roles"
    r"|roles must alternate|developer instruction",
    "n": r"[`'\"]n[`'\"]|\bn ?(>|=|must|should|is)|n_cmpl|n_parallel"
    r"|(multiple|number of|one) (completion )?(choices?|completions?)|num_return_sequences"
    r"|candidatecount",
}
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in NAMED.items()}
STATED_MOST = re.compile(
    r"(?:at most|maximum(?: allowed)?(?: value)?(?: is| of)?|max(?: allowed)?|less than or equal to"
    r"|no more than|up to|<=|not exceed|between \d+ and|\[\d+, ?)[:\s]*[`'\"]?(\d+)",
    re.IGNORECASE,
)
ONLY_ONE = re.compile(
    r"only (?:one|1)\b|must be (?:one|1)\b|= ?1\b|n ?> ?1|multiple", re.IGNORECASE
)


def learn(learned: Learned, request: JudgeRequest, failure: AttemptFailure) -> Learned | None:
    """What a refusal teaches, or None when it names nothing that can be asked differently."""
    if failure.kind not in (FailureKind.BAD_REQUEST, FailureKind.AUTH):
        return None
    if failure.http_status not in (400, 403, 422):
        return None
    sent = body(request, learned)
    for name in _named(failure, sent):
        adapted = _adapted(learned, name, request, failure.message)
        if adapted is not None and body(request, adapted) != sent:
            return adapted
    return None


def _named(failure: AttemptFailure, sent: Mapping[str, object]) -> list[str]:
    """The parameters that a refusal is about: the one that it points at, or those in its text."""
    if failure.parameter is not None:
        root = re.split(r"[.\[]", failure.parameter)[0]
        if root != "messages":
            return [root] if root in sent else []
        # It may be about the system role, about the word JSON, or about the texts themselves.
    if REFUSAL.search(failure.message) is None:
        return []
    return [
        name
        for name, pattern in PATTERNS.items()
        if name in sent and pattern.search(failure.message)
    ]


def _adapted(learned: Learned, name: str, request: JudgeRequest, message: str) -> Learned | None:
    match name:
        case "n":
            return replace(learned, max_n=_lower(message, min(request.n, learned.max_n or 10**6)))
        case "max_tokens" if "max_completion_tokens" in message or "max_tokens" not in message:
            return replace(learned, tokens_field="max_completion_tokens")
        case "max_completion_tokens":
            return replace(learned, tokens_field="max_tokens")
        case "temperature":
            return replace(learned, temperature=False)
        case "messages":
            return replace(learned, system_role=False) if PATTERNS[name].search(message) else None
        case "response_format":
            return replace(learned, schema=_next_mode(learned.schema, message))
        case "logprobs":
            return replace(learned, logprobs=False)
        case "top_logprobs" if request.top_logprobs:
            asked = min(request.top_logprobs, learned.max_top_logprobs or 10**6)
            most = _lower(message, asked)
            if asked <= 1:
                return replace(learned, logprobs=False)
            return replace(learned, max_top_logprobs=most)
    return None


def _next_mode(mode: SchemaMode, message: str) -> SchemaMode:
    """One step down: to a schema without bounds where the message is about what is in it."""
    if mode == "json_schema" and any(bound in message for bound in BOUNDS):
        return "plain_schema"
    return "none" if mode == "json_object" else "json_object"


def _lower(message: str, asked: int) -> int:
    """The most that the message allows, or half of what was asked when it doesn't say."""
    stated = [int(number) for number in STATED_MOST.findall(message)]
    fitting = [number for number in stated if 1 <= number < asked]
    if fitting:
        return max(fitting)
    return 1 if ONLY_ONE.search(message) else max(1, asked // 2)
