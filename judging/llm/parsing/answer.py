"""The part of a reply that can hold a verdict: without thinking, and with quotations blanked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from judging.llm.folding import fold
from judging.llm.marks import THINK_TAG
from judging.llm.parsing.quotations import copied_spans, delimited_spans

# Stands for each character of a quotation; no pattern matches it.
BLANK = "\x00"


@dataclass(frozen=True)
class Answer:
    """Texts of one length: as written; folded, without what repeats a quoted text; and `own`,
    without what stands in quotation marks too."""

    written: str
    folded: str

    @cached_property
    def own(self) -> str:
        return _blanked(self.folded, delimited_spans(self.folded))


def read_answer(reply: str, quoted: Sequence[str] = ()) -> Answer:
    written = without_thinking(reply)
    folded = fold(written)
    return Answer(written, _blanked(folded, copied_spans(folded, quoted)))


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
