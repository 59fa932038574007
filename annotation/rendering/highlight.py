"""Code blocks, coloured by Pygments through classes, since the page allows no inline style."""

import re
from html import escape

import pygments
from markdown_it import MarkdownIt
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

from .bidi import balance

PREFIX = "code-"
CLASSES = frozenset(PREFIX + short for short in STANDARD_TYPES.values() if short)

# What models write most. Pygments knows 600 languages, some with expressions that take forever on
# text that is not theirs.
LANGUAGES = frozenset(
    """bash c c++ cpp c# cs csharp css diff dockerfile go haskell html ini java javascript js json
    jsx julia kotlin latex lua make makefile matlab nginx perl php powershell py python python3 r
    ruby rust scala sh shell sql swift tex toml ts typescript tsx xml yaml yml""".split()
)
# One block, and all blocks of one text. Pygments takes time that grows with the square of a block,
# of a line or of a gap, so that what is beyond these bounds is shown without colours.
_BLOCK_CHARACTERS = 6_000
_TEXT_CHARACTERS = 12_000
_BEYOND = re.compile(r"[^\n]{301}|\n{6}")
_FORMATTER = HtmlFormatter(nowrap=True, classprefix=PREFIX)


def highlight(code: str, language: str) -> str:
    """The escaped code, with a span of a class of `CLASSES` around each token that it knows."""
    if language not in LANGUAGES or len(code) > _BLOCK_CHARACTERS or _BEYOND.search(code):
        return escape(code, quote=False)
    # A lexer of its own for each block: some keep notes while they read.
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return pygments.highlight(code, lexer, _FORMATTER)


def plugin(md: MarkdownIt) -> None:
    """Render fenced and indented code; a block's language is the first word behind the fence."""

    def render_block(self, tokens, index, options, env) -> str:
        token = tokens[index]
        words = token.info.lower().split()
        language = words[0] if words else ""
        spent = env["code characters"] = env.get("code characters", 0) + len(token.content)
        code = highlight(balance(token.content), language if spent <= _TEXT_CHARACTERS else "")
        return f'<pre dir="ltr"><code>{code}</code></pre>\n'

    md.add_render_rule("fence", render_block)
    md.add_render_rule("code_block", render_block)
