"""The one entry to the examples in files: every row, or every reason against it, by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from judging.imports import layouts
from judging.imports.columns import FIELDS, IGNORE, Columns, recognise
from judging.imports.encodings import unstorable
from judging.imports.examples import to_example
from judging.imports.ids import Identities
from judging.imports.problems import Problem, Refused, listed
from judging.imports.records import ExampleRow, Record

MOST_LAYOUTS = 1000
Mapped = Mapping[str, str]


class Reader:
    """Reads files once; `columns` says afterwards what was recognised, by the columns' names."""

    def __init__(
        self, paths: Sequence[Path], file_format: str = "auto", mapping: Mapped | None = None
    ) -> None:
        self.columns: dict[tuple[str, ...], Columns] = {}
        self._paths = paths
        self._file_format = file_format
        self._mapping = mapping or {}

    def __iter__(self) -> Iterator[ExampleRow | Refused]:
        identities = Identities()
        unusable = set()
        for record in layouts.records(self._paths, self._file_format):
            if isinstance(record, Refused):
                yield record
                continue
            if record.file in unusable:
                continue
            if refused := self._unstorable(record):
                yield refused
                continue
            columns = self._recognise(record)
            if columns.missing or (columns.absent and record.header_line):
                if record.header_line:
                    unusable.add(record.file)
                yield _unusable(record, columns)
                continue
            row = to_example(record, columns)
            yield identities.settle(row) if isinstance(row, ExampleRow) else row

    def _unstorable(self, record: Record) -> Refused | None:
        """Of names that were met before this is known."""
        if tuple(record.values) in self.columns:
            return None
        for name in record.values:
            if found := unstorable(name):
                sentence = f"The name of a column holds {found}, which is not text."
                problem = Problem(record.file, record.line, "", "text", found, sentence)
                return Refused((problem,), record.raw)
        return None

    def _recognise(self, record: Record) -> Columns:
        names = tuple(record.values)
        if names not in self.columns:
            if len(self.columns) == MOST_LAYOUTS:
                self.columns.clear()
            self.columns[names] = recognise(names, self._mapping)
        return self.columns[names]


def read_examples(
    paths: Sequence[Path], file_format: str = "auto", mapping: Mapped | None = None
) -> Iterator[ExampleRow | Refused]:
    """Every row of the files in order; reading twice gives the same rows twice."""
    return iter(Reader(paths, file_format, mapping))


def _unusable(record: Record, columns: Columns) -> Refused:
    found = listed(record.values)
    if columns.absent:
        column, expected = columns.absent[0], listed(columns.absent)
        sentence = f"There is no column {expected}, which the mapping names. Found: {found}."
    else:
        column, expected = columns.missing[0], listed(columns.missing)
        sentence = f"No column for {expected}. Found: {found}. Map a column to each."
    line = record.header_line or record.line
    problem = Problem(record.file, line, column, expected, found, sentence)
    if record.header_line:
        return Refused((problem,), fatal=True)
    return Refused((problem,), record.raw)


def mapping_faults(mapping: Mapped) -> list[str]:
    """In words, what can't be meant by a mapping of columns to fields."""
    faults = [
        f"There is no field {field}. Fields: {', '.join(FIELDS)}, or {IGNORE}."
        for field in mapping.values()
        if field != IGNORE and field not in FIELDS
    ]
    fields = [field for field in mapping.values() if field not in (IGNORE, "question")]
    twice = sorted({field for field in fields if fields.count(field) > 1})
    return faults + [f"Several columns are mapped to {field}." for field in twice]
