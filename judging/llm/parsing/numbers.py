"""A number as a judge writes it, as an exact decimal."""

import re
from decimal import Decimal

from judging.llm.folding import INVISIBLE
from judging.llm.templating import Scale

# Binary floats written out have up to 17 places; ten are kept.
_NUMBER = re.compile(r"[0-9]{1,6}(?:[.,][0-9]{1,20})?")
PLACES = 10
_THOUSANDS = re.compile(r"[0-9]{1,3},[0-9]{3}")

_LAST_DIGITS = re.compile(r"(?<![0-9.,/])([1-9][0-9]{0,5})[.,]?$")
_DECIMALS = re.compile(r"(?<![0-9.,])[0-9]{1,2}[.,][0-9]{1,2}(?![0-9])")
LAST_LINES = 120

# Digits with all that could belong to them, to be validated once it is matched.
NUMBER = r"[+-]?[0-9]+(?:[.,][0-9]+)*"

_WORDS = {
    word: Decimal(value)
    for value, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
} | {"twenty": Decimal(20), "hundred": Decimal(100)}
# What may stand behind a number before more that belongs to it: "**4**/5", "[4] / 5", "$4$/5".
# Bounded, so that a long run of spaces is not tried from each of them.
_SPACE = r"[ \t*_`)\]}>$\"'\u2605\u2b50]{0,20}"
_HIGHEST = rf"{_SPACE}(?:(?P<digits>[0-9]{{1,9}}(?:\.0)?)(?![0-9])|(?P<word>{'|'.join(_WORDS)})\b)"
_FROM = r"[01][ \t]*(?:-|\u2013|\bto\b)"
_OUT_OF = re.compile(
    rf"{_SPACE}(?:(?:points?|stars?|marks?)\b{_SPACE})?[(\[]?{_SPACE}"
    r"(?:/|(?:out[ \t-]+)?of\b(?:[ \t]+(?:a|the))?"
    r"(?:[ \t]+(?:total|maximum|possible)(?:[ \t]+of)?)?"
    r"|(?:max(?:imum)?\b|\u6ee1\u5206|\u6eff\u5206)[ \t]*:?"
    rf"|(?:on[ \t]+(?:a|the)[ \t]+|(?<=[(\[]))(?:scale:?[ \t]+)?(?:(?:of|from)[ \t]+)?{_FROM})"
    + _HIGHEST
    + rf"|{_SPACE}[(\[](?P<max>[0-9]{{1,9}})[ \t]+max"
)
_UNIT = re.compile(
    rf"{_SPACE}(?:(?:points?|pts?|marks?|punkte?|puntos?|pontos?|\u0431\u0430\u043b\u043b(?:\u0430|\u043e\u0432)?)\b\.?"
    r"|[\u5206\uc810](?!\u4e4b)|\u70b9(?![0-9]))"
)
# A range, or a sum that is not worked out: "8-9", "8 or 9", "9 + 7 = 16".
_RANGE = re.compile(
    rf"{_SPACE}(?:[-=]?>|[-+=\u00b1\u00d7\u00f7\u2013\u2014~\u301c\u2192\u2026]|\.\.+"
    rf"|\b(?:to|or|through|until|plus|minus|times)\b|(?<=[ \t])[x*](?=[ \t])){_SPACE}[+-]?[0-9]"
)
# Where a statement is over.
OVER = r"""(?=[ \t*_`)\]}>"'$.!]*(?:$|[\n,;|=]))"""
# "8, no, 6", "8... wait, make that 6", "8 (correction: 6)": two scores, one of them taken back.
_TAKEN_BACK = re.compile(
    r"[ \t*_`]{0,20}[(,;.\u2013\u2014\u2026-]{1,4}[ \t]{0,20}"
    r"(?:(?:no|nope|wait|sorry|correction|corrected|revised|actually|rather|oops|hmm|or|maybe"
    r"|perhaps|now|was|i mean|make (?:that|it)|scratch that|should be|change(?:d|s)?(?: that)?"
    r"|that is|it|to)\b[ \t,.:;!\u2026-]{0,10}){1,4}"
    rf"{NUMBER}{OVER}"
)
_BELONGS = re.compile(
    r"[^\W_]|[ \t]?[%\u066a\u2030]|[ \t]+per[ \t]?cent\b|/(?![ \t]*[0-9])"
    rf"|[:'\u00b7\u00f7][0-9]|[ \t]+\.[0-9]|{INVISIBLE.pattern}+[.,]?[0-9]"
    r"|[ \t]+(?:and[ \t]+an?[ \t]+(?:half|quarter)|point[ \t]+(?:[0-9]|five)"
    r"|hundred|thousand|million|billion|dozen)\b"
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
    unit = _UNIT.match(folded, end)
    if match := _OUT_OF.match(folded, end) or (unit and _OUT_OF.match(folded, unit.end())):
        digits = match["digits"] or match["max"]
        if (Decimal(digits) if digits else _WORDS[match["word"]]) != highest:
            value = None
        end = match.end()
        unit = _UNIT.match(folded, end)
    end = unit.end() if unit else end
    if any(pattern.match(folded, end) for pattern in (_BELONGS, _RANGE, _TAKEN_BACK)):
        value = None
    return value, end


def may_go_on(text: str, scale: Scale) -> bool:
    """Whether a text that was cut off ends in what may be the start of a longer number: a 1 of 10,
    or an 8 of 8.5 where its last lines hold other decimals.

    Other digits could go on as decimals, which judges hardly ever write; they count as whole.
    """
    match = _LAST_DIGITS.search(text)
    if match is None:
        return False
    value = Decimal(match[1])
    decimals = not scale.whole and _DECIMALS.search(text, max(0, match.start() - LAST_LINES))
    longer = text[-1].isdigit() and value * 10 <= scale.high
    return bool(longer or (value < scale.high and decimals))
