"""Excel workbooks (.xlsx), read and written row by row.

A workbook is a ZIP of XML. Libraries that read one hold the whole rectangle of its cells, so that
one cell in the last corner of a sheet of a few kilobytes ends the process without memory, or
they show an error as an empty cell. This reader holds the texts that cells share and one row, and
its `Archive` bounds what is inflated. The layout is that of ECMA-376, part 1, section 18.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from judging.core.bounds import FREE, MEBIBYTE, Archive, ArchiveBounds, Damaged, TooLarge

# The texts that cells share are held in memory.
_BOUNDS = ArchiveBounds(
    members=10_000, inflated=2048 * MEBIBYTE, free=FREE, seconds=float(24 * 60 * 60)
)
_SMALL = 16 * MEBIBYTE
MOST_COLUMNS = 16_384
MOST_ROWS = 1_048_576
LONGEST_CELL = 32_767
_MERGED = re.compile(r"[A-Z]{1,3}([1-9][0-9]{0,6}):[A-Z]{1,3}([1-9][0-9]{0,6})")
_REFERENCE = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6})")
# A character that XML can't hold is written by its number.
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
# The formats of numbers that every workbook has: 14 to 17 and 22 hold a date, 18 to 22 a time.
_BUILT_IN_DATES = {*range(14, 18), 22, *range(27, 32), 36, *range(50, 55), 57, 58}
_BUILT_IN_TIMES = {*range(18, 23), 32, 33, 34, 35, 55, 56, 45, 47}
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\[\]]*\]')
# Excel believes that 1900 was a leap year, so days before its 29 February are one less.
_EPOCH, _FIRST_TRUE_DAY = datetime(1899, 12, 30, tzinfo=UTC), 61
_EPOCH_1904 = datetime(1904, 1, 1, tzinfo=UTC)


# What reading a damaged workbook raises: a number or an encoding that is none, an encrypted member.
_BROKEN = (
    EOFError, LookupError, OSError, RuntimeError, ValueError, expat.ExpatError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip


class NoWorkbook(ValueError):
    """The file is a ZIP, and no workbook."""


class NoSheet(ValueError):
    """The workbook has no such sheet. The message names those that it has."""


class MergedCells(ValueError):
    """Cells of several rows are merged, so that all rows but the first one lack their value.

    The message is the cells, such as `A2:A5`, and `row` the first row.
    """

    def __init__(self, cells: str, row: int) -> None:
        super().__init__(cells)
        self.row = row


class Fault(NamedTuple):
    """A cell that has no value: an error, or a formula that was never computed."""

    cell: str
    error: str


Cell = str | bool | Fault | None


class WorkbookRow(NamedTuple):
    """A row that has cells, by its number in the sheet, from 1."""

    number: int
    cells: list[Cell]


class _Formats(NamedTuple):
    """Which styles of cells show a number as a date, and which as a time of day."""

    dates: frozenset[int]
    times: frozenset[int]


def sheet_rows(path: Path, sheet: str = "") -> Iterator[WorkbookRow]:
    """Yield the rows of a sheet, by default of the first one, as texts.

    Numbers have the digits that the file has; dates and times are in ISO 8601. A formula gives the
    value that was stored with it.

    Raises:
        NoWorkbook, NoSheet: before the first row.
        MergedCells: after the last row.
        TooLarge, Damaged: as `Archive` and the XML demand.
    """
    try:
        with Archive(path, _BOUNDS) as archive:
            if sheet_names := _sheets(archive):
                names = dict(sheet_names)
                if sheet and sheet not in names:
                    raise NoSheet(", ".join(names))
                member = names[sheet] if sheet else sheet_names[0][1]
                yield from _Sheet(archive).rows(member)
                return
            raise NoWorkbook
    except (NoWorkbook, NoSheet, MergedCells, TooLarge, Damaged):
        raise
    except _BROKEN:
        raise Damaged("the workbook is damaged") from None


def _elements(archive: Archive, name: str) -> list[tuple[str, dict[str, str]]]:
    """Return all elements of a small member in their order, by their local names."""
    elements: list[tuple[str, dict[str, str]]] = []
    parser = _parser(lambda name, values: elements.append((name.rpartition(":")[2], values)))
    parser.Parse(archive.read(name, _SMALL), True)
    return elements


def _parser(start: Callable[[str, dict[str, str]], Any]) -> Any:
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = _refuse_entities
    return parser


def _refuse_entities(*declared: Any) -> None:
    # Entities that consist of entities would fill the memory with a few bytes of a file.
    raise Damaged("its XML declares a document type, which no workbook has")


def _sheets(archive: Archive) -> list[tuple[str, str]]:
    """Return the name and the member of each sheet that holds cells; none if it is no workbook."""
    book = "xl/workbook.xml"
    if "_rels/.rels" in archive.names:
        for _, values in _elements(archive, "_rels/.rels"):
            if values.get("Type", "").endswith("/officeDocument"):
                book = values["Target"].lstrip("/")
    if book not in archive.names:
        return []
    folder, name = posixpath.split(book)
    targets = {
        values["Id"]: posixpath.normpath(posixpath.join("/", folder, values["Target"]))[1:]
        for element, values in _elements(archive, f"{folder}/_rels/{name}.rels")
        if element == "Relationship" and values.get("Type", "").endswith("/worksheet")
    }
    sheets = []
    for element, values in _elements(archive, book):
        key = next((values[name] for name in values if name.rpartition(":")[2] == "id"), "")
        if element == "sheet" and key in targets:
            sheets.append((values["name"], targets[key]))
    return sheets


class _Sheet:
    """What the cells of every sheet of a workbook refer to."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        members = {Path(name).name.casefold(): name for name in archive.names if "xl/" in name}
        self._strings: list[str] = []
        if strings := members.get("sharedstrings.xml"):
            self._strings = list(_texts(archive, strings))
        styles = members.get("styles.xml")
        self._formats = _formats(archive, styles) if styles else _Formats(frozenset(), frozenset())
        book = members.get("workbook.xml")
        self._from_1904 = bool(book) and any(
            element == "workbookPr" and values.get("date1904") in ("1", "true")
            for element, values in _elements(archive, book)
        )

    def rows(self, member: str) -> Iterator[WorkbookRow]:
        reader = _RowReader(self._value)
        for piece in self._archive.pieces(member):
            reader.parser.Parse(piece, False)
            while reader.rows:
                yield reader.rows.popleft()
        reader.parser.Parse(b"", True)
        yield from reader.rows
        # The list of merged cells follows the rows in the file.
        if reader.merged:
            raise reader.merged

    def _value(
        self, cell: Callable[[], str], kind: str, style: str, text: str | None, formula: bool
    ) -> Cell:
        if kind == "e":
            return Fault(cell(), text or "an error")
        if text is None:
            return Fault(cell(), "") if formula else None
        if kind == "s":
            number = int(text)
            if not 0 <= number < len(self._strings):
                raise Damaged(f"the cell {cell()} refers to a text that is not there")
            return self._strings[number]
        if kind in ("str", "inlineStr", "d"):
            return _unescaped(text)
        if kind == "b":
            return text.strip() == "1"
        index = int(style) if style.isdecimal() else 0
        if index in self._formats.dates or index in self._formats.times:
            return self._moment(text, index)
        return text.strip()

    def _moment(self, text: str, style: int) -> str:
        """Return a number of days as a date or a time of day, as the cell's format shows it."""
        try:
            days = float(text)
            moment = _EPOCH_1904 if self._from_1904 else _EPOCH
            if not self._from_1904 and 0 <= days < _FIRST_TRUE_DAY - 1:
                moment += timedelta(days=1)
            # A float holds a day to a few microseconds.
            moment += timedelta(milliseconds=round(days * 24 * 60 * 60 * 1000))
        except (ValueError, OverflowError):
            return text
        # A workbook knows no zones.
        moment = moment.replace(tzinfo=None)
        if style not in self._formats.dates:
            return moment.time().isoformat()
        is_whole = style not in self._formats.times and days == int(days)
        return moment.date().isoformat() if is_whole else moment.isoformat()


