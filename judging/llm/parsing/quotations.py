"""What a judge repeats from a response, where it shows: in quotation marks, or word for word.

All positions are in folded text; every function takes time linear in the reply.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from judging.llm.folding import INVISIBLE, fold, visible
from judging.llm.marks import STRONG_SCORE, VERDICT_MARK, VERDICT_MARKS, holds_verdict_mark

Span = tuple[int, int]

_CLOSERS = {
    "\u201c": "\u201d",
    "\u201e": "\u201c",
    "\u2018": "\u2019",
    "\u00ab": "\u00bb",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
}
_STRAIGHT = "\"'`"
_QUOTE = re.compile("\n\n|[\n" + _STRAIGHT + "".join({*_CLOSERS, *_CLOSERS.values()}) + "]")
_BLOCK_QUOTE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
# A line that holds a verdict in quotation marks and nothing else is the judge's own.
_OWN_LINE = re.compile(
    r"[ \t*_#-]*(?:(?:so|thus|therefore|hence|overall|in conclusion)\b[ \t,:]*)?"
    r"(?:(?:my|the)[ \t]+)?(?:(?:final[ \t]+)?(?:verdict|decision|judge?ment|choice|answer)"
    r"(?:[ \t]+is)?[ \t*_]*:?[ \t*_]*)?$",
)
# A fenced block under a line that names one of the two is what that one wrote, unless the line
# speaks of the verdict.
_FENCE = re.compile(r"^[ \t]*`{3}", re.MULTILINE)
_NAMES_ONE = re.compile(
    r"\bassistant[ \t*_`#]*[12ab]\b|\b(?:response|answer)[ \t*_`#]*[12ab]\b"
    r"|\b(?:first|second)[ \t]+(?:assistant|response|answer|one)\b"
)
_OF_THE_VERDICT = re.compile(r"\b(?:my|final|verdict|scores?|ratings?|evaluation|better|output)\b")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])")
_OBJECT = re.compile(r"\{[^{}]*\}")
_EVIDENCE_KEY = re.compile(r"\"(?:evaluation[_ ])?evidence\"[ \t]*:")
_WORD = re.compile(r"\S+")
_END_OF_LINE = re.compile(r"[ \t*_.]*(?:\n|$)")

_ATTRIBUTED = re.compile(
    r"\b(?:assistant|response|answer)\b[^.!?\n\[]{0,40}?"
    r"\b(?:said|says|wrote|writes|contains|includes|included|claims|claimed|states|stated"
    r"|(?:end(?:s|ed)|finish(?:es|ed)|clos(?:es|ed))[ \t]+(?:in|with|by))"
    r"[ \t:,]{1,4}(?:the[ \t]+)?$"
)

LONGEST_LABEL = 60
LONGEST_LEAD = 200

# How much of its surroundings tells a mark in a response from the same mark of the judge.
CONTEXT = 60
SHORTEST_COPY = 20
# Letters beside its marks that make a line known again; "The" and "is" come with the marks.
_OWN_WORDS = 6


def delimited_spans(folded: str) -> Iterator[Span]:
    """Quotations that hold a verdict's mark: in quotation marks, in backticks, in block quotes."""
    for start, end in _in_quotes(folded):
        if holds_verdict_mark(folded, start, end) and not _is_own_line(folded, start, end):
            yield start, end
    blocks = [match.span() for match in _BLOCK_QUOTE.finditer(folded)]
    if blocks and not all(_BLOCK_QUOTE.match(line) for line in folded.split("\n") if line.strip()):
        yield from blocks


def attributed_spans(folded: str) -> Iterator[Span]:
    """Marks that a sentence lays in the mouth of one of the two: "Response B ends with [[B]]"."""
    for pattern in (VERDICT_MARK, STRONG_SCORE):
        for mark in pattern.finditer(folded):
            if _ATTRIBUTED.search(folded, max(0, mark.start() - LONGEST_LEAD), mark.start()):
                yield mark.span()


