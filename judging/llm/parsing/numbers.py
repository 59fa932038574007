"""A number as a judge writes it, as an exact decimal, and what is said about it.

- `unwrapped`, `number` and `number_at` read one number with its unit and scale: "**8**/10 points".
- `names_second_first`, `names_one` and `sided_pair` read whose it is: "B: 7, A: 8".
- `announced` reads what precedes it: that it is final, a correction, or for one criterion only.

A number is matched first, with everything that could belong to it, and validated afterwards. If
the match were to skip what is invalid, it would find a valid number in "8.5.1" or "8-9".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from judging.llm.prompts.marks import INVISIBLE
from judging.llm.prompts.templates import Scale

_TAGS = re.compile(
    r"(?P<open><(?P<tag>[a-z][a-z0-9_-]{0,15})>)(?P<inside>[^<>\n]{1,40})(?P<close></(?P=tag)>)"
)
_COMMANDS = re.compile(
    r"(?P<open>\\(?:boxed|fbox|underline|text[a-z]{0,2}|math[a-z]{2})\{)"
    r"(?P<inside>[^{}\n]{1,40})(?P<close>\})"
)
_SPACED = re.compile(r"\\(?=[()\[\],;:/%!_*])")
_STARTS_WITH_A_NUMBER = re.compile(r"[ \t*_`$(\[\\]*[0-9]")
# A box in bold in a formula. Nobody wraps a number more deeply.
DEEPEST = 3


def unwrapped(folded: str) -> str:
    """Replace HTML and LaTeX around numbers by asterisks, one for each character.

    The length stays, so positions stay valid. Markup around anything but a number stays too.
    """
    if "<" not in folded and "\\" not in folded:
        return folded
    for _ in range(DEEPEST):
        bare = _COMMANDS.sub(_in_asterisks, _TAGS.sub(_in_asterisks, folded))
        if bare == folded:
            break
        folded = bare
    return _SPACED.sub("*", folded)


def _in_asterisks(match: re.Match[str]) -> str:
    if not _STARTS_WITH_A_NUMBER.match(match["inside"]):
        return match[0]
    return "*" * len(match["open"]) + match["inside"] + "*" * len(match["close"])


# Binary floats are written with up to 17 places. Ten are kept.
_NUMBER = re.compile(r"[0-9]{1,6}(?:[.,][0-9]{1,20})?")
PLACES = 10
_THOUSANDS = re.compile(r"[0-9]{1,3},[0-9]{3}")

_LAST_DIGITS = re.compile(r"(?<![0-9.,/])([1-9][0-9]{0,5})[.,]?$")
_DECIMALS = re.compile(r"(?<![0-9.,])[0-9]{1,2}[.,][0-9]{1,2}(?![0-9])")
LAST_LINES = 120

# Digits with everything that could belong to them. What is matched is validated afterwards.
NUMBER = r"[+-]?[0-9]+(?:[.,][0-9]+)*"

_WORDS = {
    word: Decimal(value)
    for value, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
} | {"twenty": Decimal(20), "hundred": Decimal(100)}
# What may come between a number and more that belongs to it: "**4**/5", "[4] / 5", "$4$/5". It is
# bounded, so that a long run of spaces is not tried from each of its places.
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
# The end of a statement.
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
    rf"|[:'\u00b7\u00f7^][0-9]|\+(?![0-9])|[ \t]+\.[0-9]|{INVISIBLE.pattern}+[.,]?[0-9]"
    r"|[ \t]+(?:and[ \t]+an?[ \t]+(?:half|quarter)|point[ \t]+(?:[0-9]|five)"
    r"|hundred|thousand|million|billion|dozen)\b"
)


def number(raw: str) -> Decimal | None:
    """Read a decimal with a point or a comma. Returns None for "1,000" and "8.5.1"."""
    if _NUMBER.fullmatch(raw) is None or _THOUSANDS.fullmatch(raw):
        return None
    value = Decimal(raw.replace(",", "."))
    exponent = value.as_tuple().exponent
    return round(value, PLACES) if isinstance(exponent, int) and exponent < -PLACES else value


def number_at(folded: str, start: int, end: int, highest: Decimal) -> tuple[Decimal | None, int]:
    """Return the number at start:end together with what belongs to it, and the end of that.

    "8/10" and "8 (out of ten)" are 8 if 10 is the highest score. "8/100", "8%", "8th", "8-9" and
    "8½" are no scores, so their number is None.
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
    """Return True if a text that was cut off may end within a number.

    That is a 1 of 10, or an 8 of 8.5 if the last lines have other decimals. Any digit could go on
    as a decimal, but judges hardly ever write decimals, so other digits count as whole numbers.
    """
    match = _LAST_DIGITS.search(text)
    if match is None:
        return False
    value = Decimal(match[1])
    decimals = not scale.whole and _DECIMALS.search(text, max(0, match.start() - LAST_LINES))
    longer = text[-1].isdigit() and value * 10 <= scale.high
    return bool(longer or (value < scale.high and decimals))


