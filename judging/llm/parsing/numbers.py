"""A number as a judge writes it, as an exact decimal."""

import re
from decimal import Decimal

from judging.llm.folding import INVISIBLE
from judging.llm.templating import Scale

# Binary floats written out have up to 17 places; ten are kept.
_NUMBER = re.compile(r"[0-9]{1,6}(?:[.,][0-9]{1,20})?")
PLACES = 10
_THOUSANDS = re.compile(r"[0-9]{1,3},[0-9]{3}")

_LAST_DIGITS = re.compile(r"(?<![0-9.,])[1-9][0-9]{0,5}$")

# Digits with all that could belong to them, to be validated once it is matched.
NUMBER = r"[+-]?[0-9]+(?:[.,][0-9]+)*"

_WORDS = {
    word: Decimal(value)
    for value, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
} | {"twenty": Decimal(20), "hundred": Decimal(100)}
# Bounded, so that a long run of spaces is not tried from each of them.
_SPACE = r"[ \t*_`]{0,20}"
_HIGHEST = rf"{_SPACE}(?:(?P<digits>[0-9]{{1,9}}(?:\.0)?)(?![0-9])|(?P<word>{'|'.join(_WORDS)})\b)"
_OUT_OF = re.compile(
    rf"{_SPACE}(?:(?:points?|stars?|marks?)\b{_SPACE})?[(\[]?{_SPACE}"
    r"(?:/|(?:out[ \t]+)?of\b(?:[ \t]+(?:a|the))?"
    r"(?:[ \t]+(?:total|maximum|possible)(?:[ \t]+of)?)?"
    r"|on[ \t]+(?:a|the)[ \t]+(?:scale[ \t]+)?(?:(?:of|from)[ \t]+)?[01][ \t]*(?:-|\u2013|\bto\b))"
    + _HIGHEST
)
_RANGE = re.compile(
    rf"{_SPACE}(?:[-=]?>|-|[\u2013\u2014~\u301c\u2192\u2026]|\.\.+|\bto\b|\bor\b){_SPACE}[+-]?[0-9]"
)
_BELONGS = re.compile(
    r"[^\W_]|[ \t]?[%\u066a\u2030]|[ \t]+per[ \t]?cent\b|/(?![ \t]*[0-9])"
    rf"|[:'\u00b7\u00f7][0-9]|[ \t]+\.[0-9]|{INVISIBLE.pattern}+[.,]?[0-9]"
)


def number(raw: str) -> Decimal | None:
    """`raw` as a decimal; a comma is read as a decimal point, "1,000" and "8.5.1" as nothing."""
    if _NUMBER.fullmatch(raw) is None or _THOUSANDS.fullmatch(raw):
        return None
    value = Decimal(raw.replace(",", "."))
    exponent = value.as_tuple().exponent
    return round(value, PLACES) if isinstance(exponent, int) and exponent < -PLACES else value


def number_at(folded: str, start: int, end: int, highest: Decimal) -> tuple[Decimal | None, int]:
    """The number at start:end with what follows it, and where that ends.

    "8/10" and "8 (out of ten)" are 8 where 10 is the highest; "8/100", "8%", "8th", "8-9" and "8½"
    are no score.
    """
    value = number(folded[start:end])
    if match := _OUT_OF.match(folded, end):
        stated = Decimal(match["digits"]) if match["digits"] else _WORDS[match["word"]]
        if stated != highest:
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
