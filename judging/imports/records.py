"""What a file holds before and after its columns are understood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
