"""The records of files in any layout: JSON Lines, JSON arrays, tables, and FairEval's three files.

Texts may be compressed by gzip or zstd. Parquet, Arrow and Excel are told by their first bytes.
Every record comes with the line on which it starts, and what can't be read is refused by its line.
`Records`, at the end, is what other modules use. It reads each file once, holds none as a whole,
and hashes it on the way: an import remembers the SHA-256 of what it read, and reading a file of
gigabytes a second time for that would double the work.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from judging.core.bounds import (
    LARGEST_CELL,
    Damaged,
    Inflated,
    TooLarge,
    allow_long_cells,
    refuse_bomb,
)
from judging.core.conversations import NumberText
from judging.core.errors import UserError
from judging.core.text import (
    ESCAPE_COLUMN,
    ESCAPED,
    ESCAPED_MORE,
    HEAD,
    Encoding,
    as_text,
    encoding_of,
    undecoded,
    unescape_cell,
)
from judging.core.workbooks import Cell, Fault, MergedCells, NoSheet, NoWorkbook, sheet_rows
from judging.dataset.columnar import ARROW_FILE, arrow_for, columnar
from judging.dataset.images import UNPACKED
from judging.dataset.layouts import answer_of, answers_by_turn, is_answers, later_turns, question_of
from judging.dataset.outputs import path_of, rows_of
from judging.dataset.records import (
    BOOLEANS,
    KNOWN,
    Place,
    Record,
    RecordProblem,
    Refused,
    canonical,
    expected_sentence,
    kind,
    listed,
    plain,
    quoted,
    refusal,
    unpacked_name,
)

CHUNK = 1 << 16
LARGEST_RECORD = 64 << 20
# A mistake this close to the end of what has been read may be a token that is cut there.
CUT_TOKEN = 16
REST_IS_LOST = "The rest of the file can't be read."
# What Python's decoder says, and what we say that was found.
MISTAKES = (
    ("Unterminated string", "a string without its closing quote"),
    ("Invalid control character", "a control character within a string"),
    ("Invalid \\", "a backslash that escapes nothing"),
    ("Extra data", "more text after it"),
    ("Longer", f"one longer than {LARGEST_RECORD >> 20} MiB"),
)
_SPACE = re.compile(r"[ \t\r\n]*")


class _HashedFile(io.FileIO):
    """A file that hashes the bytes that a buffered reader takes from it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.hash = hashlib.sha256()

    def readinto(self, buffer: Any, /) -> int | None:
        size = super().readinto(buffer)
        self.hash.update(memoryview(buffer)[:size])
        return size


PACKINGS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def packing_of(head: bytes) -> str:
    """Return gzip or zstd for the first bytes of such a file, "" for any other."""
    return next((name for magic, name in PACKINGS.items() if head.startswith(magic)), "")


def opened(path: Path, file: io.FileIO | None = None) -> BinaryIO:
    """Open a file for reading what it holds, inflated if it is compressed."""
    stream = io.BufferedReader(file or io.FileIO(path), CHUNK)
    if packing := packing_of(stream.peek(4)):
        return io.BufferedReader(Inflated(stream, packing, path.stat().st_size), CHUNK)
    return stream


def encoding_in(path: Path) -> Encoding:
    """Return the encoding of a text file, compressed or not."""
    with opened(path) as stream:
        return encoding_of(stream.read(HEAD))


def open_text(path: Path, newline: str) -> TextIO:
    """Open a text file for reading, compressed or not."""
    return as_text(opened(path), encoding_in(path), newline)


class Source:
    """One file, to be read once from its start to its end.

    Args:
        sheet: of a workbook, the sheet to read; "" for the first one.
    """

    def __init__(self, path: Path, sheet: str = "") -> None:
        refuse_unreadable(path)
        self.path = path
        self.sheet = sheet
        self.kind = kind_of(path)
        self.encoding = Encoding("utf-8") if self.kind else encoding_in(path)
        self.sha256: bytes | None = None

    def place(self, line: int) -> Place:
        return Place(str(self.path), line)

    @contextmanager
    def text(self, newline: str) -> Iterator[TextIO]:
        """Open the file as text. Its hash is known once the block ends without an exception."""
        file = _HashedFile(self.path)
        with as_text(opened(self.path, file), self.encoding, newline) as stream:
            yield stream
            # A reader stops early at a mistake after which nothing can be trusted.
            while stream.buffer.read(CHUNK):
                pass
        self.sha256 = file.hash.digest()

    def hash_whole(self) -> None:
        """Hash a file that was read in another order than from its start, or not to its end."""
        with self.path.open("rb") as stream:
            self.sha256 = hashlib.file_digest(stream, "sha256").digest()


