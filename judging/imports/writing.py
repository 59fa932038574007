"""The second pass: rows become examples, a thousand at a time, seen only when all are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import connection, transaction
from django.db.models import F, Max
from django.utils import timezone

from judging import audit
from judging.core.leases import new_holder
from judging.errors import UserError
from judging.imports import lease
from judging.imports.comparing import CHUNK, Comparison, compare
from judging.imports.ids import FIELDS
from judging.imports.preparing import as_sentences, digest, record_import
from judging.imports.problems import Refused
from judging.imports.reading import read_examples
from judging.imports.records import ExampleRow
from judging.imports.refused import RefusedFiles
from judging.imports.undoing import remove_leftovers
from judging.imports.uploads import files_of, remove_uploads
from judging.models.examples import Example
from judging.models.imports import Import
from judging.models.projects import Project
from judging.stopping import stop_requested
from judging.table_statistics import rows_came

State = Import.State
Advance = Callable[[int], None]


class TakenOver(Exception):
    """The import was undone, or another writer has it: this one leaves."""


def import_files(
    project: Project,
    user: AbstractUser | None,
    paths: Sequence[Path],
    *,
    file_format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    skip_invalid: bool = False,
    advance: Advance | None = None,
) -> Import:
    """Check files and write them, in this process; resumes where the same import was interrupted.

    `advance` is told how many rows were settled. Raises UserError, with nothing to be seen in the
    project, when a row is invalid and `skip_invalid` is not set.
    """
    unfinished = Import.objects.filter(
        project=project,
        state__in=(State.WRITING, State.INTERRUPTED),
        sha256=digest(paths),
        format=file_format,
        mapping=mapping or {},
    ).first()
    if unfinished:
        imported = lease.look_after(unfinished)
    else:
        imported = record_import(project, user, paths, file_format=file_format, mapping=mapping)
        try:
            refuse_invalid(imported, skip_invalid)
        except UserError as error:
            Import.objects.filter(pk=imported.pk).update(state=State.FAILED, reason=str(error))
            raise
    lease.begin(imported, skip_invalid=skip_invalid, background=False)
    if not write(imported.pk, advance):
        raise UserError(
            f"Import {imported.number} is in other hands: another process writes it, or it was "
            "undone. This one wrote nothing more."
        )
    imported.refresh_from_db()
    return imported


def refuse_invalid(imported: Import, skip_invalid: bool) -> None:
    """Raise UserError unless the import may be written."""
    found = imported.summary
    if not found["n_rows"]:
        raise UserError("No row of the file can be imported. Nothing was imported.")
    if found["fatal"]:
        raise UserError(
            "The file can't be read to its end. Nothing was imported. Mend it and import it again."
        )
    if found["n_problems"] and not skip_invalid:
        rows = "1 row is" if imported.n_refused == 1 else f"{imported.n_refused} rows are"
        raise UserError(
            f"{rows} invalid. Nothing was imported. Mend the file, or leave these rows out with "
            "--skip-invalid."
        )


def write(import_id: int, advance: Advance | None = None) -> bool:
    """Write an import that was begun, from where it stands; False when it isn't ours to write."""
    holder = new_holder()
    if not lease.take(import_id, holder):
        return False
    imported = Import.objects.select_related("project", "created_by").get(pk=import_id)
    try:
        remove_leftovers(imported.project_id)
        _write(imported, holder, advance or (lambda rows: None))
    except TakenOver:
        return False
    except UserError as error:
        lease.interrupt(import_id, holder, str(error))
        raise
    except BaseException:
        lease.interrupt(import_id, holder, lease.STOPPED)
        raise
    return True


def _write(imported: Import, holder: str, advance: Advance) -> None:
    paths = files_of(imported)
    if digest(paths) != imported.sha256:
        raise UserError("The file has changed since it was checked. Undo this import, start anew.")
    refused = RefusedFiles(paths, imported.format) if imported.skip_invalid else None
    seen = Comparison(imported.project_id)
    settled = imported.n_written + imported.n_known + imported.n_conflicts
    try:
        rows = islice(_accepted(imported, paths, refused), settled, None)
        advance(settled)
        while chunk := list(islice(rows, CHUNK)):
            if stop_requested.is_set():
                raise UserError(lease.STOPPED)
            _write_chunk(imported, holder, chunk, seen)
            advance(len(chunk))
        copies = refused.finish() if refused else []
    finally:
        if refused:
            refused.discard()
    # What was settled before an interruption is in the list of the first pass.
    conflicts = None if settled else as_sentences(seen.conflicts)
    _finish(imported, holder, conflicts, copies)


def _accepted(
    imported: Import, paths: list[Path], refused: RefusedFiles | None
) -> Iterator[ExampleRow]:
    for row in read_examples(paths, imported.format, imported.mapping):
        if not isinstance(row, Refused):
            yield row
        elif refused:
            refused.add(row)


def _write_chunk(imported: Import, holder: str, chunk: list[ExampleRow], seen: Comparison) -> None:
    """One short transaction; its first statement makes sure that the import is still ours."""
    held = Import.objects.filter(pk=imported.pk, state=State.WRITING, holder=holder)
    with transaction.atomic():
        if not held.update(lease_until=timezone.now() + lease.LEASE):
            raise TakenOver
        compared = compare(imported.project_id, chunk)
        seen.add(compared)
        others = Example.objects.filter(project=imported.project_id)
        last = others.aggregate(last=Max("number"))["last"]
        start = 0 if last is None else last + 1
        _insert(imported, start, compared.new)
        held.update(
            n_written=F("n_written") + len(compared.new),
            n_known=F("n_known") + compared.n_known,
            n_conflicts=F("n_conflicts") + len(compared.conflicts),
        )


def _insert(imported: Import, start: int, rows: list[ExampleRow]) -> None:
    """One statement for all rows; bulk_create, which prepares value by value, took twice as long
    as all the rest of an import."""
    fields = [field for field in Example._meta.concrete_fields if not field.primary_key]
    names = [field.attname for field in fields]
    values = {field.attname: field.get_default() for field in fields}
    values |= {"project_id": imported.project_id, "source_id": imported.pk}
    table = connection.ops.quote_name(Example._meta.db_table)
    columns = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} ({columns}) VALUES ({places})",
            [
                [{**values, **_values(number, row)}[name] for name in names]
                for number, row in enumerate(rows, start)
            ],
        )


def _values(number: int, row: ExampleRow) -> dict[str, Any]:
    content = zip(FIELDS, row.content, strict=True)
    return {"external_id": row.external_id, "number": number, **dict(content)}


def _finish(
    imported: Import, holder: str, conflicts: list[str] | None, copies: Sequence[Path]
) -> None:
    """Everything becomes visible at once."""
    summary = imported.summary | {"refused_files": [path.name for path in copies]}
    if conflicts is not None:
        summary["conflicts"] = conflicts
    with transaction.atomic():
        done = Import.objects.filter(pk=imported.pk, state=State.WRITING, holder=holder).update(
            state=State.DONE,
            summary=summary,
            holder="",
            lease_until=None,
            finished_at=timezone.now(),
        )
        if not done:
            raise TakenOver
        rows_came(imported.n_rows, Example)
        audit.record(
            imported.project,
            imported.created_by,
            "examples imported",
            f"import {imported.number}",
            files=imported.file_names,
            sha256=imported.sha256,
        )
    remove_uploads(imported)
