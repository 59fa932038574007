"""The audit trail: who did what when. Rows are added, never changed."""

from django.conf import settings
from django.db import models

from judging.models.projects import Project


class AuditEvent(models.Model):
    project = models.ForeignKey(
        Project, null=True, on_delete=models.SET_NULL, related_name="audit_events"
    )
    project_slug = models.CharField(max_length=80, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    actor = models.CharField(max_length=200, blank=True)
    action = models.CharField(max_length=60)
    subject = models.CharField(max_length=200, blank=True)
    detail = models.JSONField(default=dict, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["project", "-at"], name="audit_latest")]