class _Repeating(dict[str, Any]):
    """A JSON object that has a key more than once."""

    repeated = ""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keep an object within an object that repeats a key recognisable from outside."""
    values, repeated = dict(pairs), ""
    for value in values.values():
        if type(value) is not str and isinstance(value, (dict, list)):
            repeated = repeated or _repeated(value)
    if len(values) < len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0] or "an empty name"
    if repeated:
        values = _Repeating(values)
        values.repeated = repeated
    return values


def _repeated(value: Any) -> str:
    """Return a key that an object has twice, also within lists; "" if there is none."""
    if isinstance(value, list):
        return next(filter(None, map(_repeated, value)), "")
    return value.repeated if isinstance(value, _Repeating) else ""


# Numbers keep the text that the file has for them, so that no digit is lost. Some tools write NaN
# for a missing value; the infinities are kept as their text.
_decoder = json.JSONDecoder(
    parse_int=NumberText,
    parse_float=NumberText,
    parse_constant=lambda name: None if name == "NaN" else name,
    object_pairs_hook=_object,
)


def lines(source: Source) -> Iterator[Record | Refused]:
    """Read one JSON object per line; blank lines are skipped."""
    with source.text(newline="\n") as stream:
        # One character more than a record may have, and never a line of any length.
        limited = iter(functools.partial(stream.readline, LARGEST_RECORD + 1), "")
        for number, raw in enumerate(limited, start=1):
            if raw.isspace():
                continue
            place = source.place(number)
            if len(raw) > LARGEST_RECORD:
                mistake = _words(json.JSONDecodeError("Longer", "", 0))
                yield _unexpected(place, mistake, fatal=True)
                return
            try:
                value = _decoder.decode(raw)
            except json.JSONDecodeError as error:
                mistake = f"{_words(error)} at character {error.pos + 1}"
                yield _unexpected(place, undecoded(raw, source.encoding) or mistake, raw=raw)
            except RecursionError:
                yield _unexpected(place, "values nested too deeply", raw=raw)
            else:
                yield _record(place, raw, value, source.encoding)


def array(source: Source) -> Iterator[Record | Refused]:
    """Read the objects of one JSON array, a chunk at a time, or the rows of one JSON document."""
    with source.text(newline="\n") as stream:
        window = _Window(stream)

        def stopped(mistake: str, expected: str = "a JSON object") -> Refused:
            return _unexpected(source.place(window.line), mistake, expected, fatal=True)

        if window.next_letter() == "{":
            yield from _document(source, window)
            return
        if window.next_letter() != "[":
            yield stopped("no [ at its start", "a JSON array")
            return
        window.take(1)
        more = window.next_letter() != "]"
        while more:
            letter, place = window.next_letter(), source.place(window.line)
            try:
                value, raw = window.value()
            except json.JSONDecodeError as error:
                # Nothing tells where the next object begins, as a line does in JSON Lines.
                yield stopped(undecoded(window.rest(80), source.encoding) or _fault(letter, error))
                return
            except RecursionError:
                yield stopped("values nested too deeply")
                return
            yield _record(place, raw, value, source.encoding)
            after = window.next_letter()
            if after not in {",", "]"}:
                yield stopped(quoted(after) if after else "the end of the file", "a comma or ]")
                return
            more = after == ","
            window.take(int(more))
        window.take(1)
        if window.next_letter():
            yield stopped("text after the closing ]", "the end of the file")


def _document(source: Source, window: _Window) -> Iterator[Record | Refused]:
    """Read a JSON object that holds its rows in a list, as promptfoo and inspect_ai write them."""
    place = source.place(window.line)
    try:
        value, raw = window.value()
    except json.JSONDecodeError as error:
        mistake = undecoded(window.rest(80), source.encoding) or f"{_words(error)}"
        yield _unexpected(place, mistake, "a JSON object", fatal=True)
        return
    except RecursionError:
        yield _unexpected(place, "values nested too deeply", "a JSON object", fatal=True)
        return
    record, path = _record(place, raw, value, source.encoding), path_of(value)
    if isinstance(record, Refused):
        yield record
        return
    if path is None or window.next_letter():
        mistake = "no [ at its start" if path is None else "text after the closing }"
        yield _unexpected(place, mistake, "a JSON array", fatal=True)
        return
    yield from rows_of(record, _lines_of_rows(raw, path, place.line))


def _lines_of_rows(raw: str, path: Sequence[str], line: int) -> list[int]:
    """Return the line on which each row of a document starts; `line` is the document's own."""

    def after_space(at: int) -> int:
        space = _SPACE.match(raw, at)
        return space.end() if space else at

    # The row's line is needed, and only the decoder knows where a value ends: names and values are
    # passed over one by one.
    at = 0
    for key in path:
        name = None
        while name != key:
            # Past the brace, or the value of the name before.
            at = after_space(at + 1 if name is None else _decoder.raw_decode(raw, at)[1])
            name, at = _decoder.raw_decode(raw, after_space(at + (raw[at] == ",")))
            at = after_space(after_space(at) + 1)
    starts, at, counted = [], after_space(at + 1), 0
    while raw[at] != "]":
        line += raw.count("\n", counted, at)
        counted = at
        starts.append(line)
        at = after_space(_decoder.raw_decode(raw, at)[1])
        at = after_space(at + (raw[at] == ","))
    return starts


