"""What is wrong or remarkable in a file that someone wants to import."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judging.core.errors import UserError
from judging.core.text import ESCAPE_COLUMN, unstorable

LONGEST_QUOTE = 60
# So many are listed where nothing was imported.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason to refuse a record, which starts on `line` (from 1) of the path `file`."""

    file: str
    line: int
    column: str
    expected: str
    found: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.sentence}"

    @property
    def place(self) -> str:
        """Where it is, for a page, which knows the file by its name alone."""
        return f"{Path(self.file).name}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that can't be imported, its text as it stood in the file, and why.

    After a `fatal` one the rest of the file can't be trusted and is not read.
    """

    problems: tuple[Problem, ...]
    raw: str = ""
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """Something accepted that a person should know, with the first lines where it was seen."""

    kind: str
    count: int
    lines: tuple[int, ...]
    sentence: str


def refuse(problems: Sequence[str]) -> None:
    """Refuse a file for all that is wrong in it, if anything is. Raises UserError."""
    if problems:
        more = f"\n… and {len(problems) - SHOWN} more." if len(problems) > SHOWN else ""
        raise UserError("Nothing was imported.\n" + "\n".join(problems[:SHOWN]) + more)


def quoted(value: object) -> str:
    """A value as shown in a sentence: on one line and never long."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 1] + "…"


def listed(names: object) -> str:
    """Column names as shown in a sentence."""
    shown = [str(name) for name in names]  # type: ignore[attr-defined]
    if len(shown) > 20:
        shown = [*shown[:20], f"and {len(shown) - 20} more"]
    return ", ".join(shown) or "none"


@dataclass(frozen=True, slots=True)
class Record:
    """One row or JSON object as found; `header_line` is set where a header names the columns."""

    file: str
    line: int
    values: dict[str, Any]
    raw: str
    header_line: int | None = None


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """One pair, ready to become an example."""

    file: str
    line: int
    raw: str
    external_id: str
    question: str
    response_1: str
    response_2: str
    model_1: str = ""
    model_2: str = ""
    category: str = ""
    gold_label: str | None = None
    is_check: bool = False

    @property
    def texts(self) -> tuple[str, str, str]:
        return self.question, self.response_1, self.response_2

    @property
    def content(self) -> tuple[Any, ...]:
        """All that the row says, without its id and its place."""
        models = (self.model_1, self.model_2)
        return (*self.texts, *models, self.category, self.gold_label, self.is_check)


REQUIRED = ("question", "response_1", "response_2")
IGNORE = "ignore"

# Names in the order of preference, without case and punctuation: where a file has several, the
# first is the field. A question's id is the last choice, since several pairs can share a question.
ALIASES = {
    "external_id": ("externalid", "exampleid", "id", "idx", "questionid"),
    "question": ("question", "prompt", "instruction", "query", "input"),
    "response_1": ("response1", "answer1", "output1", "responsea", "answera", "outputa"),
    "response_2": ("response2", "answer2", "output2", "responseb", "answerb", "outputb"),
    "model_1": ("model1", "modela"),
    "model_2": ("model2", "modelb"),
    "category": ("category", "subset"),
    "gold_label": ("goldlabel", "gold", "label"),
    "is_check": ("ischeck",),
}
FIELDS = tuple(ALIASES)
KNOWN = frozenset(name for names in ALIASES.values() for name in names)
# A column of PandaLM that names both models at once, `bloom-7b_llama-7b`.
BOTH_MODELS = "cmp_key"


def plain(name: str) -> str:
    """A column's name without case, spaces and punctuation: `Response 1` is `response1`."""
    return re.sub(r"[\W_]+", "", name.casefold())


@dataclass(frozen=True, slots=True)
class Columns:
    """Where each field is read from; a question may be an instruction and its input."""

    sources: dict[str, tuple[str, ...]]
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
    for column, field in mapping.items():
        if field != IGNORE and column in names:
            sources[field] = (*sources.get(field, ()), column)
    free = {plain(name): name for name in reversed(names) if name and name not in mapping}
    for field, aliases in ALIASES.items():
        for alias in aliases:
            if field not in sources and alias in free:
                sources[field] = (free.pop(alias),)
    question = sources.get("question", ())
    if "input" in free and [plain(name) for name in question] == ["instruction"]:
        sources["question"] = (*question, free.pop("input"))
    both = None
    if not {"model_1", "model_2"} & sources.keys():
        both = free.pop(plain(BOTH_MODELS), None)
    used = {name for columns in sources.values() for name in columns} | {both, ESCAPE_COLUMN}
    return Columns(
        sources=sources,
        both_models=both,
        unused=tuple(name for name in names if name and name not in used),
        missing=tuple(field for field in REQUIRED if field not in sources),
        absent=tuple(
            column for column, field in mapping.items() if field != IGNORE and column not in names
        ),
    )


