"""Places in what people see and places in the text, when names of models are hidden."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.rendering.spans import (
    MOST_SPANS,
    ShownText,
    by_side,
    checked_spans,
    fault_of,
    joined,
    marks_from,
    read_marks,
    spans_from,
)
from judging.core.text import HIDDEN_NAME, hide_names

NAMES = ("maple-7b", "birch-3b")
PIECES = st.sampled_from(["maple-7b", "birch-3b", " is ", "good", "😀", " ", "好", ". "])
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS)
def test_what_is_shown_is_what_the_screen_shows(text):
    assert ShownText(text, NAMES).shown == hide_names(text, *NAMES)
    assert ShownText(text).shown == text


@given(TEXTS, st.data())
def test_places_go_to_the_text_and_back(text, data):
    shown = ShownText(text, NAMES)
    start = data.draw(st.integers(0, len(shown.shown)))
    end = data.draw(st.integers(start, len(shown.shown)))
    first, last = shown.to_text(start, end)
    assert 0 <= first <= last <= len(text)
    seen = shown.to_shown(first, last)
    # A name is taken whole, and nothing else is added.
    assert seen[0] <= start <= end <= seen[1]
    assert shown.to_text(*seen) == (first, last)
    # A part of a longer word may read like a name, which the whole word isn't.
    ends = (text[first - 1 : first + 1] if first else "", text[last - 1 : last + 1])
    cuts_a_word = any(len(end) == 2 and end.isalnum() for end in ends)
    assert cuts_a_word or hide_names(text[first:last], *NAMES).strip() in shown.shown


def test_half_of_a_hidden_name_is_all_of_it():
    shown = ShownText("I am maple-7b, hello", NAMES)
    start = shown.shown.index(HIDDEN_NAME) + 3
    (span,) = spans_from([(start, start + 2)], 2, shown)
    assert (span["response"], span["text"], span["start"]) == (2, "maple-7b", 5)
    assert by_side([span], 1, *NAMES) == [{"side": "right", "text": HIDDEN_NAME}]


def test_marks_are_joined_and_cut_to_the_text():
    text = "one two three"
    assert joined([(8, 99), (0, 3), (2, 5), (3, 3), (50, 60)], text) == [(0, 5), (8, 13)]
    assert joined([(3, 4)], text) == []
    assert joined([(3, 8)], text) == [(4, 7)]


@pytest.mark.parametrize("sent", ["", "x", "5", "-3-4x", "9-2", "1-1", "999999999999-1"])
def test_what_is_no_mark_is_left_out(sent):
    shown = ShownText("some text")
    assert spans_from(read_marks(sent), 1, shown) in ([], [*spans_from([(3, 4)], 1, shown)])


@given(TEXTS, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6))
def test_what_is_stored_is_sent_back_as_it_was(text, marks):
    shown = ShownText(text, NAMES)
    spans = spans_from(marks, 1, shown)
    assert all(text[one["start"] : one["end"]] == one["text"] for one in spans)
    assert spans_from(read_marks(marks_from(spans, 1, shown)), 1, shown) == spans


def test_there_is_a_most():
    text = "ab " * 100
    spans = spans_from([(3 * n, 3 * n + 2) for n in range(100)], 1, ShownText(text))
    assert len(spans) == MOST_SPANS


GOOD = {"response": 1, "start": 0, "end": 3}


@pytest.mark.parametrize(
    "spans",
    [
        {}, "x", [1], [GOOD | {"response": 3}], [GOOD | {"start": 3}], [GOOD | {"start": -1}],
        [GOOD | {"end": 2.5}], [GOOD | {"end": True}], [GOOD | {"text": 4}],
        [GOOD, GOOD | {"start": 2}], [GOOD | {"start": 3 * n, "end": 3 * n + 1} for n in range(51)],
    ],
)  # fmt: skip
def test_spans_of_another_form_are_refused(spans):
    assert fault_of(spans)


def test_spans_from_elsewhere_hold_the_text_there_or_are_refused():
    texts = ("one two", "three")
    found = checked_spans([GOOD | {"response": 2}, GOOD], texts)
    assert [one["text"] for one in found] == ["one", "thr"]
    assert "quotes another text" in checked_spans([GOOD | {"text": "two"}], texts)
    assert "has 5 characters" in checked_spans([GOOD | {"response": 2, "end": 6}], texts)
