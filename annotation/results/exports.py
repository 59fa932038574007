"""Exports of labels, votes, samples and preferences, streamed, and put on record."""

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AbstractUser

from annotation.results import labels_table, preferences_table, samples_table, votes_table
from annotation.results.cells import as_cell, as_json
from annotation.results.preferences_table import Preferences
from judging import audit
from judging.errors import UserError
from judging.imports.escape import ESCAPE_COLUMN, ESCAPED, escape_cell
from judging.models.exports import Export
from judging.models.projects import Project
from judging.models.runs import Run

KINDS = ("labels", "votes", "samples", "preferences")
FORMATS = ("csv", "jsonl")
_ROWS_A_PIECE = 200
MOST_NAMED = 1000


@dataclass(frozen=True)
class Wanted:
    """What to export. `escape` protects spreadsheets; JSON lines are never changed.

    Preferences are JSON lines whatever `format` says: nothing that trains reads them from a table.
    """

    what: str = "labels"
    format: str = "csv"
    names: bool = False
    escape: bool = True

    def __post_init__(self) -> None:
        if self.what == "preferences":
            object.__setattr__(self, "format", "jsonl")

    @property
    def escaped(self) -> bool:
        return self.escape and self.format == "csv"


def export(
    project: Project, run: Run | None, user: AbstractUser | None, wanted: Wanted
) -> Iterator[bytes]:
    """The file, piece by piece in constant memory. Its hash is put on record with the last piece.

    Raises UserError before the first piece when there is nothing to export.
    """
    if wanted.what not in KINDS or wanted.format not in FORMATS:
        raise UserError(f"Export one of {', '.join(KINDS)} as {' or '.join(FORMATS)}.")
    if wanted.what == "samples" and run is None:
        raise UserError("Samples belong to a run, and this project has none yet.")
    if wanted.what == "preferences":
        found = Preferences(project, run)
        lines = _lines(preferences_table.COLUMNS, found.rows(), wanted)
        return _recorded(project, run, user, wanted, lines, found)
    columns, rows = _table(project, run, wanted)
    return _recorded(project, run, user, wanted, _lines(columns, rows, wanted))


def file_name(project: Project, run: Run | None, wanted: Wanted) -> str:
    """`vicuna-run2-labels.csv`."""
    part = f"-run{run.number}" if run and wanted.what != "votes" else ""
    return f"{project.slug}{part}-{wanted.what}.{wanted.format}"


def _table(
    project: Project, run: Run | None, wanted: Wanted
) -> tuple[Sequence[str], Iterator[dict[str, Any]]]:
    if wanted.what == "votes":
        rows = votes_table.vote_rows(project, names=wanted.names)
        return votes_table.vote_columns(project), rows
    if wanted.what == "samples" and run is not None:
        return samples_table.COLUMNS, samples_table.sample_rows(run)
    return labels_table.COLUMNS, labels_table.label_rows(project, run, names=wanted.names)


def _lines(columns: Sequence[str], rows: Iterable[dict[str, Any]], wanted: Wanted) -> Iterator[str]:
    if wanted.format == "jsonl":
        for row in rows:
            ordered = {name: as_json(row.get(name)) for name in columns}
            yield json.dumps(ordered, ensure_ascii=False) + "\n"
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")

    def line(cells: Iterable[str]) -> str:
        buffer.seek(0)
        buffer.truncate()
        writer.writerow(cells)
        return buffer.getvalue()

    # The names of criteria are a person's text as well.
    yield line([*map(escape_cell, columns), ESCAPE_COLUMN] if wanted.escaped else columns)
    for row in rows:
        cells = [as_cell(row.get(name)) for name in columns]
        if wanted.escaped:
            cells = [*map(escape_cell, cells), ESCAPED]
        yield line(cells)


class _Sent:
    """What was handed over so far."""

    def __init__(self) -> None:
        self.digest, self.n_lines = hashlib.sha256(), 0

    def pieces(self, lines: Iterator[str]) -> Iterator[bytes]:
        piece: list[str] = []
        for text in lines:
            piece.append(text)
            # The first line goes off at once: what a large project takes to gather comes after it.
            if len(piece) >= _ROWS_A_PIECE or not self.n_lines:
                yield self._piece(piece)
                piece = []
        yield self._piece(piece)

    def _piece(self, lines: list[str]) -> bytes:
        data = "".join(lines).encode()
        self.digest.update(data)
        self.n_lines += len(lines)
        return data


def _recorded(
    project: Project,
    run: Run | None,
    user: AbstractUser | None,
    wanted: Wanted,
    lines: Iterator[str],
    preferences: Preferences | None = None,
) -> Iterator[bytes]:
    sent = _Sent()

    def tell(action: str) -> dict[str, Any]:
        n_rows = max(0, sent.n_lines - (wanted.format == "csv"))
        facts = {"rows": n_rows, "sha256": sent.digest.hexdigest(), "names": wanted.names}
        audit.record(project, user, action, file_name(project, run, wanted), **facts)
        return facts

    try:
        yield from sent.pieces(lines)
    except BaseException:
        # Whoever breaks off keeps what was sent before.
        tell("export broken off")
        raise
    options: dict[str, Any] = {"names": wanted.names, "escape": wanted.escaped}
    if preferences is not None:
        options["contradictory"] = preferences.contradictory[:MOST_NAMED]
    facts = tell("exported")
    Export.objects.create(
        project=project,
        run=run,
        what=wanted.what,
        format=wanted.format,
        options=options,
        n_rows=facts["rows"],
        sha256=facts["sha256"],
        created_by=user,
    )
