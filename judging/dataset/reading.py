"""The one entry to the examples in files: every row, or every reason against it, by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judging.core.text import unstorable
from judging.dataset import files
from judging.dataset.files import detect_format
from judging.dataset.records import (
    FIELDS,
    IGNORE,
    REQUIRED,
    Columns,
    ExampleRow,
    Identities,
    Notice,
    Problem,
    Record,
    Refused,
    listed,
    recognise,
    to_example,
)

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
        for record in files.records(self._paths, self._file_format):
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


SHOWN_PROBLEMS = 100
SHOWN_ROWS = 5
SHOWN_LINES = 10

SENTENCES = {
    "empty response": "{} with an empty response, which is kept.",
    "same responses": "{} with two equal responses.",
    "same texts": "{} with the texts of an earlier row under another id.",
    "repeated": "{} word for word like an earlier row, imported once.",
}
NO_LOSE = (
    "No gold label says lose. 1 is read as win, 2 as lose and 0 as tie: "
    "make sure that the file means it so."
)


@dataclass(frozen=True)
class Summary:
    """What a first pass found. `problems` are the first ones, `n_problems` counts all."""

    format: str
    n_rows: int
    n_refused: int
    n_problems: int
    fatal: bool
    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    names: tuple[str, ...]
    columns: dict[str, str]
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    gold: dict[str, int]
    rows: tuple[ExampleRow, ...]

    @property
    def acceptable(self) -> bool:
        return self.n_rows > 0 and not self.n_problems


class _Tally:
    """Counts as the rows go by."""

    def __init__(self) -> None:
        self.n_rows = self.n_refused = self.n_problems = 0
        self.fatal = False
        self.problems: list[Problem] = []
        self.rows: list[ExampleRow] = []
        self.gold: Counter[str] = Counter()
        self._lines: dict[str, list[int]] = {kind: [] for kind in SENTENCES}
        self._counts: Counter[str] = Counter()
        self._ids: set[int] = set()
        self._texts: set[int] = set()

    def refuse(self, refused: Refused) -> None:
        self.n_refused += 1
        self.n_problems += len(refused.problems)
        self.fatal = self.fatal or refused.fatal
        self.problems += refused.problems[: SHOWN_PROBLEMS - len(self.problems)]

    def accept(self, row: ExampleRow) -> None:
        name, texts = hash(row.external_id), hash(row.texts)
        if name in self._ids:
            self._notice("repeated", row)
            return
        self.n_rows += 1
        if len(self.rows) < SHOWN_ROWS:
            self.rows.append(row)
        if row.gold_label:
            self.gold[row.gold_label] += 1
        if not row.response_1.strip() or not row.response_2.strip():
            self._notice("empty response", row)
        if row.response_1 == row.response_2:
            self._notice("same responses", row)
        if texts in self._texts:
            self._notice("same texts", row)
        self._ids.add(name)
        self._texts.add(texts)

    def _notice(self, kind: str, row: ExampleRow) -> None:
        self._counts[kind] += 1
        if len(self._lines[kind]) < SHOWN_LINES:
            self._lines[kind].append(row.line)

    def notices(self) -> tuple[Notice, ...]:
        """Also tells of 0 and 1 that may have been meant as two sides, with no tie among them."""
        found = [
            Notice(
                kind,
                count,
                tuple(self._lines[kind]),
                SENTENCES[kind].format("1 row" if count == 1 else f"{count} rows"),
            )
            for kind, count in self._counts.items()
        ]
        if self.gold["win"] and self.gold["tie"] and not self.gold["lose"]:
            found.append(Notice("no lose", self.gold.total(), (), NO_LOSE))
        return tuple(found)


def check(
    paths: Sequence[Path],
    file_format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    watch: Callable[[ExampleRow], None] | None = None,
) -> Summary:
    """Read all of the files without writing; `watch` is given each row that can be imported."""
    reader = Reader(paths, file_format, mapping)
    tally = _Tally()
    for row in reader:
        if isinstance(row, Refused):
            tally.refuse(row)
        else:
            tally.accept(row)
            if watch:
                watch(row)
    _check_mapping(reader, mapping or {}, paths[0], tally)
    if not tally.n_rows and not tally.n_problems:
        sentence = "The file holds no rows. Nothing was imported."
        problem = Problem(str(paths[0]), 1, "", "rows", "none", sentence)
        tally.refuse(Refused((problem,), fatal=True))
    return _summary(reader, tally, detect_format(paths) if file_format == "auto" else file_format)


def _check_mapping(reader: Reader, mapping: Mapping[str, str], path: Path, tally: _Tally) -> None:
    """A mapped column may be missing in some JSON objects, but not in all."""
    there = {name for names in reader.columns for name in names}
    for column, field in mapping.items():
        if there and column not in there and field != IGNORE and not tally.fatal:
            sentence = f"There is no column {column}, which the mapping names."
            problem = Problem(str(path), 1, column, column, listed(there), sentence)
            tally.refuse(Refused((problem,), fatal=True))


def _summary(reader: Reader, tally: _Tally, file_format: str) -> Summary:
    columns: dict[str, str] = {}
    for layout in reversed(reader.columns.values()):
        columns |= {field: " + ".join(names) for field, names in layout.sources.items()}
        if layout.both_models:
            columns |= {"model_1": layout.both_models, "model_2": layout.both_models}
    names = dict.fromkeys(name for found in reader.columns for name in found if name)
    unused = dict.fromkeys(name for layout in reader.columns.values() for name in layout.unused)
    return Summary(
        format=file_format,
        n_rows=tally.n_rows,
        n_refused=tally.n_refused,
        n_problems=tally.n_problems,
        fatal=tally.fatal,
        problems=tuple(tally.problems),
        notices=tally.notices(),
        names=tuple(names),
        columns={field: columns[field] for field in FIELDS if field in columns},
        unused=tuple(unused),
        # Of a file of which no row could be read no column is known, so none is missing.
        missing=tuple(field for field in REQUIRED if names and field not in columns),
        gold={label: tally.gold[label] for label in ("win", "tie", "lose")},
        rows=tuple(tally.rows),
    )
