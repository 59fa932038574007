"""The gate: whatever made the HTML, only what is listed here reaches a page.

No link, image, form, style, id or event attribute is on the lists, and no class that the page's
own parts use. Code blocks are coloured here by classes, since pages allow no inline style.

Bidirectional control characters are legitimate in Arabic or Hebrew text and stay. One that is
opened and never closed, or closed twice, would reorder what follows it (Unicode Standard Annex 9);
`balance` keeps each within its line.
"""

import re
from collections.abc import Sequence
from html import escape

import nh3
import pygments
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

from judging.core.images import Placed

PDF, PDI = "\u202c", "\u2069"
EMBEDDINGS = frozenset("\u202a\u202b\u202d\u202e")
ISOLATES = frozenset("\u2066\u2067\u2068")
_CONTROL = re.compile(f"([{''.join(EMBEDDINGS | ISOLATES)}{PDF}{PDI}])")
# Browsers ignore what is nested deeper than 125; nobody writes more than a few.
_DEEPEST = 60
_SEAM = "\x00"


def balance(text: str) -> str:
    """Return the text with every control closed within its line, and stray closers left out."""
    if not _CONTROL.search(text):
        return text
    return "\n".join(_balance_line(line) for line in text.split("\n"))


def balance_parts(parts: Sequence[str]) -> list[str]:
    """Balance one line that comes in parts, such as plain and bold words."""
    if not any(_CONTROL.search(part) for part in parts):
        return list(parts)
    return _balance_line(_SEAM.join(part.replace(_SEAM, "\ufffd") for part in parts)).split(_SEAM)


def _balance_line(line: str) -> str:
    opened: list[str] = []
    kept = []
    for piece in _CONTROL.split(line):
        if piece in EMBEDDINGS or piece in ISOLATES:
            if len(opened) == _DEEPEST:
                continue
            opened.append(piece)
        elif piece == PDF:
            if not opened or opened[-1] in ISOLATES:
                continue
            opened.pop()
        elif piece == PDI:
            if ISOLATES.isdisjoint(opened):
                continue
            # Closing an isolate also closes the embeddings begun within it.
            while opened.pop() not in ISOLATES:
                kept.append(PDF)
        kept.append(piece)
    kept.extend(PDF if control in EMBEDDINGS else PDI for control in reversed(opened))
    return "".join(kept)


PREFIX = "code-"
CODE_CLASSES = frozenset(PREFIX + short for short in STANDARD_TYPES.values() if short)

# What models write most. Pygments knows 600 languages, and some of their expressions take forever
# on text of another language.
LANGUAGES = frozenset(
    """bash c c++ cpp c# cs csharp css diff dockerfile go haskell html ini java javascript js json
    jsx julia kotlin latex lua make makefile matlab nginx perl php powershell py python python3 r
    ruby rust scala sh shell sql swift tex toml ts typescript tsx xml yaml yml""".split()
)
# Limits for one block, and for all blocks of a text. The time that Pygments takes grows with the
# square of a block, a line or a gap, so that longer ones are shown without colours.
_BLOCK_CHARACTERS = 6_000
_TEXT_CHARACTERS = 12_000
_BEYOND = re.compile(r"[^\n]{301}|\n{6}")
_FORMATTER = HtmlFormatter(nowrap=True, classprefix=PREFIX)


def highlight(code: str, language: str) -> str:
    """Return the escaped code, with a span of one of `CODE_CLASSES` around each known token."""
    if language not in LANGUAGES or len(code) > _BLOCK_CHARACTERS or _BEYOND.search(code):
        return escape(code, quote=False)
    # A new lexer for each block, since some keep state while they read.
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return pygments.highlight(code, lexer, _FORMATTER)


def plugin(md: MarkdownIt) -> None:
    """Render fenced and indented code. A block's language is the first word after the fence."""

    def render_block(self, tokens, index, options, env) -> str:
        token = tokens[index]
        words = token.info.lower().split()
        language = words[0] if words else ""
        spent = env["code characters"] = env.get("code characters", 0) + len(token.content)
        code = highlight(balance(token.content), language if spent <= _TEXT_CHARACTERS else "")
        info = escape(balance(token.info.strip()), quote=False)
        label = f'<span class="info">{info}</span>' if info else ""
        return f'<pre dir="ltr">{label}<code>{code}</code></pre>\n'

    md.add_render_rule("fence", render_block)
    md.add_render_rule("code_block", render_block)


BLOCKS = frozenset("p div blockquote ul ol table h4 h5 h6 hr".split())
TEXT = frozenset("pre code span bdi br em strong s mark li thead tbody tr th td caption".split())
MATHEMATICS = frozenset(
    """math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover
    mtable mtr mtd mstyle mpadded menclose mphantom""".split()
)
CLASSES = {
    "div": {"plain", "formula"},
    "code": {"formula-source"},
    "p": {"note"},
    "li": {"inside"},
    "span": {"link", "image", "info", "picture"} | CODE_CLASSES,
    "bdi": {"target"},
    "th": {"to-left", "to-right", "to-center"},
    "td": {"to-left", "to-right", "to-center"},
}
_ATTRIBUTES = {
    "ol": {"start"},
    "li": {"value"},
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
# The parser would drop the first. JSON can carry the others, halves of a surrogate pair.
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
        tags=set(BLOCKS | TEXT | MATHEMATICS), attributes=_ATTRIBUTES,
        attribute_filter=_keep_words_and_numbers, allowed_classes=CLASSES,
        tag_attribute_values=directions, link_rel=None, url_schemes=set(), strip_comments=True,
    )  # fmt: skip


_CLEANER = _cleaner()


_PICTURE = re.compile(r'<span class="picture">([0-9a-f]{64})([^<]*)</span>', re.ASCII)


def picture(image: Placed) -> str:
    """Return what `sanitise` turns into an image that this site keeps."""
    return f'<span class="picture">{image.sha256}{escape(image.alt, quote=False)}</span>'


def _button(match: re.Match[str]) -> str:
    source = reverse("image", args=[match[1]])
    alt = _("Image")
    if match[2].strip():
        alt += ": " + match[2].replace('"', "&quot;")
    return f'<button type="button" class="picture"><img src="{source}" alt="{alt}"></button>'


def sanitise(html: str) -> SafeString:
    """Return the HTML without anything that is not on the lists above.

    An image that this site keeps comes as its hash and its description, and leaves as a button that
    enlarges it. So no element of the HTML itself ever loads anything.
    """
    clean = _CLEANER.clean(_NO_CHARACTERS.sub("\ufffd", html))
    return mark_safe(_PICTURE.sub(_button, clean))
