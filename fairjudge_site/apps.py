"""The site as a Django app, which has the commands to start, back up and restore the site."""

from importlib import import_module

from django.apps import AppConfig
from django.conf import settings

from judging.core import tracing


class SiteConfig(AppConfig):
    name = "fairjudge_site"

    def ready(self) -> None:
        """Make the Celery app the current one, so that tasks and wake-ups use its settings.

        What is traced starts with the first span, in the process that works.
        """
        import_module("fairjudge_site.celery")
        tracing.trace_as(settings.FAIRJUDGE_TRACES)
