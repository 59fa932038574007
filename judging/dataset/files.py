"""Records of JSON Lines files and of JSON arrays, with the line on which each starts.

Numbers keep the text that the file has for them, so that no digit is lost.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from judging.core.errors import UserError
from judging.core.text import (
    ESCAPE_COLUMN,
    ESCAPED,
    Encoding,
    detect,
    open_text,
    undecoded,
    unescape_cell,
)
from judging.dataset.records import KNOWN, Problem, Record, Refused, kind, listed, plain, quoted

CHUNK = 1 << 16
LARGEST_RECORD = 64 << 20
# How close to the end of what has been read a mistake may be only a token that is cut there.
CUT_TOKEN = 16
FOUND = (
    ("Unterminated string", "a string without its closing quote"),
    ("Invalid control character", "a control character within a string"),
    ("Invalid \\", "a backslash that escapes nothing"),
    ("Extra data", "more text after it"),
    ("Longer", f"one longer than {LARGEST_RECORD >> 20} MiB"),
)
_SPACE = re.compile(r"[ \t\r\n]*")


def _constant(name: str) -> str | None:
    """NaN is how some tools write a missing value; the infinities are kept as their text."""
    return None if name == "NaN" else name


_decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_constant)


def lines(path: Path) -> Iterator[Record | Refused]:
    """One JSON object a line; blank lines are passed over."""
    encoding = detect(path)
    with open_text(path, newline="\n") as stream:
        # One character more than a record may have, and never a line of any length.
        limited = iter(functools.partial(stream.readline, LARGEST_RECORD + 1), "")
        for number, raw in enumerate(limited, start=1):
            if raw.isspace():
                continue
            if len(raw) > LARGEST_RECORD:
                yield _too_long(path, number)
                return
            try:
                value = _decoder.decode(raw)
            except json.JSONDecodeError as error:
                found = undecoded(raw, encoding) or f"{_words(error)} at character {error.pos + 1}"
                yield _refused(path, number, raw, found)
            except RecursionError:
                yield _refused(path, number, raw, "values nested too deeply")
            else:
                yield _record(path, number, raw, value, encoding)


def array(path: Path) -> Iterator[Record | Refused]:
    """The objects of one JSON array, read a chunk at a time."""
    encoding = detect(path)
    with open_text(path, newline="\n") as stream:
        window = _Window(stream)
        if window.next_letter() != "[":
            yield _stopped(path, window, "no [ at its start", "a JSON array")
            return
        window.take(1)
        more = window.next_letter() != "]"
        while more:
            letter, number = window.next_letter(), window.line
            try:
                value, raw = window.value()
            except json.JSONDecodeError as error:
                found = undecoded(window.rest(80), encoding) or _found(letter, error)
                yield _stopped(path, window, found)
                return
            except RecursionError:
                yield _stopped(path, window, "values nested too deeply")
                return
            yield _record(path, number, raw, value, encoding)
            after = window.next_letter()
            if after not in {",", "]"}:
                found = quoted(after) if after else "the end of the file"
                yield _stopped(path, window, found, "a comma or ]")
                return
            more = after == ","
            window.take(int(more))
        window.take(1)
        if window.next_letter():
            yield _stopped(path, window, "text after the closing ]", "the end of the file")


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
        """Pass over white space; the letter after it, or "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self.take(space.end() - self._at if space else 0)
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                return ""
            self._read(CHUNK)

    def value(self) -> tuple[Any, str]:
        """Take one whole value; what is read grows twofold until the value is complete in it."""
        while True:
            try:
                value, end = _decoder.raw_decode(self._text, self._at)
                if end < len(self._text) or self._ended:
                    return value, self.take(end - self._at)
            except json.JSONDecodeError as error:
                cut = error.pos >= len(self._text) - CUT_TOKEN or "Unterminated" in error.msg
                if self._ended or not cut:
                    raise
            if len(self._text) - self._at > LARGEST_RECORD:
                raise json.JSONDecodeError("Longer", "", 0)
            self._read(max(CHUNK, len(self._text) - self._at))