class _Window:
    """The part of a file that is being read, and the line on which it begins."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._at = 0
        self._ended = False
        self.line = 1

    def _read(self, size: int) -> None:
        more = self._stream.read(size)
        self._ended = not more
        self._text = self._text[self._at :] + more
        self._at = 0

    def take(self, length: int) -> str:
        taken = self._text[self._at : self._at + length]
        self.line += taken.count("\n")
        self._at += length
        return taken

    def rest(self, length: int) -> str:
        return self._text[self._at : self._at + length]

    def next_letter(self) -> str:
        """Skip white space and return the letter after it, or "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self.take(space.end() - self._at if space else 0)
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._read(CHUNK)

    def value(self) -> tuple[Any, str]:
        """Take one whole value. What is read doubles until the value is complete in it."""
        while True:
            try:
                value, end = _decoder.raw_decode(self._text, self._at)
                # A number at the end of what was read may go on in the next piece.
                if end < len(self._text) or self._ended:
                    return value, self.take(end - self._at)
            except json.JSONDecodeError as error:
                # A string that isn't closed yet is reported at its start, however long it is.
                cut = error.pos >= len(self._text) - CUT_TOKEN or "Unterminated" in error.msg
                if self._ended or not cut:
                    raise
            if len(self._text) - self._at > LARGEST_RECORD:
                raise json.JSONDecodeError("Longer", "", 0)
            # Each attempt decodes the value from its start, so pieces that don't grow would take
            # quadratic time.
            self._read(max(CHUNK, len(self._text) - self._at))


def _fault(letter: str, error: json.JSONDecodeError) -> str:
    if not letter:
        return "the end of the file"
    return _words(error) if letter in '{["' else f"{_words(error)} at {quoted(letter)}"


def _words(error: json.JSONDecodeError) -> str:
    """Say what was found in place of the object; Python says what it would have expected."""
    if error.msg.startswith("Expecting "):
        return f"no {error.msg.removeprefix('Expecting ')}"
    return next((words for begins, words in MISTAKES if error.msg.startswith(begins)), error.msg)


def _record(place: Place, raw: str, value: Any, encoding: Encoding) -> Record | Refused:
    if fault := undecoded(raw, encoding):
        return _unexpected(place, fault, raw=raw)
    if not isinstance(value, dict):
        return _unexpected(place, kind(value), "a JSON object", raw=raw)
    if name := _repeated(value):
        sentence = f"The key {quoted(name)} is there more than once. Keep one of its values."
        return refusal(place, name, sentence, raw)
    return Record(place, value, raw)


def _unexpected(
    place: Place,
    mistake: str,
    expected: str = "one JSON object",
    *,
    raw: str = "",
    fatal: bool = False,
) -> Refused:
    sentence = f"Expected {expected}, found {mistake}."
    if fatal:
        sentence += f" {REST_IS_LOST}"
    return refusal(place, "", sentence, raw, fatal=fatal)


DELIMITERS = (",", ";", "\t", "|")
HEAD_CHARACTERS = 1 << 16
LONGEST_COLUMN = 200
allow_long_cells()


@dataclass(frozen=True, slots=True)
class TableHeader:
    """The delimiter and the header of a table.

    blanks: whether there may be blanks between a delimiter and a quote, which are no part of cells.
    """

    delimiter: str
    header: tuple[str, ...]
    header_line: int
    header_raw: str
    blanks: bool = False


