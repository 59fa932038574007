"""The second pass over files of pairs: rows become examples, seen only once all are written.

One import of a project is written at a time, so that two files can't take each other's IDs for
known ones. Its writer holds a lease, writes a thousand rows per transaction, and checks at the end
that it read the file that was checked. An import that lost its writer is interrupted: it can be
resumed or undone, and a worker resumes the site's own copies by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import F, Max, Model, QuerySet
from django.utils import timezone

from judging.core import leases, storage, waking
from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.core.leases import Chunks, KeptRows, Lease, TakenOver, in_chunks, is_dead, new_holder
from judging.core.processes import stop_requested
from judging.core.sql.statements import insert_columns, rows_came
from judging.dataset.images import delete_unused, link, release
from judging.dataset.models import Example, Import
from judging.dataset.reading import Reader
from judging.dataset.records import IDENTITY_FIELDS, Codes, ExampleRow, Refused, spelled
from judging.dataset.subsets import tag_new
from judging.dataset.uploads import (
    CHUNK,
    FirstPass,
    ImportComparison,
    RefusedFiles,
    compare_examples,
    discard_folder,
    files_of,
    first_pass,
    is_upload,
    record_checked,
    remove_uploads,
    share_refused,
)
from judging.dataset.wide import HOW, PairDesign
from judging.projects import access
from judging.projects.access import tell
from judging.projects.models import Project

State = Import.State
# Each chunk renews it, so that it runs out only if the writer has stopped.
LEASE = Lease(timedelta(seconds=60))
STOPPED = "The writer stopped before the end. What it wrote is hidden and safe."


def begin(imported: Import, *, skip_invalid: bool | None = None, background: bool = True) -> bool:
    """Decide to write a checked or an interrupted import; False if that was decided before.

    With `background` a worker is woken. Raises UserError while another import of the project is
    unfinished.
    """
    chosen = {} if skip_invalid is None else {"skip_invalid": skip_invalid}
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=imported.project_id)
        unfinished = Import.objects.filter(
            project=imported.project_id,
            kind=Import.Kind.EXAMPLES,
            state__in=(State.WRITING, State.INTERRUPTED),
        )
        other = unfinished.exclude(pk=imported.pk).first()
        if other:
            raise UserError(
                f"Import {other.number} of this project is unfinished. Nothing was changed. "
                "Resume or undo it first."
            )
        # It is checked or interrupted, so that two that decide at once begin it once.
        begun = {"state": State.WRITING, "holder": "", "lease_until": LEASE.end(), "reason": ""}
        waiting = Import.objects.filter(
            pk=imported.pk, state__in=(State.CHECKED, State.INTERRUPTED)
        )
        changed = waiting.update(**begun, **chosen)
        if changed and background:
            waking.wake_on_commit(waking.WRITE_IMPORT, imported.pk)
    return changed == 1


def hide_models(project: Project, user: AbstractUser | None) -> None:
    """Hide models' names in what annotators see, in rounds that open from now on."""
    with transaction.atomic():
        shown = Project.objects.filter(pk=project.pk, hide_models=False)
        if shown.update(hide_models=True):
            change = {"before": False, "now": True}
            access.record_event(
                project, user, "settings changed", "hide_models", hide_models=change
            )


def take(import_id: int, holder: str) -> bool:
    """Make `holder` the one writer; False while another one is at work."""
    waiting = Import.objects.filter(pk=import_id, state=State.WRITING)
    return LEASE.take(waiting.filter(leases.free()), holder)


def interrupt(import_id: int, holder: str, reason: str) -> bool:
    """Say, as its writer, that the import stops before the end."""
    held = LEASE.held_by(Import.objects.filter(pk=import_id, state=State.WRITING), holder)
    return held.update(state=State.INTERRUPTED, reason=reason, **leases.FREE) == 1


