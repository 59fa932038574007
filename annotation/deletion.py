"""Deleting a project, in chunks, so that votes in other projects don't have to wait for it."""

from collections.abc import Iterator

from django.contrib.auth.models import AbstractUser
from django.db import IntegrityError, transaction
from django.db.models import Model, QuerySet
from django.utils import timezone

from annotation.models import (
    Adjudication,
    Draft,
    Flag,
    Item,
    Protocol,
    Round,
    Skip,
    Slot,
    Vote,
    VoteRevision,
)
from judging.core.errors import UserError
from judging.dataset.models import Example, HumanScore, PointItem
from judging.dataset.uploads import remove_uploads
from judging.projects import access
from judging.projects.access import end_password_links
from judging.projects.models import Project
from judging.runs.models import Call, Parse, Sample, TextLikelihood, Verdict

_CHUNK = 500
_TRIES = 10


def delete_project(project: Project, user: AbstractUser | None) -> None:
    """Delete everything of the project, with its uploads. If interrupted, call it again to go on.

    The audit trail stays, and then belongs to no project. Raises UserError while a worker writes
    to the project.
    """
    now = timezone.now()
    for busy in (project.runs, project.imports):
        if busy.filter(lease_until__gte=now).exists():
            raise UserError(
                "A run or an import is at work in this project. Stop it and try again. "
                "Nothing was deleted."
            )
    access.record_event(None, user, "project deleted", project.slug)
    # Closed first: people may be at work, and a new vote would keep its item from being deleted.
    open_rounds = Round.objects.filter(project=project).exclude(state=Round.State.CLOSED)
    open_rounds.update(state=Round.State.CLOSED, closed_at=now)
    for imported in project.imports.order_by("pk"):
        remove_uploads(imported, with_refused=True)
    for _ in range(_TRIES):
        try:
            return _delete_all(project)
        except IntegrityError:
            # A vote was on its way when the rounds were closed, or an export ended meanwhile and
            # was put on record.
            continue
    raise UserError(
        f"Somebody still works in {project.slug}, which is deleted in part. Delete it again."
    )


def _delete_all(project: Project) -> None:
    for rows in _layers(project):
        _delete(rows)
    with transaction.atomic():
        end_password_links(project.memberships.values_list("user", flat=True))
        Project.objects.filter(pk=project.pk).delete()


def _layers(project: Project) -> Iterator[QuerySet[Model]]:
    """Yield the large tables, each before those that its rows refer to. Small ones cascade."""
    yield VoteRevision.objects.filter(annotation__item__round__project=project)
    for table in (Draft, Skip, Flag, Adjudication, Vote):
        yield table.objects.filter(item__round__project=project)
    yield Slot.objects.filter(round__project=project)
    yield Item.objects.filter(round__project=project)
    yield Round.objects.filter(project=project)
    yield Protocol.objects.filter(project=project)
    yield Verdict.objects.filter(run__project=project)
    yield Parse.objects.filter(sample__call__run__project=project)
    yield Sample.objects.filter(call__run__project=project)
    yield Call.objects.filter(run__project=project)
    yield HumanScore.objects.filter(point_item__project=project)
    yield PointItem.objects.filter(project=project)
    yield TextLikelihood.objects.filter(project=project)
    yield Example.objects.filter(project=project)


def _delete(rows: QuerySet[Model]) -> None:
    while keys := list(rows.order_by("pk").values_list("pk", flat=True)[:_CHUNK]):
        rows.model._default_manager.filter(pk__in=keys).delete()
