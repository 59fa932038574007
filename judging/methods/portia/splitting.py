"""Where a response may be cut: between sentences, and between the statements of code blocks."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import sentencex

from judging.methods.portia.alignment import MAX_SENTENCES, UNSPACED, equidistant

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser

NEEDS_GRAMMARS = (
    "PORTIA splits code blocks with tree-sitter's grammars, which are not installed. Install them "
    "with: pip install 'fairjudge[grammars]'"
)

# Behind the marks of lists and quotations, as language models write them.
_PREFIX = r"(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*"
_OPENING = re.compile(rf"^{_PREFIX}(?P<fence>`{{3,}}+(?!.*`)|~{{3,}}+)(?P<info>.*)$", re.MULTILINE)

# Longer blocks are not parsed: a statement a line, they would end as one of 100 pieces anyway.
MAX_CHARACTERS = 200_000

_GRAMMARS = {
    "bash": ("tree_sitter_bash", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "php_only": ("tree_sitter_php", "language_php_only"),
    "python": ("tree_sitter_python", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
_ALIASES = {
    "c#": "csharp",
    "c++": "cpp",
    "cc": "cpp",
    "cs": "csharp",
    "cxx": "cpp",
    "golang": "go",
    "h": "c",
    "hpp": "cpp",
    "js": "javascript",
    "jsx": "javascript",
    "mjs": "javascript",
    "node": "javascript",
    "py": "python",
    "py3": "python",
    "python3": "python",
    "rb": "ruby",
    "rs": "rust",
    "sh": "bash",
    "shell": "bash",
    "ts": "typescript",
    "zsh": "bash",
}

# Definitions whose members may be parted from each other, and what may stand around them.
_CONTAINERS = frozenset(
    "abstract_class_declaration class class_declaration class_definition class_specifier impl_item "
    "internal_module mod_item module namespace_declaration namespace_definition trait_declaration "
    "trait_item".split()
)
_WRAPPERS = frozenset(
    "ambient_declaration decorated_definition export_statement expression_statement "
    "template_declaration".split()
)
# What belongs to the statement that follows.
_LEADING = frozenset(
    "access_specifier attribute_item block_comment comment doc_comment inner_attribute_item "
    "line_comment php_tag".split()
)
# Characters of a paragraph read at once: sentencex takes quadratic time on some.
MAX_PASSAGE = 10_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_LETTER = re.compile(r"[^\W_]")
# White space, and what changes the sign before it, as the selector of a coloured exclamation mark.
_SPACE = re.compile(r"[\u0300-\u036f\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]*\s*")
_MARKER = re.compile(
    r"[ \t]*(?:[-*+•‣▪◦·–]|#{1,6}|[(（]?\d{1,3}[.)）:]|\(?[A-Za-z]\)|>(?:[ \t]*>)*|\|)(?:[ \t]+|$)"
    r"|[ \t]*[(（]?\d{1,3}[、．）]"
)
_HEADING_OR_ROW = re.compile(r"[ \t]*(?:#{1,6}[ \t]|\|)")
# Neither a sentence of its own nor the end of one: an enumerator, a rule, a row of asterisks.
_NO_SENTENCE = re.compile(r"[\W_]*+(?:\d{1,3}[.)]|[A-Za-z]\))?[\W_]*+")
# Markup that closes behind a full stop, which hides the end of the sentence from sentencex.
_CLOSING_MARKUP = re.compile(r"([.!?。！？…])([*_~`]+)(?=\s|$)")
# What sentencex leaves out: Thai and Lao part sentences by a space, Tibetan and Khmer by strokes.
_OTHER_END = re.compile(
    "(?<=[\u0e00-\u0eff])[ \t]+(?=[\u0e00-\u0eff])"
    "|(?<![\u0f0d\u0f0e\u17d4\u17d5])[\u0f0d\u0f0e\u17d4\u17d5]++(?=[ \t]*[^ \t\u0f0d\u0f0e])"
)
_ASCII_END = re.compile(rf"""[.!?]["')\]}}*_~`]*(?=[^\s{UNSPACED}])""")


class GrammarsMissing(ImportError):
    """The extra `grammars` is not installed. Without it a text would be split differently."""

    def __init__(self) -> None:
        super().__init__(NEEDS_GRAMMARS)


