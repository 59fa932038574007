"""What a refusal teaches about an endpoint: which parameter it names, and what it takes instead."""

import re
from collections.abc import Mapping
from dataclasses import replace

from judging.llm.adaptation import BOUNDS, FEWEST_TOKENS, Learned, SchemaMode, body
from judging.llm.errors import AttemptFailure, FailureKind
from judging.llm.requests import JudgeRequest

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
    # A letter alone, and not as in n't.
    "n": r"(?<![\w\\])n(?![\w-]|['\u2019]t)|n_cmpl|n_parallel"
    r"|(multiple|number of|one) (completion )?(choice|completion|candidate)|num_return_sequences"
    r"|candidatecount",
}
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in NAMED.items()}
STATED_MOST = re.compile(
    r"(?:at most|maximum(?: allowed)?(?: value)?(?: is| of)?|max(?: allowed)?|less than or equal to"
    r"|no more than|up to|<=|not exceed|between \d+ and|\[\d+, ?)[:\s]*[`'\"]?(\d+)",
    re.IGNORECASE,
)
# The parameter itself, whatever its value.
UNKNOWN = r"unknown|unrecogni[sz]ed|unexpected|deprecated|extra (fields|inputs)|not support"
# A temperature out of range is the caller's mistake, and is not to be mended by another one.
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

# A cap on the reply's tokens, by whichever name; a number is no part of a model's name.
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


def learn(learned: Learned, request: JudgeRequest, failure: AttemptFailure) -> Learned | None:
    """What a refusal teaches, or None when it names nothing that can be asked differently."""
    if not _is_refusal(failure):
        return None
    sent = body(request, learned)
    if (cap := _tokens_cap(failure, sent[learned.tokens_field])) is not None:
        return replace(learned, max_tokens=cap)
    for name in _named(failure, sent):
        adapted = _adapted(learned, name, request, failure.message)
        if adapted is not None and body(request, adapted) != sent:
            return adapted
    return None


def _is_refusal(failure: AttemptFailure) -> bool:
    """Whether the server won't take what was sent; some say so as if they had failed."""
    if failure.kind in (FailureKind.BAD_REQUEST, FailureKind.AUTH):
        return failure.http_status in (400, 403, 422, 501)
    return failure.http_status == 500 and FAILED_ON.search(failure.message) is not None


def _tokens_cap(failure: AttemptFailure, sent: object) -> int | None:
    """The most tokens for a reply that the message names, where it says that these are too many."""
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
    """The parameters that a refusal is about: the one that it points at, or those in its text."""
    message = failure.message
    if failure.parameter is not None:
        root = re.split(r"[.\[]", failure.parameter)[0]
        if root in sent:
            # It may be about the system role, about the word JSON, or about the texts themselves.
            named = ["response_format", "messages"] if root == "messages" else [root]
            return [name for name in named if name == root or PATTERNS[name].search(message)]
    if REFUSAL.search(message) is None:
        return []
    return [name for name, found in PATTERNS.items() if name in sent and found.search(message)]


def _adapted(learned: Learned, name: str, request: JudgeRequest, message: str) -> Learned | None:
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
    """One step down: to a schema without bounds where the message is about what is in it, and to
    nothing where the server knows no such parameter."""
    if mode == "json_schema" and any(bound in message for bound in BOUNDS):
        return "plain_schema"
    if NO_SUCH_ARGUMENT.search(message):
        return "none"
    return "none" if mode == "json_object" else "json_object"


def _lower(message: str, asked: int) -> int:
    """The most that the message allows, or half of what was asked when it doesn't say."""
    stated = [int(number) for number in STATED_MOST.findall(message)]
    fitting = [number for number in stated if 1 <= number < asked]
    if fitting:
        return max(fitting)
    return 1 if ONLY_ONE.search(message) else max(1, asked // 2)
