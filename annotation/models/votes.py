"""A vote, as given and as it counts, with everything it was before an edit."""

from django.db import models
from django.db.models import Q

from annotation.models.people import Annotator
from annotation.models.protocols import Protocol
from annotation.models.queue import Item, Slot
from judging.models.examples import Example, Label


class Annotation(models.Model):
    """`answer` is what was chosen, by side; `label` is derived from it, from response 1's view.

    `left_response` is 1 or 2: which response stood left (null for votes cast elsewhere without
    saying). `unblinded` marks a vote of someone who had already seen judge output here.
    """

    class Source(models.TextChoices):
        SCREEN = "screen", "screen"
        IMPORT = "import", "import"

    slot = models.OneToOneField(Slot, on_delete=models.CASCADE, related_name="annotation")
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="annotations")
    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="annotations")
    protocol = models.ForeignKey(Protocol, on_delete=models.PROTECT, related_name="annotations")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="annotations")
    label = models.CharField(max_length=4, choices=Label)
    answer = models.JSONField(default=dict)
    left_response = models.PositiveSmallIntegerField(null=True)
    comment = models.TextField(blank=True)
    active_seconds = models.FloatField(null=True)
    source = models.CharField(max_length=6, choices=Source, default=Source.SCREEN)
    unblinded = models.BooleanField(default=False)
    submitted_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "annotator"], name="one_vote_an_item"),
            models.UniqueConstraint(
                fields=["annotator", "example", "protocol"], name="one_vote_a_protocol"
            ),
            models.CheckConstraint(
                condition=Q(left_response__isnull=True) | Q(left_response__in=[1, 2]),
                name="vote_left_is_1_or_2",
            ),
        ]
        indexes = [models.Index(fields=["example", "protocol"], name="votes_of_example")]


class AnnotationRevision(models.Model):
    """What a vote was before it was edited."""

    annotation = models.ForeignKey(Annotation, on_delete=models.CASCADE, related_name="revisions")
    label = models.CharField(max_length=4, choices=Label)
    answer = models.JSONField(default=dict)
    comment = models.TextField(blank=True)
    active_seconds = models.FloatField(null=True)
    submitted_at = models.DateTimeField(null=True)
    replaced_at = models.DateTimeField(auto_now_add=True)
