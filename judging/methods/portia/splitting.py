"""Where a response may be cut: between sentences, and in code between statements (PORTIA §3.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import sentencex

from judging.methods.portia.alignment import MAX_SENTENCES, equidistant
from judging.methods.portia.code_blocks import CodeBlock, code_blocks, statement_starts
from judging.methods.portia.similarity import UNSPACED

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
    "|[\u0f0d\u0f0e\u17d4\u17d5]+(?=[ \t]*[^ \t\u0f0d\u0f0e])"
)
_ASCII_END = re.compile(rf"""[.!?]["')\]}}*_~`]*(?=[^\s{UNSPACED}])""")


def boundaries(text: str, limit: int = MAX_SENTENCES) -> tuple[int, ...]:
    """The character offsets at which the text may be cut, ascending, never 0 or its length.

    White space at a boundary stays with the part on the left.  Sentences end where sentencex
    finds their end (about 300 languages, none of which has to be named), at the spaces of Thai
    and Lao, and at headings, list items and blank lines.  A fenced code block is cut between
    statements only, and not at all in a language that has no grammar here or where it does not
    parse.

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
    position = 0
    has_sentence = False
    for candidate in [*sorted(candidates), len(text)]:
        if candidate < position:
            continue
        start, position = position, _behind_space(text, candidate)
        has_sentence |= not _NO_SENTENCE.fullmatch(text, start, position)
        if has_sentence and position < len(text):
            found.append(position)
            has_sentence = False
    return found if has_sentence else found[:-1]


def _behind_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


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
        for begin in range(content, last, MAX_PASSAGE):
            passage = _SURROGATE.sub("\ufffd", text[begin : min(begin + MAX_PASSAGE, last)])
            passage = _CLOSING_MARKUP.sub(r"\2\1", passage)
            for sentence in sentencex.get_sentence_boundaries("en", passage):
                position = begin + sentence["start_index"]
                if position > begin and not _is_inside_word(text, position):
                    yield position
            yield from (begin + match.end() for match in _OTHER_END.finditer(passage))


def _is_inside_word(text: str, position: int) -> bool:
    """Whether an ASCII full stop stands there with no space behind it, as in Node.JS."""
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
