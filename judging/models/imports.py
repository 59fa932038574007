"""An import: what was read from which file; its rows are seen only when it is done."""

from django.conf import settings
from django.db import models

from judging.models.projects import Project


class Import(models.Model):
    class Kind(models.TextChoices):
        EXAMPLES = "examples", "pairs"
        POINTS = "points", "single responses"
        JUDGMENTS = "judgments", "recorded judgments"
        VOTES = "votes", "votes"

    class State(models.TextChoices):
        CHECKED = "checked", "checked, nothing written yet"
        WRITING = "writing", "being written"
        INTERRUPTED = "interrupted", "interrupted: resume or undo"
        DONE = "done", "done"
        FAILED = "failed", "failed"
        UNDONE = "undone", "undone"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="imports")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.EXAMPLES)
    state = models.CharField(max_length=12, choices=State, default=State.CHECKED)
    reason = models.TextField(blank=True)
    file_names = models.JSONField(default=list)
    stored_files = models.JSONField(default=list, blank=True)
    sha256 = models.CharField(max_length=64, blank=True)
    format = models.CharField(max_length=20, blank=True)
    mapping = models.JSONField(default=dict, blank=True)
    skip_invalid = models.BooleanField(default=False)
    summary = models.JSONField(default=dict, blank=True)
    n_rows = models.PositiveIntegerField(default=0)
    n_written = models.PositiveIntegerField(default=0)
    n_known = models.PositiveIntegerField(default=0)
    n_refused = models.PositiveIntegerField(default=0)
    n_conflicts = models.PositiveIntegerField(default=0)
    holder = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="import_number_once"),
        ]