def _texts(archive: Archive, member: str) -> Iterator[str]:
    """Yield the texts that cells share: each may be in several runs, and have a reading aid."""
    done: deque[str] = deque()
    runs: list[str] = []
    within: list[str] = []

    def start(name: str, values: dict[str, str]) -> None:
        within.append(name.rpartition(":")[2])

    def end(name: str) -> None:
        if within.pop() == "si":
            done.append(_unescaped("".join(runs)))
            runs.clear()

    def characters(text: str) -> None:
        if within[-1] == "t" and "rPh" not in within:
            runs.append(text)

    parser = _parser(start)
    parser.EndElementHandler, parser.CharacterDataHandler = end, characters
    for piece in archive.pieces(member):
        parser.Parse(piece, False)
        yield from done
        done.clear()
    parser.Parse(b"", True)
    yield from done


def _formats(archive: Archive, member: str) -> _Formats:
    """Return which styles show dates and times, by the letters of their formats."""
    own: dict[int, str] = {}
    dates, times = set(), set()
    styles, index = False, 0
    for element, values in _elements(archive, member):
        if element == "numFmt":
            own[int(values["numFmtId"])] = _LITERAL.sub("", values["formatCode"]).casefold()
        # The formats of cells follow those of named styles, in an element of their own.
        styles = element == "cellXfs" or (styles and element != "cellStyles")
        if element == "xf" and styles:
            number = int(values.get("numFmtId", "0"))
            code = own.get(number, "")
            if number in _BUILT_IN_DATES or set("yd") & set(code):
                dates.add(index)
            if number in _BUILT_IN_TIMES or set("hs") & set(code):
                times.add(index)
            index += 1
    return _Formats(frozenset(dates), frozenset(times))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text


