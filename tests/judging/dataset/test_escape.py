import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.core.text import ESCAPED, escape_cell, escape_row, printable, unescape_cell

spiky = st.text(alphabet="'=+-@\t\rab\n ＝＋－＠", max_size=12)


@given(st.lists(st.one_of(st.text(), spiky), max_size=4))
def test_taking_the_escape_off_gives_the_cells_back(cells):
    *escaped, mark = escape_row(cells)
    assert [unescape_cell(cell, mark) for cell in escaped] == cells


@given(spiky)
def test_rows_of_earlier_releases_are_read_as_they_were_written(cell):
    assert unescape_cell(escape_cell(cell, ESCAPED), ESCAPED) == cell


def test_a_row_that_earlier_releases_can_read_keeps_their_mark():
    assert escape_row(["=1", "a", "\n"]) == ["'=1", "a", "'\n", "2"]
    assert escape_row(["=1", "a"]) == ["'=1", "a", "1"]
    assert unescape_cell("'＝1", "1") == "'＝1"
    assert unescape_cell("'=1", "anything") == "'=1"


def test_what_would_steer_a_terminal_is_replaced_and_text_is_not():
    assert printable("\x1b]0;t\x07 a\rb \u2066c\x7f\x85") == "�]0;t� a�b �c��"
    assert printable("a\r\nb\tc 漢字 שלום 👩‍👩‍👧 é") == "a\nb\tc 漢字 שלום 👩‍👩‍👧 é"


@given(spiky)
def test_no_escaped_cell_starts_a_formula(cell):
    assert not escape_cell(cell).startswith(tuple("=+-@\t\r\n＝＋－＠"))


@pytest.mark.parametrize(
    ("cell", "escaped"),
    [
        ("=1+1", "'=1+1"),
        ("'=1+1", "''=1+1"),
        ("-3 degrees", "'-3 degrees"),
        ("'tis", "'tis"),
        ("a=b", "a=b"),
        ("\n=1", "'\n=1"),
        ("＝1+1", "'＝1+1"),
        ("", ""),
    ],
)
def test_only_what_a_spreadsheet_would_run_is_escaped(cell, escaped):
    assert escape_cell(cell) == escaped
