"""Numbers, money and durations as people read them, on pages and in commands."""

import unicodedata
from decimal import ROUND_HALF_UP, Context, Decimal

from django.utils.formats import number_format
from django.utils.translation import gettext as _

NARROW_SPACE = "\u202f"
MINUS = "\u2212"
UNKNOWN = "unknown"
_SMALLEST_P = 0.001


def count(value: int | None) -> str:
    """12345 as `12 345`."""
    if value is None:
        return UNKNOWN
    return f"{value:,}".replace(",", NARROW_SPACE).replace("-", MINUS)


def number_of(n: int, thing: str) -> str:
    """`1 row`, `12 345 rows`."""
    return f"{count(n)} {thing}{'' if n == 1 else 's'}"


def decimals(value: float, digits: int = 3, *, signed: bool = False, counted: bool = False) -> str:
    """Format a number without its leading zero, as papers do: `.732`, `−.05`, `1.000`.

    Args:
        counted: keep the leading zero, for numbers that are counts or amounts: `0.5`.
    """
    text = f"{abs(value):,.{digits}f}".replace(",", NARROW_SPACE)
    if digits and not counted and text.startswith("0."):
        text = text[1:]
    # A sign before .000 would claim a direction that the digits don't show.
    rounds_to_zero = not text.strip("0.")
    if value < 0 and not rounds_to_zero:
        return MINUS + text
    return "+" + text if signed and not rounds_to_zero else text


def places_of(value: float, most: int) -> int:
    """Return the decimal places that leave a number at most three significant figures."""
    whole = len(f"{abs(value):.{most}f}".partition(".")[0].lstrip("0"))
    return min(most, max(0, 3 - whole)) if whole else most


def interval(
    low: float, high: float, digits: int = 3, *, signed: bool = False, counted: bool = False
) -> str:
    """Format both ends with one digit less than the value, unless that would hide the width."""
    coarse = max(digits - 1, 0)
    places = coarse if high - low >= 2 * 10.0**-coarse else digits
    ends = [decimals(end, places, signed=signed, counted=counted) for end in (low, high)]
    return (" to " if signed or low < 0 else "–").join(ends)


def p_value(value: float) -> str:
    """Format with a relation, as in `= .032` and `< .001`: a p-value is never 0."""
    return f"< {decimals(_SMALLEST_P, 3)}" if value < _SMALLEST_P else f"= {decimals(value, 3)}"


def percent(share: float | None, digits: int = 0) -> str:
    if share is None:
        return UNKNOWN
    return f"{100 * share:.{digits}f}{NARROW_SPACE}%".replace("-", MINUS)


def usd(amount: Decimal | float | None) -> str:
    """Format dollars and cents, or two significant digits below a dollar. None is unknown."""
    if amount is None:
        return UNKNOWN
    # A float's own text has its shortest digits. Decimal(0.1) would have 55 of them.
    amount = Decimal(str(amount))
    sign, size = (MINUS if amount < 0 else ""), abs(amount)
    if size == 0:
        return "$0"
    if size < Decimal("0.000001"):
        return f"{sign}<$0.000001"
    # adjusted() is the power of ten of the first digit: −3 for 0.0031.
    places = 2 if size >= 1 else max(2, 1 - size.adjusted())
    # Half a cent is rounded up, as people do. Formatting alone would round it to the even cent.
    digits = Context(prec=max(size.adjusted(), 0) + places + 2, rounding=ROUND_HALF_UP)
    size = size.quantize(Decimal(1).scaleb(-places), context=digits)
    return f"{sign}${size:,.{places}f}".replace(",", NARROW_SPACE)


def duration(seconds: float | None) -> str:
    """`40 s`, `12 min`, `3 h 05 min`, `2 d 4 h`, in the language of the page."""
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        tenths = round(max(seconds, 0), 1)
        return _("%(n)s s") % {"n": number_format(tenths, 0 if tenths == int(tenths) else 1)}
    # From here on, seconds would have three digits.
    if seconds < 99.5:
        return _("%(n)s s") % {"n": f"{seconds:.0f}"}
    minutes = round(seconds / 60)
    if minutes < 60:
        return _("%(n)s min") % {"n": minutes}
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return _("%(hours)s h %(minutes)s min") % {"hours": hours, "minutes": f"{minutes:02d}"}
    days, hours = divmod(hours, 24)
    return _("%(days)s d %(hours)s h") % {"days": days, "hours": hours}


_ISOLATE, _END = "\u2068", "\u2069"
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "FSI"})


def short_name(name: str, longest: int = 40) -> str:
    """Return a name with its beginning and its end, which tell the checkpoints of a model apart."""
    if len(name) <= longest:
        return name
    end = longest // 2
    return f"{name[: longest - end - 1].rstrip()}…{name[-end:].lstrip()}"


def set_apart(name: str) -> str:
    """Isolate the direction of a name that is written from right to left.

    Otherwise the numbers after it would appear in the wrong order, and a sentence that begins with
    it would run from right to left.
    """
    if _RIGHT_TO_LEFT.isdisjoint(map(unicodedata.bidirectional, name)):
        return name
    return f"{_ISOLATE}{name}{_END}"


def in_sentence(name: str, longest: int = 40) -> str:
    """Return a name as a sentence of a page has it: short, and in its own direction."""
    return set_apart(short_name(name, longest))
