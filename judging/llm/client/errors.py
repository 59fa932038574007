"""What went wrong with a request: failures, their kinds, and how servers word them.

The kind decides what happens next: the call is repeated, its samples end with a status, or the run
pauses. Nothing here waits or repeats.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from judging.core.text import storable

LONGEST_MESSAGE = 500
SAID_FIRST = 200


class FailureKind(StrEnum):
    TRANSIENT = "transient"
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    BAD_REPLY = "bad_reply"
    QUOTA = "quota"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    BAD_REQUEST = "bad_request"
    TOO_LONG = "too_long"
    FILTERED = "filtered"

    @property
    def pauses_run(self) -> bool:
        """True if every other call would fail too until a person does something."""
        return self in (FailureKind.QUOTA, FailureKind.AUTH, FailureKind.NOT_FOUND)

    @property
    def worth_repeating(self) -> bool:
        return self in (
            FailureKind.TRANSIENT,
            FailureKind.RATE_LIMIT,
            FailureKind.TIMEOUT,
            FailureKind.BAD_REPLY,
        )

    @property
    def status(self) -> str:
        """The status of the samples that this call should have returned."""
        return self.value if self in (FailureKind.TOO_LONG, FailureKind.FILTERED) else "error"

    @property
    def advice(self) -> str:
        """What a person can do; empty if the failure passes by itself."""
        return ADVICE.get(self, "")


ADVICE = {
    FailureKind.QUOTA: "The account has no credit left. Add credit, then resume the run.",
    FailureKind.AUTH: "Check the key in the endpoint's variable, then resume the run.",
    FailureKind.NOT_FOUND: "Check the endpoint's address and the model's name.",
    FailureKind.TOO_LONG: "The example is too long for this model's context.",
    FailureKind.FILTERED: "The endpoint's content filter refused this example.",
}


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A call that returned nothing. `message` holds no key and may be shown."""

    kind: FailureKind
    message: str
    http_status: int | None = None
    requests: int = 1
    possibly_billed: int = 0
    duration_ms: int = 0
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """One request that returned nothing. `parameter` is the one that the server names."""

    kind: FailureKind
    message: str
    http_status: int | None = None
    parameter: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    possibly_billed: bool = False

    @property
    def request_id(self) -> str:
        return storable(self.headers.get("x-request-id", ""))

    @property
    def with_status(self) -> str:
        return f"HTTP {self.http_status}: {self.message}" if self.http_status else self.message


# Wordings of OpenAI, Azure, vLLM, SGLang, TGI, llama.cpp, Ollama, Mistral, Anthropic and Gemini.
TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|(maximum|model'?s?|available|max) context "
    r"(length|size|window)|context (length|window) (of|exceed)|prompt is too long|input is too long"
    r"|input (length|token count).{0,40}exceed|exceeds? the (available|maximum|model).{0,20}context"
    r"|inputs?\W? tokens \+ .?max_new_tokens|string_above_max_length|too many (input )?tokens"
    r"|(longer|greater) than the (maximum model|context) length|prompt.{0,40} too long"
    r"|exceed(s|ed)? (the )?(max(imum)? )?context|model token limit|range of input length"
    r"|inputs?\W? must have less than|max[_ ](seq|sequence|message|num)\w*[_ ](len|length|tokens)"
    r"|max_tokens must be at least 1, got -",
    re.IGNORECASE,
)
FILTERED = re.compile(
    r"content_filter|content[_ ]policy|content management policy|responsibleaipolicy"
    r"|usage polic|flagged|moderation|safety system",
    re.IGNORECASE,
)
QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|billing[_ ](hard[_ ])?limit"
    r"|insufficient[_ ](\w+[_ ])?(balance|credits?|funds)|credit balance|out of credits"
    r"|billing_not_active|spend(ing)?[_ ]limit|specified api usage limits|arrearage"
    r"|AllocationQuota|余额不足|欠费|budget[_ ](has been )?exceeded|exceeded(token)?budget"
    r"|usage limits? (has |have )?(been )?exceeded",
    re.IGNORECASE,
)
# Gemini calls a minute's limit an exceeded quota too, but then says when to come back.
PASSING = re.compile(r"retryDelay|retry in \d", re.IGNORECASE)
# Google says when to come back in no header, and not always in the message.
STATED_DELAY = re.compile(r'"retryDelay": "([\d.]+s)"')
# Some servers say it without a 429.
TOO_FAST = re.compile(r"rate[ _-]?limit|too many requests|throttl", re.IGNORECASE)
# A request larger than a whole minute's tokens is refused as a rate limit each time.
NEVER_FITS = re.compile(r"request too large", re.IGNORECASE)
NO_MODEL = re.compile(
    r"model_not_found|deploymentnotfound|model.{0,80}(does not exist|not found)"
    r"|invalid model\b|not a valid model|no models? loaded|unknown model|unsupported model:",
    re.IGNORECASE,
)
NO_KEY = re.compile(
    r"api[ _-]?key.{0,20}(not valid|invalid|missing|expired)"
    r"|(invalid|incorrect|missing)[ _]api[ _]?key|missing authentication",
    re.IGNORECASE,
)
PERMANENT_4XX = {401: FailureKind.AUTH, 402: FailureKind.QUOTA, 403: FailureKind.AUTH}
NOWHERE = (404, 405, 410)
TRANSIENT_4XX = (408, 409, 425)


