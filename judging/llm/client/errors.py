"""What went wrong with a request: failures, their kinds, and how servers word them.

The kind decides what happens next: the call is repeated, its samples end with a status, or the run
pauses. `asked_wait` reads how long a server asks to be left alone. Nothing here waits or repeats.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from judging.core.text import storable

LONGEST_MESSAGE = 500
SAID_FIRST = 200


class FailureKind(StrEnum):
    TRANSIENT = "transient"
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    BAD_REPLY = "bad_reply"
    DAY_LIMIT = "day_limit"
    QUOTA = "quota"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    BAD_REQUEST = "bad_request"
    TOO_LONG = "too_long"
    FILTERED = "filtered"

    @property
    def pauses_run(self) -> bool:
        """True if every other call would fail too, for hours or until a person does something."""
        return self in (
            FailureKind.DAY_LIMIT,
            FailureKind.QUOTA,
            FailureKind.AUTH,
            FailureKind.NOT_FOUND,
        )

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
    """A call that returned nothing. `message` holds no key and may be shown.

    `until` is when a DAY_LIMIT may end, in seconds since 1970.
    """

    kind: FailureKind
    message: str
    http_status: int | None = None
    requests: int = 1
    possibly_billed: int = 0
    duration_ms: int = 0
    request_id: str = ""
    until: float | None = None


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """One request that returned nothing. `parameter` is the one that the server names."""

    kind: FailureKind
    message: str
    http_status: int | None = None
    parameter: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    possibly_billed: bool = False
    until: float | None = None

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
TOO_FAST = re.compile(r"rate[ _-]?limit|too many requests|throttl|request limit", re.IGNORECASE)
# Limits of a day or more, as OpenAI, Groq, Gemini, OpenRouter, Mistral, Cohere, Cerebras, Bedrock,
# GitHub, Cloudflare, Baidu, Zhipu and DashScope word them.
OF_A_DAY = re.compile(
    r"per[ _-]?(day|week|month)|PerDay|ByDay|daily|weekly|monthly|\b[RT]PD\b"
    r"|/ ?(day|d|month)\b|(a|each|one|every|this|calendar|\d) ?-?(day|week|month)\b"
    r"|per (86400|24)|24[ -]?h(ou)?r?s?\b|\b86400\b|86400 ?s"
    r"|\b(today|tomorrow|midnight|overnight|for the day)\b|\b(at )?0?0:00\b"
    r"|[今每当明]日|[今每当明]天|[每本当]月|每周|本周|日あたり|日限|日用量|일일|하루|오늘|내일"
    r"|\b(tages|täglich|heute|morgen|diari[oa]|hoy|mañana|quotidien|journali|aujourd|demain"
    r"|giornalier|oggi|domani|hoje|amanhã|дневн|суточн|сегодня|завтра|сутки)",
    re.IGNORECASE,
)
OF_HOURS = re.compile(r"per[ _-]?hour|hourly|/ ?hour\b|\d ?-?hour\b", re.IGNORECASE)
# These don't pass by themselves, whatever period they name.
NO_MONEY = re.compile(
    r"insufficient_quota|insufficient[_ ](\w+[_ ])?(balance|credits?|funds)|credit balance"
    r"|spend(ing)?[_ ]limit|billing_not_active|budget",
    re.IGNORECASE,
)
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


def classify_answer(
    status: int, headers: Mapping[str, str], body: str, now: float | None = None
) -> AttemptFailure:
    """Classify an HTTP answer that is an error, whatever status it came with."""
    if 300 <= status < 400:
        target = storable(headers.get("location", "another address")[:LONGEST_MESSAGE])
        message = f"The endpoint redirects to {target}. Nothing was sent there."
        return AttemptFailure(FailureKind.NOT_FOUND, message, status, headers=headers)
    error = ErrorBody.read(body)
    sent = {name.lower(): value for name, value in headers.items()}
    headers = {**sent, **error.headers(sent)}
    true_status = error.status(status)
    kind = _kind(true_status, error.everything)
    now = time.time() if now is None else now
    until = None
    if kind is FailureKind.RATE_LIMIT or (true_status == 503 and "retry-after" in headers):
        until = _end_of_day_limit(kind, error, headers, now)
    return AttemptFailure(
        kind=kind if until is None else FailureKind.DAY_LIMIT,
        message=error.message or f"The endpoint answered with HTTP status {status}.",
        http_status=status,
        parameter=error.parameter,
        headers=headers,
        # A server that reports an error in a success has often worked for it.
        possibly_billed=status < 300 and kind not in NEVER_BILLED,
        until=until,
    )


NEVER_BILLED = (
    FailureKind.RATE_LIMIT,
    FailureKind.QUOTA,
    FailureKind.AUTH,
    FailureKind.NOT_FOUND,
    FailureKind.BAD_REQUEST,
)
# A limit for longer than this pauses the run; a call only waits for ten minutes.
LONG_WAIT = 600.0
HOUR, DAY = 3600.0, 86400.0
LONGEST_LIMIT = 32 * DAY
# Google's day begins at midnight in California. The hour of summer time is waited for too.
GOOGLE_MIDNIGHT = 8 * HOUR


def _end_of_day_limit(
    kind: FailureKind, error: "ErrorBody", headers: Mapping[str, str], now: float
) -> float | None:
    """Return when the limit may end if it is one of a day, or as long; None for a short one."""
    wait = stated_wait(headers, error.message, now)
    named = kind is FailureKind.RATE_LIMIT and OF_A_DAY.search(error.everything)
    if wait is not None and wait >= LONG_WAIT:
        return now + min(wait, LONGEST_LIMIT)
    if not named:
        # A limit of hours lasts for one at least, unless the server says when to come back.
        of_hours = kind is FailureKind.RATE_LIMIT and OF_HOURS.search(error.everything)
        return now + HOUR if of_hours and wait is None else None
    if "retryDelay" in error.everything or "quotaId" in error.everything:
        # Google's delay is that of the minute's limit, whichever limit was reached.
        return (now - GOOGLE_MIDNIGHT) // DAY * DAY + DAY + GOOGLE_MIDNIGHT
    # If a day's limit refills all the time, the stated wait is for one request only.
    return now + max(wait or 0.0, HOUR)


def _kind(status: int, text: str) -> FailureKind:
    # Later in its message, a server may quote the texts that were sent.
    opening = text[:SAID_FIRST]
    if status in (400, 402, 403, 412, 413, 422, 429) and QUOTA.search(text):
        passing = PASSING.search(text) or (status == 429 and OF_A_DAY.search(text))
        return (
            FailureKind.RATE_LIMIT if passing and not NO_MONEY.search(text) else FailureKind.QUOTA
        )
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


# What the words of a code or type mean, for an error that comes without an HTTP status.
WORDS = (
    (429, r"rate_?limit|throttl|too_?many_?requests|resource_?exhausted|limit_reached"),
    (503, r"overloaded|server_?error|internal|unavailable|timeout|time_?out|upstream|api_error"),
    (401, r"authentication|unauthori[sz]ed|api_?key|permission|forbidden|accessdenied"),
    (404, r"not_?found"),
    (402, r"quota|billing|insufficient|payment"),
    (
        400,
        r"invalid_?request|bad_?request|validation|invalid_?(parameter|argument|value)"
        r"|content_?filter|context_length|unsupported",
    ),
)
STATUS_OF_WORDS = tuple((status, re.compile(words, re.IGNORECASE)) for status, words in WORDS)
# Where servers put an error, its text, and its code or type.
ERROR_KEYS = ("error", "errors", "Error", "fault", "base_resp", "exception")
TEXT_KEYS = (
    "detail", "message", "msg", "error_msg", "error_message", "errorMessage", "status_msg",
    "faultstring", "error_description", "description", "reason",
)  # fmt: skip
CODE_KEYS = (
    "code", "type", "__type", "error_code", "errorCode", "status_code", "statusCode", "err_code",
    "status", "ret_code", "error",
)  # fmt: skip
# These stand for success, in a field that holds a code in an error.
NO_ERROR = ("", "0", "200", "ok", "success", "completed", "none", "true", "false")


def holds_error(data: Mapping[str, Any]) -> bool:
    """Return True if an answer without choices is an error in any known shape."""
    if any(data.get(key) for key in ERROR_KEYS if key != "base_resp"):
        return True
    base = data.get("base_resp")
    if isinstance(base, Mapping) and str(base.get("status_code", 0)) not in NO_ERROR:
        return True
    return any(isinstance(data.get(key), (str, list, dict)) and data[key] for key in TEXT_KEYS)


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """An error as servers write it: an object, a bare string, a list, or FastAPI's `detail`."""

    message: str
    codes: tuple[str, ...]
    parameter: str | None
    everything: str
    told_headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, body: str) -> "ErrorBody":
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            data = body
        error = _innermost(data)
        parameter: object = None
        codes: tuple[str, ...] = ()
        told: object = None
        if isinstance(error, dict):
            outer = data if isinstance(data, dict) else {}
            detail = next(filter(None, (error.get(key) for key in TEXT_KEYS)), "")
            detail = detail or next(filter(None, (outer.get(key) for key in TEXT_KEYS)), "")
            message = detail if isinstance(detail, str) else json.dumps(detail)
            codes = tuple(_codes(error)) + (tuple(_codes(outer)) if outer is not error else ())
            parameter = error.get("param") or _located(detail)
            metadata = error.get("metadata")
            told = metadata.get("headers") if isinstance(metadata, dict) else None
        else:
            # A web page comes from a proxy in front of the endpoint, and explains nothing.
            explains = isinstance(error, str) and not error.lstrip().startswith("<")
            message = error if explains else ""
        told = told if isinstance(told, dict) else {}
        return cls(
            message=storable(" ".join(message.split())[:LONGEST_MESSAGE]),
            codes=codes,
            # LiteLLM writes the word None.
            parameter=parameter if isinstance(parameter, str) and parameter != "None" else None,
            everything=json.dumps(error, ensure_ascii=False)[:4000],
            told_headers={str(name).lower(): str(value) for name, value in told.items()},
        )

    def headers(self, sent: Mapping[str, str]) -> Mapping[str, str]:
        """Return what the body tells and the HTTP headers don't."""
        told = {name: v for name, v in self.told_headers.items() if name not in sent}
        delay = STATED_DELAY.search(self.everything)
        if delay and "retry-after" not in sent:
            told["retry-after"] = delay[1]
        return told

    def status(self, http_status: int) -> int:
        """Return the true status, which some gateways put into the body of a 200."""
        if http_status >= 300:
            return http_status
        for code in self.codes:
            if code.isdecimal() and 400 <= int(code[:3]) < 600 and len(code) in (3, 5, 6):
                return int(code[:3])
        if QUOTA.search(self.everything):
            return 429 if OF_A_DAY.search(self.everything) else 402
        for code in self.codes:
            for status, words in STATUS_OF_WORDS:
                if words.search(code):
                    return status
        beginning = self.message[:SAID_FIRST]
        if TOO_FAST.search(beginning):
            return 429
        if TOO_LONG.search(beginning) or FILTERED.search(beginning) or NO_KEY.search(beginning):
            return 400
        return 404 if NO_MODEL.search(beginning) else http_status


