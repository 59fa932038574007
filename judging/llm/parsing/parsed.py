"""Numbers out of HTML and LaTeX, each character of the markup in asterisks: positions stay."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from judging.core.enums import LabelledEnum
from judging.llm.prompts.marks import INVISIBLE
from judging.llm.prompts.templates import JudgeForm, Scale, Template
from judging.llm.prompts.variants import PromptVariant
from judging.methods.verdicts.verdicts import (
    Label,
    outcome_of,
    score_pair_from_probability,
    score_pair_from_scores,
)

_TAGS = re.compile(
    r"(?P<open><(?P<tag>[a-z][a-z0-9_-]{0,15})>)(?P<inside>[^<>\n]{1,40})(?P<close></(?P=tag)>)"
)
_COMMANDS = re.compile(
    r"(?P<open>\\(?:boxed|fbox|underline|text[a-z]{0,2}|math[a-z]{2})\{)"
    r"(?P<inside>[^{}\n]{1,40})(?P<close>\})"
)
_SPACED = re.compile(r"\\(?=[()\[\],;:/%!_*])")
_STARTS_WITH_A_NUMBER = re.compile(r"[ \t*_`$(\[\\]*[0-9]")
# A box in bold in a formula; deeper is no way to write a number.
DEEPEST = 3


def unwrapped(folded: str) -> str:
    """`folded` with its length; what is wrapped around anything but a number stays."""
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


_SIDE = r"(?:(?:assistant|response|answer)[ \t*_`]*#?)?"
_NAME = rf"{_SIDE}(?:(?P<first>[1a]|first)|(?P<second>[2b]|second))\b"
_STATED = re.compile(
    r"[ \t*_`#|,;&\n-]*(?:and[ \t]+)?(?:the[ \t]+)?(?:scores?[ \t]*(?:of|for)?[ \t*_`]*)?"
    rf"{_NAME}[ \t*_`]*[:=][ \t*_`]*(?P<number>{NUMBER})"
)
_END = re.compile(r"[ \t*_`|.]*$")
# "a" is a word too; a side is named by its letter only where the other is, or before a colon.
_BOTH = re.compile(
    rf"{_SIDE}\b(?:[2b]|second)\b[ \t*_`]*(?:and\b|vs\b\.?|[,&/|])[ \t*_`]*(?:the[ \t]+)?"
    rf"{_SIDE}(?:[1a]|first)\b"
)
_ONLY_ONE = re.compile(r"(?:(?:for|of)[ \t]+)?(?:[12ab]|first|second)[ \t*_`]*$")


def names_second_first(words: str) -> bool:
    return _BOTH.search(words) is not None


def names_one(label: str) -> bool:
    """Whether a label ends in one of the two: "Preference for B"."""
    return _ONLY_ONE.search(label) is not None and not re.search(r"\band\b|\bbetween\b|,", label)


def sided_pair(text: str, scale: Scale) -> Sequence[Decimal | None] | None:
    """Both scores of a text that holds nothing but one for each side; None where it does not."""
    found: dict[str, Decimal | None] = {}
    at = 0
    while match := _STATED.match(text, at):
        value, at = number_at(text, match.start("number"), match.end("number"), scale.high)
        side = "first" if match["first"] else "second"
        if side in found:
            return None
        found[side] = value if value is not None and value in scale else None
    if len(found) != 2 or not _END.match(text, at):
        return None
    return found["first"], found["second"]


# A longer line explains; it doesn't announce.
LONGEST = 80

REVISION = (
    r"(?:correct(?:ed|ion|ing)?|revis(?:ed|ion|ing|e)|updated?|reconsider(?:ed|ing)?"
    r"|reconsideration|(?:on|upon)[ \t]+(?:(?:second[ \t]+thoughts?)|(?:further[ \t]+)?reflection)"
    r"|actually|wait|instead|scratch[ \t]+that|changed?[ \t]+my[ \t]+mind|i[ \t]+meant?)\b"
)
FINAL = r"(?:final(?:ly)?|overall|in[ \t]+(?:total|conclusion|summary)|total|conclusion|verdict)\b"
# A line that begins so: further on, "the corrected value" may be one in a response.
_REVISION = re.compile(
    r"[\W_]*(?:(?:no|so|but|and|oh|hmm|well|sorry|my|the|let[ \t]+me|here[ \t]+(?:is|are)"
    rf"|i(?:[ \t]+(?:must|will|should|(?:have|need|want)[ \t]+to))?)\b[ \t,.:*_]*){{0,5}}{REVISION}"
)
_FINAL = re.compile(rf"\b(?:{FINAL}|{REVISION})")
# A line that speaks of what somebody else wrote announces nothing of the judge's own.
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
    """`final` is true of a correction as well."""

    final: bool = False
    revision: bool = False
    criterion: bool = False


NOTHING = Announced()


def announced(words: str) -> Announced:
    """What `words`, the beginning of a line or the line above, announce."""
    if not words.strip() or len(words) > LONGEST or _OF_ANOTHER.search(words):
        return NOTHING
    if _OF_CRITERION.fullmatch(words):
        return Announced(criterion=True)
    return Announced(bool(_FINAL.search(words)), _REVISION.match(words) is not None)


class Status(LabelledEnum):
    """How a sample ended."""

    VALID = "valid"
    UNPARSED = "unparsed"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    FILTERED = "filtered"
    TOO_LONG = "too_long"
    ERROR = "error"


class Preferred(StrEnum):
    """The better one of two, by position."""

    FIRST = "first"
    SECOND = "second"
    TIE = "tie"


@dataclass(frozen=True, slots=True)
class Parsed:
    """By position, as the judge saw it; which values are set depends on the form.

    `p_first` is the probability of the response shown first; `mass` is what both option IDs had
    together; `bounded` marks that one ID was missing among the likeliest tokens.
    """

    status: Status
    evidence: str = ""
    first: Decimal | None = None
    second: Decimal | None = None
    verdict: Preferred | None = None
    rating: Decimal | None = None
    p_first: float | None = None
    mass: float | None = None
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The same of responses 1 and 2. `p_first` stays with the position."""

    status: Status
    evidence: str = ""
    score_1: Decimal | None = None
    score_2: Decimal | None = None
    rating: Decimal | None = None
    p_first: float | None = None
    mass: float | None = None
    outcome: Label | None = None


