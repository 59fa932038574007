"""A worker process that is alive: its row is renewed while it runs."""

from django.db import models


class Worker(models.Model):
    name = models.CharField(max_length=200, unique=True)
    queues = models.CharField(max_length=200, blank=True)
    hostname = models.CharField(max_length=200, blank=True)
    pid = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(db_index=True)
