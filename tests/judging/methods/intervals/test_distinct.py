import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.methods.intervals.bootstrap import all_differ, coded, coded_rows, firsts

# Close together, so that they are counted; far apart, or no whole numbers, so that they are sorted.
COLUMNS = [
    np.array([3, -1, 3, 0], np.int8),
    np.array([127, -128, 127, 0], np.int8),
    np.array([True, False, True, True]),
    np.array([10**12, 5, 10**12, -(10**12)]),
    np.array([0.5, -1.0, 0.5, 0.25]),
    np.array(["b", "a", "b", "c"]),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.dtype}")
def test_codes_are_the_places_among_the_distinct_values(column):
    distinct, expected = np.unique(column, return_inverse=True)
    n, code = coded(column)
    assert (n, code.tolist()) == (len(distinct), expected.tolist())
    assert not all_differ(column)
    assert all_differ(distinct)


@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([0.0, 0.5]), st.booleans())))
def test_rows_are_coded_in_the_order_of_their_columns(rows):
    rows = rows or [(0, 0.0, False)]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    n, code = coded_rows(*columns)
    in_order = sorted(set(rows))
    assert [in_order[place] for place in code] == rows
    assert n == len(in_order)
    assert [rows[first] for first in firsts(n, code)] == in_order
    assert firsts(n, code).tolist() == [rows.index(row) for row in in_order]


def test_of_nothing_nothing_repeats():
    assert all_differ([])
    assert coded(np.array([], dtype=int))[0] == 0