def _innermost(data: object) -> Any:
    """Return the error itself: most servers wrap it, some in a list, and some twice."""
    for _ in range(4):
        if isinstance(data, list) and data:
            data = data[0]
            continue
        wrapped = data if isinstance(data, dict) else {}
        inner = next((wrapped[key] for key in ERROR_KEYS if wrapped.get(key)), None)
        # Next to a text of its own, a bare word or `true` under `error` is only the error's type.
        named = not isinstance(inner, (dict, list)) and any(wrapped.get(key) for key in TEXT_KEYS)
        if inner is None or named or isinstance(inner, bool):
            return data
        data = inner
    return data


def _codes(error: Mapping[str, Any]) -> Iterator[str]:
    for key in CODE_KEYS:
        value = error.get(key)
        is_code = isinstance(value, (str, int)) and not isinstance(value, bool)
        if is_code and str(value).lower() not in NO_ERROR:
            yield str(value)


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


LONGEST_PAUSE = 120.0
UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6}
# A header that is longer names no time.
LONGEST_TIME = 64
LONGEST_NAME = 100
SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|us|µs|d|h|m|s)")
# "Please try again in 1m30s", "Retry after 7 hours and 12 minutes", "Please wait 43200 seconds".
_DIGITS = r"\d[\d.,]{0,30}"
_UNIT = r"ms|us|µs|d(?:ays?)?|h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?"
_AMOUNT = rf"({_DIGITS}) ?({_UNIT})(?![a-z])"
PART_OF_STATED = re.compile(_AMOUNT, re.IGNORECASE)
STATED = re.compile(
    r"(?:(?:try again|retry\w{0,20}|resets?|available|renews?)(?: again)?(?: after| in| within)"
    rf"|wait)(?: about| another| for)* ({_AMOUNT}(?:,? ?(?:and )?{_AMOUNT})*|{_DIGITS})",
    re.IGNORECASE,
)
# "Your limit resets at 2026-05-02T00:00:00Z".
STATED_MOMENT = re.compile(
    r"(?:(?:after|at|until|on|by) |[\u5728\u4e8e\u81f3] ?)"
    r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?"
    r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?)?)"
)
# Larger numbers are moments: seconds or milliseconds since 1970.
EPOCH_SECONDS = 1e9
EPOCH_MILLISECONDS = 1e12


