"""Markdown to HTML: CommonMark with tables and strikethrough; raw HTML stays text.

A link shows its text and its target and leads nowhere. An image that an import has kept is shown
from this site. Any other is shown as its description and address, since loading it would tell its
server that it was seen. Entities stay as written, each
item of a numbered list keeps its own number, and a code block shows its language.
"""

import re
from html import escape
from itertools import groupby
from typing import NamedTuple
from urllib.parse import quote

from django.utils.translation import gettext as _
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from annotation.rendering import gate, mathematics
from annotation.rendering.gate import balance, balance_parts
from judging.core.images import SCHEME, Placed, pieces

# The time that a row of opening brackets takes grows with this.
NESTING = 30
# What an address hides: controls, blanks, halves of a surrogate pair.
_UNPRINTABLE = re.compile(
    "[\x00-\x20\x7f-\xa0\xad\u061c\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff]"
)
# The page's own headings are the first three.
_DEMOTED = {"h1": "h4", "h2": "h5"}


class TooDeep(ValueError):
    """Lists or quotes are nested so deeply that the parser would leave out their content."""


class _Parser(MarkdownIt):
    def normalizeLinkText(self, link: str) -> str:
        """Addresses are shown as they were written, not decoded to what they resemble."""
        return link

    def normalizeLink(self, url: str) -> str:
        """Letters of all languages stay readable."""
        return _UNPRINTABLE.sub(lambda match: quote(match[0], errors="replace"), url)


def _parser() -> MarkdownIt:
    options = {"html": False, "breaks": True, "maxNesting": NESTING}
    md = _Parser("commonmark", options).enable(["table", "strikethrough"])
    # Otherwise a link definition that the model wrote would vanish from the page.
    md.disable(["reference", "entity"])
    gate.plugin(md)
    mathematics.plugin(md)
    md.core.ruler.push("safe_blocks", _settle_blocks)
    md.add_render_rule("link_open", _link_open)
    md.add_render_rule("link_close", _link_close)
    md.add_render_rule("image", _image)
    # The rules are compiled at the first use, in which two threads must not meet.
    md.render("*first*")
    return md


class RenderedText(NamedTuple):
    """HTML that still has to pass the gate, and what it shows other than in its text.

    elsewhere: numbers of list items, sources of formulas, and targets that repeat the link's text.
    formula_as_written: True if a formula stayed source.
    """

    html: str
    elsewhere: str
    formula_as_written: bool


def to_html(text: str) -> RenderedText:
    """Lay the text out without links and images."""
    env: dict[str, object] = {"elsewhere": []}
    tokens = _MARKDOWN.parse(text, env)
    if any(token.level + max(token.nesting, 0) >= NESTING for token in tokens):
        raise TooDeep
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, env)
    return RenderedText(html, "".join(env["elsewhere"]), "formula as written" in env)


def _settle_blocks(state: StateCore) -> None:
    """Direction, demoted headings, aligned columns and balanced controls, block by block."""
    for token in state.tokens:
        if token.level == 0 and token.nesting >= 0 and token.tag:
            token.attrSet("dir", "auto")
        if token.type in ("heading_open", "heading_close"):
            token.tag = _DEMOTED.get(token.tag, "h6")
        if token.type == "list_item_open" and token.info:
            number = str(int(token.info))
            token.attrSet("value", number)
            state.env.setdefault("elsewhere", []).append(number)
            if len(number) > 2:
                token.attrSet("class", "inside")
        style = token.attrs.pop("style", None)
        if style is not None:
            token.attrSet("class", f"to-{str(style).removeprefix('text-align:')}")
        for is_break, line in groupby(token.children or (), _is_break):
            if not is_break:
                _balance_line(list(line))


def _is_break(token: Token) -> bool:
    return token.type in ("softbreak", "hardbreak")


def _balance_line(tokens: list[Token]) -> None:
    texts = [token for token in tokens if token.type in ("text", "code_inline")]
    for token, content in zip(texts, balance_parts([t.content for t in texts]), strict=True):
        token.content = content


def _target(address: str, title: str) -> str:
    shown = f'{address} "{balance(title)}"' if title else address
    return f' <bdi class="target">({escape(shown, quote=False)})</bdi>'


def _link_open(self, tokens, index, options, env) -> str:
    token = tokens[index]
    address, title = token.attrs["href"], token.attrs.get("title", "")
    inside = [token.content for token in tokens[index + 1 : index + 3]]
    shown_already = inside == [address, ""] and not title
    if shown_already and token.info != "auto":
        env["elsewhere"].append(address)
    env.setdefault("targets", []).append("" if shown_already else _target(address, title))
    return '<span class="link">'


def _link_close(self, tokens, index, options, env) -> str:
    return f"</span>{env['targets'].pop()}"


def _image(self, tokens, index, options, env) -> str:
    token = tokens[index]
    description = balance(self.renderInlineAsText(token.children or [], options, env))
    for kept in pieces(f"![]({token.attrs['src']})"):
        if isinstance(kept, Placed):
            env["elsewhere"] += [SCHEME, kept.sha256, description, token.content]
            return gate.picture(Placed(description, kept.sha256))
    return (
        f'<span class="image">{_("Image")}: {escape(description, quote=False)}</span>'
        f"{_target(token.attrs['src'], token.attrs.get('title', ''))}"
    )


_MARKDOWN = _parser()