def _found(letter: str, error: json.JSONDecodeError) -> str:
    if not letter:
        return "the end of the file"
    return _words(error) if letter in '{["' else f"{_words(error)} at {quoted(letter)}"


def _words(error: json.JSONDecodeError) -> str:
    """What was found in place of the object, where Python says what it would have expected."""
    if error.msg.startswith("Expecting "):
        return f"no {error.msg.removeprefix('Expecting ')}"
    return next((words for begins, words in FOUND if error.msg.startswith(begins)), error.msg)


def _record(path: Path, line: int, raw: str, value: Any, encoding: Encoding) -> Record | Refused:
    fault = undecoded(raw, encoding)
    if fault:
        return _refused(path, line, raw, fault)
    if not isinstance(value, dict):
        return _refused(path, line, raw, f"{kind(value)}", "a JSON object")
    return Record(str(path), line, value, raw)


def _too_long(path: Path, line: int) -> Refused:
    expected, found = "one JSON object", _words(json.JSONDecodeError("Longer", "", 0))
    sentence = f"Expected {expected}, found {found}. The rest of the file can't be read."
    return Refused((Problem(str(path), line, "", expected, found, sentence),), fatal=True)


def _refused(
    path: Path, line: int, raw: str, found: str, expected: str = "one JSON object"
) -> Refused:
    sentence = f"Expected {expected}, found {found}."
    return Refused((Problem(str(path), line, "", expected, found, sentence),), raw)


def _stopped(path: Path, window: _Window, found: str, expected: str = "a JSON object") -> Refused:
    sentence = f"Expected {expected}, found {found}. The rest of the file can't be read."
    problem = Problem(str(path), window.line, "", expected, found, sentence)
    return Refused((problem,), fatal=True)


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


def delimited_records(path: Path, delimiter: str | None = None) -> Iterator[Record | Refused]:
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
            yield _delimited_refused(sheet, line, raw, cells, fault)
            continue
        if escaped is not None and cells[escaped] == ESCAPED:
            cells = [unescape_cell(cell) for cell in cells]
        values = dict(zip(sheet.header, cells, strict=True))
        yield Record(str(sheet.path), line, values, raw, sheet.header_line)


