"""Records of CSV and TSV files, with the line on which each starts."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from judging.core.text import Encoding, detect, open_text, undecoded
from judging.dataset.records import (
    ESCAPE_COLUMN,
    ESCAPED,
    KNOWN,
    Problem,
    Record,
    Refused,
    listed,
    plain,
    unescape_cell,
)

DELIMITERS = (",", ";", "\t", "|")
HEAD_CHARACTERS = 1 << 16
LARGEST_CELL = 64 << 20
csv.field_size_limit(LARGEST_CELL)


@dataclass(frozen=True, slots=True)
class DelimitedFile:
    """How a file is written down, and its header."""

    path: Path
    encoding: Encoding
    delimiter: str
    header: tuple[str, ...]
    header_line: int
    header_raw: str


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


def open_sheet(path: Path, delimiter: str | None = None) -> DelimitedFile | None:
    """Read the header; None when the file has no line with anything on it.

    The delimiter is the one under which most column names are known.
    """
    with open_text(path, newline="") as stream:
        head = stream.read(HEAD_CHARACTERS)
    lines = _physical(head)
    blank = next((n for n, line in enumerate(lines) if line.strip()), None)
    if blank is None:
        return None
    first = lines[blank].strip()
    if first.casefold().startswith("sep=") and len(first) <= 5:
        delimiter, blank = first[4:] or "\t", blank + 1
    choices = (delimiter,) if delimiter else DELIMITERS
    headers = {mark: _header(lines[blank:], mark) for mark in choices}

    def fitness(mark: str) -> tuple[int, int]:
        names = headers[mark][0]
        return sum(plain(name) in KNOWN for name in names), len(names)

    best = max(choices, key=fitness)
    header, raw = headers[best]
    return DelimitedFile(path, detect(path), best, header, blank + 1, "".join(lines[:blank]) + raw)


def _physical(text: str) -> list[str]:
    """The lines as a file gives them; str.splitlines also splits at form feeds and U+2028."""
    return list(io.StringIO(text, newline=""))


def _header(lines: list[str], delimiter: str) -> tuple[tuple[str, ...], str]:
    kept = _Lines(lines)
    cells = next(csv.reader(kept, delimiter=delimiter), [])
    return tuple(cell.strip() for cell in cells), kept.take()


def records(path: Path, delimiter: str | None = None) -> Iterator[Record | Refused]:
    """Read a file record by record; blank lines and rows of empty cells are passed over."""
    sheet = open_sheet(path, delimiter)
    if sheet is None:
        return
    if refused := _unusable(sheet):
        yield refused
        return
    with open_text(path, newline="") as stream:
        stream_lines = iter(stream)
        for _ in _physical(sheet.header_raw):
            next(stream_lines)
        yield from _rows(sheet, stream_lines)


def _unusable(sheet: DelimitedFile) -> Refused | None:
    """A header by which no row can be read."""
    place = (str(sheet.path), sheet.header_line)
    twice = [name for name, n in Counter(sheet.header).items() if name and n > 1]
    if fault := undecoded(sheet.header_raw, sheet.encoding):
        sentence = f"The header holds {fault}. Save the file as text in UTF-8 and import it again."
        return Refused((Problem(*place, "", "text", fault, sentence),), fatal=True)
    if twice:
        sentence = f"The header names {listed(twice)} more than once. Rename one of the columns."
        return Refused((Problem(*place, twice[0], "one column", "two", sentence),), fatal=True)
    return None


def _rows(sheet: DelimitedFile, stream_lines: Iterator[str]) -> Iterator[Record | Refused]:
    before = len(_physical(sheet.header_raw))
    lines = _Lines(stream_lines)
    reader = csv.reader(lines, delimiter=sheet.delimiter, strict=True)
    escaped = sheet.header.index(ESCAPE_COLUMN) if ESCAPE_COLUMN in sheet.header else None
    while True:
        line = before + reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            refused = _unreadable(sheet, line, lines.take(), error)
            yield refused
            if refused.fatal:
                return
            continue
        raw = lines.take()
        if not any(cells):
            continue
        while len(cells) > len(sheet.header) and not cells[-1]:
            cells.pop()
        fault = undecoded(raw, sheet.encoding)
        if fault or len(cells) != len(sheet.header):
            yield _refused(sheet, line, raw, cells, fault)
            continue
        if escaped is not None and cells[escaped] == ESCAPED:
            cells = [unescape_cell(cell) for cell in cells]
        values = dict(zip(sheet.header, cells, strict=True))
        yield Record(str(sheet.path), line, values, raw, sheet.header_line)


def _refused(
    sheet: DelimitedFile, line: int, raw: str, cells: list[str], fault: str | None
) -> Refused:
    if fault:
        faulty = [undecoded(cell, sheet.encoding) is not None for cell in cells]
        named = zip(sheet.header, faulty, strict=False)
        column = next((name for name, bad in named if bad), "")
        sentence = f"The row holds {fault}. Save the file as UTF-8 and import it again."
        problem = Problem(str(sheet.path), line, column, "text", fault, sentence)
    else:
        found, expected = f"{len(cells)} cells", f"{len(sheet.header)} cells"
        sentence = (
            f"The row has {found}, the header {expected}. "
            "A cell with the delimiter, a quote or a newline in it must be in quotes."
        )
        problem = Problem(str(sheet.path), line, "", expected, found, sentence)
    return Refused((problem,), raw)


def _unreadable(sheet: DelimitedFile, line: int, raw: str, error: csv.Error) -> Refused:
    """A quote that is never closed, or closed within a cell: over several lines, it is fatal."""
    if "end of data" in str(error):
        found = "the end of the file"
        sentence = "A quote opened in this row is never closed, so the rest of the file is lost."
    elif "field limit" in str(error):
        found = f"more than {LARGEST_CELL >> 20} MiB"
        sentence = f"A cell of this row is longer than {LARGEST_CELL >> 20} MiB. Check its quotes."
    else:
        found = "text after a closing quote"
        sentence = 'A quoted cell goes on after its closing quote. Write " within a cell as "".'
    fatal = "after" not in found or raw.rstrip("\r\n").count("\n") > 0
    problem = Problem(str(sheet.path), line, "", "a closed quote", found, sentence)
    return Refused((problem,), raw, fatal=fatal)
