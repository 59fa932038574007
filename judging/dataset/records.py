"""What is wrong or remarkable in a file that someone wants to import."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judging.core.errors import UserError

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


ESCAPE_COLUMN = "fairjudge_escape"
ESCAPED = "1"
_DANGEROUS = re.compile(r"'*[=+\-@\t\r]")
_ESCAPED_CELL = re.compile(r"'+[=+\-@\t\r]")


def escape_cell(cell: str) -> str:
    return "'" + cell if _DANGEROUS.match(cell) else cell


def unescape_cell(cell: str) -> str:
    return cell[1:] if _ESCAPED_CELL.match(cell) else cell


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