def fenced_spans(folded: str) -> Iterator[Span]:
    """Fenced blocks that are announced as what one of the assistants wrote."""
    fences = [match.start() for match in _FENCE.finditer(folded)]
    for start, end in zip(fences[::2], fences[1::2], strict=False):
        lead = folded[max(0, start - LONGEST_LEAD) : start].rstrip().rpartition("\n")[2]
        if _NAMES_ONE.search(lead) and not _OF_THE_VERDICT.search(lead):
            yield start, end


def _in_quotes(folded: str) -> Iterator[Span]:
    """Straight marks pair within a line, others within a paragraph; an apostrophe is none."""
    opened, closer = None, ""
    for match in _QUOTE.finditer(folded):
        mark, start, end = match[0], match.start(), match.end()
        if mark[0] == "\n":
            if mark == "\n\n" or closer in _STRAIGHT:
                opened = None
        elif opened is not None:
            if mark == closer and not folded[end : end + 1].isalnum():
                yield opened, start
                opened = None
        elif mark in _CLOSERS:
            opened, closer = end, _CLOSERS[mark]
        elif mark in _STRAIGHT and not folded[start - 1 : start].isalnum():
            opened, closer = end, mark


def _is_own_line(folded: str, start: int, end: int) -> bool:
    """Whether the quotation at start:end is all that its line holds, but for "verdict:"."""
    before = folded[max(0, start - LONGEST_LABEL) : start - 1].rpartition("\n")
    whole = before[1] or start <= LONGEST_LABEL
    return bool(whole and _OWN_LINE.match(before[2]) and _END_OF_LINE.match(folded, end + 1))


def copied_spans(folded: str, quoted: Sequence[str]) -> Iterator[Span]:
    """Where the reply repeats, word for word, what could be read as a verdict in `quoted`.

    White space and invisible signs may differ. A passage is the whole text, unless it is as short
    as a verdict; or a line with words beside its mark; or lines of marks alone together with what
    stands before or after them; or a sentence or an object with words beside its mark.
    """
    collapsed = " ".join(visible(folded).split())
    found = [passage for text in quoted for passage in _passages(text) if passage in collapsed]
    places = _places(folded) if found else []
    for passage in found:
        start = collapsed.find(passage)
        while start >= 0:
            end = start + len(passage)
            yield places[start], places[end - 1] + 1
            start = collapsed.find(passage, end)


@lru_cache(maxsize=64)
def _passages(text: str) -> frozenset[str]:
    """A pair is judged in many samples, one after another."""
    return frozenset(_find_passages(fold(visible(text))))


def _find_passages(text: str) -> Iterator[str]:
    whole = " ".join(text.split())
    marked = holds_verdict_mark(text)
    if marked or len(whole) >= SHORTEST_COPY:
        yield whole
    if not marked:
        return
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    bare: list[str] = []
    before = ""
    for line in [*lines, ""]:
        if line and holds_verdict_mark(line) and not _has_own_words(line):
            bare.append(line)
            continue
        if bare:
            run = " ".join(bare)
            if before:
                yield f"{before[-CONTEXT:]} {run}".strip()
            if line:
                yield f"{run} {line[:CONTEXT]}".strip()
            bare = []
        if holds_verdict_mark(line):
            yield line
            yield from _sentences(line)
        before = line


def _sentences(line: str) -> Iterator[str]:
    """Of a line with words of its own, the sentences and objects that have some too."""
    for part in (*_SENTENCE_END.split(line), *_OBJECT.findall(line)):
        if part != line and holds_verdict_mark(part) and _has_own_words(part):
            yield part.strip()


def _has_own_words(line: str) -> bool:
    for pattern in (STRONG_SCORE, *VERDICT_MARKS, _EVIDENCE_KEY):
        line = pattern.sub("", line)
    return sum(character.isalpha() for character in line) >= _OWN_WORDS


def _places(text: str) -> list[int]:
    """Where each character comes from of what is visible, with its white space collapsed."""
    hidden = {match.start() for match in INVISIBLE.finditer(text)}
    places: list[int] = []
    for word in _WORD.finditer(text):
        shown = [place for place in range(*word.span()) if place not in hidden]
        if places and shown:
            places.append(word.start() - 1)
        places.extend(shown)
    return places
