"""Records of files, before and after their columns are understood.

A reader of `files` gives a `Record`. `Cells` reads its values for pairs, scores, votes and recorded
judgments alike, and collects every problem, so that a file is refused once and for all of its
faults. The second half of the module turns a record into a pair.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from django.utils.dateparse import parse_datetime

from judging.core import conversations
from judging.core.conversations import Messages, Unusable, text_of
from judging.core.errors import UserError
from judging.core.text import ESCAPE_COLUMN, LONGEST_NAME, a_name, is_name, unstorable

Value = TypeVar("Value")

LONGEST_QUOTE = 60
MOST_LISTED = 20
# The largest number that an integer column of PostgreSQL takes.
LARGEST_INTEGER = 2**31 - 1
NUMBER = re.compile(r"[+-]?\d+")
WHOLE = re.compile(r"^([+-]?\d+)[.,]0+$")
_PUNCTUATION = re.compile(r"[\W_]+")
BOOLEANS = {
    "true": True, "1": True, "yes": True, "y": True,
    "false": False, "0": False, "no": False, "n": False,
}  # fmt: skip


class Place(NamedTuple):
    """The line, from 1, on which a record of a file starts.

    unit: how people count in such a file: by lines, or by the rows of a table or a sheet.
    """

    file: str
    line: int
    unit: str = "line"

    def __str__(self) -> str:
        """Name the file alone: people on a page don't know the folder that it is stored in."""
        return f"{Path(self.file).name}, {self.here}"

    @property
    def here(self) -> str:
        return f"{self.unit} {self.line}"


PACKED_SUFFIXES = (".gz", ".zst", ".zstd")


def unpacked_name(name: str) -> str:
    """`pairs.csv.gz` is `pairs.csv` once it is unpacked."""
    return name.rpartition(".")[0] if name.casefold().endswith(PACKED_SUFFIXES) else name


@dataclass(frozen=True, slots=True)
class RecordProblem:
    """One reason to refuse a record; `column` is empty if it isn't about one column."""

    place: Place
    column: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.place.file}, {self.place.here}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that can't be imported, its text as it is in the file, and why.

    After a `fatal` one the rest of the file can't be trusted and is not read.
    """

    problems: tuple[RecordProblem, ...]
    raw: str = ""
    fatal: bool = False


def refusal(
    place: Place, column: str, sentence: str, raw: str = "", *, fatal: bool = False
) -> Refused:
    """Refuse a record for one reason."""
    return Refused((RecordProblem(place, column, sentence),), raw, fatal)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something accepted that a person should know, with the first lines where it was seen."""

    kind: str
    count: int
    lines: tuple[int, ...]
    sentence: str


as_json = json.JSONEncoder(ensure_ascii=False, default=repr).encode


@dataclass(frozen=True, slots=True)
class Record:
    """One row or JSON object as found; `header_line` is set if a header names the columns.

    `text` is the row in a file of refused rows. Without a text of its own it is a mapping, from
    which JSON is made only if the row is refused.
    """

    place: Place
    values: dict[str, Any]
    text: str | dict[str, Any]
    header_line: int | None = None

    @property
    def raw(self) -> str:
        return self.text if isinstance(self.text, str) else as_json(self.text)

    def refuse(self, column: str, sentence: str) -> Refused:
        return refusal(self.place, column, sentence, self.raw)


def quoted(value: object) -> str:
    """Return a value as shown in a sentence: on one line and never long."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 1] + "…"


def listed(names: Collection[str]) -> str:
    """Return column names as shown in a sentence."""
    shown = list(names)[:MOST_LISTED]
    if len(names) > MOST_LISTED:
        shown.append(f"and {len(names) - MOST_LISTED} more")
    return ", ".join(shown) or "none"


def plain(name: str) -> str:
    """Return a name without case, spaces and punctuation: `Response 1` is `response1`."""
    return _PUNCTUATION.sub("", name.casefold())


@lru_cache(maxsize=64)
def _twins(names: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the names that are the same but for case, spaces and punctuation, by their plain one.

    All rows of a file have the same few columns, and comparing them takes as long as the rest.
    """
    by_plain: dict[str, list[str]] = {}
    for name in names:
        by_plain.setdefault(plain(name), []).append(name)
    return {same: alike for same, alike in by_plain.items() if len(alike) > 1}


