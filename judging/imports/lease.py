"""Who writes an import, and the named changes of its state.

Of a project one import is written at a time, so that two files can't take each other's ids for
known ones. An import that lost its writer is interrupted: it can be resumed or undone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from judging.core import waking
from judging.core.leases import is_dead
from judging.errors import UserError
from judging.models.imports import Import
from judging.models.projects import Project

State = Import.State
LEASE = timedelta(seconds=60)
STOPPED = "The writer stopped before the end. What it wrote is hidden and safe."


def begin(imported: Import, *, skip_invalid: bool | None = None, background: bool = True) -> bool:
    """Decide to write a checked or an interrupted import; False when that is settled already.

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
        begun = {"state": State.WRITING, "holder": "", "lease_until": _later(), "reason": ""}
        this = Import.objects.filter(pk=imported.pk)
        counts = {"n_written": 0, "n_known": 0, "n_conflicts": 0}
        changed = this.filter(state=State.CHECKED).update(**begun, **counts, **chosen)
        changed = changed or this.filter(state=State.INTERRUPTED).update(**begun, **chosen)
        if changed and background:
            _send(imported.pk)
    return changed == 1


def take(import_id: int, holder: str) -> bool:
    """Make `holder` the one writer; False while another one is at work."""
    waiting = Import.objects.filter(pk=import_id, state=State.WRITING)
    gone = Q(holder="") | Q(lease_until=None) | Q(lease_until__lt=timezone.now())
    return waiting.filter(gone).update(holder=holder, lease_until=_later()) == 1


def interrupt(import_id: int, holder: str, reason: str) -> bool:
    """The writer's own word that it stops before the end."""
    held = Import.objects.filter(pk=import_id, state=State.WRITING, holder=holder)
    return held.update(state=State.INTERRUPTED, holder="", lease_until=None, reason=reason) == 1


def look_after(imported: Import) -> Import:
    """Notice that the writer is gone, or wake a worker again that may have lost the message."""
    gone = is_dead(imported.holder)
    expired = imported.lease_until is None or imported.lease_until < timezone.now()
    if imported.state == State.WRITING and (gone or expired):
        as_read = Import.objects.filter(
            pk=imported.pk,
            state=State.WRITING,
            holder=imported.holder,
            lease_until=imported.lease_until,
        )
        with transaction.atomic():
            if imported.holder:
                as_read.update(state=State.INTERRUPTED, holder="", lease_until=None, reason=STOPPED)
            elif as_read.update(lease_until=_later()):
                _send(imported.pk)
        imported.refresh_from_db()
    return imported


def _later() -> Any:
    return timezone.now() + LEASE


def _send(import_id: int) -> None:
    waking.wake_on_commit(waking.WRITE_IMPORT, import_id)
