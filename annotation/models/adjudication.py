"""A decision on an item that votes did not settle. Rows are added; the last one holds."""

from django.conf import settings
from django.db import models

from annotation.models.queue import Item
from judging.models.examples import Label


class Adjudication(models.Model):
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="adjudications")
    label = models.CharField(max_length=4, choices=Label)
    reason = models.TextField(blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    decider = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField(auto_now_add=True)