def canonical(text: str) -> str:
    """Return a word as it is compared: tables with gaps write the whole number 1 as 1.0."""
    text = text.strip().casefold()
    return WHOLE.sub(r"\1", text) if text.endswith("0") else text


ID = TypeVar("ID")


class ById(Mapping[str, ID]):
    """Values by ID. 7.0 finds the ID 7, and 7 the ID 7.0, unless several IDs are so alike."""

    def __init__(self, values: Iterable[tuple[str, ID]]) -> None:
        self._values = dict(values)

    @cached_property
    def _ids(self) -> dict[str, str]:
        """The IDs that are numbers, once one isn't found as it is: they need much memory."""
        alike = Counter(map(canonical, self._values))
        return {
            canonical(name): name
            for name in self._values
            if alike[canonical(name)] == 1 and NUMBER.fullmatch(canonical(name))
        }

    def __getitem__(self, name: str) -> ID:
        return self._values[name if name in self._values else self._ids[canonical(name)]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def kind(value: Any) -> str:
    """Say in words what a decoded value is. Numbers have been decoded to their text."""
    names = {
        dict: "an object", list: "an array", bool: "true or false", type(None): "null",
        bytes: "bytes",
    }  # fmt: skip
    return names.get(type(value), "a text or number")


def expected_sentence(column: str, expected: str, value: object) -> str:
    return f"{column} should be {expected}, found {quoted(value) if value else 'nothing'}."


def unstorable_sentence(column: str, fault: str) -> str:
    return f"{column} holds {fault}, which is not text."


def tags_of(text: str) -> tuple[str, ...]:
    """Return the names in a list of tags, each once, in their order."""
    if not text:
        return ()
    names = (name.strip() for name in re.split(r"[,;]", text))
    return tuple(dict.fromkeys(name for name in names if name))


class Cells:
    """The values of one record by field, and every problem met while reading them.

    A value that can't be used is noted as a problem and read as empty, so that one pass over a
    record finds all that is wrong with it.

    Args:
        columns: the column of each field that the file has. By default, each column is a field.
        booleans: read JSON's true and false as their text. Otherwise they are refused as text.
    """

    def __init__(
        self, record: Record, columns: Mapping[str, str] | None = None, *, booleans: bool = True
    ) -> None:
        self.problems: list[RecordProblem] = []
        self._record, self._values = record, record.values
        self._columns = {name: name for name in record.values} if columns is None else columns
        self._booleans = booleans

    def refused(self) -> Refused | None:
        return Refused(tuple(self.problems), self._record.raw) if self.problems else None

    def column(self, field: str) -> str:
        """Return the field's column as problems name it."""
        return self._columns.get(field, field)

    def complain(self, field: str, sentence: str) -> None:
        """Note a problem with a field."""
        self.problems.append(RecordProblem(self._record.place, self.column(field), sentence))

    def expect(self, field: str, expected: str, value: object) -> None:
        """Note that a field should be something else than what was found."""
        self.complain(field, expected_sentence(self.column(field), expected, value))

    def refuse_twins(self) -> None:
        """Note each field for which the file has two columns, such as `label` and `Label`."""
        twins = _twins(tuple(self._record.values))
        for name, column in self._columns.items() if twins else ():
            if same := twins.get(plain(column)):
                self.complain(name, f"{listed(same)} are the same column. Keep one of them.")

    def require(self, field: str) -> None:
        """Note that a field has no value."""
        there = field in self._columns
        column = self.column(field)
        self.complain(field, f"{column} is empty." if there else f"There is no column {column}.")

    def _value(self, field: str) -> Any:
        """Most fields of most files have no column. A column without a name is no field's."""
        column = self._columns.get(field)
        return None if column is None else self._values.get(column)

    def text(self, field: str, *, present: bool = False, longest: int | None = None) -> str:
        """Return a value as text, "" for none.

        Args:
            present: a value must be there, though it may be empty.
        """
        value = self._value(field)
        if type(value) is not str:
            if value is None and not present:
                return ""
            if isinstance(value, bool) and self._booleans:
                value = "true" if value else "false"
            if not isinstance(value, str):
                actual = kind(value) if field in self._columns else "nothing"
                self.complain(field, f"{self.column(field)} should be text, found {actual}.")
                return ""
            # A number of JSON is a text of its own kind.
            value = str(value)
        if fault := unstorable(value):
            self.complain(field, unstorable_sentence(self.column(field), fault))
            return ""
        if longest is not None and len(value) > longest:
            self.expect(field, f"at most {longest} characters", value)
        return value

    def name(self, field: str, *, longest: int = LONGEST_NAME, required: bool = False) -> str:
        """Return a short text on one line: an ID, a model, a category."""
        value = self.text(field).strip()
        if value and not is_name(value, longest):
            self.expect(field, a_name(longest), value)
        elif required and not value:
            self.require(field)
        return value

    def tags(self, field: str) -> tuple[str, ...]:
        """Return the tags of a list, or of a text that parts them by commas or semicolons."""
        value = self._value(field)
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            # No tag may hold these signs, so a list is read like a text that parts its tags by
            # them.
            value = ";".join(value)
            if fault := unstorable(value):
                self.complain(field, unstorable_sentence(self.column(field), fault))
                return ()
        else:
            value = self.text(field)
        names = tags_of(value)
        if wrong := next((name for name in names if not is_name(name)), None):
            self.expect(field, f"tags of {a_name()}", wrong)
            return ()
        return names

    def one_of(self, field: str, meanings: Mapping[str, Value], expected: str = "") -> Value | None:
        """Return what a word means, whatever its case; None for an empty cell."""
        text = self.text(field).strip()
        if not text:
            return None
        word = canonical(text)
        if word not in meanings:
            self.expect(field, expected or f"one of {', '.join(meanings)}", text)
        return meanings.get(word)

    def label(
        self, field: str, codes: Mapping[str, str], models: tuple[str, str] = ("", "")
    ) -> str | None:
        """Return win, tie or lose of response 1; None for an empty cell.

        Args:
            codes: what each code of the file means, by its canonical spelling.
            models: names that mean a win of response 1 or response 2.
        """
        text = self.text(field).strip()
        if not text:
            return None
        label = read_label(text, codes, models)
        if label is None:
            known = f"a code of {spelled(codes)}" if codes else "a code that --labels names"
            self.expect(field, f"win, tie, lose, a model's name or {known}", text)
        return label

    def boolean(self, field: str) -> bool:
        """Return a flag; an empty cell is False."""
        return bool(self.one_of(field, BOOLEANS, "true or false"))

    def decimal(
        self,
        field: str,
        low: Decimal | int,
        high: Decimal | int,
        *,
        expected: str = "",
        step: Decimal | None = None,
        required: bool = False,
    ) -> Decimal | None:
        """Return a number from low to high; None for an empty cell.

        Args:
            expected: in words, what the number should be.
            step: refuse a number with more decimals than this one has.
        """
        text = self.text(field).strip()
        if not text:
            if required:
                self.require(field)
            return None
        try:
            number = Decimal(text)
        except InvalidOperation:
            # It is refused below, like any number that isn't finite.
            number = Decimal("NaN")
        fits = number.is_finite() and low <= number <= high
        if fits and (step is None or number.quantize(step) == number):
            return number
        self.expect(field, expected or f"a number from {low} to {high}", text)
        return None

    def integer(self, field: str, high: int = LARGEST_INTEGER) -> int | None:
        """Return a whole number from 0 to high; None for an empty cell."""
        expected = f"a whole number from 0 to {high}"
        number = self.decimal(field, 0, high, expected=expected, step=Decimal(1))
        return None if number is None else int(number)

    def time(self, field: str, *, in_utc: bool = False) -> datetime | None:
        """Return a moment in UTC; None for an empty cell. A time without a zone is refused.

        Args:
            in_utc: the file's times are UTC, as in a workbook that FairJudge wrote.
        """
        text = self.text(field)
        if not text:
            return None
        try:
            moment = parse_datetime(text)
            if moment is not None and (in_utc or moment.tzinfo is not None):
                return (moment.replace(tzinfo=moment.tzinfo or UTC)).astimezone(UTC)
            if moment is not None:
                self.complain(
                    field,
                    f"{self.column(field)} {quoted(text)} lacks its offset from UTC. Write "
                    f"{quoted(moment.isoformat() + '+00:00')} if it is UTC.",
                )
                return None
        except (ValueError, OverflowError):
            # OverflowError: the calendar's first and last day have no UTC in some zones.
            pass
        self.expect(field, "a date and time in ISO 8601", text)
        return None


class Row(Protocol):
    """What a file says in one place."""

    @property
    def place(self) -> Place: ...


class ValueRow(Row, Protocol):
    """A row that gives something a value, which the project may have already."""

    def conflict(self, held: Any) -> str | None:
        """Say how the value differs from the one that the project has; None if it doesn't."""


AnyRow = TypeVar("AnyRow", bound=Row)
AnyValueRow = TypeVar("AnyValueRow", bound=ValueRow)


@dataclass
class Compared(Generic[AnyValueRow]):
    """Rows parted into new ones, ones that the project has, and conflicts."""

    new: list[AnyValueRow] = field(default_factory=list)
    n_known: int = 0
    conflicts: list[str] = field(default_factory=list)


def compare(
    rows: Iterable[AnyValueRow], held: Mapping[Any, Any], key: Callable[[AnyValueRow], Hashable]
) -> Compared[AnyValueRow]:
    """Part rows by the values that a project has for their keys. What is there always stays.

    A row that repeats a new one counts as known.
    """
    compared: Compared[AnyValueRow] = Compared()
    new = set()
    for row in rows:
        name = key(row)
        before = held.get(name)
        if name in new:
            compared.n_known += 1
        elif before is None:
            new.add(name)
            compared.new.append(row)
        elif conflict := row.conflict(before):
            compared.conflicts.append(f"{row.place}: {conflict}")
        else:
            compared.n_known += 1
    return compared


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """One pair, ready to become an example.

    Attributes:
        explanation: not part of the content: people change it in the project, and what they wrote
            stays.
        tags: not part of the content: people tag examples in the project, and its tags stay.
        conversation: the lists of messages as JSON; None if the question and the responses are
            plain texts.
        notes: what was assumed in reading it: keys of `reading.SENTENCES`.
    """

    place: Place
    external_id: str
    question: str
    response_1: str
    response_2: str
    model_1: str = ""
    model_2: str = ""
    category: str = ""
    gold_label: str | None = None
    is_check: bool = False
    reference: str = ""
    check_for: str = ""
    explanation: str = ""
    tags: tuple[str, ...] = ()
    conversation: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, str, str]:
        return self.question, self.response_1, self.response_2

    @property
    def content(self) -> tuple[Any, ...]:
        """All that the row says, without its ID and its place, in the order of IDENTITY_FIELDS."""
        models = (self.model_1, self.model_2)
        about = (self.category, self.gold_label, self.is_check, self.reference, self.conversation)
        return (*self.texts, *models, *about, self.check_for)

    def conflict(self, held: tuple[Any, ...]) -> str | None:
        contents = zip(IDENTITY_FIELDS, self.content, held, strict=True)
        fields = [name for name, here, there in contents if here != there]
        if not fields:
            return None
        return (
            f"the ID {self.external_id!r} is in the project with another "
            f"{' and '.join(fields)}. The project's example stays."
        )