def asked_wait(
    headers: Mapping[str, str], message: str = "", now: float | None = None
) -> float | None:
    """Return the seconds until the server wants to be asked again, or None if it doesn't say.

    At most LONGEST_PAUSE, since a call doesn't wait for longer. `DAY_LIMIT` is for longer waits.
    """
    wait = stated_wait(headers, message, now)
    return None if wait is None else min(wait, LONGEST_PAUSE)


def stated_wait(
    headers: Mapping[str, str], message: str = "", now: float | None = None
) -> float | None:
    """Return the same without a bound."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    now = time.time() if now is None else now
    wait = _retry_after(lower, now)
    if wait is None:
        wait = _window_reset(lower, now)
    if wait is None:
        wait = _wait_in_words(message, now)
    return None if wait is None else max(wait, 0.0)


def _wait_in_words(message: str, now: float) -> float | None:
    if stated := STATED.search(message):
        parts = PART_OF_STATED.findall(stated[1]) or [(stated[1], "s")]
        amounts = [(_number(amount.replace(",", "").rstrip(".")), unit) for amount, unit in parts]
        return sum((amount or 0) * UNITS[_short(unit)] for amount, unit in amounts)
    if (stated := STATED_MOMENT.search(message)) and (moment := _moment(stated[1])):
        return moment - now
    return None


def _short(unit: str) -> str:
    return unit.lower() if unit.lower() in UNITS else unit[0].lower()


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    # A date is in the server's time, so it is compared with the server's clock if that is known.
    server_now = _moment(headers.get("date", "")) or now
    return duration(value, server_now)


def _window_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Read the reset of the exhausted limit, or the nearest reset if none is named exhausted."""
    resets: dict[str, float] = {}
    for name, value in headers.items():
        if len(name) > LONGEST_NAME:
            continue
        match = re.fullmatch(r"(?:x-|anthropic-)?ratelimit-(?:(.+)-)?reset(?:-(.+))?", name)
        wait = duration(value, now) if match else None
        if match and wait is not None:
            resets[match[1] or match[2] or ""] = wait
    for name in ("ratelimit", "x-ratelimit"):
        resets.update(_combined_reset(headers.get(name, "")))
    exhausted = [
        wait
        for limit, wait in resets.items()
        if limit.startswith(NONE_LEFT) or _remaining(headers, limit) == 0
    ]
    if exhausted:
        return max(exhausted)
    return min(resets.values(), default=None)


