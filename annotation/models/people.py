"""Annotators of a project, with or without a login; how they are invited; where they sit."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from judging.models.projects import Project, Role


class Annotator(models.Model):
    """Imported votes have an annotator too; `number` is the pseudonym used in exports."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="annotators")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="annotators"
    )
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    left_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="annotator_name_once"),
            models.UniqueConstraint(fields=["project", "number"], name="annotator_number_once"),
            models.UniqueConstraint(
                fields=["project", "user"],
                condition=Q(user__isnull=False),
                name="annotator_user_once",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def pseudonym(self) -> str:
        return f"annotator-{self.number}"


class Invitation(models.Model):
    """A link that lets people join. The link carries a signed id, so the table holds no secret."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=Role, default=Role.ANNOTATOR)
    note = models.CharField(max_length=200, blank=True)
    max_uses = models.PositiveIntegerField(default=1)
    uses = models.PositiveIntegerField(default=0)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)


class Seat(models.Model):
    """An annotator in a round: how much is theirs, and how far down the order they are.

    `cursor` is the position of the last item handed out, so that finding the next one does
    not walk over everything already done. A round with `open_to_all` makes seats as people come.
    """

    round = models.ForeignKey("annotation.Round", on_delete=models.CASCADE, related_name="seats")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="seats")
    limit = models.PositiveIntegerField(null=True, blank=True)
    cursor = models.FloatField(default=-1)
    n_shown = models.PositiveIntegerField(default=0)
    left_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["round", "annotator"], name="seat_once"),
        ]