IDENTITY_FIELDS = (
    "question", "response_1", "response_2", "model_1", "model_2",
    "category", "gold_label", "is_check", "reference", "conversation", "check_for",
)  # fmt: skip
REQUIRED = ("question", "response_1", "response_2")
IGNORE = "ignore"

# Names in the order of preference, without case and punctuation: if a file has several, the
# first is the field. A question's ID is the last choice, since several pairs can share a question.
ALIASES = {
    "external_id": ("externalid", "exampleid", "id", "idx", "questionid"),
    "question": ("question", "prompt", "instruction", "query", "input", "inputs"),
    "response_1": ("response1", "answer1", "output1", "responsea", "answera", "outputa"),
    "response_2": ("response2", "answer2", "output2", "responseb", "answerb", "outputb"),
    "model_1": ("model1", "modela"),
    "model_2": ("model2", "modelb"),
    "category": ("category", "subset"),
    "gold_label": ("goldlabel", "gold", "label", "winner"),
    "is_check": ("ischeck",),
    "check_for": ("checkfor",),
    "explanation": ("explanation",),
    "tags": ("tags", "tag"),
    "reference": (
        "reference", "referenceanswer", "goldanswer", "ideal", "idealanswer", "refanswer",
        "expectedanswer", "expectedoutput", "groundtruth",
    ),
}  # fmt: skip
FIELDS = tuple(ALIASES)
KNOWN = frozenset(name for names in ALIASES.values() for name in names)
# A column of PandaLM that names both models at once, `bloom-7b_llama-7b`.
BOTH_MODELS = "cmp_key"
# A column of exports with the lists of messages behind the texts, as one JSON object by field.
CONVERSATION = "fairjudge_conversation"
# Columns by which a table is known as an export of labels.
OF_EXPORTS = frozenset({"judge_label", "final_label", "n_valid"})
# How a mapping says what a cell with a JSON list in it is: `--map prompt=question:messages`.
AS_MESSAGES, AS_TEXT = "messages", "text"
# Words by their plain spelling.
LABELS = {
    "win": "win", "response1": "win", "model1": "win", "a": "win", "modela": "win",
    "responsea": "win",
    "tie": "tie", "draw": "tie", "tiebothbad": "tie", "bothbad": "tie",
    "lose": "lose", "response2": "lose", "model2": "lose", "b": "lose", "modelb": "lose",
    "responseb": "lose",
}  # fmt: skip
# What the codes of public data sets mean. The first is the one that docs/files.md names.
CONVENTIONS = (
    {"1": "win", "0": "tie", "2": "lose"},
    {"0": "win", "1": "lose", "2": "tie"},
    {"1": "win", "0": "lose", "2": "tie"},
    {"1": "win", "0": "lose", "0.5": "tie"},
    {"1": "win", "0": "tie", "-1": "lose"},
    {"1": "win", "2": "lose", "3": "tie"},
)
CODES = frozenset(code for convention in CONVENTIONS for code in convention)
Codes = Mapping[str, str]


