"""Whether a text has anything that can be seen."""

import re
import unicodedata
from html import unescape

_UNSEEN = frozenset(("Cc", "Cf", "Zl", "Zp", "Zs"))
# Letters and marks that leave no trace of their own: fillers, joiners, selectors, blank Braille.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u2800\u3164\ufe00-\ufe0f\uffa0]"
)
_TEXT = re.compile(r"(?:^|>)([^<]+)")


def has_visible(text: str) -> bool:
    """False for white space, zero-width characters, and controls alone."""
    return any(
        unicodedata.category(character) not in _UNSEEN and not _FILLERS.match(character)
        for character in text
    )


def shows_text(html: str) -> bool:
    """The same for what stands between the tags of HTML that went through the gate."""
    return any(has_visible(unescape(found.group(1))) for found in _TEXT.finditer(html))