# Marks a limit whose one header says that nothing remains.
NONE_LEFT = "none left of "


def _combined_reset(value: str) -> dict[str, float]:
    """Read the IETF's one header: `limit=9, remaining=0, reset=50`, or `"day";r=0;t=50`."""
    limits: dict[str, float] = {}
    for policy in value.split(",") if ";" in value else [value]:
        fields = dict(re.findall(r"\b(remaining|reset|r|t)=(\d{1,12})", policy))
        wait, left = fields.get("reset", fields.get("t")), fields.get("remaining", fields.get("r"))
        if wait is not None:
            limits[f"{NONE_LEFT if left == '0' else ''}{policy}"] = float(wait)
    return limits


def _remaining(headers: Mapping[str, str], limit: str) -> float | None:
    names = (
        f"x-ratelimit-remaining-{limit}" if limit else "x-ratelimit-remaining",
        f"anthropic-ratelimit-{limit}-remaining",
        f"ratelimit-remaining-{limit}" if limit else "ratelimit-remaining",
    )
    return next((n for name in names if (n := _number(headers.get(name))) is not None), None)


def duration(value: str, now: float) -> float | None:
    """Read `7`, `1.5`, `1m30s`, `20ms`, an HTTP or ISO date, or a moment since 1970."""
    if len(value) > LONGEST_TIME:
        return None
    number = _number(value)
    if number is not None:
        if number >= EPOCH_MILLISECONDS:
            return number / 1000 - now
        return number - now if number >= EPOCH_SECONDS else number
    spans = SPAN.findall(value)
    if spans and SPAN.sub("", value).strip() == "":
        return sum(float(amount) * UNITS[unit] for amount, unit in spans)
    moment = _moment(value)
    return None if moment is None else moment - now


def _number(value: str | None) -> float | None:
    if value is None or re.fullmatch(r"\d{1,20}(\.\d{1,20})?", value.strip()) is None:
        return None
    return float(value)


def _moment(value: str) -> float | None:
    value = re.sub(r" ?(UTC|GMT)$", "Z", value) if value[:4].isdecimal() else value
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(value)
        except (ValueError, TypeError, IndexError):
            continue
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None
