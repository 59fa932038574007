"""An export that was made: what, with which settings, and the hash of what was delivered."""

from django.conf import settings
from django.db import models

from judging.models.projects import Project


class Export(models.Model):
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="exports")
    run = models.ForeignKey(
        "judging.Run", null=True, on_delete=models.SET_NULL, related_name="exports"
    )
    what = models.CharField(max_length=20)
    format = models.CharField(max_length=10)
    options = models.JSONField(default=dict)
    n_rows = models.PositiveIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
