"""Which of the two a number is said of, where a line names them itself: "B: 7, A: 8"."""

import re
from collections.abc import Sequence
from decimal import Decimal

from judging.llm.parsing.numbers import NUMBER, number_at
from judging.llm.templating import Scale

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
