"""The first pass over files of pairs: what they hold and all that is wrong, with nothing written.

`Reader` gives every pair, or the reasons against it, by line. Both passes read with it: `check`
here, before anyone decides, and `writing` afterwards.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

from judging.core.errors import UserError
from judging.core.text import names_itself, unstorable
from judging.dataset.files import Records, detect_format
from judging.dataset.images import LEFT_AS_TEXT, Images
from judging.dataset.layouts import MOST_KEPT, Holds, Layout, OneJudge, Values, read_row
from judging.dataset.outputs import DOCUMENTS, LAYOUTS, rows_of
from judging.dataset.records import (
    AS_MESSAGES,
    AS_TEXT,
    CODES,
    CONVENTIONS,
    FIELDS,
    IGNORE,
    OTHER_KEYS,
    READ_AS_MESSAGES,
    REPEATED,
    REQUIRED,
    Codes,
    Columns,
    ExampleRow,
    Identities,
    Notice,
    Place,
    Record,
    RecordProblem,
    Refused,
    canonical,
    documented,
    listed,
    plain,
    readings,
    recognise,
    refusal,
    to_example,
    way_of,
)
from judging.dataset.wide import RESPONSE, SIGNS, PairDesign, Wide

# JSON objects may each have other columns. What is remembered of them stays bounded.
MOST_LAYOUTS = 1000
Mapped = Mapping[str, str]


class Reader:
    """Every row of some files, in order; reading them twice gives the same rows twice.

    After the reading `columns` says what was recognised, by the columns' names, `codes` which
    codes stood for gold labels in which column, and `records.sha256` what was read.

    Args:
        labels: what the codes mean; by default, what docs/files.md says.
        options: those of an import: `sheet`, `design` for wide rows, and what `images` became.
        images: makes what finds the images in a first pass, once a text may have one. Without it,
            and without this option, texts that name images stay as they are.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        file_format: str = "auto",
        mapping: Mapped | None = None,
        labels: Codes | None = None,
        options: Mapping[str, Any] | None = None,
        images: Callable[[], Images] | None = None,
    ) -> None:
        options = options or {}
        if images is None and "images" in options:
            images = partial(Images, paths, known=options["images"])
        self._images = images and cache(images)
        self.columns: dict[tuple[str, ...], Columns] = {}
        self._twins: dict[tuple[str, ...], list[str]] = {}
        self.codes: Counter[tuple[str, str]] = Counter()
        self._labels = labels or CONVENTIONS[0]
        self.records = Records(paths, file_format, options.get("sheet", ""))
        mapping = mapping or {}
        ways = {name: way_of(to) for name, to in mapping.items() if to != RESPONSE}
        self._mapping = {name: field for name, (field, _) in ways.items()}
        self._ways = {field: way for field, way in ways.values() if way}
        self._mapped_responses = mapping.keys() - self._mapping.keys()
        self._design = options.get("design")
        # What was made of wide rows; None until there is one that may be.
        self.wide: Wide | None = None
        self._signs: dict[tuple[str, ...], bool] = {}

    def __iter__(self) -> Iterator[ExampleRow | Refused]:
        identities = Identities()
        unusable = set()
        records: Iterable[Record | Refused] = self.records
        if self.records.file_format == "auto":
            records = translated(records, Holds.PAIRS, mapped=self._mapping)
        for record in records:
            if isinstance(record, Refused):
                yield record
                continue
            # The header was refused, and every row would be refused for the same reason.
            if record.place.file in unusable:
                continue
            pairs = self._pairs_of(record)
            if pairs is not None:
                yield from self._settled(pairs, identities)
                continue
            columns = self._recognise(record)
            if isinstance(columns, Refused):
                if columns.fatal:
                    unusable.add(record.place.file)
                yield columns
                continue
            self._count_code(record, columns)
            yield self._example(record, columns, identities)

    def _example(
        self, record: Record, columns: Columns, identities: Identities
    ) -> ExampleRow | Refused:
        row = to_example(record, columns, self._labels, self._ways)
        if isinstance(row, ExampleRow) and self._images and any("![" in text for text in row.texts):
            row = self._images().settle(row, record)
        return identities.settle(row, record) if isinstance(row, ExampleRow) else row

    def _pairs_of(self, record: Record) -> Iterator[Record | Refused] | None:
        """Return the pairs of a wide row; None for any other, which its names mostly tell."""
        names = tuple(record.values)
        if names not in self._signs:
            if len(self._signs) == MOST_LAYOUTS:
                self._signs.clear()
            signs = any(SIGNS.fullmatch(plain(name)) for name in names)
            self._signs[names] = signs or bool(self._mapped_responses & set(names))
        if not self._signs[names]:
            return None
        if self.wide is None:
            self.wide = Wide(PairDesign.stored_in({"design": self._design}), self._mapped_responses)
        return self.wide.pairs_of(record, self._mapping)

    def _settled(
        self, pairs: Iterable[Record | Refused], identities: Identities
    ) -> Iterator[ExampleRow | Refused]:
        """Read the pairs of a wide row as any others. A row whose pairs are wrong is so once."""
        for pair in pairs:
            columns = pair if isinstance(pair, Refused) else self._recognise(pair)
            if isinstance(pair, Refused) or isinstance(columns, Refused):
                yield columns if isinstance(columns, Refused) else pair
                return
            settled = self._example(pair, columns, identities)
            yield settled
            if isinstance(settled, Refused):
                return

    def _count_code(self, record: Record, columns: Columns) -> None:
        column = columns.cells.get("gold_label", "")
        value = record.values.get(column)
        if isinstance(value, str) and (code := canonical(value)) in CODES | self._labels.keys():
            self.codes[column, code] += 1

    def _recognise(self, record: Record) -> Columns | Refused:
        """Return the record's columns, or refuse names that can't be used: of a table, for good."""
        names = tuple(record.values)
        if names not in self.columns:
            for fault in filter(None, map(unstorable, names)):
                sentence = f"The name of a column holds {fault}, which is not text."
                return record.refuse("", sentence)
            if len(self.columns) == MOST_LAYOUTS:
                self.columns.clear()
                self._twins.clear()
            self.columns[names] = known = recognise(names, self._mapping)
            free = [name for name in names if name not in self._mapping]
            used = [plain(name) for read in known.sources.values() for name in read if name in free]
            alike = ([name for name in free if plain(name) == spelling] for spelling in used)
            self._twins[names] = next((same for same in alike if len(same) > 1), [])
        columns = self.columns[names]
        if columns.missing or (columns.absent and record.header_line):
            return _unusable(record, columns)
        if same := self._twins[names]:
            sentence = f"{listed(same)} are the same column. Keep one of them, or map both."
            return _refused_by_names(record, same[0], sentence)
        return columns


