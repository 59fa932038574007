"""Taking an import back: its examples vanish at once and are deleted in chunks."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import Model, Q, QuerySet

from judging import audit
from judging.errors import UserError
from judging.imports.comparing import CHUNK
from judging.imports.uploads import remove_uploads
from judging.models.examples import Example
from judging.models.imports import Import
from judging.models.runs import Run
from judging.models.verdicts import Verdict

State = Import.State
_AT_WORK = (Run.State.QUEUED, Run.State.RUNNING, Run.State.PAUSING, Run.State.CANCELLING)


def undo(imported: Import, user: AbstractUser | None) -> bool:
    """Undo an import in whatever state it is; False when it was undone before.

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
            audit.record(imported.project, user, "import undone", subject)
    remove_leftovers(imported.project_id)
    remove_uploads(imported, with_refused=True)
    return changed


def in_use(imported: Import) -> bool:
    """Whether a judge was asked about an example, or a round selected it, or somebody voted on it.

    A verdict of a run that has not come to the example is no use: it goes with the example.
    """
    return any(
        _in_use(relation.related_model)
        .filter(**{f"{relation.field.name}__source": imported})
        .exists()
        for relation in Example._meta.related_objects
    )


def _in_use(model: type[Model]) -> QuerySet[Model]:
    rows = model._default_manager.all()
    if model is Verdict:
        rows = rows.filter(Q(n_asked__gt=0) | Q(label__isnull=False))
    return rows


def _refuse_if_needed(imported: Import) -> None:
    if in_use(imported):
        raise UserError(
            f"Examples of import {imported.number} have been judged, selected for a round, or "
            "voted on, so they stay. Nothing was changed."
        )
    # It holds the next examples in memory and would ask about one that is gone.
    at_work = imported.project.runs.filter(state__in=_AT_WORK).order_by("number").first()
    if at_work is not None:
        raise UserError(
            f"The run “{at_work.name}” is working through the project's examples. Pause it, and "
            "undo the import again. Nothing was changed."
        )


def remove_leftovers(project_id: int) -> None:
    """Delete what undone imports left, also where an earlier undo was cut off."""
    undone = Example.objects.filter(project=project_id, source__state=State.UNDONE)
    while ids := list(undone.values_list("pk", flat=True)[:CHUNK]):
        Example.objects.filter(pk__in=ids).delete()
