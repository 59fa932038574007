"""Turning a record into an example, once its columns are known."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

from judging.core.text import unstorable
from judging.dataset.jsonrecords import kind
from judging.dataset.records import Columns, ExampleRow, Problem, Record, Refused, quoted

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
FIELDS = (
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
    pairs = zip(FIELDS, one, other, strict=True)
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