_LABELS = {Preferred.FIRST: Label.WIN, Preferred.SECOND: Label.LOSE, Preferred.TIE: Label.TIE}


def turn_back(parsed: Parsed, template: Template, part: str) -> Reading:
    """Return what was read by position as values of responses 1 and 2."""
    if template.form is JudgeForm.POINTWISE:
        return Reading(parsed.status, parsed.evidence, rating=parsed.rating, mass=parsed.mass)
    variant = PromptVariant.parse(part)
    rating, outcome = parsed.rating, _outcome(parsed, template)
    if variant.swapped:
        rating = None if rating is None else template.scale.turned(rating)
        outcome = outcome and outcome.turned
    score_1, score_2 = variant.shown(parsed.first, parsed.second)
    return Reading(
        parsed.status,
        parsed.evidence,
        score_1=score_1,
        score_2=score_2,
        rating=rating,
        p_first=parsed.p_first,
        mass=parsed.mass,
        outcome=outcome,
    )


def _outcome(parsed: Parsed, template: Template) -> Label | None:
    """The outcome as if the first were response 1."""
    if parsed.verdict is not None:
        return _LABELS[parsed.verdict]
    if parsed.first is not None and parsed.second is not None:
        return _label_of_scores(parsed.first, parsed.second)
    if parsed.p_first is not None:
        pair = score_pair_from_probability(Fraction(parsed.p_first))
        return outcome_of(pair, 2 * template.band)
    if parsed.rating is not None:
        rating = parsed.rating
        return outcome_of(score_pair_from_scores(rating, template.scale.turned(rating)))
    return None


# There are few scores on a scale, and their exact comparison takes as long as finding them.
@lru_cache(maxsize=1000)
def _label_of_scores(first: Decimal, second: Decimal) -> Label:
    return outcome_of(score_pair_from_scores(first, second))