def _unusable(record: Record, columns: Columns) -> Refused:
    names = listed(record.values)
    if columns.absent:
        column = columns.absent[0]
        sentence = (
            f"There is no column {listed(columns.absent)}, which the mapping names. Found: {names}."
        )
    else:
        column = columns.missing[0]
        sentence = f"No column for {listed(columns.missing)}. Found: {names}. Map a column to each."
    return _refused_by_names(record, column, sentence)


def _refused_by_names(record: Record, column: str, sentence: str) -> Refused:
    """Refuse a JSON object, or the whole table with this header."""
    if record.header_line:
        return refusal(record.place._replace(line=record.header_line), column, sentence, fatal=True)
    return record.refuse(column, sentence)


def mapping_faults(mapping: Mapped) -> list[str]:
    """Say what is wrong with a mapping of columns to fields."""
    mapping = {column: way_of(target)[0] for column, target in mapping.items()}
    faults = [
        f"There is no field {field}. Fields: {', '.join(FIELDS)}, {RESPONSE}, or {IGNORE}."
        for field in mapping.values()
        if field not in (*FIELDS, RESPONSE, IGNORE)
    ]
    # A question may be several columns: an instruction and its input.
    fields = [field for field in mapping.values() if field not in (IGNORE, RESPONSE, "question")]
    twice = sorted({field for field in fields if fields.count(field) > 1})
    return faults + [f"Several columns are mapped to {field}." for field in twice]


