"""What a run says of an example: a cache, rebuilt from the samples."""

from django.db import models

from judging.models.examples import Example, Label
from judging.models.runs import Run


class Verdict(models.Model):
    """CS and BPDE as floats for reading and sorting; the label comes from the exact fractions."""

    class State(models.TextChoices):
        PENDING = "pending", "pending"
        JUDGED = "judged", "judged"
        UNJUDGED = "unjudged", "unjudged"
        INCONSISTENT = "inconsistent", "inconsistent"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="verdicts")
    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="verdicts")
    state = models.CharField(max_length=12, choices=State, default=State.PENDING)
    label = models.CharField(max_length=4, choices=Label, null=True)
    cs_1 = models.FloatField(null=True)
    cs_2 = models.FloatField(null=True)
    gap = models.FloatField(null=True)
    bpde = models.FloatField(null=True)
    rank = models.PositiveIntegerField(null=True)
    routing_score = models.FloatField(null=True)
    stage = models.CharField(max_length=12, blank=True)
    n_valid = models.PositiveSmallIntegerField(default=0)
    n_asked = models.PositiveSmallIntegerField(default=0)
    conflict = models.BooleanField(null=True)
    outcomes = models.JSONField(default=dict, blank=True)
    usd = models.DecimalField(max_digits=18, decimal_places=10, null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "example"], name="verdict_once"),
        ]
        indexes = [models.Index(fields=["run", "rank"], name="verdict_by_rank")]
