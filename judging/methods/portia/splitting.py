"""Where a response may be cut: between sentences, and in code between statements (PORTIA §3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sentencex

from judging.methods.portia.alignment import MAX_SENTENCES, equidistant
from judging.methods.portia.code_blocks import CodeBlock, code_blocks, statement_starts
from judging.methods.portia.similarity import UNSPACED

_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s*")
_MARKER = re.compile(
    r"[ \t]*(?:[-*+•‣▪◦·–]|#{1,6}|[(（]?\d{1,3}[.)）:]|\(?[A-Za-z]\)|>(?:[ \t]*>)*|\|)(?:[ \t]+|$)"
    r"|[ \t]*[(（]?\d{1,3}[、．）]"
)
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]")
_COLON = re.compile(r"[:：]\W*$")
# Neither a sentence of its own nor the end of one: an enumerator, a rule, a row of asterisks.
_NO_SENTENCE = re.compile(r"[\W_]*(?:\d{1,3}[.)]|[A-Za-z]\))?[\W_]*")
_CLOSING_MARKUP = re.compile(r"[*_~`]+(?=\s|$)")
_ASCII_END = re.compile(rf"""[.!?]["')\]}}*_~`]*(?=[^\s{UNSPACED}])""")


def boundaries(text: str, limit: int = MAX_SENTENCES) -> tuple[int, ...]:
    """The character offsets at which the text may be cut, ascending, never 0 or its length.

    White space at a boundary stays with the part on the left.  Sentences end where sentencex
    finds their end (about 300 languages, none of which has to be named), and at headings, list
    items and blank lines.  A fenced code block is cut between statements only, and not at all
    in a language that has no grammar here or where it does not parse.

    limit: sentences at most.  Neighbours of a longer text are merged to about equal lengths.
    """
    candidates: set[int] = set()
    start = 0
    for block in code_blocks(text):
        candidates.update(_prose(text, start, block.start))
        candidates.update(_code(text, block))
        start = block.stop
    candidates.update(_prose(text, start, len(text)))
    found = _between_sentences(text, candidates)
    return equidistant(found, len(text), limit) if len(found) >= limit else tuple(found)


def _between_sentences(text: str, candidates: set[int]) -> list[int]:
    """The candidates, behind their white space, that leave a sentence on either side."""
    found: list[int] = []
    for position in sorted({_SPACE.match(text, p).end() for p in candidates}):  # type: ignore[union-attr]
        last = found[-1] if found else 0
        if not _NO_SENTENCE.fullmatch(text, last, position):
            found.append(position)
    while found and _NO_SENTENCE.fullmatch(text, found[-1]):
        found.pop()
    return found


def _code(text: str, block: CodeBlock) -> Iterator[int]:
    yield block.start
    yield from statement_starts(text, block)
    yield block.stop


def _prose(text: str, start: int, stop: int) -> Iterator[int]:
    """Ends of sentences in text[start:stop], one block of lines after the other."""
    for first, last in _line_blocks(text, start, stop):
        yield first
        marker = _MARKER.match(text, first, last)
        content = marker.end() if marker else first
        passage = _SURROGATE.sub("\ufffd", text[content:last])
        for sentence in sentencex.get_sentence_boundaries("en", passage):
            position = content + sentence["start_index"]
            closing = _CLOSING_MARKUP.match(text, position, last)
            if position > content and not _is_inside_word(text, position):
                yield closing.end() if closing else position


def _is_inside_word(text: str, position: int) -> bool:
    """Whether an ASCII full stop stands there with no space behind it, as in Node.JS."""
    return any(match.end() == position for match in _ASCII_END.finditer(text, max(0, position - 8)))


def _line_blocks(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Paragraphs, headings and list items as stretches of the text."""
    begin = start
    position = start
    closed = True
    for line in text[start:stop].splitlines(keepends=True):
        if line.strip():
            if (closed or _MARKER.match(line)) and position > begin:
                yield begin, position
                begin = position
            closed = bool(_HEADING.match(line) or _COLON.search(line))
        else:
            closed = True
        position += len(line)
    if begin < stop:
        yield begin, stop
