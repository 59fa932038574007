"""Deleting a project: in chunks, so that nobody else's vote has to wait for it."""

from django.contrib.auth.models import AbstractUser
from django.db.models import Model, QuerySet

from annotation.models import (
    Adjudication,
    Annotation,
    AnnotationRevision,
    Draft,
    FinalLabel,
    Flag,
    Item,
    Protocol,
    Round,
    Skip,
    Slot,
)
from judging import audit
from judging.models import Call, Example, HumanScore, Parse, PointItem, Project, Sample, Verdict

_CHUNK = 500


def delete_project(project: Project, user: AbstractUser | None) -> None:
    """Everything of the project, the newest layer first. Asked for again, it goes on."""
    slug = project.slug
    audit.record(None, user, "project deleted", slug)
    here = {"item__round__project": project}
    for rows in (
        AnnotationRevision.objects.filter(annotation__example__project=project),
        Slot.objects.filter(round__project=project, vote__isnull=True),
        Draft.objects.filter(**here),
        Skip.objects.filter(**here),
        Flag.objects.filter(**here),
        Adjudication.objects.filter(**here),
        Annotation.objects.filter(example__project=project),
        Slot.objects.filter(round__project=project),
        FinalLabel.objects.filter(example__project=project),
        Item.objects.filter(round__project=project),
        Round.objects.filter(project=project),
        Protocol.objects.filter(project=project),
        Verdict.objects.filter(run__project=project),
        Parse.objects.filter(sample__call__run__project=project),
        Sample.objects.filter(call__run__project=project),
        Call.objects.filter(run__project=project),
        HumanScore.objects.filter(point_item__project=project),
        PointItem.objects.filter(project=project),
        Example.objects.filter(project=project),
    ):
        _delete(rows)
    project.delete()


def _delete(rows: QuerySet[Model]) -> None:
    while keys := list(rows.order_by("pk").values_list("pk", flat=True)[:_CHUNK]):
        rows.model._default_manager.filter(pk__in=keys).delete()