def look_after(imported: Import) -> Import:
    """Notice that the writer is gone, or wake a worker again if the message may be lost."""
    lost = is_dead(imported.holder) or leases.is_over(imported.lease_until)
    if imported.state == State.WRITING and lost:
        same = Import.objects.filter(pk=imported.pk, state=State.WRITING)
        same = LEASE.unchanged(same, imported.holder, imported.lease_until)
        with transaction.atomic():
            # Without a holder no writer has begun, so the message that should wake one may be lost.
            if imported.holder:
                same.update(state=State.INTERRUPTED, reason=STOPPED, **leases.FREE)
            elif same.update(lease_until=LEASE.end()):
                waking.wake_on_commit(waking.WRITE_IMPORT, imported.pk)
        imported.refresh_from_db()
    return imported


def undo(imported: Import, user: AbstractUser | None) -> bool:
    """Undo an import in any state; False if it was undone before.

    A writer at work notices at its next chunk and leaves. Raises UserError if people or a judge
    have worked on examples of a finished import, or if a run may be about to: those stay.
    """
    if imported.state == State.DONE:
        _refuse_if_needed(imported)
    with transaction.atomic():
        others = Import.objects.filter(pk=imported.pk).exclude(state=State.UNDONE)
        changed = others.update(state=State.UNDONE, holder="", lease_until=None) == 1
        if changed:
            subject = f"import {imported.number}"
            access.record_event(imported.project, user, "import undone", subject)
    # Nobody sees the examples any more. If deleting them is cut off, the next import goes on with
    # it.
    remove_leftovers(imported.project_id)
    remove_uploads(imported, with_refused=True)
    release([imported])
    return changed


def in_use(imported: Import) -> bool:
    """Return True if an example was judged, selected for a round, or voted on.

    The verdict of a run that has not reached the example yet is no use: it goes with the example.
    """
    # All tables that refer to examples are asked, so that a new one can't be forgotten.
    return any(
        _uses(relation.related_model)
        .filter(**{f"{relation.field.name}__source": imported})
        .exists()
        for relation in Example._meta.related_objects
    )


def _uses(model: type[Model]) -> QuerySet[Model]:
    """Return the rows that use an example: all of them, unless the model knows better."""
    rows = model._default_manager
    return rows.that_use_examples() if hasattr(rows, "that_use_examples") else rows.all()


def _refuse_if_needed(imported: Import) -> None:
    if in_use(imported):
        raise UserError(
            f"Examples of import {imported.number} have been judged, selected for a round, or "
            "voted on, so they stay. Nothing was changed."
        )
    # A run holds its next examples in memory and would ask about one that is gone.
    at_work = imported.project.runs.at_work().order_by("number").first()
    if at_work is not None:
        raise UserError(
            f"The run “{at_work.name}” is working through the project's examples. Pause it, and "
            "undo the import again. Nothing was changed."
        )


def remove_leftovers(project_id: int) -> None:
    """Delete what undone imports left, also after an undo that was cut off."""
    _delete(Example.objects.filter(project=project_id, source__state=State.UNDONE))


def _delete(examples: QuerySet[Example]) -> None:
    """Delete in chunks, since Django collects in memory all that a deletion takes along."""
    in_chunks(examples, lambda keys: Example.objects.filter(pk__in=keys).delete(), CHUNK)


Advance = Callable[[int], None]
Kept = KeptRows[ExampleRow] | None


def import_files(
    project: Project,
    user: AbstractUser | None,
    paths: Sequence[Path],
    *,
    file_format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    labels: Codes | None = None,
    sheet: str = "",
    design: PairDesign | None = None,
    skip_invalid: bool = False,
    advance: Advance | None = None,
) -> Import:
    """Check files and write them, in this process, as `write_checked` does."""
    arguments = (project, paths, file_format, mapping, labels)
    checked = first_pass(*arguments, sheet=sheet, design=design, keep=True)
    return write_checked(project, user, checked, skip_invalid=skip_invalid, advance=advance)