class _Lines:
    """The lines of a file, remembered until a record is complete."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        # One text, since a quote that is never closed makes a record of millions of lines.
        self._pending = io.StringIO(newline="")

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._pending.write(line)
            yield line

    def take(self) -> str:
        raw = self._pending.getvalue()
        self._pending = io.StringIO(newline="")
        return raw


def open_sheet(path: Path, delimiter: str | None = None) -> TableHeader | None:
    """Read the header; None if every line of the file is blank.

    The delimiter is the one under which most column names are known.
    """
    with open_text(path, newline="") as stream:
        head = stream.read(HEAD_CHARACTERS)
    lines = _physical(head)
    blank = next((n for n, line in enumerate(lines) if line.strip()), None)
    if blank is None:
        return None
    first = lines[blank].strip()
    # Excel's own line that names the delimiter.
    if first.casefold().startswith("sep=") and len(first) <= 5:
        # A tab at the end of this line went with the white space around it.
        delimiter, blank = first[4:] or "\t", blank + 1
    choices = (delimiter,) if delimiter else DELIMITERS
    blanks = {mark: _quotes_after_blanks(lines[blank:], mark) for mark in choices}
    headers = {mark: _header(lines[blank:], mark, blanks[mark]) for mark in choices}

    def fitness(mark: str) -> tuple[int, int]:
        names = headers[mark][0]
        return sum(plain(name) in KNOWN for name in names), len(names)

    best = max(choices, key=fitness)
    header, raw = headers[best]
    return TableHeader(best, header, blank + 1, "".join(lines[:blank]) + raw, blanks[best])


def _quotes_after_blanks(lines: Sequence[str], delimiter: str) -> bool:
    """Return True if a cell begins with blanks and a quote, as in `1, "a, b"`.

    A writer of CSV puts quotes around a cell that holds one, so such a quote is never text.
    """
    if not any('"' in line and (f"{delimiter} " in line or line[:1] == " ") for line in lines):
        return False
    readers = (csv.reader(lines, delimiter=delimiter, skipinitialspace=s) for s in (False, True))
    rows = zip_longest(*readers)
    return any(_without_blanks(kept) != _without_blanks(skipped) for kept, skipped in rows)


def _without_blanks(cells: Sequence[str] | None) -> list[str]:
    return [cell.lstrip(" ") for cell in cells or ()]


def _physical(text: str) -> list[str]:
    """Split into the lines that a file gives; str.splitlines also splits at U+2028 and others."""
    return list(io.StringIO(text, newline=""))


def _header(lines: list[str], delimiter: str, blanks: bool) -> tuple[tuple[str, ...], str]:
    kept = _Lines(lines)
    cells = next(csv.reader(kept, delimiter=delimiter, skipinitialspace=blanks), [])
    return tuple(cell.strip() for cell in cells), kept.take()


def table(source: Source, delimiter: str | None = None) -> Iterator[Record | Refused]:
    """Read a CSV or TSV file row by row; blank lines and rows of empty cells are skipped."""
    with source.text(newline="") as stream:
        # The header is read from a stream of its own, since this one can't go back.
        sheet = open_sheet(source.path, delimiter)
        if sheet is None:
            return
        if refused := _unusable(source, sheet):
            yield refused
            return
        yield from _rows(source, sheet, iter(stream))


def _unusable(source: Source, sheet: TableHeader) -> Refused | None:
    """Refuse a header by which no row can be read."""
    place = source.place(sheet.header_line)
    if fault := undecoded(sheet.header_raw, source.encoding):
        sentence = f"The header holds {fault}. Save the file as text in UTF-8 and import it again."
        return refusal(place, "", sentence, fatal=True)
    return _named_twice(place, sheet.header)


def _named_twice(place: Place, header: Sequence[str]) -> Refused | None:
    """Refuse a header that has the name of a column more than once."""
    twice = [name for name, n in Counter(header).items() if name and n > 1]
    if not twice:
        return None
    sentence = f"The header names {listed(twice)} more than once. Rename one of the columns."
    return refusal(place, twice[0], sentence, fatal=True)


def _rows(source: Source, sheet: TableHeader, stream: Iterator[str]) -> Iterator[Record | Refused]:
    before = len(_physical(sheet.header_raw))
    for _ in range(before):
        next(stream)
    lines = _Lines(stream)
    mark, blanks = sheet.delimiter, sheet.blanks
    # Without `strict`, csv takes a quote that is never closed for text, with all rows after it.
    reader = csv.reader(lines, delimiter=mark, strict=True, skipinitialspace=blanks)
    names = sorted(map(plain, sheet.header))
    escaped = ESCAPE_COLUMN in sheet.header
    while True:
        place = source.place(before + reader.line_num + 1)
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            refused = _broken_quotes(place, lines.take(), error)
            yield refused
            if refused.fatal:
                return
            continue
        raw = lines.take()
        if not any(cells):
            continue
        # Empty cells beyond the header hold nothing that could be lost.
        while len(cells) > len(sheet.header) and not cells[-1]:
            cells.pop()
        if fault := undecoded(raw, source.encoding):
            named = zip(sheet.header, cells, strict=False)
            bad = (name for name, cell in named if undecoded(cell, source.encoding))
            sentence = f"The row holds {fault}. Save the file as UTF-8 and import it again."
            yield refusal(place, next(bad, ""), sentence, raw)
            continue
        if len(cells) != len(sheet.header):
            sentence = (
                f"The row has {len(cells)} cells, the header {len(sheet.header)} cells. "
                "A cell with the delimiter, a quote or a newline in it must be in quotes."
            )
            yield refusal(place, "", sentence, raw)
            continue
        if _is_header(cells, names):
            yield refusal(place, "", "The header is repeated here. Delete this line.", raw)
            continue
        if any(cell[:1] == " " and cell.lstrip(" ")[:1] == '"' for cell in cells) and (
            _quotes_after_blanks([raw], mark)
        ):
            sentence = "A cell has blanks before its opening quote. Delete these blanks."
            yield refusal(place, "", sentence, raw)
            continue
        values = dict(zip(sheet.header, cells, strict=True))
        # A column without a name, such as the index that pandas writes, is no field.
        values.pop("", None)
        record = Record(place, values, raw, sheet.header_line)
        yield _unescaped(record) if escaped and values[ESCAPE_COLUMN] else record


def _unescaped(record: Record) -> Record | Refused:
    """Turn a row of a CSV export back, also if it was saved as a workbook since."""
    marked = record.values[ESCAPE_COLUMN]
    mark = canonical(marked)
    says = mark == ESCAPED_MORE or BOOLEANS.get(mark)
    if says is None:
        expected = f"{ESCAPED}, {ESCAPED_MORE} or empty"
        return record.refuse(ESCAPE_COLUMN, expected_sentence(ESCAPE_COLUMN, expected, marked))
    if not says:
        return record
    used = ESCAPED_MORE if mark == ESCAPED_MORE else ESCAPED
    values = {name: unescape_cell(cell, used) for name, cell in record.values.items()}
    return replace(record, values=values)


def workbook(source: Source) -> Iterator[Record | Refused]:
    """Read a sheet of a workbook. The first row that has cells names the columns."""
    unit = f"sheet {source.sheet}, row" if source.sheet else "row"
    row = 1

    def place() -> Place:
        return Place(str(source.path), row, unit)

    def stopped(sentence: str) -> Refused:
        return refusal(place(), "", sentence, fatal=True)

    rows = sheet_rows(source.path, source.sheet)
    header: list[str] = []
    try:
        for row, cells in rows:
            if not header:
                header = [cell.strip() for cell in _texts(cells)]
                begins = row
                if refused := _named_twice(place(), header):
                    yield refused
                    return
            else:
                yield _of_workbook(place(), header, cells, begins)
    except NoWorkbook:
        yield stopped("The file is a ZIP archive and no workbook. Unpack it first.")
    except MergedCells as error:
        row = error.row
        yield stopped(
            f"The cells {error} are merged, and only the first of them has a value. Unmerge them, "
            "and fill in each of them."
        )
    except NoSheet as error:
        yield stopped(f"There is no sheet {source.sheet}. Sheets: {error}.")
    except (TooLarge, Damaged) as error:
        yield stopped(f"The file can't be read from here on: {error}. Get a whole copy of it.")


def _texts(cells: Iterable[Cell]) -> list[str]:
    """Return cells as a table of text has them."""
    return [str(cell).lower() if isinstance(cell, bool) else str(cell or "") for cell in cells]


def _of_workbook(
    place: Place, header: Sequence[str], cells: Sequence[Cell], begins: int
) -> Record | Refused:
    # A row of a workbook ends with its last cell that holds something.
    named = dict(zip_longest(header, _texts(cells), fillvalue=""))
    named.pop("", None)
    record = Record(place, named, named, begins)
    for place_in_row, (column, cell) in enumerate(zip_longest(header, cells, fillvalue="")):
        if isinstance(cell, Fault):
            sentence = f"The cell {cell.cell} holds {cell.error}. Correct its formula."
            if not cell.error:
                sentence = (
                    f"The cell {cell.cell} is a formula without a stored value. Open the file in a "
                    "spreadsheet program and save it there."
                )
            return record.refuse(column, sentence)
        if cell and place_in_row >= len(header):
            sentence = f"The row has {len(cells)} cells, and the header names {len(header)}."
            return record.refuse("", sentence)
    return _unescaped(record) if named.get(ESCAPE_COLUMN) else record


def _is_header(cells: Sequence[str], names: Sequence[str]) -> bool:
    """Return True for the header again, in any order, or one like it: files were joined.

    Folding long texts took as long as all the rest of an import, and no name is a long text.
    """
    folded = sorted(map(plain, cells)) if max(map(len, cells)) <= LONGEST_COLUMN else []
    # A row of one or two words that name fields may be data.
    return folded == names or (len(folded) > 2 and set(folded) <= KNOWN)


def _broken_quotes(place: Place, raw: str, error: csv.Error) -> Refused:
    """Refuse a quote that is never closed, or closed within a cell: fatal over several lines."""
    fatal = True
    if "end of data" in str(error):
        sentence = "A quote opened in this row is never closed, so the rest of the file is lost."
    elif "field limit" in str(error):
        sentence = f"A cell of this row is longer than {LARGEST_CELL >> 20} MiB. Check its quotes."
    else:
        sentence = 'A quoted cell goes on after its closing quote. Write " within a cell as "".'
        fatal = "\n" in raw.rstrip("\r\n")
    return refusal(place, "", sentence, raw, fatal=fatal)


Read = Callable[[Source], Iterator[Record | Refused]]


def whole(source: Source, read: Read) -> Iterator[Record | Refused]:
    """Read a file to its end, or refuse the rest of one that can't be inflated. It is hashed."""
    place = source.place(1)
    try:
        for record in read(source):
            place = record.place if isinstance(record, Record) else place
            yield record
    except (TooLarge, Damaged) as error:
        sentence = f"The file can't be read after this line: {error}. {REST_IS_LOST}"
        yield refusal(place, "", sentence, fatal=True)
    if source.sha256 is None:
        source.hash_whole()