def one_mapping(text: str) -> tuple[str, str]:
    """Parse `COL=FIELD`. The field's case and punctuation don't matter."""
    # The name of a column may hold this sign, and no field's does.
    column, equals, field = text.rpartition("=")
    fields = {plain(name): name for name in (*FIELDS, RESPONSE, IGNORE)}
    for name, way in product(REQUIRED, (AS_MESSAGES, AS_TEXT)):
        fields[plain(f"{name}:{way}")] = f"{name}:{way}"
    if not equals or plain(field) not in fields:
        raise UserError(
            f"The mapping {text} is not COL=FIELD with one of: "
            f"{', '.join((*FIELDS, RESPONSE, IGNORE))}. Nothing was imported."
        )
    return column, fields[plain(field)]


SHOWN_PROBLEMS = 100
SHOWN_ROWS = 5
SHOWN_LINES = 10

# A notice that offers a choice: to hide such names from annotators.
NAMED = "names its model"
SENTENCES = {
    "empty response": "{} with an empty response, which is kept.",
    "same responses": "{} with two equal responses.",
    NAMED: "{} in which a response names its own model.",
    "same texts": "{} with the texts of an earlier row under another id.",
    "repeated": "{} identical to an earlier row, imported only once.",
    READ_AS_MESSAGES: "{} in which a cell holds messages as JSON, read as a conversation. To keep "
    "the text, map its column to question:text, response_1:text or response_2:text.",
    REPEATED: "{} in which responses repeat the question's messages, which are kept once.",
    LEFT_AS_TEXT: "{} with an image that this site doesn't load: its address or name stays as "
    "text. To show it, upload a ZIP that holds it.",
    OTHER_KEYS: "{} whose messages have other keys than role, content, tool calls and a tool's "
    "name. Exports keep these keys, and no page shows them.",
}


@dataclass
class Summary:
    """What a first pass found. `problems` are the first ones, `n_problems` counts all.

    Attributes:
        labels, readings: what the codes of gold labels were read as, and what else they can mean.
            With several readings nothing may be written before somebody chooses.
        wide: what wide rows hold, as `Wide.facts` says it. Nothing may be written without a design.
    """

    format: str
    sha256: str = ""
    n_rows: int = 0
    n_refused: int = 0
    n_problems: int = 0
    fatal: bool = False
    problems: list[RecordProblem] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    gold: dict[str, int] = field(default_factory=lambda: {"win": 0, "tie": 0, "lose": 0})
    rows: list[ExampleRow] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    readings: list[dict[str, str]] = field(default_factory=list)
    wide: dict[str, Any] = field(default_factory=dict)

    @property
    def acceptable(self) -> bool:
        chosen = not self.wide or bool(self.wide["design"])
        return self.n_rows > 0 and not self.n_problems and not self.readings and chosen

    def refuse(self, refused: Refused) -> None:
        self.n_refused += 1
        self.n_problems += len(refused.problems)
        self.fatal = self.fatal or refused.fatal
        self.problems += refused.problems[: SHOWN_PROBLEMS - len(self.problems)]

    def describe_columns(self, layouts: Mapping[tuple[str, ...], Columns]) -> None:
        """Say which columns were read. Of several layouts, the first decides."""
        columns: dict[str, str] = {}
        for layout in reversed(layouts.values()):
            columns |= {field: " + ".join(names) for field, names in layout.sources.items()}
            if layout.both_models:
                columns |= {"model_1": layout.both_models, "model_2": layout.both_models}
        self.columns = {field: columns[field] for field in FIELDS if field in columns}
        self.names = list(dict.fromkeys(name for names in layouts for name in names if name))
        self.unused = list(dict.fromkeys(n for layout in layouts.values() for n in layout.unused))
        # If no row of a file could be read, no column is known, so none is missing.
        self.missing = [field for field in REQUIRED if self.names and field not in columns]