def read_label(text: str, codes: Codes, models: tuple[str, str] = ("", "")) -> str | None:
    """Return what a code, a model's name or a word says, such as `tie (bothbad)` of arenas."""
    word, name = canonical(text), plain(text)
    if word in codes or word in ("win", "tie", "lose"):
        return codes.get(word, word)
    first, second = map(plain, models)
    # A model goes before a word, since it may be called b. Two responses of one model aren't told
    # apart by its name.
    if name and first != second and name in (first, second):
        return "win" if name == first else "lose"
    return LABELS.get(name)


def readings(codes: Collection[str]) -> list[dict[str, str]]:
    """Return what these codes can mean, each reading once, the documented one first if it fits.

    A small file may hold only two codes of three: 1 and 2 can be a win and a lose, or a lose and a
    tie where 0 is a win.
    """
    fitting = [convention for convention in CONVENTIONS if codes and set(codes) <= set(convention)]
    distinct: list[dict[str, str]] = []
    for convention in fitting:
        reading = {code: convention[code] for code in sorted(codes)}
        if reading not in distinct:
            distinct.append(reading)
    return distinct


def documented(codes: Codes) -> bool:
    """Return True if the codes mean what docs/files.md says."""
    return codes.items() <= CONVENTIONS[0].items()


def spelled(codes: Codes) -> str:
    """Return a reading as `--labels` takes it: `0=tie,1=win,2=lose`."""
    return ",".join(f"{code}={label}" for code, label in codes.items())