# The line, the first answer, and the answers to all turns if there are several.
Answers = dict[str, tuple[int, Any, Sequence[Any]]]


def faireval(sources: Sequence[Source]) -> Iterator[Record | Refused]:
    """Join a question file and two files of answers, by ID: FairEval's, FastChat's, arena-hard's.

    The first answer file gives response 1. The answers' texts are held in memory meanwhile.
    """
    questions, first, second = _roles(sources)
    # FairEval names a model by its file: answer_vicuna-13b.jsonl is vicuna-13b.
    models = tuple(
        _named_in(source.path) or Path(unpacked_name(source.path.name)).stem.removeprefix("answer_")
        for source in (first, second)
    )
    answers: tuple[Answers, Answers] = ({}, {})
    for source, of_model in zip((first, second), answers, strict=True):
        yield from _read_answers(source, of_model)
    asked: set[str] = set()
    for record in whole(questions, lines):
        if isinstance(record, Refused):
            yield record
            continue
        number, question = question_of(record.values)
        sentences = _missing(number, asked, dict(zip(models, answers, strict=True)))
        asked.add(number)
        if sentences:
            place = record.place, "question_id"
            problems = tuple(RecordProblem(*place, sentence) for sentence in sentences)
            yield Refused(problems, record.raw)
            continue
        values = {
            "external_id": ":".join((number, *models)),
            "question": question,
            "response_1": answers[0][number][1],
            "response_2": answers[1][number][1],
            "model_1": models[0],
            "model_2": models[1],
            "category": record.values.get("category"),
        }
        yield Record(record.place, values, record.text)
        several = [of_model[number][2] for of_model in answers]
        for turn, first_question, responses in later_turns(record.values, several):
            again = {
                "external_id": ":".join((number, *models, str(turn))),
                "question": first_question,
                "response_1": responses[0],
                "response_2": responses[1],
            }
            yield Record(record.place, values | again, record.text)
    for source, of_model in zip((first, second), answers, strict=True):
        for number, (line, *_) in of_model.items():
            if number not in asked:
                sentence = f"The answer is to question {number}, which {questions.path.name} lacks."
                yield refusal(source.place(line), "question_id", sentence)


