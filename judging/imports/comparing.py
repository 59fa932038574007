"""What of a file a project holds already, and where the two disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judging.imports.ids import FIELDS, differing
from judging.imports.records import ExampleRow
from judging.models.examples import Example

CHUNK = 1000
SHOWN_CONFLICTS = 100


@dataclass(frozen=True, slots=True)
class Conflict:
    """A row whose id the project holds with other content. The project's example stays."""

    file: str
    line: int
    external_id: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{Path(self.file).name}, line {self.line}: the id {self.external_id!r} is in the "
            f"project with another {' and '.join(self.fields)}. The project's example stays."
        )


@dataclass(slots=True)
class Compared:
    new: list[ExampleRow] = field(default_factory=list)
    n_known: int = 0
    conflicts: list[Conflict] = field(default_factory=list)


def compare(project_id: int, rows: Sequence[ExampleRow]) -> Compared:
    """Part rows into new ones, ones that the project holds, and conflicts, with one query."""
    there = Example.objects.filter(
        project_id=project_id, external_id__in=[row.external_id for row in rows]
    )
    known = {external_id: tuple(content) for external_id, *content in
             there.values_list("external_id", *FIELDS)}  # fmt: skip
    compared = Compared()
    for row in rows:
        held = known.setdefault(row.external_id, ())
        if not held:
            compared.new.append(row)
            known[row.external_id] = row.content
        elif held == row.content:
            compared.n_known += 1
        else:
            fields = tuple(differing(row.content, held))
            compared.conflicts.append(Conflict(row.file, row.line, row.external_id, fields))
    return compared


class Comparison:
    """Compares rows to a project as they come, a thousand at a time."""

    def __init__(self, project_id: int) -> None:
        self.n_new = self.n_known = self.n_conflicts = 0
        self.conflicts: list[Conflict] = []
        self._project_id = project_id
        self._waiting: list[ExampleRow] = []

    def watch(self, row: ExampleRow) -> None:
        self._waiting.append(row)
        if len(self._waiting) == CHUNK:
            self.settle()

    def settle(self) -> None:
        """Compare what still waits; to be called after the last row."""
        self.add(compare(self._project_id, self._waiting))
        self._waiting.clear()

    def add(self, compared: Compared) -> None:
        self.n_new += len(compared.new)
        self.n_known += compared.n_known
        self.n_conflicts += len(compared.conflicts)
        self.conflicts += compared.conflicts[: SHOWN_CONFLICTS - len(self.conflicts)]
