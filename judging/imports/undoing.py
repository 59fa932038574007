"""Taking an import back: its examples vanish at once and are deleted in chunks."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import transaction

from judging import audit
from judging.errors import UserError
from judging.imports.comparing import CHUNK
from judging.imports.uploads import remove_uploads
from judging.models import Example, Import

State = Import.State


def undo(imported: Import, user: AbstractUser | None) -> bool:
    """Undo an import in whatever state it is; False when it was undone before.

    A writer at work notices at its next chunk and leaves. Raises UserError when examples of a
    finished import have been judged or voted on: those stay.
    """
    if imported.state == State.DONE and in_use(imported):
        raise UserError(
            f"Examples of import {imported.number} have been judged or voted on, so they stay. "
            "Nothing was changed."
        )
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
    """Whether anything refers to an example of the import."""
    return any(
        relation.related_model.objects.filter(
            **{f"{relation.field.name}__source": imported}
        ).exists()
        for relation in Example._meta.related_objects
    )


def remove_leftovers(project_id: int) -> None:
    """Delete what undone imports left, also where an earlier undo was cut off."""
    undone = Example.objects.filter(project=project_id, source__state=State.UNDONE)
    while ids := list(undone.values_list("pk", flat=True)[:CHUNK]):
        Example.objects.filter(pk__in=ids).delete()
