"""Writing the audit trail: who did what when."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from judging.models.audit import AuditEvent
from judging.models.projects import Project
from judging.rows import insert_one

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
