"""The Celery app, which finds the tasks of every installed app."""

import os

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairjudge_site.settings")
TRANSPORT_ALIASES["filesystem"] = "fairjudge_site.broker:Transport"

app = Celery("fairjudge")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
