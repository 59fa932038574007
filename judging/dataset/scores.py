"""Scores that people gave single responses become items and human scores: whole or not at all.

A row names input, output, criterion, rater and score, as WebNLG+ and TMU-GFM do. The same output of
the same model for the same input is one item, whichever rows are about it. The same file again adds
nothing. Another score by the same rater of the same item and criterion is listed as a conflict, and
the one that is there stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from judging.core import leases
from judging.core.errors import UserError
from judging.core.leases import Chunks, Lease, delete_rows, in_chunks
from judging.core.sql.statements import rows_came
from judging.core.text import a_name, is_name
from judging.dataset.files import Records, check_format
from judging.dataset.models import HumanScore, Import, PointItem
from judging.dataset.records import (
    Cells,
    Compared,
    Place,
    Record,
    Refused,
    compare,
    content_id,
    plain,
)
from judging.dataset.whole_files import SHOWN, accepted, record_import
from judging.dataset.writing import tell_of_import
from judging.projects import access
from judging.projects.models import Project

FORMATS = ("auto", "csv", "tsv", "jsonl", "json")
# The column of a score has six digits before the point, and six after it.
LARGEST = Decimal("999999.999999")
PLACES = Decimal("0.000001")
# A call's part holds the criterion, behind `item:`.
LONGEST_CRITERION = 50
CHUNK = 1000
LEASE = Lease(timedelta(seconds=60))
# The key in a summary for the scores that the import gave to items of earlier imports.
BORROWED = "scores_of_earlier_items"
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

    place: Place
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

    @property
    def key(self) -> tuple[str, str, str]:
        return self.external_id, self.criterion, self.rater

    def conflict(self, held: Decimal) -> str | None:
        if held == self.value:
            return None
        return (
            f"{self.rater} scored {self.criterion} of {self.external_id} {held.normalize():f} "
            f"before, now {self.value}. The earlier score stays."
        )


@dataclass(frozen=True, slots=True)
class CheckedScores:
    """The scores of a file in which no row is wrong, each once."""

    path: Path
    sha256: str
    rows: Sequence[ScoreRow]


@dataclass(frozen=True, slots=True)
class ScoresImported:
    """What a file added, or would add; `number` is None if nothing was written."""

    number: int | None
    items: int
    scores: int
    known: int
    conflicts: tuple[str, ...]


Keep = Callable[[ScoresImported], object]


def import_scores(
    project: Project | None,
    user: Any,
    path: Path,
    *,
    file_format: str = "auto",
    rater: str = "",
    sheet: str = "",
    dry_run: bool = False,
    keep: Keep = lambda done: None,
) -> ScoresImported:
    """Check a file and write its scores, as `check_scores` and `write_scores` do."""
    checked = check_scores(path, file_format, rater, sheet)
    return write_scores(project, user, checked, dry_run=dry_run, keep=keep)


def check_scores(
    path: Path, file_format: str = "auto", rater: str = "", sheet: str = ""
) -> CheckedScores:
    """Read a file of scores once. Raises UserError with the lines that are wrong.

    Args:
        rater: who scored, for a file without such a column.
        sheet: of a workbook; by default the first one.
    """
    check_format(file_format, FORMATS)
    if rater and not is_name(rater):
        raise UserError(f"A rater's name is {a_name()}. Nothing was imported.")
    items: dict[str, ScoreRow] = {}
    scores: dict[tuple[str, str, str], ScoreRow] = {}

    def contradiction(row: ScoreRow) -> str | None:
        first = items.setdefault(row.external_id, row)
        before = scores.setdefault(row.key, row)
        if first.content != row.content:
            return f"the item {row.external_id} is on line {first.place.line} with other texts."
        if before.value != row.value:
            return (
                f"{row.rater} scored {row.criterion} of {row.external_id} in line "
                f"{before.place.line} already, as {before.value}."
            )
        return None

    records = Records([path], file_format, sheet)
    rows = (r if isinstance(r, Refused) else _row(r, rater) for r in records)
    # `contradiction` keeps the rows, each once.
    for _ in accepted(rows, contradiction, [path], "score"):
        pass
    return CheckedScores(path, records.sha256, tuple(scores.values()))


def _row(record: Record, rater: str) -> ScoreRow | Refused:
    cells = Cells(record, columns_of(record.values), booleans=False)
    cells.refuse_twins()
    texts = cells.text("input"), cells.text("output"), cells.name("model")
    if not texts[1].strip() and not cells.problems:
        cells.complain("output", "output is empty: there is nothing to score.")
    expected = f"a number from -{LARGEST} to {LARGEST}, with at most six decimals"
    value = cells.decimal("score", -LARGEST, LARGEST, expected=expected, step=PLACES, required=True)
    row = ScoreRow(
        record.place,
        cells.name("external_id") or content_id(texts),
        *texts,
        criterion=cells.name("criterion", longest=LONGEST_CRITERION, required=True),
        rater=cells.name("rater", required=not rater) or rater,
        value=value or Decimal(0),
    )
    return cells.refused() or row


def columns_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Find each field's column, without case and punctuation; the first alias there is."""
    free = {plain(name): name for name in reversed(list(values)) if name}
    columns = {}
    for field, aliases in ALIASES.items():
        name = next((free[alias] for alias in aliases if alias in free), None)
        if name is not None:
            columns[field] = name
    return columns


