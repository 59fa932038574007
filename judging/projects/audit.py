"""Writing the audit trail: who did what when."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Max, Model

from judging.core.sql.rows import insert_one
from judging.projects.models import AuditEvent, Project

_LONGEST_SUBJECT = AuditEvent._meta.get_field("subject").max_length


def record(
    project: Project | None,
    user: AbstractBaseUser | AnonymousUser | None,
    action: str,
    subject: str = "",
    **detail: Any,
) -> AuditEvent:
    """Add one line. `user` is None for the command line; detail must hold no secret."""
    known = user is not None and user.is_authenticated
    event = AuditEvent(
        project=project,
        project_slug=project.slug if project else "",
        user=user if known else None,
        actor=user.get_username() if known else "command line",
        action=action,
        subject=subject[:_LONGEST_SUBJECT],
        detail=detail,
    )
    insert_one(event)
    return event


def next_number(project: Project, model: type[Model]) -> int:
    """One more than the last number of the project's rows of this model.

    To be called in the transaction that makes the row: the project's own row stays locked until
    that ends, so that whoever asks next waits for it.
    """
    # Not the key: rows that refer to the project are stored meanwhile.
    Project.objects.select_for_update(no_key=True).only("pk").get(pk=project.pk)
    rows = model._default_manager.filter(project=project)
    return int(rows.aggregate(last=Max("number"))["last"] or 0) + 1