_SIDE = r"(?:(?:assistant|response|answer)[ \t*_`]*#?)?"
_NAME = rf"{_SIDE}(?:(?P<first>[1a]|first)|(?P<second>[2b]|second))\b"
_STATED = re.compile(
    r"[ \t*_`#|,;&\n-]*(?:and[ \t]+)?(?:the[ \t]+)?(?:scores?(?:[ \t]*(?:of|for))?[ \t*_`]*)?"
    rf"{_NAME}[ \t*_`]*[:=][ \t*_`]*(?P<number>{NUMBER})"
)
_END = re.compile(r"[ \t*_`|.]*$")
# "a" is a word too: a letter names a side only together with the other letter, or before a colon.
_BOTH = re.compile(
    rf"{_SIDE}\b(?:[2b]|second)\b[ \t*_`]*(?:and\b|vs\b\.?|[,&/|])[ \t*_`]*(?:the[ \t]+)?"
    rf"{_SIDE}(?:[1a]|first)\b"
)
_ONLY_ONE = re.compile(r"(?:(?:for|of)[ \t]+)?(?:[12ab]|first|second)[ \t*_`]*$")


def names_second_first(words: str) -> bool:
    """Return True for "B and A", after which the first number is not the first response's."""
    return _BOTH.search(words) is not None


def names_one(label: str) -> bool:
    """Return True if a label ends in the name of one response: "Preference for B"."""
    return _ONLY_ONE.search(label) is not None and not re.search(r"\band\b|\bbetween\b|,", label)


def sided_pair(text: str, scale: Scale) -> Sequence[Decimal | None] | None:
    """Read a text such as "B: 7, A: 8". Returns None if it is anything but one score per side."""
    scores: dict[str, Decimal | None] = {}
    at = 0
    while match := _STATED.match(text, at):
        value, at = number_at(text, match.start("number"), match.end("number"), scale.high)
        side = "first" if match["first"] else "second"
        if side in scores:
            return None
        scores[side] = value if value is not None and value in scale else None
    if len(scores) != 2 or not _END.match(text, at):
        return None
    return scores["first"], scores["second"]


# A longer line explains and doesn't announce.
LONGEST = 80

REVISION = (
    r"(?:correct(?:ed|ion|ing)?|revis(?:ed|ion|ing|e)|updated?|reconsider(?:ed|ing)?"
    r"|reconsideration|(?:on|upon)[ \t]+(?:(?:second[ \t]+thoughts?)|(?:further[ \t]+)?reflection)"
    r"|actually|wait|instead|scratch[ \t]+that|changed?[ \t]+my[ \t]+mind|i[ \t]+meant?)\b"
)
FINAL = r"(?:final(?:ly)?|overall|in[ \t]+(?:total|conclusion|summary)|total|conclusion|verdict)\b"
# Only at the beginning of a line: later in it, "the corrected value" may be one in a response.
_REVISION = re.compile(
    r"[\W_]*(?:(?:no|so|but|and|oh|hmm|well|sorry|my|the|let[ \t]+me|here[ \t]+(?:is|are)"
    rf"|i(?:[ \t]+(?:must|will|should|(?:have|need|want)[ \t]+to))?)\b[ \t,.:*_]*){{0,5}}{REVISION}"
)
_FINAL = re.compile(rf"\b(?:{FINAL}|{REVISION})")
# A line about what a response wrote doesn't announce the judge's own verdict.
_OF_ANOTHER = re.compile(
    r"\b(?:assistant|response|answer|reply|text|line)s?\b|\b(?:wr[io]tes?|sa(?:ys?|id)|claims?)\b"
)

_CRITERION = (
    r"(?:helpfulness|relevanc[ey]|accuracy|(?:level[ \t]+of[ \t]+)?details?|depth|creativity"
    r"|clarity|correctness|completeness|coherence|conciseness|fluency|style|grammar|factuality"
    r"|harmlessness|honesty|truthfulness|readability|structure|format(?:ting)?|usefulness"
    r"|informativeness|engagement|originality|tone|length|instruction[ \t-]following)"
)
_OF_CRITERION = re.compile(
    rf"[\W\d_]*(?:(?:for|on|the|in[ \t]+terms[ \t]+of|regarding)[ \t]+)*{_CRITERION}"
    r"(?:[ \t]+(?:scores?|ratings?))?(?:[ \t]*\([^()\n]{0,40}\))?(?:[\W_]|the\b)*"
)


@dataclass(frozen=True, slots=True)
class Announced:
    """What a line says of a verdict that follows. A correction is final too."""

    final: bool = False
    revision: bool = False
    criterion: bool = False


NOTHING = Announced()


def announced(words: str) -> Announced:
    """Return what the beginning of a line, or the line above it, announces."""
    if not words.strip() or len(words) > LONGEST or _OF_ANOTHER.search(words):
        return NOTHING
    if _OF_CRITERION.fullmatch(words):
        return Announced(criterion=True)
    return Announced(bool(_FINAL.search(words)), _REVISION.match(words) is not None)