def kind(value: Any) -> str:
    """What a decoded value is, in words. Numbers have been decoded to their text."""
    names = {dict: "an object", list: "an array", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a text or number")


LABELS = {
    "win": "win", "1": "win", "response_1": "win", "model_1": "win", "a": "win",
    "tie": "tie", "0": "tie", "draw": "tie",
    "lose": "lose", "2": "lose", "response_2": "lose", "model_2": "lose", "b": "lose",
}  # fmt: skip
TRUE, FALSE = ("true", "1", "yes", "y"), ("", "false", "0", "no", "n")
LONGEST_NAME = 200
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class _Reading:
    """The problems met so far in one record."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.problems: list[Problem] = []

    def complain(self, column: str, expected: str, found: str, sentence: str) -> None:
        record = self.record
        self.problems.append(Problem(record.file, record.line, column, expected, found, sentence))

    def text(self, column: str, required: bool = False) -> str:
        """The value of a column as text; JSON's `true` and numbers are their own text."""
        value: Any = self.record.values.get(column)
        if isinstance(value, str):
            fault = unstorable(value)
            if fault:
                self.complain(column, "text", fault, f"{column} holds {fault}, which is not text.")
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if value is None and not required:
            return ""
        found = kind(value) if column in self.record.values else "nothing"
        self.complain(column, "text", found, f"{column} should be text, found {found}.")
        return ""

    def name(self, column: str) -> str:
        """A short text on one line: an id, a model, a category."""
        if not column:
            return ""
        value = self.text(column).strip()
        if len(value) > LONGEST_NAME:
            sentence = f"{column} may have {LONGEST_NAME} characters, it has {len(value)}."
            self.complain(column, f"at most {LONGEST_NAME}", str(len(value)), sentence)
        elif CONTROLS.search(value) and not unstorable(value):
            sentence = f"{column} should be on one line, found {quoted(value)}."
            self.complain(column, "one line of text", quoted(value), sentence)
        return value

    def label(self, column: str) -> str | None:
        value = self.name(column)
        if not value:
            return None
        label = LABELS.get(value.casefold().replace(" ", "_"))
        if label is None:
            expected = "win, tie or lose (or 1, 0, 2)"
            sentence = f"{column} should be {expected}, found {quoted(value)}."
            self.complain(column, expected, quoted(value), sentence)
        return label

    def flag(self, column: str) -> bool:
        value = self.name(column).casefold()
        if value not in TRUE and value not in FALSE:
            sentence = f"{column} should be true or false, found {quoted(value)}."
            self.complain(column, "true or false", quoted(value), sentence)
        return value in TRUE

    def models(self, column: str) -> tuple[str, str]:
        """Two model names in one, `bloom-7b_llama-7b`."""
        value = self.name(column)
        names = value.split("_")
        if len(names) == 2:
            return names[0], names[1]
        if value:
            sentence = f"{column} should be two model names with one _ between, found {value!r}."
            self.complain(column, "two model names", quoted(value), sentence)
        return "", ""


def to_example(record: Record, columns: Columns) -> ExampleRow | Refused:
    """The example that a record describes, or all that is wrong with it."""
    reading = _Reading(record)
    sources = columns.sources

    def first(field: str) -> str:
        return sources[field][0] if field in sources else ""

    parts = [reading.text(column, required=True) for column in sources["question"]]
    question = "\n\n".join(part for part in parts if part)
    if not question.strip() and not reading.problems:
        column = first("question")
        reading.complain(column, "a question", "nothing", f"{column} is empty.")
    models = (reading.name(first("model_1")), reading.name(first("model_2")))
    if columns.both_models:
        models = reading.models(columns.both_models)
    example = ExampleRow(
        record.file,
        record.line,
        record.raw,
        external_id=reading.name(first("external_id")),
        question=question,
        response_1=reading.text(first("response_1"), required=True),
        response_2=reading.text(first("response_2"), required=True),
        model_1=models[0],
        model_2=models[1],
        category=reading.name(first("category")),
        gold_label=reading.label(first("gold_label")),
        is_check=reading.flag(first("is_check")),
    )
    if example.is_check and example.gold_label is None and not reading.problems:
        column = first("gold_label") or "gold_label"
        sentence = "A check example needs its known label in gold_label."
        reading.complain(column, "a known label", "nothing", sentence)
    return Refused(tuple(reading.problems), record.raw) if reading.problems else example


DIGITS = 16
LINE_BITS = 32
IDENTITY_FIELDS = (
    "question", "response_1", "response_2", "model_1", "model_2",
    "category", "gold_label", "is_check",
)  # fmt: skip


def content_id(row: ExampleRow) -> str:
    """The first 16 hex digits of SHA-256 over question, responses and models."""
    parts = [*row.texts, row.model_1, row.model_2]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def differing(one: tuple[object, ...], other: tuple[object, ...]) -> list[str]:
    """The names of the fields in which the contents of two rows differ."""
    pairs = zip(IDENTITY_FIELDS, one, other, strict=True)
    return [field for field, here, there in pairs if here != there]


class Identities:
    """Remembers what has been read so far, as hashes: about 200 bytes a row, however long."""

    def __init__(self) -> None:
        self._generated: Counter[str] = Counter()
        self._seen: dict[int, int] = {}

    def settle(self, row: ExampleRow) -> ExampleRow | Refused:
        """The row with its id, or the conflict with an earlier row of the same id."""
        if not row.external_id:
            base = content_id(row)
            self._generated[base] += 1
            count = self._generated[base]
            row = replace(row, external_id=base if count == 1 else f"{base}-{count}")
        seen = hash(row.content) << LINE_BITS | row.line
        earlier = self._seen.setdefault(hash(row.external_id), seen)
        if earlier >> LINE_BITS == seen >> LINE_BITS:
            return row
        line = earlier & (1 << LINE_BITS) - 1
        found = quoted(row.external_id)
        sentence = (
            f"The id {found} stands on line {line} with other content. "
            "Give each pair an id of its own, or map another column to external_id."
        )
        problem = Problem(row.file, row.line, "external_id", "an id of its own", found, sentence)
        return Refused((problem,), row.raw)
