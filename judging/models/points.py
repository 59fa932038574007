"""One response alone, for pointwise judging, and what people scored it (Ohi et al., section 2)."""

from django.db import models

from judging.models.imports import Import
from judging.models.projects import Project


class PointItemQuerySet(models.QuerySet["PointItem"]):
    def visible(self) -> "PointItemQuerySet":
        """Those whose import is finished: half an import is never seen."""
        return self.filter(source__state=Import.State.DONE)


class PointItem(models.Model):
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="point_items")
    source = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="point_items")
    external_id = models.CharField(max_length=200)
    number = models.PositiveIntegerField()
    input = models.TextField(blank=True)
    output = models.TextField(blank=True)
    model = models.CharField(max_length=200, blank=True)

    objects = PointItemQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "external_id"], name="point_item_once"),
        ]


class HumanScore(models.Model):
    point_item = models.ForeignKey(PointItem, on_delete=models.CASCADE, related_name="scores")
    criterion = models.CharField(max_length=100)
    rater = models.CharField(max_length=200)
    value = models.DecimalField(max_digits=12, decimal_places=6)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["point_item", "criterion", "rater"], name="human_score_once"
            ),
        ]