def _roles(sources: Sequence[Source]) -> tuple[Source, Source, Source]:
    if len(sources) != 3:
        raise UserError(
            "The faireval format needs three files, a question file and two answer files; "
            f"{len(sources)} were named."
        )
    others = [source for source in sources if not _holds_answers(source.path)]
    # If the files don't tell which of them has the questions, it is the first one that was named.
    questions = others[0] if len(others) == 1 else sources[0]
    first, second = (source for source in sources if source is not questions)
    return questions, first, second


def _holds_answers(path: Path) -> bool:
    return not kind_of(path) and (path.stem.startswith("answer") or bool(_named_in(path)))


def _named_in(path: Path) -> str:
    """Return the model that the first row of a file of answers names, "" for any other file."""
    with open_text(path, newline="\n") as stream:
        try:
            # A file without line breaks must not be read as a whole.
            values = json.loads(stream.readline(LARGEST_RECORD))
        except (ValueError, RecursionError):
            return ""
    return answer_of(values)[2] if isinstance(values, dict) and is_answers(values) else ""


def _read_answers(source: Source, into: Answers) -> Iterator[Refused]:
    for record in whole(source, lines):
        if isinstance(record, Refused):
            yield record
            continue
        number, text, _ = answer_of(record.values)
        if number in into:
            sentence = f"Question {number} is answered on line {into[number][0]} already."
            yield record.refuse("question_id", sentence)
        else:
            several = answers_by_turn(record.values)
            into[number] = (record.place.line, text, several if len(several) > 1 else ())


