"""How an endpoint differs, and a request in the form that it accepts.

`body` writes a request for what is known of the endpoint. When the endpoint refuses it, `learn`
reads in the refusal which parameter it named and what it takes instead, and `fit` how many tokens
the prompt leaves for the reply in the model's context.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, Self

from judging.core.images import pieces
from judging.llm.client.errors import AttemptFailure, FailureKind
from judging.llm.client.messages import JudgeRequest, Message
from judging.llm.prices import fewest_tokens

TokensField = Literal["max_tokens", "max_completion_tokens"]
SchemaMode = Literal["json_schema", "plain_schema", "json_object", "none"]
# A shorter reply holds no verdict.
FEWEST_TOKENS = 16


@dataclass(frozen=True, slots=True)
class EndpointCapabilities:
    """What one model at one endpoint accepts. The defaults are those of OpenAI's first API.

    images: None until a run with images has asked.
    """

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
    cache_marks: bool = True
    images: bool | None = None

    def reply_tokens(self, request: JudgeRequest) -> int:
        """Return the most tokens that the request may allow each reply."""
        most = min(request.max_tokens, self.max_tokens or request.max_tokens)
        if request.fits is not None:
            return min(most, request.fits)
        if self.context is None:
            return most
        # The prompt's length is an estimate. If it would cost half of the reply, the server is
        # asked for everything, and its refusal then says the true length.
        left = self.context - request.prompt_tokens
        return left if most // 2 < left < most else most

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Self:
        names = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in data.items() if k in names})  # type: ignore[arg-type]

    def notes(self) -> tuple[str, ...]:
        """Return one sentence for each difference, for the run's page."""
        choices = "one choice" if self.max_n == 1 else f"{self.max_n} choices"
        differences = (
            (self.max_n, f"The server gives at most {choices} per request."),
            (
                self.tokens_field != "max_tokens",
                "The server takes max_completion_tokens instead of max_tokens.",
            ),
            (
                self.max_tokens,
                f"The model writes at most {self.max_tokens} tokens per sample. If the run allows "
                "more, replies are cut off there.",
            ),
            (
                self.context,
                f"The model's context holds {self.context} tokens. If a prompt leaves fewer than "
                "the run allows per sample, the reply gets what is left.",
            ),
            (
                not self.temperature,
                "The model's temperature is fixed: the run's temperature was not used.",
            ),
            (
                not self.system_role,
                "The model takes no system message: it was put before the first user message.",
            ),
            (self.schema != "json_schema", SCHEMA_NOTES[self.schema]),
            (not self.logprobs, "The model gives no log-probabilities."),
            (
                self.max_top_logprobs is not None,
                f"The server gives at most {self.max_top_logprobs} top log-probabilities.",
            ),
            (
                self.usage_of_one_choice,
                "The server reports the tokens of one choice only. The others are estimated.",
            ),
            (
                not self.cache_marks,
                "The server takes no cache markers: prompts were sent without them.",
            ),
            (self.images is False, "The model takes no images."),
        )
        return tuple(sentence for differs, sentence in differences if differs)


SCHEMA_NOTES: dict[SchemaMode, str] = {
    "json_schema": "",
    "plain_schema": "The server takes no bounds in a JSON schema: lengths and ranges were not "
    "enforced.",
    "json_object": "The server takes no JSON schema: it was asked for a JSON object if the prompt "
    "describes one.",
    "none": "The server takes no response format: the reply's form was not enforced.",
}


def body(request: JudgeRequest, learned: EndpointCapabilities) -> dict[str, object]:
    """Return the JSON to send, without anything that this endpoint is known to refuse."""
    sent: dict[str, object] = {
        "model": request.model,
        "messages": [_with_images(sent, request.images) for sent in _messages(request, learned)],
        learned.tokens_field: learned.reply_tokens(request),
    }
    if learned.temperature:
        sent["temperature"] = request.temperature
    if (n := min(request.n, learned.max_n or request.n)) > 1:
        sent["n"] = n
    if request.top_logprobs is not None and learned.logprobs:
        top = min(request.top_logprobs, learned.max_top_logprobs or request.top_logprobs)
        sent |= {"logprobs": True, "top_logprobs": top}
    taken = ("json_schema", "plain_schema", *(("json_object",) if request.described else ()))
    if request.schema is not None and learned.schema in taken:
        sent["response_format"] = _response_format(request.schema, learned.schema)
    return sent


