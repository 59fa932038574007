"""Characters that look alike, folded to one, so that a mark is one mark in any script's digits.

The folded text has the length of the text: a position in one is a position in the other.
"""

import unicodedata

# The one capital whose small letter is two characters, and the small letter that has no dot.
_TURKISH = {"\u0130": "i", "\u0131": "i"}


class _Folds(dict[int, str]):
    def __missing__(self, code: int) -> str:
        folded = _fold_character(chr(code))
        self[code] = folded
        return folded


def fold(text: str) -> str:
    """Small letters, full-width and styled ones too; digits of all scripts as 0-9; one white space.

    Superscript and circled numbers stay as they are: "8²" is not 82.
    """
    return text.lower() if text.isascii() else text.translate(_FOLDS)


def _fold_character(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Zs":
        return " "
    if category == "No":
        return character
    small = _TURKISH.get(character) or unicodedata.normalize("NFKC", character).lower()
    return small if len(small) == 1 else character


_FOLDS = _Folds()