class _Acceptance:
    """Counts the rows that can be imported, and points out the odd ones among them."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._lines: defaultdict[str, list[int]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        # Hashes, so that memory stays small however long the texts are.
        self._ids: set[int] = set()
        self._texts: set[int] = set()

    def accept(self, row: ExampleRow) -> None:
        summary, name, texts = self._summary, hash(row.external_id), hash(row.texts)
        if name in self._ids:
            self._notice("repeated", row)
            return
        summary.n_rows += 1
        if len(summary.rows) < SHOWN_ROWS:
            summary.rows.append(row)
        if row.gold_label:
            summary.gold[row.gold_label] += 1
        if not row.response_1.strip() or not row.response_2.strip():
            self._notice("empty response", row)
        if row.response_1 == row.response_2:
            self._notice("same responses", row)
        pairs = ((row.response_1, row.model_1), (row.response_2, row.model_2))
        if any(names_itself(text, model) for text, model in pairs):
            self._notice(NAMED, row)
        if texts in self._texts:
            self._notice("same texts", row)
        for note in row.notes:
            self._notice(note, row)
        self._ids.add(name)
        self._texts.add(texts)

    def _notice(self, kind: str, row: ExampleRow) -> None:
        self._counts[kind] += 1
        lines = self._lines[kind]
        # A wide row has many pairs.
        if len(lines) < SHOWN_LINES and lines[-1:] != [row.place.line]:
            lines.append(row.place.line)

    def notices(self) -> Iterator[Notice]:
        for kind, count in self._counts.items():
            sentence = SENTENCES[kind].format("1 row" if count == 1 else f"{count} rows")
            yield Notice(kind, count, tuple(self._lines[kind]), sentence)


def check(
    paths: Sequence[Path],
    file_format: str = "auto",
    mapping: Mapped | None = None,
    watch: Callable[[ExampleRow], None] = lambda row: None,
    labels: Codes | None = None,
    options: Mapping[str, Any] | None = None,
    earlier: Iterable[tuple[str, str]] = (),
    images: Callable[[], Images] | None = None,
) -> Summary:
    """Read the files to their end without writing; `watch` gets each row that can be imported.

    If the codes of gold labels have one meaning and it isn't the documented one, the files must be
    read again with `summary.labels`.

    Args:
        earlier: the models of the project's pairs.
    """
    reader = Reader(paths, file_format, mapping, labels, options, images)
    summary = Summary(detect_format(paths) if file_format == "auto" else file_format)
    acceptance = _Acceptance(summary)
    for row in reader:
        if isinstance(row, Refused):
            summary.refuse(row)
        else:
            acceptance.accept(row)
            watch(row)
    start = Place(str(paths[0]), 1)
    there = {name for names in reader.columns for name in names}
    for column, field_name in (mapping or {}).items():
        # A mapped column may be missing in some JSON objects, but not in all.
        models = reader.wide.models if reader.wide else {}
        lost = column not in (models if field_name == RESPONSE else there)
        if there and lost and field_name != IGNORE and not summary.fatal:
            sentence = f"There is no column {column}, which the mapping names."
            summary.refuse(refusal(start, column, sentence, fatal=True))
    if not summary.n_rows and not summary.n_problems:
        sentence = "The file holds no rows. Nothing was imported."
        summary.refuse(refusal(start, "", sentence, fatal=True))
    summary.sha256 = reader.records.sha256
    _settle_codes(summary, reader.codes, labels, reader.columns.values())
    summary.notices = list(acceptance.notices())
    summary.wide = reader.wide.facts(earlier) if reader.wide else {}
    summary.describe_columns(reader.columns)
    if summary.wide:
        # The pairs have names of our own; people map those of the file.
        summary.names = summary.wide["names"]
    return summary


# The names under which LLMBar publishes its pairs, with 1 or 2 as the label.
_LLMBAR = {"question": ("input",), "response_1": ("output_1",), "response_2": ("output_2",)}


def _settle_codes(
    summary: Summary,
    codes: Counter[tuple[str, str]],
    labels: Codes | None,
    columns: Iterable[Columns],
) -> None:
    """Say what the codes were read as, and what else they can mean if nobody has said it."""
    seen = {code for _, code in codes}
    if labels is not None:
        summary.labels = {code: label for code, label in labels.items() if code in seen}
        return
    # A code that no reading knows is refused by line. The others still need one.
    meanings = readings(seen) or readings(seen := seen & CONVENTIONS[0].keys())
    # A column that is called as docs/files.md says holds what it says. But 1 and 0 alone are what a
    # column of yes and no has too.
    named = all(plain(column) == "goldlabel" for column, _ in codes) and seen != {"0", "1"}
    if named or (
        seen <= {"1", "2"} and all(_LLMBAR.items() <= each.sources.items() for each in columns)
    ):
        meanings = [reading for reading in meanings if documented(reading)] or meanings
    summary.labels = meanings[0] if meanings else {}
    summary.readings = meanings if len(meanings) > 1 else []


def translated(
    records: Iterable[Record | Refused],
    holds: Holds,
    known: Container[str] = frozenset(),
    mapped: Collection[str] = (),
) -> Iterator[Record | Refused]:
    """Give the rows of other tools in our columns, and all other rows as they are.

    Args:
        known: the IDs of the project's examples, which say who response 1 is by.
        mapped: columns that somebody mapped. A row that has one of them is read as it is.
    """
    waiting: dict[int, list[Record]] = defaultdict(list)
    judges: OneJudge | None = None
    own: set[tuple[str, ...]] = set()
    for outer in records:
        # Most files have one set of names, and it is asked only once whether a tool writes it.
        if isinstance(outer, Record) and _is_no_tools(outer.values, own):
            yield outer
            continue
        for record in [outer] if isinstance(outer, Refused) else rows_of(outer):
            layout = None if isinstance(record, Refused) else _layout_of(record.values)
            if isinstance(record, Refused) or layout is None or _as_it_is(record, mapped):
                yield record
            elif layout.joined is not None and holds in layout.reads:
                # By identity, since a layout holds a dict and has no hash.
                waiting[id(layout)].append(record)
            else:
                judges = judges or OneJudge()
                yield from judges.checked(read_row(layout, record, holds, known))
    for layout in LAYOUTS:
        if layout.joined is not None and id(layout) in waiting:
            for joined in layout.joined(waiting[id(layout)]):
                if isinstance(joined, Refused):
                    yield joined
                else:
                    judges = judges or OneJudge()
                    yield from judges.checked(read_row(layout, joined, holds, known))


def _is_no_tools(values: Values, own: set[tuple[str, ...]]) -> bool:
    """Return True if the names alone rule out every layout and document. `own`: sets that do."""
    names = tuple(values)
    if names in own:
        return True
    begins = {document.path[0] for document in DOCUMENTS}
    maybe = bool(begins & values.keys()) or any(_names_fit(layout, values) for layout in LAYOUTS)
    if not maybe and len(own) < MOST_KEPT:
        own.add(names)
    return not maybe


def _names_fit(layout: Layout, values: Values) -> bool:
    return (
        layout.keys <= values.keys()
        and not layout.without & values.keys()
        and all(any(map(pattern.fullmatch, values)) for pattern in layout.some)
    )


def _layout_of(values: Values) -> Layout | None:
    """Return the first layout that a row fits, if any."""
    for layout in LAYOUTS:
        nested = (isinstance(values[name], list | dict) for name in layout.nested)
        if _names_fit(layout, values) and all(nested):
            own = layout.unless is not None and layout.unless(values)
            return None if own else layout
    return None


def _as_it_is(record: Record, mapped: Collection[str]) -> bool:
    return any(name in record.values and name not in FIELDS for name in mapped)