def write_checked(
    project: Project,
    user: AbstractUser | None,
    checked: FirstPass,
    *,
    skip_invalid: bool = False,
    advance: Advance | None = None,
) -> Import:
    """Write checked files, or resume the same import if it was interrupted.

    `advance` is told how many rows were settled. Raises UserError, with nothing to be seen in the
    project, if a row is invalid and `skip_invalid` is not set.
    """
    same = Import.objects.filter(
        project=project,
        state__in=(State.WRITING, State.INTERRUPTED),
        sha256=checked.summary.sha256,
        format=checked.file_format,
        mapping=checked.mapping,
        options=checked.options,
    )
    labels = checked.summary.labels
    unfinished = next((row for row in same if row.summary.get("labels", labels) == labels), None)
    if unfinished:
        imported = look_after(unfinished)
    else:
        imported = record_checked(project, user, checked)
        try:
            refuse_invalid(imported, skip_invalid)
        except UserError as error:
            # Nothing of it will be written, so its images go as well.
            Import.objects.filter(pk=imported.pk).update(state=State.FAILED, reason=str(error))
            release([imported])
            raise
    begin(imported, skip_invalid=skip_invalid, background=False)
    # The second pass copies the text of refused rows, and finds images by their new names.
    again = bool(checked.summary.n_refused or "images" in checked.options)
    if not write(imported.pk, advance, None if again else checked.comparison.kept):
        raise UserError(
            f"Import {imported.number} is being written by another process, or it was undone. "
            "This one wrote nothing more."
        )
    imported.refresh_from_db()
    return imported


def refuse_invalid(imported: Import, skip_invalid: bool) -> None:
    """Raise UserError unless the import may be written."""
    summary = imported.summary
    if not summary["n_rows"]:
        raise UserError("No row of the file can be imported. Nothing was imported.")
    if summary["fatal"]:
        raise UserError(
            "The file can't be read to its end. Nothing was imported. Fix it and import it again."
        )
    refuse_ambiguous(summary.get("readings", []))
    refuse_undesigned(summary.get("wide", {}))
    if summary["n_problems"] and not skip_invalid:
        rows = "1 row is" if imported.n_refused == 1 else f"{imported.n_refused} rows are"
        raise UserError(
            f"{rows} invalid. Nothing was imported. Fix the file, or leave these rows out with "
            "--skip-invalid."
        )


def refuse_undesigned(wide: Mapping[str, Any]) -> None:
    """Raise UserError if the files have wide rows and nobody said which pairs to make of them."""
    if wide and not wide["design"]:
        models = number_of(wide["n_models"], "model")
        raise UserError(
            f"Rows hold a question with the responses of several models ({models} in all). "
            f"Nothing was imported. {HOW}"
        )


def refuse_ambiguous(readings: Sequence[Codes]) -> None:
    """Raise UserError if the codes of gold labels have several readings and nobody chose one."""
    if readings:
        choices = " or ".join(f"--labels {spelled(codes)}" for codes in readings)
        raise UserError(
            "The codes of gold labels can mean more than one thing. Nothing was imported. Say what "
            f"they mean: {choices}."
        )


def write(import_id: int, advance: Advance | None = None, kept: Kept = None) -> bool:
    """Write an import that was begun, from where it stopped; False if it isn't ours to write.

    Args:
        kept: the rows of its files. Without them, the files are read.
    """
    holder = new_holder()
    if not take(import_id, holder):
        return False
    imported = Import.objects.select_related("project", "created_by").get(pk=import_id)
    try:
        remove_leftovers(imported.project_id)
        with files_of(imported) as paths:
            _write_files(imported, paths, holder, advance or (lambda rows: None), kept)
    except TakenOver:
        return False
    except UserError as error:
        interrupt(import_id, holder, str(error))
        raise
    except BaseException:
        # Ctrl-C counts too. With this reason, a worker resumes the import by itself.
        interrupt(import_id, holder, STOPPED)
        raise
    return True