def write_scores(
    project: Project | None,
    user: Any,
    checked: CheckedScores,
    *,
    dry_run: bool = False,
    keep: Keep = lambda done: None,
) -> ScoresImported:
    """Write the scores that the project doesn't have. Without a project, everything is new.

    Args:
        keep: Gets what is returned, in the last transaction. Not in a dry run.

    Raises UserError, with nothing written, if the project has an item's ID with other texts.
    """
    writes = project is not None and not dry_run
    if project is not None:
        access.need_texts(project, access.BRINGS_TEXTS)
    if writes:
        # An ID is there once in a project, so leftovers would keep theirs from the new items.
        remove_leftovers(project)
    items = _new_items(project, checked)
    compared = compare(checked.rows, _held_values(project), lambda row: row.key)
    conflicts = tuple(compared.conflicts)
    would = ScoresImported(None, len(items), len(compared.new), compared.n_known, conflicts)
    return _write(project, user, checked, items, compared, would, keep) if writes else would


def remove_leftovers(project: Project) -> None:
    """Delete what imports left that were undone, or cut off while they were written.

    Raises UserError if another import of scores is being written.
    """
    ours = Import.objects.filter(project=project, kind=Import.Kind.POINTS)
    for imported in ours.filter(state=Import.State.WRITING):
        if not (leases.is_dead(imported.holder) or leases.is_over(imported.lease_until)):
            raise UserError(
                f"Import {imported.number} of this project is being written. Nothing was changed. "
                "Try again once it is done."
            )
        same = LEASE.unchanged(ours.filter(pk=imported.pk), imported.holder, imported.lease_until)
        same.update(state=Import.State.UNDONE, **leases.FREE)
    for imported in ours.filter(state=Import.State.UNDONE):
        _delete_rows(imported)


def _delete_rows(imported: Import) -> None:
    for scores in _chunks(imported.summary.get(BORROWED, [])):
        borrowed = HumanScore.objects.filter(pk__in=scores)
        in_chunks(borrowed, lambda keys: delete_rows(HumanScore, pk__in=keys))

    def delete(keys: list[int]) -> None:
        delete_rows(HumanScore, point_item__in=keys)
        delete_rows(PointItem, pk__in=keys)

    in_chunks(PointItem.objects.filter(source=imported), delete, CHUNK)


def _new_items(project: Project | None, checked: CheckedScores) -> list[ScoreRow]:
    """Return one row of each item that the project doesn't have. No item has the project None."""
    visible = PointItem.objects.filter(project=project).visible()
    contents = visible.values_list("external_id", "input", "output", "model")
    there = {name: tuple(content) for name, *content in contents.iterator(chunk_size=5000)}
    new: dict[str, ScoreRow] = {}
    for row in checked.rows:
        content = there.get(row.external_id)
        if content is None:
            new.setdefault(row.external_id, row)
        elif content != row.content:
            raise UserError(
                f"Nothing was imported.\n{row.place}: the item {row.external_id} is in the "
                "project with other texts. Give it another id."
            )
    return list(new.values())


def _held_values(project: Project | None) -> dict[tuple[str, str, str], Decimal]:
    scores = HumanScore.objects.filter(point_item__project=project)
    visible = scores.filter(point_item__source__state=Import.State.DONE)
    rows = visible.values_list("point_item__external_id", "criterion", "rater", "value")
    return {(name, criterion, rater): value for name, criterion, rater, value in rows}


