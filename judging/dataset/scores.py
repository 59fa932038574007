"""Reading what people scored single responses: one row a score, by line.

A row names input, output, criterion, rater and score, as WebNLG+ and TMU-GFM do. The same output
of the same model for the same input is one item, however many rows speak of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from judging.core.errors import UserError
from judging.core.text import unstorable
from judging.dataset import files
from judging.dataset.models import HumanScore, Import, PointItem
from judging.dataset.records import CONTROLS, SHOWN, Problem, Record, Refused, plain, quoted, refuse
from judging.dataset.uploads import digest
from judging.projects import access
from judging.projects.access import next_number
from judging.projects.models import Project

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
    for record in files.records([path], file_format):
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


CHUNK = 1000
# In a summary: the scores that the import gave items of earlier imports.
BORROWED = "scores_of_earlier_items"
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class ScoresImported:
    """number is None for a dry run."""

    number: int | None
    items: int
    scores: int
    known: int
    conflicts: tuple[str, ...]


def import_scores(
    project: Project | None,
    user: Any,
    path: Path,
    *,
    file_format: str = "auto",
    rater: str = "",
    dry_run: bool = False,
) -> ScoresImported:
    """Raises UserError with the lines that are wrong, and nothing written.

    Without a project, as in a dry run of a new one, everything is new.
    """
    sha256 = digest([path])
    rows = all_rows(path, file_format, rater)
    with transaction.atomic():
        if project is not None:
            # Two imports at once wait here for each other.
            Project.objects.select_for_update(no_key=True).only("pk").get(pk=project.pk)
        fresh = compare(project, rows, path)
        if dry_run or project is None:
            number = None
        else:
            number = write(project, user, path, sha256, fresh, len(rows))
    return ScoresImported(
        number, len(fresh.items), len(fresh.scores), fresh.known, tuple(fresh.conflicts)
    )


def all_rows(path: Path, file_format: str, rater: str) -> list[ScoreRow]:
    rows: list[ScoreRow] = []
    problems: list[str] = []
    items: dict[str, ScoreRow] = {}
    scored: dict[Key, ScoreRow] = {}
    for row in read_scores(path, file_format, rater):
        if isinstance(row, Refused):
            problems += [f"{one.place}: {one.sentence}" for one in row.problems]
            continue
        first = items.setdefault(row.external_id, row)
        before = scored.setdefault((row.external_id, row.criterion, row.rater), row)
        if first.content != row.content:
            problems.append(
                f"{path.name}, line {row.line}: the item {row.external_id} stands on line "
                f"{first.line} with other texts."
            )
        elif before is not row and before.value != row.value:
            problems.append(
                f"{path.name}, line {row.line}: {row.rater} scored {row.criterion} of "
                f"{row.external_id} in line {before.line} already, as {before.value}."
            )
        elif before is row:
            rows.append(row)
    refuse(problems)
    if not rows:
        raise UserError(f"{path.name} holds no score. Nothing was imported.")
    return rows


@dataclass(frozen=True, slots=True)
class Fresh:
    """What a file adds: one row of each new item, and the new scores."""

    items: list[ScoreRow]
    scores: list[ScoreRow]
    known: int
    conflicts: list[str]


def compare(project: Project | None, rows: Sequence[ScoreRow], path: Path) -> Fresh:
    items, values = {}, {}
    if project is not None:
        visible = PointItem.objects.filter(project=project).visible()
        there = visible.values_list("external_id", "input", "output", "model")
        items = {name: tuple(content) for name, *content in there.iterator(chunk_size=5000)}
        values = held_values(project)
    fresh = Fresh([], [], sum((r.external_id, r.criterion, r.rater) in values for r in rows), [])
    new: set[str] = set()
    for row in rows:
        content = items.get(row.external_id)
        if content is not None and content != row.content:
            raise UserError(
                f"Nothing was imported.\n{path.name}, line {row.line}: the item "
                f"{row.external_id} is in the project with other texts. Give it another id."
            )
        if content is None and row.external_id not in new:
            new.add(row.external_id)
            fresh.items.append(row)
        held = values.get((row.external_id, row.criterion, row.rater))
        if held is None:
            fresh.scores.append(row)
        elif held != row.value:
            fresh.conflicts.append(
                f"line {row.line}: {row.rater} scored {row.criterion} of {row.external_id} "
                f"{held.normalize():f} before, now {row.value}. The earlier score stays."
            )
    return fresh


def held_values(project: Project) -> dict[Key, Decimal]:
    scores = HumanScore.objects.filter(point_item__project=project)
    visible = scores.filter(point_item__source__state=Import.State.DONE)
    rows = visible.values_list("point_item__external_id", "criterion", "rater", "value")
    return {(name, criterion, rater): value for name, criterion, rater, value in rows}


def write(project: Project, user: Any, path: Path, sha256: str, fresh: Fresh, n_rows: int) -> int:
    imported = Import.objects.create(
        project=project,
        number=next_number(project, Import),
        kind=Import.Kind.POINTS,
        state=Import.State.DONE,
        file_names=[path.name],
        sha256=sha256,
        n_rows=n_rows,
        n_written=len(fresh.scores),
        n_known=fresh.known - len(fresh.conflicts),
        n_conflicts=len(fresh.conflicts),
        summary={"items": len(fresh.items), "conflicts": fresh.conflicts[:SHOWN]},
        created_by=user,
        finished_at=timezone.now(),
    )
    last = PointItem.objects.filter(project=project).aggregate(last=Max("number"))["last"]
    PointItem.objects.bulk_create(
        [
            PointItem(
                project=project,
                source=imported,
                external_id=row.external_id,
                number=number,
                input=row.input,
                output=row.output,
                model=row.model,
            )
            for number, row in enumerate(fresh.items, 0 if last is None else last + 1)
        ],
        batch_size=CHUNK,
    )
    add_scores(imported, fresh.scores)
    access.record_event(
        project, user, "scores imported", f"import {imported.number}", file=path.name, sha256=sha256
    )
    return imported.number


def add_scores(imported: Import, rows: Sequence[ScoreRow]) -> None:
    """Those of items that were there before are listed, so that an undo finds them."""
    items = PointItem.objects.filter(project=imported.project_id)
    place = {name: (pk, source) for name, pk, source in
             items.values_list("external_id", "pk", "source_id")}  # fmt: skip
    made = HumanScore.objects.bulk_create(
        [
            HumanScore(
                point_item_id=place[row.external_id][0],
                criterion=row.criterion,
                rater=row.rater,
                value=row.value,
            )
            for row in rows
        ],
        batch_size=CHUNK,
    )
    elsewhere = [
        score.pk
        for score, row in zip(made, rows, strict=True)
        if place[row.external_id][1] != imported.pk
    ]
    if elsewhere:
        imported.summary[BORROWED] = elsewhere
        imported.save(update_fields=["summary"])


def undo_scores(imported: Import, user: Any) -> bool:
    """Take an import of scores back; False when it was undone before.

    Raises UserError when its items have been judged, or later files scored them: those stay.
    """
    with transaction.atomic():
        # A run that claims calls about these items, and another import, wait here.
        Project.objects.select_for_update(no_key=True).only("pk").get(pk=imported.project_id)
        items = PointItem.objects.filter(source=imported)
        list(items.select_for_update().values_list("pk", flat=True))
        check_undoing(imported, items)
        others = Import.objects.filter(pk=imported.pk).exclude(state=Import.State.UNDONE)
        if not others.update(state=Import.State.UNDONE):
            return False
        for scores in chunks(imported.summary.get(BORROWED, [])):
            HumanScore.objects.filter(pk__in=scores).delete()
        items.delete()
        access.record_event(imported.project, user, "import undone", f"import {imported.number}")
    return True


def check_undoing(imported: Import, items: QuerySet[PointItem]) -> None:
    if imported.state == Import.State.DONE and items.filter(calls__isnull=False).exists():
        raise UserError(
            f"Items of import {imported.number} have been judged, so they stay. "
            "Nothing was changed."
        )
    later = Import.objects.filter(
        project=imported.project_id,
        kind=Import.Kind.POINTS,
        state=Import.State.DONE,
        number__gt=imported.number,
    )
    borrowed = [pk for one in later for pk in one.summary.get(BORROWED, [])]
    theirs = HumanScore.objects.filter(point_item__source=imported)
    if any(theirs.filter(pk__in=scores).exists() for scores in chunks(borrowed)):
        raise UserError(
            f"A later import scored items of import {imported.number}. Undo that one first. "
            "Nothing was changed."
        )


def chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """A database takes so many values in a query."""
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))