def _write_files(
    imported: Import, paths: Sequence[Path], holder: str, advance: Advance, kept: Kept
) -> None:
    labels = imported.summary.get("labels")
    arguments = (imported.format, imported.mapping, labels, imported.options)
    reader = Reader(paths, *arguments)
    refused = RefusedFiles(reader.records) if imported.skip_invalid else None
    seen = ImportComparison(imported.project_id)
    settled = imported.n_written + imported.n_known + imported.n_conflicts
    chunks = Chunks()
    try:
        # What was settled before an interruption is read again, for the hash of the file and the
        # refused rows, and not written.
        rows = islice(kept or _accepted(reader, refused), settled, None)
        advance(settled)
        while chunk := list(islice(rows, min(chunks.size, CHUNK))):
            if stop_requested.is_set():
                # `resume_imports` goes on with imports that stopped for this reason.
                raise UserError(STOPPED)
            with chunks.transaction():
                _write_chunk(imported, holder, chunk, seen)
            advance(len(chunk))
        if kept is None and reader.records.sha256 != imported.sha256:
            _start_again(imported, holder)
            raise UserError(
                "The file has changed since it was checked. Nothing of it was imported. Undo this "
                "import and start again."
            )
        copies = refused.finish() if refused else []
        share_refused(copies)
    finally:
        if refused:
            refused.discard()
    # The list of the first pass has the conflicts that were met before an interruption.
    conflicts = None if settled else seen.conflicts
    _finish(imported, holder, conflicts, copies)


def _start_again(imported: Import, holder: str) -> None:
    """Remove the rows of a file that is not the checked one: to resume must not build on them."""
    held = Import.objects.filter(pk=imported.pk, state=State.WRITING, holder=holder)
    if not held.update(n_written=0, n_known=0, n_conflicts=0):
        raise TakenOver
    _delete(Example.objects.filter(source=imported))


def _accepted(reader: Reader, refused: RefusedFiles | None) -> Iterator[ExampleRow]:
    for row in reader:
        if not isinstance(row, Refused):
            yield row
        elif refused:
            refused.add(row)


def _write_chunk(
    imported: Import, holder: str, chunk: list[ExampleRow], seen: ImportComparison
) -> None:
    """Write in a transaction whose first statement makes sure that the import is still ours."""
    held = LEASE.held_by(Import.objects.filter(pk=imported.pk, state=State.WRITING), holder)
    if not LEASE.renew(held, holder):
        raise TakenOver
    compared = compare_examples(imported.project_id, chunk)
    seen.add(compared)
    others = Example.objects.filter(project=imported.project_id)
    # Nobody else takes these numbers: one import of a project is written at a time.
    last = others.aggregate(last=Max("number"))["last"]
    start = 0 if last is None else last + 1
    if compared.new:
        _insert(imported, start, compared.new)
    held.update(
        n_written=F("n_written") + len(compared.new),
        n_known=F("n_known") + compared.n_known,
        n_conflicts=F("n_conflicts") + len(compared.conflicts),
    )


def _insert(imported: Import, start: int, rows: list[ExampleRow]) -> None:
    """Insert by statement: bulk_create took twice as long as all the rest of an import."""
    contents = zip(*(row.content for row in rows), strict=True)
    keys = insert_columns(
        Example,
        len(rows),
        project_id=imported.project_id,
        source_id=imported.pk,
        external_id=tuple(row.external_id for row in rows),
        number=tuple(range(start, start + len(rows))),
        explanation=tuple(row.explanation for row in rows),
        **dict(zip(IDENTITY_FIELDS, contents, strict=True)),
    )
    if tagged := [(key, row.tags) for key, row in zip(keys, rows, strict=True) if row.tags]:
        tag_new(imported.project_id, tagged)
    if "images" in imported.options:
        link([(key, row.texts) for key, row in zip(keys, rows, strict=True)], imported)


