"""A protocol: what was asked of people, word for word. Never changed once made."""

from django.db import models

from judging.models.projects import Project


class Protocol(models.Model):
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="protocols")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=120)
    question_asked = models.CharField(max_length=300)
    guidelines = models.TextField(blank=True)
    scale = models.CharField(max_length=8, choices=Project.Scale)
    both_bad = models.BooleanField(default=False)
    criteria = models.JSONField(default=list)
    rendering = models.CharField(max_length=8, choices=Project.Rendering)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "digest"], name="protocol_once"),
            models.UniqueConstraint(fields=["project", "number"], name="protocol_number_once"),
            models.UniqueConstraint(fields=["project", "name"], name="protocol_name_once"),
        ]