def codes_of(text: str) -> dict[str, str]:
    """Read `1=win,2=lose,0=tie`. Raises UserError."""
    codes: dict[str, str] = {}
    for pair in filter(str.strip, text.split(",")):
        code, equals, label = pair.rpartition("=")
        name, label = canonical(code), label.strip().casefold()
        if not equals or not name or label not in ("win", "tie", "lose") or name in codes:
            raise UserError(
                f"--labels {text} should give each code once, as win, tie or lose of response 1: "
                "1=win,2=lose,0=tie. Nothing was imported."
            )
        codes[name] = label
    return codes


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that each field is read from; a question may be an instruction and its input.

    `cells` says the same for `Cells`, which reads one column for a field: the columns of a question
    are its fields `question 0` and `question 1`.
    """

    sources: dict[str, tuple[str, ...]]
    cells: dict[str, str]
    both_models: str | None
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    absent: tuple[str, ...]


def recognise(names: Iterable[str], mapping: Mapping[str, str] | None = None) -> Columns:
    """Find the fields among column names; `mapping` (column → field, or `ignore`) goes first.

    `missing` are required fields without a column, `absent` mapped columns that aren't there.
    """
    names = list(names)
    mapping = mapping or {}
    sources: dict[str, tuple[str, ...]] = {}
    for column, target in mapping.items():
        if target != IGNORE and column in names:
            sources[target] = (*sources.get(target, ()), column)
    # Names may be the same but for case and punctuation. Then the first one stays.
    free = {plain(name): name for name in reversed(names) if name and name not in mapping}
    for target, aliases in ALIASES.items():
        for alias in aliases:
            if target not in sources and alias in free:
                sources[target] = (free.pop(alias),)
    question = sources.get("question", ())
    # Alpaca and the files that follow it part a question into an instruction and its input.
    if "input" in free and [plain(name) for name in question] == ["instruction"]:
        sources["question"] = (*question, free.pop("input"))
    both = None
    if not {"model_1", "model_2"} & sources.keys():
        both = free.pop(plain(BOTH_MODELS), None)
    cells = {field: columns[0] for field, columns in sources.items()}
    question = sources.get("question", ())
    cells |= {f"question {part}": column for part, column in enumerate(question)}
    if both is not None:
        cells[BOTH_MODELS] = both
    lists = free.pop(plain(CONVERSATION), None)
    if lists is not None:
        cells[CONVERSATION] = lists
    used = {name for columns in sources.values() for name in columns} | {both, lists, ESCAPE_COLUMN}
    return Columns(
        sources=sources,
        cells=cells,
        both_models=both,
        unused=tuple(name for name in names if name and name not in used),
        missing=tuple(field for field in REQUIRED if field not in sources),
        absent=tuple(
            column for column, field in mapping.items() if field != IGNORE and column not in names
        ),
    )


def way_of(target: str) -> tuple[str, str]:
    """Return the field that a mapping names, and whether its cells are messages or text, or ""."""
    field, _, way = target.partition(":")
    known = field in REQUIRED and way in (AS_MESSAGES, AS_TEXT)
    return (field, way) if known else (target, "")


def to_example(
    record: Record,
    columns: Columns,
    codes: Codes = CONVENTIONS[0],
    ways: Mapping[str, str] = MappingProxyType({}),
) -> ExampleRow | Refused:
    """Return the pair that a record describes, or all that is wrong with it.

    Args:
        ways: of fields that somebody mapped so, whether cells are messages or text.
    """
    cells = Cells(record, columns.cells)
    parts = range(len(columns.sources["question"]))
    lists = _Lists(record, columns, cells, ways) if _may_hold_lists(record, columns, ways) else None
    chats = lists.by_field if lists else {}
    texts = [
        text_of(chats["question"], "question")
        if "question" in chats
        else cells.text(f"question {part}", present=True)
        for part in parts
    ]
    question = "\n\n".join(text for text in texts if text)
    if not question.strip() and not cells.problems:
        cells.require("question")
    models = _both_models(cells) or (cells.name("model_1"), cells.name("model_2"))
    if lists:
        lists.settle(question)
    row = ExampleRow(
        record.place,
        cells.name("external_id"),
        question,
        *(
            text_of(chats[field], field) if field in chats else cells.text(field, present=True)
            for field in ("response_1", "response_2")
        ),
        *models,
        category=cells.name("category"),
        gold_label=cells.label("gold_label", codes, models),
        **_check_of(cells),
        reference=cells.text("reference"),
        tags=cells.tags("tags"),
        conversation=conversations.dumped(chats) if chats else None,
        notes=tuple(lists.notes) if lists else (),
    )
    if lists:
        lists.compare(row)
    if row.is_check and row.gold_label is None and not cells.problems:
        cells.complain("gold_label", "A check example needs its known label in gold_label.")
    return cells.refused() or row


# What `check_for` says in a file.
CHECKS_FOR = {"attention": "", "training": "training", "qualification": "qualification"}


def _check_of(cells: Cells) -> dict[str, Any]:
    """Return what makes the row a check, if it is one. A row that says what for is one."""
    is_check = cells.boolean("is_check")
    named = cells.one_of("check_for", CHECKS_FOR, ", ".join(CHECKS_FOR))
    if not is_check and named is None:
        # Other files explain other things in a column of that name.
        return {}
    explained = cells.text("explanation")
    return {"is_check": True, "check_for": named or "", "explanation": explained}


def _may_hold_lists(record: Record, columns: Columns, ways: Mapping[str, str]) -> bool:
    """Return True unless the row is one of plain texts, as most are. It takes hardly any time."""
    if ways or CONVERSATION in columns.cells:
        return True
    for name in REQUIRED:
        value = record.values.get(columns.cells[name])
        if type(value) is not str or value.lstrip()[:1] == "[":
            return True
    return False


class _Lists:
    """The lists of messages of a record by field, with problems noted in its cells.

    They are values of JSON files, cells of tables that hold such a list as JSON and nothing else,
    or in the column that FairJudge's own exports have for them. All other cells of these exports
    are texts.
    """

    def __init__(
        self, record: Record, columns: Columns, cells: Cells, ways: Mapping[str, str]
    ) -> None:
        self.by_field: dict[str, Messages] = {}
        self.notes: list[str] = []
        self._cells = cells
        self._exported = CONVERSATION in columns.cells
        if self._exported:
            self._read_exported(record.values.get(columns.cells[CONVERSATION]))
            return
        # An export without the column holds nothing but texts.
        table = record.header_line is not None and not record.values.keys() >= OF_EXPORTS
        for name in REQUIRED:
            if len(columns.sources[name]) == 1:
                value = record.values.get(columns.cells[name])
                self._look(name, value, ways.get(name, ""), table=table)

    def _look(self, field: str, value: Any, way: str, *, table: bool) -> None:
        """Take a value that is a list, or a cell that holds one."""
        if isinstance(value, str) and way != AS_TEXT and (table or way):
            decoded = _decoded(value)
            sure = isinstance(decoded, list) and all(map(_looks_like_a_message, decoded))
            if way:
                self._take(field, value if decoded is None else decoded)
            elif sure and decoded:
                self._take(
                    field, decoded, f" Map the column to {field}:{AS_TEXT} to keep the text."
                )
                if READ_AS_MESSAGES not in self.notes:
                    self.notes.append(READ_AS_MESSAGES)
        elif isinstance(value, list) and (not value or any(isinstance(m, dict) for m in value)):
            self._take(field, value)

    def _take(self, field: str, value: Any, otherwise: str = "") -> None:
        try:
            messages = conversations.checked(value, self._cells.column(field))
        except Unusable as error:
            self._refuse(field, f"{error}{otherwise}")
            return
        fault = next(filter(None, map(unstorable, conversations.texts_in(messages))), None)
        if fault:
            self._refuse(field, unstorable_sentence(self._cells.column(field), fault))
            return
        self.by_field[field] = messages
        if conversations.other_keys(messages) and OTHER_KEYS not in self.notes:
            self.notes.append(OTHER_KEYS)

    def _refuse(self, field: str, sentence: str) -> None:
        """Note a problem. The list replaces the text, which is not asked for as well."""
        self._cells.complain(field, sentence)
        self.by_field[field] = [{"role": conversations.ALONE[field], "content": ""}]

    def _read_exported(self, value: Any) -> None:
        if value is None or value == "":
            return
        decoded = _decoded(value) if isinstance(value, str) else value
        if not isinstance(decoded, dict) or not decoded or not decoded.keys() <= set(REQUIRED):
            self._cells.expect(CONVERSATION, f"an object with lists for {listed(REQUIRED)}", value)
            return
        for name in filter(decoded.__contains__, REQUIRED):
            self._take(name, decoded[name])

    def settle(self, question: str) -> None:
        """Leave the question out of responses that begin with it. Its text is a user's message."""
        asked = self.by_field.get("question", [{"role": "user", "content": question}])
        for name in ("response_1", "response_2"):
            messages = self.by_field.get(name)
            if self._exported or self._cells.problems or messages is None:
                continue
            if not conversations.is_claim(messages):
                continue
            rest = conversations.after(asked, messages)
            if rest is None:
                self._cells.complain(
                    name,
                    f"{self._cells.column(name)} begins with other messages than the question. A "
                    "response holds its own messages, or the question's messages before them.",
                )
                continue
            self.by_field[name] = rest
            if REPEATED not in self.notes:
                self.notes.append(REPEATED)

    def compare(self, row: ExampleRow) -> None:
        """Note texts of an export that were changed without their lists of messages."""
        if not self._exported or self._cells.problems:
            return
        for name in self.by_field:
            if self._cells.text(name) not in ("", getattr(row, name)):
                self._cells.complain(
                    name,
                    f"{self._cells.column(name)} differs from its messages in {CONVERSATION}. "
                    f"Change the messages, or empty {CONVERSATION} to import the text.",
                )