@lru_cache(maxsize=1000)
def column_name(index: int) -> str:
    """Return the letters of a column, from 0: A, B, …, Z, AA."""
    letters = ""
    index += 1
    while index:
        index, place = divmod(index - 1, 26)
        letters = chr(65 + place) + letters
    return letters


class _RowReader:
    """Collects rows while their XML is fed to `parser`."""

    def __init__(
        self, value: Callable[[Callable[[], str], str, str, str | None, bool], Cell]
    ) -> None:
        self.rows: deque[WorkbookRow] = deque()
        self.merged: MergedCells | None = None
        self.parser = _parser(self._start)
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self._value = value
        self._row = 0
        self._cells: list[Cell] = []
        self._column = -1
        self._kind = self._style = ""
        self._text: list[str] | None = None
        self._formula = False
        self._reads = False
        self._aid = False

    def _start(self, name: str, values: dict[str, str]) -> None:
        name = name.rpartition(":")[2] if ":" in name else name
        if name == "c":
            self._column += 1
            place = f"{column_name(self._column)}{self._row}"
            # Nearly all cells are where they are expected, so their reference is compared and not
            # parsed.
            if values.get("r", place) != place or self._column >= MOST_COLUMNS:
                self._column = self._index(values.get("r", place))
            self._kind, self._style = values.get("t", "n"), values.get("s", "0")
            self._text, self._formula = None, False
        elif name == "v" or (name == "t" and not self._aid):
            self._reads = True
            self._text = [] if self._text is None else self._text
        elif name == "is":
            return
        elif name == "f":
            self._formula = True
        elif name == "rPh":
            self._aid = True
        elif name == "row":
            self._row = int(values["r"]) if "r" in values else self._row + 1
            self._cells, self._column = [], -1
            if not 0 < self._row <= MOST_ROWS:
                raise Damaged(f"it has a row {self._row}")
        elif name == "mergeCell" and self.merged is None:
            match = _MERGED.fullmatch(values.get("ref", ""))
            if match and match[1] != match[2]:
                self.merged = MergedCells(match[0], int(match[1]))

    def _place(self) -> str:
        return f"{column_name(self._column)}{self._row}"

    def _index(self, reference: str) -> int:
        """Return the column of a cell such as `B7`, from 0."""
        match, index = _REFERENCE.fullmatch(reference), 0
        for letter in match[1] if match else "":
            index = 26 * index + ord(letter) - 64
        if not 0 < index <= MOST_COLUMNS or index - 1 < len(self._cells):
            raise Damaged(f"it has a cell {reference[:20]!r} out of its place")
        return index - 1

    def _characters(self, text: str) -> None:
        if self._reads and self._text is not None:
            self._text.append(text)

    def _end(self, name: str) -> None:
        name = name.rpartition(":")[2] if ":" in name else name
        if name in ("v", "t"):
            self._reads = False
        elif name == "c":
            text = None if self._text is None else "".join(self._text)
            # A formula that was never computed has an empty value, but for a text.
            text = None if self._formula and text == "" and self._kind != "str" else text
            value: Cell = text
            if self._kind != "inlineStr" or text is None or "_x" in text:
                value = self._value(self._place, self._kind, self._style, text, self._formula)
            if value is not None:
                if self._column > len(self._cells):
                    self._cells += [None] * (self._column - len(self._cells))
                self._cells.append(value)
        elif name == "rPh":
            self._aid = False
        elif name == "row" and self._cells:
            self.rows.append(WorkbookRow(self._row, self._cells))
            self._cells = []


