"""The side is drawn, can be drawn again, and is balanced within each annotator."""

from hypothesis import given
from hypothesis import strategies as st

from annotation.queue.drafts import left_response


@given(st.integers(0, 2**62), st.integers(1, 10**6), st.integers(1, 60))
def test_over_any_prefix_the_sides_differ_by_at_most_two(seed, annotator, n):
    sides = [left_response(seed, annotator, i) for i in range(n)]
    assert abs(sides.count(1) - sides.count(2)) <= 2
    assert n % 4 or sides.count(1) == sides.count(2)


def test_two_annotators_see_different_sides():
    first = [left_response(5, 1, i) for i in range(40)]
    second = [left_response(5, 2, i) for i in range(40)]
    assert first != second
    assert first == [left_response(5, 1, i) for i in range(40)]