def _missing(number: str, asked: set[str], answers: dict[str, Answers]) -> list[str]:
    """Say what keeps a question from being a pair."""
    if not number:
        return ["question_id is missing."]
    if number in asked:
        return [f"Question {number} is in the file already."]
    without = (model for model, of_model in answers.items() if number not in of_model)
    return [f"{model} has no answer to question {number}." for model in without]


def labels(source: Source) -> Iterator[Record]:
    """Read a file of labels alone, one per line."""
    with source.text(newline="\n") as stream:
        for number, line in enumerate(stream, start=1):
            yield Record(source.place(number), {"label": line.strip()}, line.strip())


READERS: dict[str, Read] = {
    "csv": table,
    "tsv": functools.partial(table, delimiter="\t"),
    "jsonl": lines,
    "json": array,
    "pandalm": array,
    "llmbar": array,
    "labels": labels,
    "excel": workbook,
    **dict.fromkeys(("parquet", "arrow"), lambda source: columnar(source.path, source.kind)),
}
# The formats that may be named, in the words of the pages.
FORMAT_NAMES = {
    "auto": "recognise it",
    "csv": "CSV (commas or semicolons)",
    "tsv": "TSV",
    "jsonl": "JSON Lines",
    "json": "JSON array",
    "pandalm": "PandaLM",
    "llmbar": "LLMBar",
    "faireval": "question and answer files (FastChat, FairEval)",
}
FORMATS = tuple(FORMAT_NAMES)
SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".tab": "tsv"}
# What is no text is known by its first bytes, whatever its name. Arrow's stream format begins with
# a length of -1.
KINDS = {
    b"PK\x03\x04": "excel",
    b"PAR1": "parquet",
    ARROW_FILE: "arrow",
    b"\xff\xff\xff\xff": "arrow",
}
IN_WORDS = {"excel": "an Excel workbook", "parquet": "a Parquet file", "arrow": "an Arrow file"}
UNREADABLE = {
    b"\xd0\xcf\x11\xe0": "an old spreadsheet (.xls) or a protected one",
    b"%PDF": "a PDF file",
}
LONGEST_MAGIC = 8


def detect_format(paths: Sequence[Path]) -> str:
    """Return `faireval` for three files two of which are answers, else the first file's format."""
    if len(paths) == 3 and sum(map(_holds_answers, paths)) == 2:
        return "faireval"
    return format_of(paths[0])


def format_of(path: Path) -> str:
    """Tell a file's format by its first bytes, by its suffix, else by its first letter."""
    if kind := kind_of(path):
        return kind
    suffix = Path(unpacked_name(path.name)).suffix.casefold()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    with open_text(path, newline="\n") as stream:
        start = stream.read(4096).lstrip()
    # An object that goes on in the next line is a document.
    if start.startswith(("{\n", "{\r\n")):
        return "json"
    return {"[": "json", "{": "jsonl"}.get(start[:1], "csv")


def check_format(file_format: str, formats: Sequence[str]) -> None:
    """Raise UserError unless the format is one of these."""
    if file_format not in formats:
        raise UserError(f"There is no format {file_format!r}. Use one of {', '.join(formats)}.")


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file. Raises UserError if there is none to read."""
    try:
        if not path.is_file():
            raise UserError(f"There is no file {path}. Nothing was imported.")
        with path.open("rb") as stream:
            return stream.read(LONGEST_MAGIC)
    except OSError as error:
        raise UserError(f"{path} can't be read ({error.strerror}). Nothing was imported.") from None


def kind_of(path: Path) -> str:
    """Return excel, parquet or arrow by a file's first bytes, "" for a text."""
    head = head_of(path)
    return next((kind for magic, kind in KINDS.items() if head.startswith(magic)), "")


