"""Workbooks: what Excel's own values become, what other programs read of ours, and bombs."""

import io
import zipfile
from datetime import UTC, date, datetime, time
from decimal import Decimal

import openpyxl
import pytest

from judging.core import workbooks
from judging.core.bounds import Damaged, TooLarge
from judging.core.workbooks import (
    Fault,
    NoSheet,
    NoWorkbook,
    TooLong,
    column_name,
    sheet_rows,
    write_workbook,
)

TEXTS = ["=1+1", "_x0041_", "a\r\nb\x01", " 😀 & <b> ]]>", "عربي", "007"]


@pytest.fixture
def book(tmp_path):
    """Write a workbook as openpyxl does."""

    def write(*rows, sheets=("first",)):
        made = openpyxl.Workbook()
        made.remove(made.active)
        for title in sheets:
            sheet = made.create_sheet(title)
            for row in rows:
                sheet.append(row)
        made.save(tmp_path / "book.xlsx")
        return tmp_path / "book.xlsx"

    return write


def changed(path, member, content):
    """Replace a member of a workbook."""
    with zipfile.ZipFile(path) as before:
        members = {name: before.read(name) for name in before.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as after:
        for name, kept in (members | {member: content}).items():
            after.writestr(name, kept)
    return path


def test_numbers_dates_and_times_are_texts(book):
    moments = [date(2024, 5, 1), datetime(2024, 5, 1, 13, 5, 6), time(13, 5, 6)]  # noqa: DTZ001
    path = book(["text", 3, 1.5, 0.1, True, *moments], [None, None, "gap"])
    first, second = sheet_rows(path)
    assert first.cells == [
        "text", "3", "1.5", "0.1", True, "2024-05-01", "2024-05-01T13:05:06", "13:05:06",
    ]  # fmt: skip
    assert second == (2, [None, None, "gap"])


def test_a_formula_gives_its_stored_value_and_one_without_is_a_fault(book):
    path = book(["=1+1"])
    assert next(sheet_rows(path)).cells == [Fault("A1", "")]
    sheet = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        '<row r="1"><c r="A1"><f>1+1</f><v>2</v></c><c r="B1" t="str"><f>"x"</f><v>x</v></c>'
        '<c r="C1" t="e"><f>1/0</f><v>#DIV/0!</v></c></row></sheetData></worksheet>'
    )
    changed(path, "xl/worksheets/sheet1.xml", sheet)
    assert next(sheet_rows(path)).cells == ["2", "x", Fault("C1", "#DIV/0!")]


def test_a_sheet_is_chosen_by_its_name(book):
    path = book(["x"], sheets=("first", "second & more"))
    assert [row.cells for row in sheet_rows(path, "second & more")] == [["x"]]
    with pytest.raises(NoSheet, match="first, second & more"):
        list(sheet_rows(path, "third"))


def test_a_cell_in_the_last_corner_costs_one_row(book):
    """Libraries that hold the rectangle of all cells end the process here."""
    sheet = '<worksheet><sheetData><row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData></worksheet>'  # noqa: E501
    path = changed(book(["x"]), "xl/worksheets/sheet1.xml", sheet)
    (row,) = sheet_rows(path)
    assert row.number == 1_048_576
    assert len(row.cells) == 16_384


@pytest.mark.parametrize(
    "sheet",
    [
        '<!DOCTYPE x [<!ENTITY a "b">]><worksheet><sheetData/></worksheet>',
        '<worksheet><sheetData><row r="2000000"><c><v>1</v></c></row></sheetData></worksheet>',
        '<worksheet><sheetData><row r="1"><c r="B1"><v>1</v></c><c r="A1"><v>1</v></c></row>'
        "</sheetData></worksheet>",
        "<worksheet><sheetData><row>",
        '<worksheet><sheetData><row r="x"><c><v>1</v></c></row></sheetData></worksheet>',
        '<worksheet><sheetData><row r="1"><c t="s"><v>x</v></c></row></sheetData></worksheet>',
        '<?xml version="1.0" encoding="none"?><worksheet><sheetData/></worksheet>',
    ],
)
def test_what_no_program_writes_is_damaged(book, sheet):
    with pytest.raises(Damaged):
        list(sheet_rows(changed(book(["x"]), "xl/worksheets/sheet1.xml", sheet)))


def test_a_member_with_a_password_is_damaged(book):
    path = book(["x"])
    data = bytearray(path.read_bytes())
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(magic)
        while at >= 0:
            data[at + flags] |= 1
            at = data.find(magic, at + 4)
    path.write_bytes(data)
    with pytest.raises(Damaged):
        list(sheet_rows(path))


def test_the_inflated_size_is_bounded(book, monkeypatch):
    path = changed(book(["x"]), "xl/worksheets/sheet1.xml", b" " * (4 << 20))
    small = workbooks._BOUNDS.__class__(members=100, inflated=1 << 20, free=1 << 20)
    monkeypatch.setattr(workbooks, "_BOUNDS", small)
    with pytest.raises(TooLarge, match="inflate to more than 1 MiB"):
        list(sheet_rows(path))


def test_another_zip_is_no_workbook(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.csv", "a")
    with pytest.raises(NoWorkbook):
        list(sheet_rows(tmp_path / "x.zip"))


def test_what_we_write_is_read_by_us_and_by_others(tmp_path):
    path = tmp_path / "own.xlsx"
    moment = datetime(2024, 5, 1, 13, 5, 6, tzinfo=UTC)
    values = [1, 0.5, Decimal("0.000012"), True, moment, None, 10**17]
    with path.open("wb") as stream:
        assert write_workbook(stream, "a & <b>", ["c"] * 7, [TEXTS, values]) == 2
    rows = list(sheet_rows(path))
    assert rows[1].cells == TEXTS
    assert rows[2].cells == [
        "1", "0.5", "0.000012", True, "2024-05-01T13:05:06", None, "100000000000000000",
    ]  # fmt: skip
    sheet = openpyxl.load_workbook(path)["a & <b>"]
    cells = list(sheet.iter_rows())
    # No text is a formula ("f"), and an ID keeps its zeros.
    assert [cell.data_type for cell in cells[1][:6]] == ["s"] * 6
    assert cells[1][0].value == "=1+1"
    assert [cell.value for cell in cells[2][:4]] == [1, 0.5, 0.000012, True]
    assert cells[2][4].value == moment.replace(tzinfo=None)


def test_a_text_that_no_cell_holds_is_refused():
    with pytest.raises(TooLong) as raised:
        write_workbook(io.BytesIO(), "x", ["a", "b"], [["", "😀" * 16_384]])
    assert (raised.value.row, raised.value.column, raised.value.length) == (1, 1, 32_768)


def test_columns_have_letters():
    assert [column_name(n) for n in (0, 25, 26, 701, 702, 16_383)] == [
        "A", "Z", "AA", "ZZ", "AAA", "XFD",
    ]  # fmt: skip
