"""Spans: parts of a response that a person marked as evidence.

A span belongs to response 1 or 2, whatever side it was marked on. It is counted in characters
(Unicode code points) of the response's text as it was imported and is exported, so that it stays
where it is if the text is laid out in another way. It also holds the text that it quotes. The
text of a conversation is its text form (`judging.core.conversations`), and an image is part of the
text as its Markdown.

People see a text without the names of models if the protocol hides them. `ShownText` turns the
places in what they see into places in the text, and back.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from annotation.rendering.responses import has_visible
from judging.core.text import HIDDEN_NAME, hide_names, places_of_names

# In one response. More marks than these are no evidence.
MOST_SPANS = 50
# The digits are limited, since Python raises ValueError for a number of thousands of digits.
_MARK = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
Span = Mapping[str, Any]


@dataclass(frozen=True)
class ShownText:
    """A response's text, and how people see it.

    Args:
        names: of the models, if they are hidden.
    """

    text: str
    names: Sequence[str] = ()
    _hidden: list[tuple[int, int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        places = places_of_names(self.text, *self.names) if self.names else []
        object.__setattr__(self, "_hidden", places)

    @cached_property
    def shown(self) -> str:
        pieces, at = [], 0
        for start, end in self._hidden:
            pieces += [self.text[at:start], HIDDEN_NAME]
            at = end
        return "".join([*pieces, self.text[at:]])

    def to_text(self, start: int, end: int) -> tuple[int, int]:
        """Turn places in what is shown into places in the text. A hidden name is taken whole."""
        return self._original(start, at_end=False), self._original(end, at_end=True)

    def to_shown(self, start: int, end: int) -> tuple[int, int]:
        return self._seen(start, at_end=False), self._seen(end, at_end=True)

    def _original(self, place: int, *, at_end: bool) -> int:
        # `shift` is how much longer what is shown is than the text, up to here: each hidden name
        # is replaced by a word of another length.
        shift = 0
        for start, end in self._hidden:
            seen = start + shift
            if place <= seen:
                break
            if place < seen + len(HIDDEN_NAME):
                return end if at_end else start
            shift += len(HIDDEN_NAME) - (end - start)
        return place - shift

    def _seen(self, place: int, *, at_end: bool) -> int:
        shift = 0
        for start, end in self._hidden:
            if place <= start:
                break
            if place < end:
                return start + shift + (len(HIDDEN_NAME) if at_end else 0)
            shift += len(HIDDEN_NAME) - (end - start)
        return place + shift


def read_marks(text: str) -> list[tuple[int, int]]:
    """Read marks as the screen sends them, such as `4-18,30-35`. What is no mark is left out."""
    return [(int(start), int(end)) for start, end in _MARK.findall(text)]


def joined(marks: Iterable[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Return marks in order, within the text, those that overlap or touch as one.

    White space at their ends is left out, and so is a mark without anything visible.
    """
    places: list[tuple[int, int]] = []
    for start, end in sorted(marks):
        # The marks come from a browser, so they may reach beyond the text or be empty.
        end = min(end, len(text))
        if start >= end:
            continue
        if places and start <= places[-1][1]:
            places[-1] = (places[-1][0], max(places[-1][1], end))
        else:
            places.append((start, end))
    trimmed = ((*_trimmed(start, end, text),) for start, end in places)
    return [(start, end) for start, end in trimmed if has_visible(text[start:end])]


def _trimmed(start: int, end: int, text: str) -> tuple[int, int]:
    quote = text[start:end]
    start += len(quote) - len(quote.lstrip())
    return start, max(start, end - (len(quote) - len(quote.rstrip())))


def spans_from(marks: Iterable[tuple[int, int]], response: int, shown: ShownText) -> list[Span]:
    """Turn marks in what is shown into spans of a response; at most `MOST_SPANS`."""
    places = joined((shown.to_text(*mark) for mark in marks), shown.text)[:MOST_SPANS]
    return [
        {"response": response, "start": start, "end": end, "text": shown.text[start:end]}
        for start, end in places
    ]


def places_in(spans: Iterable[Span], response: int, shown: ShownText) -> Iterator[tuple[int, int]]:
    """Yield where the spans of a response are in what is shown."""
    for span in spans:
        if span["response"] == response:
            yield shown.to_shown(span["start"], span["end"])


def painted(
    marked: Iterable[tuple[str, Iterable[Span]]], response: int, shown: ShownText
) -> dict[str, Any] | None:
    """Return what a page needs to show who marked what in a response; None if nobody did.

    Args:
        marked: each person's name, and what they marked.
    """
    spans = [
        {"start": start, "end": end, "who": who}
        for who, theirs in marked
        for start, end in places_in(theirs, response, shown)
    ]
    return {"text": shown.shown, "spans": spans} if spans else None


def marks_from(spans: Iterable[Span], response: int, shown: ShownText) -> str:
    """Write the spans of a response as `read_marks` reads them."""
    return ",".join(f"{start}-{end}" for start, end in places_in(spans, response, shown))


def by_side(spans: Iterable[Span], left_response: int | None, *names: str) -> list[Span]:
    """Return what was marked on which side, which tells nobody whose response it is.

    Args:
        names: of the models, if they are hidden.
    """
    return [
        {
            "side": "left" if span["response"] == left_response else "right",
            "text": hide_names(span["text"], *names),
        }
        for span in spans
    ]


def fault_of(spans: Any) -> str | None:
    """Say what is wrong with the form of spans from elsewhere; None if nothing is."""
    if not isinstance(spans, list):
        return "should be a JSON list of spans"
    for span in spans:
        # For the numbers, isinstance would take JSON's true for 1.
        whole = isinstance(span, dict) and all(
            type(span.get(name)) is int for name in ("response", "start", "end")
        )
        if not whole or span["response"] not in (1, 2) or not 0 <= span["start"] < span["end"]:
            return "should have spans with a response of 1 or 2, and a start before their end"
        if not isinstance(span.get("text", ""), str):
            return "should quote a text in each span"
    for response in (1, 2):
        mine = sorted((s["start"], s["end"]) for s in spans if s["response"] == response)
        if len(mine) > MOST_SPANS:
            return f"should have at most {MOST_SPANS} spans in a response"
        if any(end > start for (_, end), (start, _) in pairwise(mine)):
            return "should have spans that don't overlap"
    return None


def checked_spans(spans: Iterable[Span], responses: Sequence[str]) -> list[Span] | str:
    """Return spans from elsewhere with the text that they quote, in order; or what is wrong."""
    marked: list[Span] = []
    for span in sorted(spans, key=lambda place: (place["response"], place["start"])):
        response, start, end = span["response"], span["start"], span["end"]
        text = responses[response - 1]
        if end > len(text):
            return f"a span ends at {end}, but response {response} has {len(text)} characters"
        quote = text[start:end]
        if span.get("text", quote) != quote:
            return f"the span {start} to {end} of response {response} quotes another text"
        marked.append({"response": response, "start": start, "end": end, "text": quote})
    return marked