def _messages(request: JudgeRequest, learned: EndpointCapabilities) -> list[dict[str, object]]:
    """Return the messages; with cache marks, two of their ends are marked for Anthropic's models.

    OpenRouter, LiteLLM and others take `cache_control` on a part of a message's content. The whole
    prompt is marked only if this server answers each sample by its own request: writing to the
    cache costs more, and nobody would read it.
    """
    messages = request.messages if learned.system_role else _folded(request.messages)
    sent: list[dict[str, object]] = [{"role": m.role, "content": m.content} for m in messages]
    marks = request.marks
    if marks is None or not learned.cache_marks:
        return sent
    last = len(messages) - 1
    ends = {last} if marks.whole and learned.max_n == 1 else set()
    if messages == request.messages:
        place, text = marks.message, messages[marks.message].content
        shared, rest = text[: marks.characters], text[marks.characters :]
        if shared.strip() and rest.strip():
            parts = [_part(shared, marked=True), _part(rest, marked=place in ends)]
            sent[place]["content"] = parts
            ends -= {place}
        elif place and not shared.strip():
            ends |= {place - 1}
    for end in ends:
        sent[end]["content"] = [_part(messages[end].content, marked=True)]
    return sent


def _with_images(message: dict[str, object], images: Mapping[str, str]) -> dict[str, object]:
    """Return a message with the images in their places, between what is written around them."""
    content = message["content"]
    if not images or message["role"] != "user":
        return message
    parts = content if isinstance(content, list) else [_part(str(content), marked=False)]
    cut = [piece for part in parts for piece in _cut(part, images)]
    return message if len(cut) == len(parts) else {**message, "content": cut}


def _cut(part: dict[str, object], images: Mapping[str, str]) -> list[dict[str, object]]:
    """Cut a part at its images. What was marked is marked at its end."""
    parts: list[dict[str, object]] = []
    text = ""
    for piece in pieces(str(part["text"])):
        if isinstance(piece, str):
            text += piece
        elif url := images.get(piece.sha256):
            parts += [_part(text, marked=False)] if text.strip() else []
            parts.append({"type": "image_url", "image_url": {"url": url}})
            text = ""
    parts += [_part(text, marked=False)] if text.strip() else []
    if parts and "cache_control" in part:
        parts[-1]["cache_control"] = part["cache_control"]
    return parts if any("image_url" in part_of_text for part_of_text in parts) else [part]


def _part(text: str, *, marked: bool) -> dict[str, object]:
    part: dict[str, object] = {"type": "text", "text": text}
    return part | {"cache_control": {"type": "ephemeral"}} if marked else part


def _response_format(schema: Mapping[str, object], mode: SchemaMode) -> dict[str, object]:
    if mode == "json_object":
        return {"type": "json_object"}
    taken = _unbounded(schema) if mode == "plain_schema" else schema
    named = {"name": "verdict", "schema": taken, "strict": True}
    return {"type": "json_schema", "json_schema": named}


BOUNDS = {"minLength", "maxLength", "minimum", "maximum", "pattern", "minItems", "maxItems"}


def _unbounded(schema: object) -> object:
    """Return the schema without its bounds."""
    if isinstance(schema, Mapping):
        return {name: _unbounded(v) for name, v in schema.items() if name not in BOUNDS}
    return [_unbounded(v) for v in schema] if isinstance(schema, list) else schema


