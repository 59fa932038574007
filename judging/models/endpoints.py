"""What was learned of an endpoint, and a project's own judge templates."""

from django.conf import settings
from django.db import models

from judging.models.projects import Project


class EndpointLearned(models.Model):
    """How an endpoint differs, found out once from its own refusals (n capped, a name, ...)."""

    base_url = models.CharField(max_length=500)
    model = models.CharField(max_length=200)
    learned = models.JSONField(default=dict)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["base_url", "model"], name="endpoint_learned_once"),
        ]


class JudgeTemplate(models.Model):
    """One version of a template written in the UI. A run keeps its own copy of the text.

    `sha256` is of the text and of how replies are read. A version is never changed; the newest
    one that is not retired is what the name stands for.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="templates")
    name = models.SlugField(max_length=80)
    form = models.CharField(max_length=10)
    text = models.TextField()
    output = models.JSONField(default=dict)
    sha256 = models.CharField(max_length=64)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "name", "sha256"], name="judge_template_version_once"
            ),
        ]