class TooLong(ValueError):
    """A text that no cell holds, by its row, from 1, and its column, from 0."""

    def __init__(self, row: int, column: int, length: int) -> None:
        super().__init__(f"row {row}, column {column}: {length} characters")
        self.row, self.column, self.length = row, column, length


_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_PARTS = {
    "[Content_Types].xml": (
        f'<Types xmlns="{_TYPES}">'
        '<Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{_KIND}.styles+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_KIND}.worksheet+xml"/>'
        "</Types>"
    ),
    "_rels/.rels": (
        f'<Relationships xmlns="{_LINKS}"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
    ),
    "xl/_rels/workbook.xml.rels": (
        f'<Relationships xmlns="{_LINKS}"><Relationship Id="rId1" Type="{_OFFICE}/worksheet" '
        'Target="worksheets/sheet1.xml"/>'
        f'<Relationship Id="rId2" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>'
    ),
    # The second style is a time, the third a bold text.
    "xl/styles.xml": "".join(
        [
            f'<styleSheet xmlns="{_MAIN}"><numFmts count="1">',
            '<numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/></numFmts>',
            '<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>',
            '<font><b/><sz val="11"/><name val="Calibri"/></font></fonts>',
            '<fills count="2"><fill><patternFill patternType="none"/></fill>',
            '<fill><patternFill patternType="gray125"/></fill></fills><borders count="1">',
            "<border><left/><right/><top/><bottom/><diagonal/></border></borders>",
            '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/>',
            '</cellStyleXfs><cellXfs count="3">',
            '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>',
            '<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" ',
            'applyNumberFormat="1"/>',
            '<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/>',
            '</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/>',
            "</cellStyles></styleSheet>",
        ]
    ),
}
_SHEET = (
    f'<worksheet xmlns="{_MAIN}"><sheetViews><sheetView workbookViewId="0">'
    '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/>'
    "</sheetView></sheetViews><sheetData>"
)
_TIME, _BOLD = 1, 2
# Excel keeps 15 digits of a number.
_EXACT = 10**15


def write_workbook(
    target: BinaryIO, sheet: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> int:
    """Write a workbook of one sheet, and return how many rows it has below its header.

    Numbers, times (in UTC) and true or false stay what they are. Texts are stored as texts, so no
    cell is ever a formula.

    Raises:
        TooLong: a text, or the table, is longer than a workbook can hold.
    """
    number = 0
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        for name, content in _PARTS.items():
            archive.writestr(name, _HEAD + content)
        archive.writestr("xl/workbook.xml", _HEAD + _book(sheet))
        with archive.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as stream:
            stream.write((_HEAD + _SHEET).encode())
            stream.write(_row(1, columns, _BOLD))
            for number, cells in enumerate(rows, start=1):
                if number >= MOST_ROWS:
                    raise TooLong(number, -1, number)
                stream.write(_row(number + 1, cells))
            stream.write(b"</sheetData></worksheet>")
    return number


def _book(sheet: str) -> str:
    return (
        f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
        f'<sheet name={quoteattr(sheet)} sheetId="1" r:id="rId1"/></sheets></workbook>'
    )


def _row(number: int, cells: Sequence[Any], style: int = 0) -> bytes:
    written = []
    for column, value in enumerate(cells):
        if value is None:
            continue
        name = f'r="{column_name(column)}{number}"'
        if isinstance(value, bool):
            written.append(f'<c {name} t="b"><v>{int(value)}</v></c>')
        elif isinstance(value, datetime):
            days = (value - _EPOCH) / timedelta(days=1)
            written.append(f'<c {name} s="{_TIME}"><v>{days!r}</v></c>')
        elif isinstance(value, float | Decimal) or (isinstance(value, int) and abs(value) < _EXACT):
            written.append(f"<c {name}><v>{value}</v></c>")
        else:
            text = str(value)
            # Excel counts as UTF-16 does.
            length = len(text) + sum(letter > "\uffff" for letter in text)
            if length > LONGEST_CELL:
                raise TooLong(number - 1, column, length)
            kept = _xml(text)
            written.append(
                f'<c {name} s="{style}" t="inlineStr"><is>'
                f'<t xml:space="preserve">{kept}</t></is></c>'
            )
    return f'<row r="{number}">{"".join(written)}</row>'.encode()


def _xml(text: str) -> str:
    if _UNWRITABLE.search(text):
        text = _UNWRITABLE.sub(lambda match: f"_x{ord(match[0]):04X}_", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
