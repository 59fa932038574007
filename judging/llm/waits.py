"""How long a server asks its callers to stay away, in any of the forms that servers use."""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_PAUSE = 120.0
UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6}
SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|us|µs|d|h|m|s)")
# As in "Please try again in 1m30s" and "Retry after 10 seconds".
STATED = re.compile(
    r"(?:try again|retry)(?: after| in) (\d[\d.]*(?:\s?(?:ms|[hms])[\d.]*)*)", re.IGNORECASE
)
# Larger numbers are moments: seconds or milliseconds since 1970.
EPOCH_SECONDS = 1e9
EPOCH_MILLISECONDS = 1e12


def asked_wait(
    headers: Mapping[str, str], message: str = "", now: float | None = None
) -> float | None:
    """Seconds until the server wants to be asked again, capped; None when it doesn't say."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    now = time.time() if now is None else now
    wait = _retry_after(lower, now)
    if wait is None:
        wait = _window_reset(lower, now)
    if wait is None and (stated := STATED.search(message)):
        wait = duration(stated[1].replace(" ", "").rstrip("."), now)
    return None if wait is None else min(max(wait, 0.0), LONGEST_PAUSE)


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    # A date is in the server's time: its own clock, when it tells it, is the one to compare with.
    server_now = _moment(headers.get("date", "")) or now
    return duration(value, server_now)


def _window_reset(headers: Mapping[str, str], now: float) -> float | None:
    """The reset of the exhausted limit; of the nearest one when the server doesn't say which."""
    resets: dict[str, float] = {}
    for name, value in headers.items():
        match = re.fullmatch(r"(?:x-|anthropic-)?ratelimit-(?:(.+)-)?reset(?:-(.+))?", name)
        wait = duration(value, now) if match else None
        if match and wait is not None:
            resets[match[1] or match[2] or ""] = wait
    exhausted = [wait for limit, wait in resets.items() if _remaining(headers, limit) == 0]
    if exhausted:
        return max(exhausted)
    return min(resets.values(), default=None)


def _remaining(headers: Mapping[str, str], limit: str) -> float | None:
    names = (
        f"x-ratelimit-remaining-{limit}" if limit else "x-ratelimit-remaining",
        f"anthropic-ratelimit-{limit}-remaining",
        f"ratelimit-remaining-{limit}" if limit else "ratelimit-remaining",
    )
    return next((n for name in names if (n := _number(headers.get(name))) is not None), None)


def duration(value: str, now: float) -> float | None:
    """Read `7`, `1.5`, `1m30s`, `20ms`, an HTTP or ISO date, or a moment since 1970."""
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
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(value)
        except (ValueError, TypeError, IndexError):
            continue
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None
