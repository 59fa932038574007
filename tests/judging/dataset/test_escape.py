import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.core.text import escape_cell, unescape_cell

spiky = st.text(alphabet="'=+-@\t\rab\n ", max_size=12)


@given(st.one_of(st.text(), spiky))
def test_taking_the_escape_off_gives_the_cell_back(cell):
    assert unescape_cell(escape_cell(cell)) == cell


@given(spiky)
def test_no_escaped_cell_starts_a_formula(cell):
    assert not escape_cell(cell).startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize(
    ("cell", "escaped"),
    [
        ("=1+1", "'=1+1"),
        ("'=1+1", "''=1+1"),
        ("-3 degrees", "'-3 degrees"),
        ("'tis", "'tis"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_only_what_a_spreadsheet_would_run_is_escaped(cell, escaped):
    assert escape_cell(cell) == escaped