def _folded(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Put what system messages say before the first user message."""
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
    r"|extra (fields|inputs)|between|disabled|default|deprecated|unavailable|should|fail|one of"
    r"|not (enabled|available|implemented)",
    re.IGNORECASE,
)
# How messages name a parameter when the error has no field for it.
NAMED = {
    "response_format": r"(response|output)_format|json[_ ](schema|object|mode)|structured output"
    r"|guided|grammar|response_?schema|response mime|\bpropert(y|ies)\b.{0,20}(max|min)"
    r"|['\"]messages['\"] must contain the word ['\"]json['\"]",
    "max_completion_tokens": r"max_completion_tokens",
    "max_tokens": r"max_tokens",
    "top_logprobs": r"top_logprobs|sample logprobs|top_n_tokens",
    "logprobs": r"\blogprobs?\b",
    "temperature": r"\btemperature\b",
    "messages": r"\bsystem\b.{0,80}\brole|\brole.{0,120}\bsystem\b|only user and assistant roles"
    r"|roles must alternate|(developer|system) (instruction|message|prompt)",
    # The letter alone, and not the one of n't.
    "n": r"(?<![\w\\])n(?![\w-]|['\u2019]t)|n_cmpl|n_parallel"
    r"|(multiple|number of|one) (completion )?(choice|completion|candidate)|num_return_sequences"
    r"|candidatecount",
}
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in NAMED.items()}
# A server without markers names the key, or wants a text in place of the parts that hold it.
UNMARKED = re.compile(
    r"cache_control|\bcontent\b.{0,80}(?:\bstrings?\b|\bstr\b)|(?:\bstrings?\b|\bstr\b).{0,80}"
    r"\bcontent\b",
    re.IGNORECASE | re.DOTALL,
)
STATED_MOST = re.compile(
    r"(?:at most|maximum(?: allowed)?(?: value)?(?: is| of)?|max(?: allowed)?|less than or equal to"
    r"|no more than|up to|<=|not exceed|between \d+ and|\[\d+, ?)[:\s]*[`'\"]?(\d+)",
    re.IGNORECASE,
)
# Refusals of a parameter itself, not of its value.
UNKNOWN = r"unknown|unrecogni[sz]ed|unexpected|deprecated|extra (fields|inputs)|not support"
# A temperature out of range is the caller's mistake, and leaving it out would hide that.
FIXED = re.compile(
    r"support|only the default|fixed|not (allowed|permitted|enabled)|only [\d.]+ is|may only be"
    r"|must be (set to )?1(\.0)?($|[^\d.]|\.(?!\d))|" + UNKNOWN,
    re.IGNORECASE,
)
NOT_KNOWN = re.compile(UNKNOWN, re.IGNORECASE)
NO_SUCH_ARGUMENT = re.compile(
    r"(unrecogni[sz]ed|unknown|unexpected|extra)( request| keyword)? "
    r"(argument|parameter|field|input)",
    re.IGNORECASE,
)
# llama.cpp fails on a chat template or a grammar with a 500.
FAILED_ON = re.compile(r"jinja|template|grammar|json schema|system role|roles must", re.IGNORECASE)
ONLY_ONE = re.compile(
    r"only (?:one|1)\b|must be (?:one|1)\b|= ?1\b|n ?> ?1|multiple", re.IGNORECASE
)

# A cap on the reply's tokens under any name. The number may not be a part of a model's name.
REPLY_TOKENS = re.compile(
    r"max_?(?:completion_?|output_?|new_?)?tokens|maximum tokens|(?:completion|output) tokens",
    re.IGNORECASE,
)
TOO_MANY = re.compile(
    r"too large|too high|at most|less than|lower than|cannot be greater|exceed|maximum|range"
    r"|between|[<>\u2264]",
    re.IGNORECASE,
)
PLAIN_NUMBER = re.compile(r"(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d+)(?![\w-]|[.,]\d)(\W+exclusive)?")


def learn(
    learned: EndpointCapabilities, request: JudgeRequest, failure: AttemptFailure
) -> EndpointCapabilities | None:
    """Return what a refusal teaches, or None if it names nothing that can be asked differently."""
    if not _is_refusal(failure):
        return None
    sent = body(request, learned)
    unmarked = replace(learned, cache_marks=False)
    if UNMARKED.search(failure.message) and body(request, unmarked) != sent:
        return unmarked
    if (cap := _tokens_cap(failure, sent[learned.tokens_field])) is not None:
        return replace(learned, max_tokens=cap)
    for name in _named(failure, sent):
        adapted = _adapted(learned, name, request, failure.message)
        if adapted is not None and body(request, adapted) != sent:
            return adapted
    return None


def _is_refusal(failure: AttemptFailure) -> bool:
    """Return True if the server refuses what was sent. Some say so as if they had failed."""
    if failure.kind in (FailureKind.BAD_REQUEST, FailureKind.AUTH):
        return failure.http_status in (400, 403, 422, 501)
    return failure.http_status == 500 and FAILED_ON.search(failure.message) is not None


def _tokens_cap(failure: AttemptFailure, sent: object) -> int | None:
    """Return the most tokens per reply that the message names, if it calls those sent too many."""
    message = failure.message
    named = failure.parameter or message
    if REPLY_TOKENS.search(named) is None or TOO_MANY.search(message) is None:
        return None
    stated = [
        int(number.replace(",", "")) - bool(exclusive)
        for number, exclusive in PLAIN_NUMBER.findall(message)
    ]
    fitting = [n for n in stated if isinstance(sent, int) and FEWEST_TOKENS <= n < sent]
    return max(fitting, default=None)


def _named(failure: AttemptFailure, sent: Mapping[str, object]) -> list[str]:
    """Return the parameters that a refusal is about: the one it points at, or those in its text."""
    message = failure.message
    if failure.parameter is not None:
        root = re.split(r"[.\[]", failure.parameter)[0]
        if root in sent:
            # It may mean the system role, a missing word "JSON", or the texts themselves.
            named = ["response_format", "messages"] if root == "messages" else [root]
            return [name for name in named if name == root or PATTERNS[name].search(message)]
    if REFUSAL.search(message) is None:
        return []
    return [name for name, words in PATTERNS.items() if name in sent and words.search(message)]


def _adapted(
    learned: EndpointCapabilities, name: str, request: JudgeRequest, message: str
) -> EndpointCapabilities | None:
    match name:
        case "n":
            return replace(learned, max_n=_lower(message, min(request.n, learned.max_n or 10**6)))
        case "max_tokens" if "max_completion_tokens" in message or "max_tokens" not in message:
            return replace(learned, tokens_field="max_completion_tokens")
        case "max_tokens" if NOT_KNOWN.search(message):
            return replace(learned, tokens_field="max_completion_tokens")
        case "max_completion_tokens":
            return replace(learned, tokens_field="max_tokens")
        case "temperature" if FIXED.search(message):
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
            if asked <= 1 or NOT_KNOWN.search(message):
                return replace(learned, logprobs=False)
            return replace(learned, max_top_logprobs=most)
    return None


def _next_mode(mode: SchemaMode, message: str) -> SchemaMode:
    """Return the next simpler mode.

    A message about a bound leads to a schema without bounds; an unknown parameter leads to none.
    """
    if mode == "json_schema" and any(bound in message for bound in BOUNDS):
        return "plain_schema"
    if NO_SUCH_ARGUMENT.search(message):
        return "none"
    return "none" if mode == "json_object" else "json_object"


def _lower(message: str, asked: int) -> int:
    """Return the most that the message allows, or half of what was asked if it doesn't say."""
    stated = [int(number) for number in STATED_MOST.findall(message)]
    fitting = [number for number in stated if 1 <= number < asked]
    if fitting:
        return max(fitting)
    return 1 if ONLY_ONE.search(message) else max(1, asked // 2)


# Each names the context, and the prompt alone or prompt and reply together. Later versions of vLLM
# stop counting a prompt as soon as it leaves no room for the reply.
STATEMENTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # OpenAI, Azure, DeepSeek, OpenRouter, llama-cpp-python, and vLLM until 0.8.
        r"maximum context length is (?P<context>\d+) tokens\W+however,? you requested (?:about )?"
        r"(?P<total>\d+) tokens \(.{1,80}?(?P<reply>\d+) (?:in|for) the +(?:completion|output)\)",
        # vLLM since 0.8.
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
    request: JudgeRequest, learned: EndpointCapabilities, failure: AttemptFailure
) -> tuple[EndpointCapabilities, JudgeRequest] | None:
    """Ask for a reply that fits after the prompt. Returns None if the prompt alone is too long."""
    if failure.kind is not FailureKind.TOO_LONG:
        return None
    statement = next(filter(None, (p.search(failure.message) for p in STATEMENTS)), None)
    if statement is None:
        return None
    stated = {name: int(number) for name, number in statement.groupdict().items()}
    sent = learned.reply_tokens(request)
    left = _room(stated, request, sent)
    if not FEWEST_TOKENS <= left < sent:
        return None
    return replace(learned, context=stated["context"]), replace(request, fits=left)


def _room(stated: dict[str, int], request: JudgeRequest, sent: int) -> int:
    """Return the tokens that the prompt leaves in the context, as stated or as guessed."""
    context = stated["context"]
    if "prompt" in stated:
        return context - stated["prompt"]
    if "total" in stated:
        return context - (stated["total"] - stated["reply"])
    if context - sum(fewest_tokens(m.content) for m in request.messages) < FEWEST_TOKENS:
        return 0
    # The server didn't count the prompt to its end. Take our own estimate if it is plausible.
    guessed = context - request.prompt_tokens
    return guessed if sent // 4 <= guessed < sent else sent // 4
