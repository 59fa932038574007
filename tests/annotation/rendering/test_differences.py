"""What differs is marked on both sides, and the texts themselves stay whole."""

from hypothesis import given
from hypothesis import strategies as st

from annotation.rendering import differences
from annotation.rendering.differences import PAIRS
from tests.annotation.rendering.reading import Reading

texts = st.lists(st.sampled_from(["a", "b", "c ", " ", "\n", "<i>", "é", "."])).map("".join)


def marked(html):
    return [piece.partition("</mark>")[0] for piece in html.split("<mark>")[1:]]


def test_changed_words_are_marked_on_both_sides():
    found = differences("The quick brown fox.", "The slow brown ox!")
    assert marked(found.left) == ["quick", "fox."]
    assert marked(found.right) == ["slow", "ox!"]


def test_an_insertion_is_marked_where_it_is():
    found = differences("one two four", "one two three four")
    assert marked(found.left) == []
    assert found.right.startswith('<div class="plain" dir="auto">one two <mark>three</mark> four')


def test_equal_texts_have_no_marks_and_white_space_is_no_difference():
    assert marked(differences("a\nb  c", "a b c").left) == []
    assert differences("", "") == ('<div class="plain" dir="auto"></div>',) * 2


def test_the_most_words_in_order_are_taken_as_common():
    found = differences("a b c d e", "c d a b e")
    assert len(marked(found.left)) == 1
    assert len(marked(found.right)) == 1


@given(texts, texts)
def test_the_texts_are_whole_and_the_unmarked_words_are_the_same(left, right):
    found = differences(left, right)
    assert (Reading(found.left).text, Reading(found.right).text) == (left, right)
    common = [
        "".join(
            piece.partition("</mark>")[2] if number else piece
            for number, piece in enumerate(html.split("<mark>"))
        )
        for html in found
    ]
    assert "".join(common[0].split()) == "".join(common[1].split())


@given(texts, texts)
def test_exchanging_the_sides_marks_as_much(left, right):
    one, other = differences(left, right), differences(right, left)
    lengths = [
        [len("".join("".join(marked(html)).split())) for html in pair] for pair in (one, other)
    ]
    assert sum(lengths[0]) == sum(lengths[1])


def test_texts_that_are_too_long_are_compared_by_lines():
    lines = ["a " * 30 + str(number) + "\n" for number in range(100)]
    assert PAIRS < (30 * 100) ** 2
    found = differences("".join(lines), "".join([*lines[:50], "new\n", *lines[51:]]))
    assert marked(found.left) == [lines[50].rstrip()]
    assert marked(found.right) == ["new"]