def _delimited_refused(
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


Answers = dict[str, tuple[int, Any]]


def faireval_records(paths: Sequence[Path]) -> Iterator[Record | Refused]:
    """One record a question, with the answers in the order in which their files were named."""
    questions, first, second = _roles(paths)
    models = (model_name(first), model_name(second))
    answers: tuple[Answers, Answers] = ({}, {})
    for path, found in zip((first, second), answers, strict=True):
        yield from _read_answers(path, found)
    asked: set[str] = set()
    for record in lines(questions):
        if isinstance(record, Refused):
            yield record
            continue
        number = str(record.values.get("question_id", ""))
        problems = _missing(record, number, asked, dict(zip(models, answers, strict=True)))
        asked.add(number)
        if problems:
            yield Refused(problems, record.raw)
            continue
        values = {
            "external_id": ":".join((number, *models)),
            "question": record.values.get("text"),
            "response_1": answers[0][number][1],
            "response_2": answers[1][number][1],
            "model_1": models[0],
            "model_2": models[1],
            "category": record.values.get("category"),
        }
        yield Record(record.file, record.line, values, record.raw)
    for path, found in zip((first, second), answers, strict=True):
        for number, (line, _) in found.items():
            if number not in asked:
                sentence = f"The answer is to question {number}, which {questions.name} lacks."
                yield Refused((_problem(str(path), line, "a known question", number, sentence),))


def model_name(path: Path) -> str:
    """A model is named by its file: `answer_vicuna-13b.jsonl` is vicuna-13b."""
    return path.stem.removeprefix("answer_")


def _roles(paths: Sequence[Path]) -> tuple[Path, Path, Path]:
    if len(paths) != 3:
        raise UserError(
            "The faireval format needs three files, a question file and two answer files; "
            f"{len(paths)} were named."
        )
    others = [path for path in paths if not path.stem.startswith("answer")]
    questions = others[0] if len(others) == 1 else paths[0]
    first, second = (path for path in paths if path is not questions)
    return questions, first, second


def _read_answers(path: Path, into: Answers) -> Iterator[Refused]:
    for record in lines(path):
        if isinstance(record, Refused):
            yield record
            continue
        number = str(record.values.get("question_id", ""))
        if number in into:
            sentence = f"Question {number} is answered on line {into[number][0]} already."
            problem = _problem(str(path), record.line, "one answer", number, sentence)
            yield Refused((problem,), record.raw)
        else:
            into[number] = (record.line, record.values.get("text"))


def _missing(
    record: Record, number: str, asked: set[str], answers: dict[str, Answers]
) -> tuple[Problem, ...]:
    if not number:
        sentence = "question_id is missing."
        return (_problem(record.file, record.line, "a question's id", "nothing", sentence),)
    if number in asked:
        sentence = f"Question {number} stands in the file already."
        return (_problem(record.file, record.line, "a question once", number, sentence),)
    return tuple(
        _problem(
            record.file,
            record.line,
            "an answer by each model",
            "nothing",
            f"{model} has no answer to question {number}.",
        )
        for model, found in answers.items()
        if number not in found
    )


def _problem(file: str, line: int, expected: str, found: str, sentence: str) -> Problem:
    return Problem(file, line, "question_id", expected, quoted(found), sentence)


Records = Iterator[Record | Refused]

READERS: dict[str, Callable[[Path], Records]] = {
    "csv": delimited_records,
    "tsv": functools.partial(delimited_records, delimiter="\t"),
    "jsonl": lines,
    "json": array,
    "pandalm": array,
    "llmbar": array,
}
FORMATS = ("auto", *READERS, "faireval")
SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".tab": "tsv"}
PACKED = {
    b"PK\x03\x04": "a spreadsheet or a ZIP archive",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
    b"\x1f\x8b": "a compressed file",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF file",
}


def detect_format(paths: Sequence[Path]) -> str:
    """`faireval` for three files two of which are answers, else the format of the first file."""
    if len(paths) == 3 and sum(path.stem.startswith("answer") for path in paths) == 2:
        return "faireval"
    return format_of(paths[0])


def format_of(path: Path) -> str:
    """By its suffix, else by its first letter."""
    suffix = path.suffix.casefold()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    with open_text(path, newline="\n") as stream:
        start = stream.read(4096).lstrip()[:1]
    return {"[": "json", "{": "jsonl"}.get(start, "csv")


def refuse_unreadable(path: Path) -> None:
    """Raise UserError for what is no file, can't be read, or is of a kind that is no text."""
    try:
        if not path.is_file():
            raise UserError(f"There is no file {path}. Nothing was imported.")
        with path.open("rb") as stream:
            head = stream.read(4)
    except OSError as error:
        raise UserError(f"{path} can't be read ({error.strerror}). Nothing was imported.") from None
    for magic, packed_as in PACKED.items():
        if head.startswith(magic):
            raise UserError(
                f"{path.name} is {packed_as}. Nothing was imported. Save it as CSV (UTF-8) or JSON."
            )


def records(paths: Sequence[Path], file_format: str = "auto") -> Records:
    """All records of the files, one file after the other. Nothing is written."""
    if not paths:
        raise UserError("No file was named.")
    if file_format not in FORMATS:
        raise UserError(f"There is no format {file_format!r}. Use one of {', '.join(FORMATS)}.")
    for path in paths:
        refuse_unreadable(path)
    if file_format == "auto" and detect_format(paths) == "faireval":
        file_format = "faireval"
    if file_format == "faireval":
        yield from faireval_records(paths)
        return
    for path in paths:
        yield from READERS[format_of(path) if file_format == "auto" else file_format](path)
