"""The label that an example ends up with: a cache, rebuilt from votes and verdicts."""

from django.db import models
from django.db.models import Q

from judging.models import Example, Label, Run


class FinalLabel(models.Model):
    """`run` null: people alone. Sources: `judge`, `majority`, `adjudicated`, `policy:…`, `none`."""

    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="final_labels")
    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="final_labels")
    label = models.CharField(max_length=4, choices=Label, null=True)
    source = models.CharField(max_length=20)
    rule = models.CharField(max_length=200, blank=True)
    human_label = models.CharField(max_length=4, choices=Label, null=True)
    votes_win = models.PositiveSmallIntegerField(default=0)
    votes_tie = models.PositiveSmallIntegerField(default=0)
    votes_lose = models.PositiveSmallIntegerField(default=0)
    selection = models.CharField(max_length=8, blank=True)
    probability = models.FloatField(null=True)
    adjudicator = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["example", "run"],
                condition=Q(run__isnull=False),
                name="final_label_of_run_once",
            ),
            models.UniqueConstraint(
                fields=["example"], condition=Q(run__isnull=True), name="final_label_of_people_once"
            ),
        ]