@cache
def check_grammars() -> None:
    """Raise GrammarsMissing if the grammar of any language that can be split is not installed."""
    for module in ("tree_sitter", *(name for name, _ in _GRAMMARS.values())):
        try:
            importlib.import_module(module)
        except ImportError:
            raise GrammarsMissing from None


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block with its fences, as character offsets, and the lines between them."""

    start: int
    stop: int
    code_start: int
    code_stop: int
    language: str


def code_blocks(text: str) -> Iterator[CodeBlock]:
    """Find fenced code blocks, between backquotes or tildes; an unclosed one runs to the end.

    Args: text: Markdown.
    Returns: the blocks in order."""
    position = 0
    while opening := _OPENING.search(text, position):
        fence = opening["fence"]
        code_start = min(opening.end() + 1, len(text))
        closing = re.compile(
            rf"^[ \t>]*{fence[0]}{{{len(fence)},}}[ \t]*\r?$", re.MULTILINE
        ).search(text, code_start)
        code_stop = closing.start() if closing else len(text)
        position = closing.end() if closing else len(text)
        yield CodeBlock(
            opening.start(), position, code_start, code_stop, _language(opening["info"])
        )


def _language(info: str) -> str:
    words = re.split(r"[\s{},:]+", info.strip().lower().lstrip("{."), maxsplit=1)
    return _ALIASES.get(words[0], words[0])


def _statement_starts(text: str, block: CodeBlock) -> Iterator[int]:
    """Offsets at which a statement begins on a line of its own, but for the first of each list.

    Statements of the block itself and members of its classes and namespaces; the bodies of
    functions, loops and conditions stay whole, which keeps the order of execution together."""
    lines = text[block.code_start : block.code_stop].split("\n")
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    own = [line[indent:] for line in lines]
    parser = _parser(block.language, own)
    if parser is None or block.code_stop - block.code_start > MAX_CHARACTERS:
        return
    root = parser.parse("\n".join(own).encode("utf-8", "replace")).root_node
    if root.has_error:
        return
    offsets = []
    offset = block.code_start
    for line in lines:
        offsets.append(offset)
        offset += len(line) + 1
    for row in _statement_rows(root):
        yield offsets[row] + len(lines[row]) - len(lines[row].lstrip())


def _parser(language: str, lines: list[str]) -> Parser | None:
    if language == "php" and not any("<?" in line for line in lines):
        language = "php_only"
    grammar = _grammar(language)
    if grammar is None:
        return None
    from tree_sitter import Parser

    return Parser(grammar)


@cache
def _grammar(name: str) -> Language | None:
    if name not in _GRAMMARS:
        return None
    check_grammars()
    from tree_sitter import Language

    module, function = _GRAMMARS[name]
    return Language(getattr(importlib.import_module(module), function)())


def _statement_rows(root: Node) -> Iterator[int]:
    """Rows on which a statement or member begins that is not the first of its list."""
    waiting = [root]
    while waiting:
        members = waiting.pop().named_children
        row, leading = -1, True
        for member in members:
            first_on_row = member.start_point.row > row
            if first_on_row and not leading:
                yield member.start_point.row
            leads = member.type in _LEADING
            if first_on_row or not leads:
                leading = leads and (first_on_row or leading)
            row = _last_row(member)
            body = _body(member)
            if body is not None:
                waiting.append(body)


def _last_row(node: Node) -> int:
    """Some statements take the line break along and end at the start of the next row."""
    row, column = node.end_point
    return row if column else row - 1


def _body(node: Node) -> Node | None:
    """Return the list of members if the statement is a class or namespace."""
    while node.type in _WRAPPERS:
        inner = [c for c in node.named_children if c.type in _CONTAINERS | _WRAPPERS]
        if not inner:
            return None
        node = inner[0]
    return node.child_by_field_name("body") if node.type in _CONTAINERS else None


def boundaries(text: str, limit: int = MAX_SENTENCES) -> tuple[int, ...]:
    """Find the character offsets at which a text may be cut.

    White space at a boundary stays with the part on the left. Sentences end where sentencex
    finds their end (about 300 languages, which you don't name), at the spaces of Thai and Lao, and
    at headings, list items and blank lines. A fenced code block is cut between statements only, and
    not at all in a language without a grammar here or if it doesn't parse.

    Args:
        text: a response.
        limit: sentences at most; neighbours of a longer text are merged to about equal lengths.
    Returns: ascending offsets, never 0 or the text's length.
    Raises: GrammarsMissing if a code block needs the extra."""
    candidates: set[int] = set()
    start = 0
    for block in code_blocks(text):
        candidates.update(_prose(text, start, block.start))
        candidates.update(_code(text, block))
        start = block.stop
    candidates.update(_prose(text, start, len(text)))
    ends = _between_sentences(text, candidates)
    return equidistant(ends, len(text), limit) if len(ends) >= limit else tuple(ends)


def _between_sentences(text: str, candidates: set[int]) -> list[int]:
    """The candidates, behind their white space, that leave a sentence on either side."""
    ends: list[int] = []
    position = 0
    has_sentence = False
    for candidate in [*sorted(candidates), len(text)]:
        if candidate < position:
            continue
        start, position = position, _behind_space(text, candidate)
        has_sentence |= not _NO_SENTENCE.fullmatch(text, start, position)
        if has_sentence and position < len(text):
            ends.append(position)
            has_sentence = False
    return ends if has_sentence else ends[:-1]


def _behind_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _code(text: str, block: CodeBlock) -> Iterator[int]:
    yield block.start
    yield from _statement_starts(text, block)
    yield block.stop


def _prose(text: str, start: int, stop: int) -> Iterator[int]:
    """Ends of sentences in text[start:stop], one block of lines after the other."""
    for first, last in _line_blocks(text, start, stop):
        yield first
        marker = _MARKER.match(text, first, last)
        content = marker.end() if marker else first
        for begin in range(content, last, MAX_PASSAGE):
            passage = _SURROGATE.sub("\ufffd", text[begin : min(begin + MAX_PASSAGE, last)])
            passage = _CLOSING_MARKUP.sub(r"\2\1", passage)
            for sentence in sentencex.get_sentence_boundaries("en", passage):
                position = begin + sentence["start_index"]
                if position > begin and not _is_inside_word(text, position):
                    yield position
            yield from (begin + match.end() for match in _OTHER_END.finditer(passage))


def _is_inside_word(text: str, position: int) -> bool:
    """Return whether an ASCII full stop ends here with no space after it, as in Node.JS."""
    near = _ASCII_END.finditer(text, max(0, position - 8), position + 1)
    return any(match.end() == position for match in near)


def _line_blocks(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Paragraphs, headings and list items as stretches of the text."""
    begin = start
    position = start
    closed = True
    for line in text[start:stop].splitlines(keepends=True):
        if line.strip():
            # A rule belongs to the row or paragraph above it.
            starts = (closed or _MARKER.match(line)) and _LETTER.search(line)
            if starts and position > begin:
                yield begin, position
                begin = position
            introduces = line.rstrip(" \t\r\n*_").endswith((":", "："))
            closed = introduces or _HEADING_OR_ROW.match(line) is not None
        else:
            closed = True
        position += len(line)
    if begin < stop:
        yield begin, stop
