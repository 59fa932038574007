"""Reading what people scored single responses: one row a score, by line.

A row names input, output, criterion, rater and score, as WebNLG+ and TMU-GFM do. The same output
of the same model for the same input is one item, however many rows speak of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from judging.errors import UserError
from judging.imports import layouts
from judging.imports.columns import plain
from judging.imports.encodings import unstorable
from judging.imports.examples import CONTROLS
from judging.imports.problems import Problem, Refused, quoted
from judging.imports.records import Record

FORMATS = ("auto", "csv", "tsv", "jsonl", "json")
DIGITS = 16
LARGEST = Decimal(10) ** 6
PLACES = Decimal("0.000001")
# The criterion stands in a call's part, behind `item:`.
LONGEST = {"criterion": 50, "rater": 200, "model": 200, "external_id": 200}
ALIASES = {
    "external_id": ("externalid", "itemid", "id"),
    "input": ("input", "source", "prompt", "question"),
    "output": ("output", "response", "hypothesis", "text"),
    "model": ("model", "system"),
    "criterion": ("criterion", "metric", "aspect", "dimension"),
    "rater": ("rater", "annotator", "worker"),
    "score": ("score", "value", "rating"),
}


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One score of one item by one person."""

    line: int
    external_id: str
    input: str
    output: str
    model: str
    criterion: str
    rater: str
    value: Decimal

    @property
    def content(self) -> tuple[str, str, str]:
        return self.input, self.output, self.model


def read_scores(path: Path, file_format: str, rater: str = "") -> Iterator[ScoreRow | Refused]:
    """rater: who scored, where the file has no such column."""
    if file_format not in FORMATS:
        raise UserError(f"There is no format {file_format}. Use one of {', '.join(FORMATS)}.")
    if len(rater) > LONGEST["rater"] or CONTROLS.search(rater):
        raise UserError(
            f"A rater's name is one line of at most {LONGEST['rater']} characters. "
            "Nothing was imported."
        )
    for record in layouts.records([path], file_format):
        yield record if isinstance(record, Refused) else _row(record, rater)


def content_id(content: tuple[str, str, str]) -> str:
    """The first 16 hex digits of SHA-256 over input, output and model."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _row(record: Record, rater: str) -> ScoreRow | Refused:
    cells = _Cells(record)
    texts = cells.text("input"), cells.text("output"), cells.name("model")
    if not texts[1].strip() and not cells.problems:
        cells.complain("output", "a text", "nothing", "output is empty: there is nothing to score.")
    found = ScoreRow(
        line=record.line,
        external_id=cells.name("external_id") or content_id(texts),
        input=texts[0],
        output=texts[1],
        model=texts[2],
        criterion=cells.name("criterion", required=True),
        rater=cells.name("rater") or rater or cells.missing("rater"),
        value=cells.score(),
    )
    return Refused(tuple(cells.problems), record.raw) if cells.problems else found


class _Cells:
    """The values of a record by field, and the problems met so far."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.problems: list[Problem] = []
        self.columns = columns_of(record.values)

    def complain(self, field: str, expected: str, found: str, sentence: str) -> None:
        column = self.columns.get(field, field)
        place = self.record.file, self.record.line
        self.problems.append(Problem(*place, column, expected, found, sentence))

    def text(self, field: str) -> str:
        value = self.record.values.get(self.columns.get(field, ""))
        if value is None:
            return ""
        if isinstance(value, bool | dict | list):
            self.complain(field, "text", "something else", f"{field} should be text or a number.")
            return ""
        text = str(value)
        if fault := unstorable(text):
            self.complain(field, "text", fault, f"{field} holds {fault}, which is not text.")
            return ""
        return text

    def name(self, field: str, *, required: bool = False) -> str:
        text = self.text(field).strip()
        if len(text) > LONGEST[field]:
            most = LONGEST[field]
            sentence = f"{field} may have {most} characters, it has {len(text)}."
            self.complain(field, f"at most {most}", str(len(text)), sentence)
        elif CONTROLS.search(text):
            sentence = f"{field} should be on one line, found {quoted(text)}."
            self.complain(field, "one line of text", quoted(text), sentence)
        elif required and not text:
            self.missing(field)
        return text

    def missing(self, field: str) -> str:
        there = field in self.columns
        sentence = f"{field} is empty." if there else f"There is no column {field}."
        self.complain(field, "a value", "nothing", sentence)
        return ""

    def score(self) -> Decimal:
        text = self.text("score").strip()
        if not text:
            self.missing("score")
            return Decimal(0)
        try:
            value = Decimal(text)
        except InvalidOperation:
            value = Decimal("NaN")
        if not value.is_finite() or abs(value) > LARGEST or value.quantize(PLACES) != value:
            expected = f"a number of at most {LARGEST} and six decimals"
            sentence = f"score should be {expected}, found {quoted(text)}."
            self.complain("score", expected, quoted(text), sentence)
            return Decimal(0)
        return value


def columns_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Which column is which field, without case and punctuation; the first alias there is."""
    free = {plain(name): name for name in reversed(list(values)) if name}
    found = {}
    for field, aliases in ALIASES.items():
        name = next((free[alias] for alias in aliases if alias in free), None)
        if name is not None:
            found[field] = name
    return found
