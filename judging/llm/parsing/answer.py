"""The part of a reply that can hold a verdict: without thinking, and with quotations blanked."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from judging.llm.folding import fold
from judging.llm.marks import THINK_TAG
from judging.llm.parsing.quotations import (
    attributed_spans,
    copied_spans,
    delimited_spans,
    fenced_spans,
)

_LINE_BREAK = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")

# Stands for each character of a quotation; no pattern matches it.
BLANK = "\x00"


@dataclass(frozen=True)
class Answer:
    """Texts of one length: as written; folded, without what repeats a quoted text; and `own`,
    without what stands in quotation marks or is taken back."""

    written: str
    folded: str

    @cached_property
    def own(self) -> str:
        spans = [*delimited_spans(self.folded), *attributed_spans(self.folded)]
        own = _blanked(self.folded, spans)
        if any(word in own for word in _WITHDRAWING):
            ends = [match.end() for match in _TAKES_BACK.finditer(own)]
            own = _blanked(own, [(0, end) for end in ends[-1:]])
        return own


def read_answer(reply: str, quoted: Sequence[str] = ()) -> Answer:
    if "\r" in reply or not reply.isascii():
        reply = _LINE_BREAK.sub("\n", reply)
    written = without_thinking(reply)
    folded = fold(written)
    spans = [*copied_spans(folded, quoted), *fenced_spans(folded)]
    return Answer(written, _blanked(folded, spans))


def without_thinking(reply: str) -> str:
    """What follows an opening tag that is never closed is thinking, and so is what precedes a
    closing tag that was never opened. A tag right after a quotation mark is only mentioned."""
    folded = fold(reply)
    kept: list[str] = []
    depth = last = 0
    for tag in THINK_TAG.finditer(folded):
        if folded[tag.start() - 1 : tag.start()] in QUOTES:
            continue
        if tag["open"] is not None:
            if depth == 0:
                kept.append(reply[last : tag.start()])
            depth += 1
        elif depth > 0:
            depth = 0 if tag["final"] else depth - 1
        else:
            kept.clear()
        last = tag.end()
    return "".join(kept) + (reply[last:] if depth == 0 else "")


_WITHDRAWING = ("withdraw", "retract", "back", "disregard", "ignore", "discard")
# "I withdraw these scores": what stands before is no verdict any more.
_TAKES_BACK = re.compile(
    r"(?:(?:^|[.!?\n,;:])[ \t*_]*"
    r"(?:(?:but|so|and|wait|sorry|actually|no|hence)\b[ \t,.!]+){0,3}"
    r"i(?:'d|\u2019d| would)?[ \t]+(?:(?:like|want|wish|need|have|hereby|must|therefore)[ \t]+"
    r"(?:to[ \t]+)?){0,2}(?:withdraw|retract|take[ \t]+back)"
    r"|(?:^|[.!?\n])[ \t*_]*(?:(?:so|wait|sorry|actually|no|please)\b[ \t,.!]+){0,3}"
    r"(?:disregard|ignore|discard))[ \t]+"
    r"(?:(?:the|my|these|those|this|that|all|both|above|previous|earlier|initial|first)[ \t]+){1,3}"
    r"(?:scores?|verdicts?|ratings?|judge?ments?|decision|evaluation)\b[^.\n]{0,60}"
)

QUOTES = frozenset("\"'`\u201c\u2018\u00ab\u201e\u300c")


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces, last = [], 0
    for start, end in sorted(spans):
        start = max(start, last)
        if start >= end:
            continue
        pieces += [text[last:start], _blank(text[start:end])]
        last = end
    return "".join([*pieces, text[last:]])


def _blank(text: str) -> str:
    return "\n".join(BLANK * len(line) for line in text.split("\n"))