def is_archive(path: Path) -> bool:
    """Return True for a ZIP, as a workbook and pairs with their images are.

    `Path.is_file` fails on a name that no file can have. The reader says what is wrong with it.
    """
    return os.path.isfile(path) and kind_of(path) == "excel"


def refuse_unreadable(path: Path) -> None:
    """Raise UserError for what is no file, can't be read, or is of a kind that isn't known."""
    head = head_of(path)
    packing = packing_of(head)
    if packing == "zstd":
        arrow_for(f"{path.name} is compressed by zstd")
    if packing:
        try:
            if packing == "gzip":
                refuse_bomb(path)
            with opened(path) as stream:
                head = stream.read(LONGEST_MAGIC)
        except TooLarge as error:
            raise UserError(
                f"{path.name} can't be read: {error}. Nothing was imported. Unpack it, or part it."
            ) from None
        except Damaged as error:
            raise UserError(
                f"{path.name} can't be read: {error}. Nothing was imported. Get a whole copy of it."
            ) from None
        if packing_of(head) or any(head.startswith(magic) for magic in KINDS):
            raise UserError(
                f"{path.name} holds a file that is compressed itself. Nothing was imported. Unpack "
                "it once."
            )
    for magic, named in UNREADABLE.items():
        if head.startswith(magic):
            raise UserError(
                f"{path.name} is {named}. Nothing was imported. Save it as XLSX, CSV (UTF-8) or "
                "JSON."
            )


DATA_SUFFIXES = (".parquet", ".arrow", ".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".xlsx")
# What a folder of a data set says about itself, and no row.
ABOUT = ("dataset_info.json", "state.json", "dataset_dict.json", "dataset_infos.json")


def data_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files, with those that a folder of a data set holds in its place.

    Of several kinds of files, the first of `DATA_SUFFIXES` that the folder has is its data.
    """
    return [file for path in paths for file in (_files_in(path) if os.path.isdir(path) else [path])]


def _files_in(folder: Path) -> list[Path]:
    inside = sorted(path for path in folder.rglob("*") if path.is_file())
    for suffix in DATA_SUFFIXES:
        data = [
            path
            for path in inside
            if Path(unpacked_name(path.name)).suffix.casefold() == suffix
            and path.name not in ABOUT
            and not path.name.startswith(".")
        ]
        if data:
            return data
    named = "The ZIP" if folder.name == UNPACKED else f"The folder {folder}"
    raise UserError(f"{named} holds no file of {', '.join(DATA_SUFFIXES)}. Nothing was imported.")


class Records:
    """All records of some files, one file after the other, to be read once from start to end.

    Raises UserError for an unknown format and for a file that can't be read. Nothing is written.
    """

    def __init__(self, paths: Sequence[Path], file_format: str = "auto", sheet: str = "") -> None:
        if not paths:
            raise UserError("No file was named.")
        check_format(file_format, (*FORMATS, "labels"))
        self.paths = paths = data_files(paths)
        self._sources = [Source(path, sheet) for path in paths]
        for source in self._sources:
            if source.kind and file_format != "auto":
                raise UserError(
                    f"{source.path.name} is {IN_WORDS[source.kind]}, and the format says "
                    f"{file_format}. Nothing was imported. Leave the format out."
                )
            if sheet and source.kind != "excel":
                raise UserError(
                    f"{source.path.name} is no Excel workbook, so it has no sheet {sheet}. Nothing "
                    "was imported."
                )
        whole = file_format == "auto" and detect_format(paths) == "faireval"
        self.file_format = "faireval" if whole else file_format

    def __iter__(self) -> Iterator[Record | Refused]:
        if self.file_format == "faireval":
            yield from faireval(self._sources)
            return
        for source in self._sources:
            yield from whole(source, READERS[self.layout(source.path)])

    def layout(self, path: Path) -> str:
        """Return how one of the files is written. FairEval's three are JSON Lines."""
        if self.file_format == "faireval":
            return "jsonl"
        return format_of(path) if self.file_format == "auto" else self.file_format

    @property
    def hashes(self) -> list[bytes]:
        """The SHA-256 of each file, once all of them have been read."""
        known = [source.sha256 for source in self._sources if source.sha256 is not None]
        assert len(known) == len(self._sources), "The files have not been read to their end."
        return known

    @property
    def sha256(self) -> str:
        """One SHA-256 for all files, once they have been read."""
        return combined(self.hashes)


def combined(hashes: Iterable[bytes]) -> str:
    """Return one SHA-256 for the hashes of several files, in hexadecimal."""
    return hashlib.sha256(b"".join(hashes)).hexdigest()
