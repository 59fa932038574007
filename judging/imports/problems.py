"""What is wrong or remarkable in a file that someone wants to import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from judging.errors import UserError

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
