"""An example: a question with two responses, one by each of two models."""

from django.db import models

from judging.models.imports import Import
from judging.models.projects import Project


class Label(models.TextChoices):
    """Always from the point of view of response 1 (FairEval, section 4.1)."""

    WIN = "win", "win"
    TIE = "tie", "tie"
    LOSE = "lose", "lose"


class ExampleQuerySet(models.QuerySet["Example"]):
    def visible(self) -> "ExampleQuerySet":
        """Those whose import is finished: half an import is never seen."""
        return self.filter(source__state=Import.State.DONE)

    def judged(self) -> "ExampleQuerySet":
        """Those that runs, N, rankings and analysis are about: visible, and no attention check."""
        return self.visible().filter(is_check=False)


class Example(models.Model):
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="examples")
    source = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="examples")
    external_id = models.CharField(max_length=200)
    number = models.PositiveIntegerField()
    question = models.TextField(blank=True)
    response_1 = models.TextField(blank=True)
    response_2 = models.TextField(blank=True)
    model_1 = models.CharField(max_length=200, blank=True)
    model_2 = models.CharField(max_length=200, blank=True)
    category = models.CharField(max_length=200, blank=True)
    reference = models.TextField(blank=True)
    gold_label = models.CharField(max_length=4, choices=Label, null=True, blank=True)
    is_check = models.BooleanField(default=False)

    objects = ExampleQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "external_id"], name="example_once"),
        ]
        indexes = [models.Index(fields=["project", "number"], name="example_in_import_order")]

    def __str__(self) -> str:
        return self.external_id
