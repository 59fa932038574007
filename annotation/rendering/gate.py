"""The single gate: whatever made the HTML, only what is listed here reaches the page.

No link, image, form, style, id or event attribute is on the list, and no class that the page's own
parts use.
"""

import re

import nh3
from django.utils.safestring import SafeString, mark_safe

from . import highlight

BLOCKS = frozenset("p div blockquote ul ol table h4 h5 h6 hr".split())
TEXT = frozenset("pre code span bdi br em strong s mark li thead tbody tr th td caption".split())
MATHEMATICS = frozenset(
    """math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover
    mtable mtr mtd mstyle mpadded menclose mphantom""".split()
)
CLASSES = {
    "div": {"plain", "formula"},
    "code": {"formula-source"},
    "span": {"link", "image"} | highlight.CLASSES,
    "bdi": {"target"},
    "th": {"to-left", "to-right", "to-center"},
    "td": {"to-left", "to-right", "to-center"},
}
_ATTRIBUTES = {
    "ol": {"start"},
    "math": {"display"},
    "mi": {"mathvariant"},
    "mn": {"mathvariant"},
    "mtext": {"mathvariant"},
    "mo": set(
        """accent fence form largeop lspace mathvariant maxsize minsize movablelimits rspace
        stretchy""".split()
    ),
    "mover": {"accent"},
    "munder": {"accentunder"},
    "munderover": {"accent", "accentunder"},
    "mspace": {"width", "height", "depth"},
    "mfrac": {"linethickness"},
    "mtable": {"columnalign", "columnlines", "rowlines", "displaystyle", "rowspacing"},
    "mtd": {"columnalign"},
    "mstyle": {"displaystyle", "scriptlevel", "mathsize"},
    "mpadded": {"width", "height", "depth", "lspace", "voffset"},
    "menclose": {"notation"},
}
# The parser would drop the first; JSON can carry the others, halves of a surrogate pair.
_NO_CHARACTERS = re.compile("[\x00\ud800-\udfff]")
_HARMLESS = re.compile(
    r"[a-z -]{1,80}|\d{1,9}|[+-]?\d{0,3}(\.\d{1,6})?(em|ex|px|pt|cm|mm|mu|in|%)?"
)


def _keep_words_and_numbers(_tag: str, attribute: str, value: str) -> str | None:
    if attribute == "class":  # already down to those of CLASSES
        return value
    return value if _HARMLESS.fullmatch(value) else None


def _cleaner() -> nh3.Cleaner:
    directions = {tag: {"dir": {"auto"}} for tag in BLOCKS} | {"pre": {"dir": {"ltr"}}}
    return nh3.Cleaner(
        tags=set(BLOCKS | TEXT | MATHEMATICS),
        attributes=_ATTRIBUTES,
        attribute_filter=_keep_words_and_numbers,
        allowed_classes=CLASSES,
        tag_attribute_values=directions,
        link_rel=None,
        url_schemes=set(),
        strip_comments=True,
    )


_CLEANER = _cleaner()


def sanitise(html: str) -> SafeString:
    """The HTML without anything that is not on the lists above."""
    return mark_safe(_CLEANER.clean(_NO_CHARACTERS.sub("\ufffd", html)))
