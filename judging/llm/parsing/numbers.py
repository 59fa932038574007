"""A number as a judge writes it, as an exact decimal."""

import re
from decimal import Decimal

from judging.llm.templating import Scale

# Binary floats written out have up to 17 places; ten are kept.
_NUMBER = re.compile(r"[0-9]{1,6}(?:[.,][0-9]{1,20})?")
PLACES = 10
_THOUSANDS = re.compile(r"[0-9]{1,3},[0-9]{3}")

_LAST_DIGITS = re.compile(r"(?<![0-9.,])[1-9][0-9]{0,5}$")

# Digits with all that could belong to them, to be validated once it is matched.
NUMBER = r"[+-]?[0-9]+(?:[.,][0-9]+)*"

_OUT_OF = re.compile(r"[ \t*_`]*(?:/|out[ \t]+of|of)[ \t*_`]*([0-9]{1,9}(?:\.0)?)(?![0-9])")
_RANGE = re.compile(r"[ \t*_`]*(?:-|\u2013|\u2014|~|\bto\b|\bor\b)[ \t*_`]*[0-9]")
_BELONGS = re.compile(r"[^\W_]|%|:[0-9]|[ \t]?%|/(?![ \t]*[0-9])")


def number(raw: str) -> Decimal | None:
    """`raw` as a decimal; a comma is read as a decimal point, "1,000" and "8.5.1" as nothing."""
    if _NUMBER.fullmatch(raw) is None or _THOUSANDS.fullmatch(raw):
        return None
    value = Decimal(raw.replace(",", "."))
    exponent = value.as_tuple().exponent
    return round(value, PLACES) if isinstance(exponent, int) and exponent < -PLACES else value


def number_at(folded: str, start: int, end: int, highest: Decimal) -> tuple[Decimal | None, int]:
    """The number at start:end with what follows it, and where that ends.

    "8/10" and "8 out of 10" are 8 where 10 is the highest; "8/100", "8%", "8th", "8-9" and "8½"
    are no score.
    """
    value = number(folded[start:end])
    if match := _OUT_OF.match(folded, end):
        if Decimal(match[1]) != highest:
            value = None
        end = match.end()
    if _BELONGS.match(folded, end) or _RANGE.match(folded, end):
        value = None
    return value, end


def may_go_on(text: str, scale: Scale) -> bool:
    """Whether a text that was cut off ends in what may be the start of a longer number: a 1 of 10.

    Other digits could go on as decimals, which judges hardly ever write; they count as whole.
    """
    match = _LAST_DIGITS.search(text)
    return match is not None and Decimal(match[0]) * 10 <= scale.high