def _write(
    project: Project,
    user: Any,
    checked: CheckedScores,
    items: Sequence[ScoreRow],
    compared: Compared[ScoreRow],
    would: ScoresImported,
    keep: Keep,
) -> ScoresImported:
    """Write in short transactions. Everything but scores of earlier items is seen at the end."""
    holder = leases.new_holder()
    with transaction.atomic():
        # Two imports at once: the second one finds the first.
        Project.objects.select_for_update(no_key=True).only("pk").get(pk=project.pk)
        imports = Import.objects.filter(project=project, kind=Import.Kind.POINTS)
        if imports.filter(state=Import.State.WRITING).exists():
            raise UserError(
                "Another file of scores is being imported. Nothing was changed. Try again once it "
                "is done."
            )
        imported = record_import(
            project,
            user,
            Import.Kind.POINTS,
            checked.path,
            checked.sha256,
            len(checked.rows),
            compared,
            summary={"items": len(items), "conflicts": compared.conflicts[:SHOWN]},
            holder=holder,
            lease_until=LEASE.end(),
            state=Import.State.WRITING,
        )
        last = PointItem.objects.filter(project=project).aggregate(last=Max("number"))["last"]
    ours = Import.objects.filter(pk=imported.pk, state=Import.State.WRITING)
    _add_items(imported, ours, items, 0 if last is None else last + 1)
    _add_scores(imported, ours, compared.new)
    with transaction.atomic():
        _keep(ours, imported, state=Import.State.DONE, finished_at=timezone.now())
        Import.objects.filter(pk=imported.pk).update(**leases.FREE)
        access.record_event(
            project, user, "scores imported", f"import {imported.number}",
            file=checked.path.name, sha256=checked.sha256,
        )  # fmt: skip
        tell_of_import(imported.pk)
        done = replace(would, number=imported.number)
        keep(done)
    return done


def _keep(ours: QuerySet[Import], imported: Import, **fields: Any) -> None:
    """Make sure that nobody undid the import, as the first statement of a chunk."""
    if not LEASE.renew(ours, imported.holder, **fields):
        raise UserError(
            f"Import {imported.number} was undone while it was written. Nothing of it is left."
        )


def _add_items(
    imported: Import, ours: QuerySet[Import], rows: Sequence[ScoreRow], start: int
) -> None:
    done, chunks = 0, Chunks()
    while chunk := rows[done : done + min(chunks.size, CHUNK)]:
        with chunks.transaction():
            _keep(ours, imported)
            PointItem.objects.bulk_create(
                PointItem(
                    project_id=imported.project_id,
                    source=imported,
                    external_id=row.external_id,
                    number=number,
                    input=row.input,
                    output=row.output,
                    model=row.model,
                )
                for number, row in enumerate(chunk, start + done)
            )
        done += len(chunk)
    rows_came(done, PointItem)


def _add_scores(imported: Import, ours: QuerySet[Import], rows: Sequence[ScoreRow]) -> None:
    """Add scores, those of items that were there before last, since they are seen at once.

    The latter are listed, so that an undo finds them.
    """
    items = PointItem.objects.filter(project=imported.project_id)
    there = items.values_list("external_id", "pk", "source_id")
    known = {name: (pk, source) for name, pk, source in there}
    rows = sorted(rows, key=lambda row: known[row.external_id][1] != imported.pk)
    done, chunks = 0, Chunks()
    while chunk := rows[done : done + min(chunks.size, CHUNK)]:
        with chunks.transaction():
            made = HumanScore.objects.bulk_create(
                HumanScore(
                    point_item_id=known[row.external_id][0],
                    criterion=row.criterion,
                    rater=row.rater,
                    value=row.value,
                )
                for row in chunk
            )
            elsewhere = [
                score.pk
                for score, row in zip(made, chunk, strict=True)
                if known[row.external_id][1] != imported.pk
            ]
            if elsewhere:
                # It is written with the chunk, so that an undo of half an import finds them, too.
                imported.summary[BORROWED] = imported.summary.get(BORROWED, []) + elsewhere
            _keep(ours, imported, summary=imported.summary)
        done += len(chunk)
    rows_came(done, HumanScore)


def undo_scores(imported: Import, user: Any) -> bool:
    """Undo an import of scores; False if it was undone before.

    Raises UserError if its items have been judged, or if later files scored them: those stay.
    """
    with transaction.atomic():
        # A run that claims calls about these items, and another import, wait here.
        Project.objects.select_for_update(no_key=True).only("pk").get(pk=imported.project_id)
        items = PointItem.objects.filter(source=imported)
        if connection.features.has_select_for_update:
            list(items.select_for_update().values_list("pk", flat=True))
        _check_undoing(imported, items)
        others = Import.objects.filter(pk=imported.pk).exclude(state=Import.State.UNDONE)
        if not others.update(state=Import.State.UNDONE):
            return False
        access.record_event(imported.project, user, "import undone", f"import {imported.number}")
    # Nobody sees them any more. If this is cut off, the next import of scores goes on.
    _delete_rows(imported)
    return True


def _check_undoing(imported: Import, items: QuerySet[PointItem]) -> None:
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
    borrowed = [pk for each in later for pk in each.summary.get(BORROWED, [])]
    theirs = HumanScore.objects.filter(point_item__source=imported)
    if any(theirs.filter(pk__in=scores).exists() for scores in _chunks(borrowed)):
        raise UserError(
            f"A later import scored items of import {imported.number}. Undo that one first. "
            "Nothing was changed."
        )


def _chunks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Part IDs into as many as a database takes in one query."""
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))
