"""Characters that look alike, folded to one, so that a mark is one mark in any script's digits.

The folded text has the length of the text: a position in one is a position in the other.
"""

import re
import unicodedata

_SINGLE = {
    # The one capital whose small letter is two characters, and the small letter that has no dot.
    **dict.fromkeys("\u0130\u0131", "i"),
    **dict.fromkeys("\u2010\u2011\u2012\u2212", "-"),
    **dict.fromkeys("\u2044\u2215", "/"),
    # The decimal and the thousands separator of Arabic digits.
    "\u066b": ".",
    "\u066c": ",",
}


class _Folds(dict[int, str]):
    def __missing__(self, code: int) -> str:
        folded = _fold_character(chr(code))
        self[code] = folded
        return folded


def fold(text: str) -> str:
    """Small letters, full-width and styled ones too; digits of all scripts as 0-9; one white space;
    one hyphen, minus sign and slash.

    Superscript and circled numbers stay as they are: "8²" is not 82.
    """
    return text.lower() if text.isascii() else text.translate(_FOLDS)


# Soft hyphens, joiners, directions, fillers, variation selectors, tags: what no reader sees.
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    return text if text.isascii() else INVISIBLE.sub("", text)


def _fold_character(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Zs":
        return " "
    if category == "No":
        return character
    small = _SINGLE.get(character) or unicodedata.normalize("NFKC", character).lower()
    return small if len(small) == 1 else character


_FOLDS = _Folds()
