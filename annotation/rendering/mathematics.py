r"""Formulas between $…$, $$…$$, \(…\), \[…\] or \begin{…}…\end{…}, as MathML.

A formula that can't be converted, or would take too long, is shown as it was written.
"""

import re
from html import escape, unescape
from xml.etree.ElementTree import tostring

from latex2mathml.converter import Converter
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

from annotation.rendering.gate import balance

# Limits for one formula and for all of a text: MathML is about 15 times as long as its source.
FORMULA_CHARACTERS = 2_000
TEXT_CHARACTERS = 30_000
_FORMULA_LINES = 60
_OPENING = re.compile(
    r"\$\$|\\\[|\\begin\{(?:align|aligned|equation|gather|gathered|multline|eqnarray)\*?\}"
)
# A text's own macros can multiply at each use.
_MACROS = re.compile(r"\\(?:(?:re)?newcommand|providecommand|[egx]?def\b|let\b|Declare)")

_PARTS = dict.fromkeys(("mfrac", "mroot", "msub", "msup", "munder", "mover"), 2)
_PARTS |= dict.fromkeys(("msubsup", "munderover"), 3)


def to_mathml(source: str, *, block: bool) -> str | None:
    """Return the formula as MathML, or None if it can't be converted.

    The converter's own serialisation turns entities in the formula back into markup, so the tree
    is serialised here, escaped. The gate checks its attributes.
    """
    if len(source) > FORMULA_CHARACTERS or _MACROS.search(source):
        return None
    try:
        tree = Converter(display="block" if block else "inline").convert_to_element(source)
    except Exception:  # a broken formula raises anything, up to RecursionError
        return None
    for element in tree.iter():
        if len(element) != _PARTS.get(element.tag, len(element)):
            return None
        element.text = unescape(element.text or "")
        element.attrib = {name: unescape(value) for name, value in element.attrib.items()}
    return tostring(tree, encoding="unicode")


def plugin(md: MarkdownIt) -> None:
    """Recognise formulas before Markdown sees their backslashes, underscores and pipes."""
    md.inline.ruler.before("escape", "formula", _inline_rule)
    md.block.ruler.before(
        "fence", "formula_block", _block_rule, {"alt": ["paragraph", "blockquote", "list"]}
    )
    md.add_render_rule("formula", _render)
    md.add_render_rule("formula_block", _render)


def _render(self, tokens, index, options, env) -> str:
    token = tokens[index]
    source = balance(token.content)
    spent = env["formula characters"] = env.get("formula characters", 0) + len(source)
    mathml = None
    if spent <= TEXT_CHARACTERS:
        mathml = to_mathml(source, block=token.markup != "inline")
    if mathml is None:
        written = balance(token.meta["written"])
        mathml = f'<code class="formula-source">{escape(written, quote=False)}</code>'
    return f'<div class="formula">{mathml}</div>\n' if token.type == "formula_block" else mathml


def _inline_rule(state: StateInline, silent: bool) -> bool:
    formula = _formula_at(state.src, state.pos, state.posMax)
    if formula is None:
        return False
    opening, content, end = formula
    if not silent:
        token = state.push("formula", "math", 0)
        token.content = content
        token.markup = "block" if opening in ("$$", r"\[") else "inline"
        token.meta = {"written": state.src[state.pos : end]}
    state.pos = end
    return True


def _formula_at(src: str, start: int, stop: int) -> tuple[str, str, int] | None:
    """Return the opening, the content and the end of the formula that begins at `start`."""
    closings = {"$$": "$$", r"\(": r"\)", r"\[": r"\]"}
    opening = src[start : start + 2]
    stop = min(stop, start + FORMULA_CHARACTERS)
    if opening in closings:
        end = src.find(closings[opening], start + 2, stop)
        width = 2
    elif opening[:1] == "$":
        opening, width = "$", 1
        end = _closing_dollar(src, start + 1, stop)
    else:
        return None
    content = src[start + width : end]
    return (opening, content, end + width) if end > 0 and content.strip() else None


def _closing_dollar(src: str, start: int, stop: int) -> int:
    """Return where the formula ends, or -1 if the dollars are money, as in `$5 and $10`."""
    if src[start : start + 1].isspace():
        return -1
    end = src.find("$", start, stop)
    while end > 0 and src[end - 1] == "\\":
        end = src.find("$", end + 1, stop)
    if end < 0 or src[end - 1].isspace() or src[end + 1 : end + 2].isdigit():
        return -1
    return -1 if "\n" in src[start:end] else end


def _block_rule(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    if state.is_code_block(first):
        return False
    match = _OPENING.match(state.src, state.bMarks[first] + state.tShift[first])
    if match is None:
        return False
    opening = match.group()
    closing = {"$$": "$$", r"\[": r"\]"}.get(opening, opening.replace("begin", "end"))
    lines = _lines_to(state, first, min(last, first + _FORMULA_LINES), opening, closing)
    if lines is None:
        return False
    if not silent:
        written = "\n".join(lines)
        token = state.push("formula_block", "math", 0)
        token.block = True
        token.map = [first, first + len(lines)]
        bare = opening in ("$$", r"\[")
        token.content = written[len(opening) : -len(closing)] if bare else written
        token.markup = opening
        token.meta = {"written": written}
    state.line = first + len(lines)
    return True


def _lines_to(
    state: StateBlock, first: int, last: int, opening: str, closing: str
) -> list[str] | None:
    """Return the formula's lines without the prefixes of quotes or lists, or None if it is none."""
    lines: list[str] = []
    for line in range(first, last):
        text = state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]].rstrip()
        if not text or (lines and state.sCount[line] < state.blkIndent):
            return None
        end = text.find(closing, 0 if lines else len(opening))
        if lines and text.startswith(opening) and opening != closing:
            return None
        lines.append(text)
        if end >= 0:
            return lines if end + len(closing) == len(text) else None
    return None