# What was assumed in reading messages.
READ_AS_MESSAGES, OTHER_KEYS, REPEATED = "read as messages", "other keys", "whole conversations"


def _decoded(cell: str) -> Any:
    """Return the JSON in a cell, None if there is none."""
    try:
        # Python would read NaN and Infinity as well, which JSON doesn't have.
        return json.loads(cell, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        return None


def _looks_like_a_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("role"), str)
        and not {"content", "tool_calls"}.isdisjoint(value)
    )


def _both_models(cells: Cells) -> tuple[str, str] | None:
    """Read two model names from one column, `bloom-7b_llama-7b`."""
    value = cells.name(BOTH_MODELS)
    if not value:
        return None
    first, _, second = value.partition("_")
    # A name that has this sign itself can't be told from the other one.
    if value.count("_") != 1:
        cells.expect(BOTH_MODELS, "two model names with one _ between them", value)
    return first, second


DIGITS = 16
LINE_BITS = 32


def content_id(parts: Iterable[str]) -> str:
    """Return an ID for texts that have none: the first 16 hex digits of their SHA-256."""
    text = json.dumps(list(parts), ensure_ascii=False, separators=(",", ":"))
    # What no database stores is refused when the row is read.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


class Identities:
    """The IDs that were read so far, as hashes: about 200 bytes a row, however long it is."""

    def __init__(self) -> None:
        self._generated: Counter[str] = Counter()
        self._seen: dict[int, int] = {}

    def settle(self, row: ExampleRow, record: Record) -> ExampleRow | Refused:
        """Return the row with its ID, or refuse it if an earlier row has the same ID.

        The same row twice is no conflict.
        """
        if not row.external_id:
            base = content_id((*row.texts, row.model_1, row.model_2))
            self._generated[base] += 1
            count = self._generated[base]
            row = replace(row, external_id=base if count == 1 else f"{base}-{count}")
        # One number holds both: the hash, and the line in its lower bits.
        seen = hash(row.content) << LINE_BITS | row.place.line
        earlier = self._seen.setdefault(hash(row.external_id), seen)
        if earlier >> LINE_BITS == seen >> LINE_BITS:
            return row
        sentence = (
            f"The ID {quoted(row.external_id)} is on {row.place.unit} "
            f"{earlier & (1 << LINE_BITS) - 1} with "
            "other content. Give each pair its own ID, or map another column to external_id."
        )
        return refusal(row.place, "external_id", sentence, record.raw)