def classify_answer(status: int, headers: Mapping[str, str], body: str) -> AttemptFailure:
    """Classify an HTTP answer that is an error, whatever status it came with."""
    if 300 <= status < 400:
        target = storable(headers.get("location", "another address")[:LONGEST_MESSAGE])
        message = f"The endpoint redirects to {target}. Nothing was sent there."
        return AttemptFailure(FailureKind.NOT_FOUND, message, status, headers=headers)
    error = ErrorBody.read(body)
    delay = STATED_DELAY.search(error.everything)
    if delay and "retry-after" not in map(str.lower, headers):
        headers = {**headers, "retry-after": delay[1]}
    return AttemptFailure(
        kind=_kind(error.status(status), error.everything),
        message=error.message or f"The endpoint answered with HTTP status {status}.",
        http_status=status,
        parameter=error.parameter,
        headers=headers,
        # A server that reports an error in a success has often worked for it.
        possibly_billed=status < 300,
    )


def _kind(status: int, text: str) -> FailureKind:
    # Later in its message, a server may quote the texts that were sent.
    opening = text[:SAID_FIRST]
    if status in (400, 402, 403, 412, 413, 422, 429) and QUOTA.search(text):
        return FailureKind.RATE_LIMIT if PASSING.search(text) else FailureKind.QUOTA
    if status == 429:
        return FailureKind.TOO_LONG if NEVER_FITS.search(text) else FailureKind.RATE_LIMIT
    if status >= 500 and TOO_LONG.search(text) is None:
        return FailureKind.BAD_REQUEST if status == 501 else FailureKind.TRANSIENT
    if status == 413 or (status != 401 and TOO_LONG.search(text)):
        return FailureKind.TOO_LONG
    if status in (400, 403, 422) and FILTERED.search(text):
        return FailureKind.FILTERED
    if status in (400, 403) and TOO_FAST.search(opening):
        return FailureKind.RATE_LIMIT
    if status == 400 and NO_KEY.search(opening):
        return FailureKind.AUTH
    if status in NOWHERE or (status == 400 and NO_MODEL.search(text)):
        return FailureKind.NOT_FOUND
    if status < 300 or status in TRANSIENT_4XX:
        return FailureKind.BAD_REPLY if status < 300 else FailureKind.TRANSIENT
    return PERMANENT_4XX.get(status, FailureKind.BAD_REQUEST)


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """An error as servers write it: OpenAI's object, a bare string, or FastAPI's `detail`."""

    message: str
    code: str
    parameter: str | None
    everything: str

    @classmethod
    def read(cls, body: str) -> "ErrorBody":
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            data = body
        if isinstance(data, list) and data:
            data = data[0]
        error = data.get("error", data) if isinstance(data, dict) else data
        if isinstance(error, dict):
            detail = error.get("detail") or error.get("message") or ""
            message = detail if isinstance(detail, str) else json.dumps(detail)
            code = str(error.get("code") or error.get("type") or "")
            parameter = error.get("param") or _located(detail)
        else:
            # A web page comes from a proxy in front of the endpoint, and explains nothing.
            explains = isinstance(error, str) and not error.lstrip().startswith("<")
            message, code, parameter = (error if explains else ""), "", None
        return cls(
            message=storable(" ".join(message.split())[:LONGEST_MESSAGE]),
            code=code,
            # LiteLLM writes the word None.
            parameter=parameter if isinstance(parameter, str) and parameter != "None" else None,
            everything=json.dumps(error, ensure_ascii=False)[:4000],
        )

    def status(self, http_status: int) -> int:
        """Return the true status, which some gateways put into the body of a 200."""
        if http_status < 300 and self.code.isdecimal() and 400 <= int(self.code) < 600:
            return int(self.code)
        if http_status < 300 and QUOTA.search(self.everything):
            return 402
        return http_status


def _located(detail: object) -> str | None:
    """Return the field that a FastAPI validation error points at."""
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        location = detail[0].get("loc")
        if isinstance(location, list) and len(location) > 1:
            return str(location[1])
    return None


def sentence(message: str) -> str:
    """Return a server's message, ended as a sentence."""
    return message if message.endswith((".", "!", "?")) else f"{message}."
