r"""Formulas between $…$, $$…$$, \(…\), \[…\] or \begin{…}…\end{…}, as MathML.

A formula that can't be converted, would take too long, or would lose a letter or digit, is shown as
it was written. Dollar signs around money, prose or code are no formula.
"""

import re
from collections import Counter
from collections.abc import Iterator
from html import escape, unescape
from unicodedata import normalize
from xml.etree.ElementTree import Element, tostring

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

# In TeX the rest of the line would be a comment. Models mean the sign.
_PERCENT = re.compile(r"(?<!\\)((?:\\\\)*)%")
_LAYOUT = re.compile(
    r"\\(?:begin|end)\s*\{(?:[bBpvV]?(?:small)?matrix|align(?:ed)?|array|cases|equation|gather(?:ed)?"
    r"|multline|eqnarray|split)\*?\}(?:(?<=array\})\s*\{[lcr|\s]*\})?"
)
# The converter knows one environment of aligned lines, and would show the "&" of the others.
_ALIGNED = re.compile(r"(\\(?:begin|end)\s*\{)(?:aligned|gather(?:ed)?|multline|eqnarray)\*?\}")
_COMMAND = re.compile(r"\\([a-zA-Z]+)")
_ESCAPED = re.compile(r"\\([%$#&_{}])")
_NAMES_AND_WORDS = re.compile(
    r"\\(?:(?=[a-z]*text)[a-z]++|[mhf]box|math[a-z]++|operatorname\*?)\s*+\{[^{}]*+\}|\\[a-zA-Z]+"
)
_PROSE = re.compile(r"[^\W\d_]{2}\s+[^\W\d_]{3}|[^\W\d_]{3}\s+[^\W\d_]{2}")
_AMOUNT = re.compile(r"\d[\d.,]*\s+[^\W\d_]{2}")
# Within these elements browsers show text and nothing else.
_TOKENS = frozenset(("mi", "mn", "mo", "mtext"))

_PARTS = dict.fromkeys(("mfrac", "mroot", "msub", "msup", "munder", "mover"), 2)
_PARTS |= dict.fromkeys(("msubsup", "munderover"), 3)


def to_mathml(source: str, *, block: bool) -> str | None:
    """Return the formula as MathML, or None if it can't be converted with all it says.

    The converter's own serialisation turns entities in the formula back into markup, so the tree
    is serialised here, escaped. The gate checks its attributes.
    """
    if len(source) > FORMULA_CHARACTERS or _MACROS.search(source) or _is_prose(source):
        return None
    source = _PERCENT.sub(r"\1\\%", source)
    try:
        converter = Converter(display="block" if block else "inline")
        tree = converter.convert_to_element(_ALIGNED.sub(r"\1align*}", source))
    except Exception:  # a broken formula raises anything, up to RecursionError
        return None
    for element in tree.iter():
        if element.tag in _TOKENS and len(element):
            element.tag = "mrow"
        if len(element) != _PARTS.get(element.tag, len(element)):
            return None
        element.text = unescape(element.text or "")
        if element.tag == "mtext":
            element.text = _ESCAPED.sub(r"\1", element.text)
        element.attrib = {name: unescape(value) for name, value in element.attrib.items()}
    return tostring(tree, encoding="unicode") if _shows_all(tree, source) else None


def _is_prose(source: str) -> bool:
    """Return True for words in a row, which would be set without the spaces between them."""
    return _PROSE.search(_NAMES_AND_WORDS.sub(r"\\", source)) is not None


def _shows_all(tree: Element, source: str) -> bool:
    """Return True if every letter and digit is seen that isn't the name of a command."""
    seen = list(_seen(tree))

    def letters_of(command: re.Match[str]) -> str:
        return command[0] if command[0] in seen or command[1] in seen else ""

    needed = _COMMAND.sub(letters_of, _LAYOUT.sub("", source))
    missing = Counter(normalize("NFKC", needed)) - Counter(normalize("NFKC", "".join(seen)))
    return not any(map(str.isalnum, missing))


def _seen(element: Element) -> Iterator[str]:
    is_laid_over = element.tag == "mpadded" and element.get("width", "").startswith("0")
    if element.tag == "mphantom" or is_laid_over:
        return
    if element.tag in _TOKENS:
        yield element.text or ""
    for part in element:
        yield from _seen(part)


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
    if mathml is not None:
        env.setdefault("elsewhere", []).append(token.meta["written"])
    else:
        env["formula as written"] = True
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
    if end < 0 or not content.strip() or (opening == "$" and _is_money(src, start, end)):
        return None
    return opening, content, end + width


def _is_money(src: str, start: int, end: int) -> bool:
    """Return True if the dollars stand around an amount, a sentence or code, as `$HOME:$PATH`."""
    content = src[start + 1 : end]
    before, after = src[start - 1 : start], src[end + 1 : end + 2]
    return bool(
        (before.isascii() and before.isalnum() and content[0].isalnum())
        or (content[-1] in "=:;,./+-*&|<>(@#" and (after.isalnum() or after in ("_", "{")))
        or _PERCENT.search(content)
        or _AMOUNT.match(content)
        or _is_prose(content)
    )


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