def _finish(
    imported: Import, holder: str, conflicts: list[str] | None, copies: Sequence[Path]
) -> None:
    """Everything becomes visible at once."""
    summary = imported.summary | {"refused_files": [path.name for path in copies]}
    if conflicts is not None:
        summary["conflicts"] = conflicts
    with transaction.atomic():
        held = LEASE.held_by(Import.objects.filter(pk=imported.pk, state=State.WRITING), holder)
        pairs = Example.objects.filter(project=imported.project_id, source=imported, is_check=False)
        done = {"state": State.DONE, "summary": summary, "finished_at": timezone.now()}
        done["n_judged"] = pairs.count()
        if not held.update(**done, **leases.FREE):
            raise TakenOver
        rows_came(imported.n_rows, Example)
        access.record_event(
            imported.project,
            imported.created_by,
            "examples imported",
            f"import {imported.number}",
            files=imported.file_names,
            sha256=imported.sha256,
        )
        tell_of_import(imported.pk)
    remove_uploads(imported)


def tell_of_import(key: int) -> None:
    """Tell webhooks of an import, in the transaction that ends it."""
    imported = Import.objects.select_related("project").get(pk=key)
    data = {
        "import": imported.number,
        "kind": imported.kind,
        "rows": imported.n_rows,
        "written": imported.n_written,
        "known": imported.n_known,
        "conflicts": imported.n_conflicts,
    }
    tell(imported.project, "import.done", lambda: data)


UNCONFIRMED_FOR = timedelta(days=7)
# An import that ends its worker each time must not be tried for ever.
MOST_RESUMED = 3
logger = logging.getLogger(__name__)


def resume_imports() -> int:
    """Resume imports whose writer died, and return how many. Every worker calls this every 15 s.

    The files that a command was given may be on another machine, so such an import waits for the
    command to be repeated.
    """
    pairs = Import.objects.filter(kind=Import.Kind.EXAMPLES)
    for imported in pairs.filter(state=State.WRITING):
        look_after(imported)
    # What stopped for another reason would stop again, and waits for a person.
    stopped = pairs.filter(state=State.INTERRUPTED, reason=STOPPED)
    return sum(_resume(imported) for imported in stopped)


def _resume(imported: Import) -> bool:
    resumed = imported.summary.get("resumed", 0)
    if resumed >= MOST_RESUMED or not all(map(is_upload, imported.stored_files)):
        return False
    same = Import.objects.filter(pk=imported.pk, state=State.INTERRUPTED)
    if not same.update(summary=imported.summary | {"resumed": resumed + 1}):
        return False
    try:
        return begin(imported)
    except UserError:
        # Another import of the project is unfinished too, and comes first.
        return False


def tidy_uploads() -> int:
    """Delete uploads that nobody imported within a week, and return how many.

    Every worker calls this every hour. Uploads that were cut off are deleted as well.
    """
    before = timezone.now() - UNCONFIRMED_FOR
    tidied = 0
    for imported in Import.objects.filter(state=State.CHECKED, created_at__lt=before):
        if all(map(is_upload, imported.stored_files)):
            tidied += undo(imported, None)
    root = Path(settings.MEDIA_ROOT)
    here = ((folder, folder.stat().st_mtime) for folder in (root / storage.FOLDER).glob("*/"))
    changed = [(folder, datetime.fromtimestamp(at, UTC)) for folder, at in here]
    changed += [(root / folder, at) for folder, at in storage.stored()]
    for folder, at in changed:
        if at < before and not Import.objects.filter(stored_files__icontains=folder.name):
            discard_folder(folder)
            tidied += 1
    delete_unused(created_at__lt=before)
    if tidied:
        logger.info("%s uploads that nobody imported within a week were deleted.", tidied)
    return tidied
