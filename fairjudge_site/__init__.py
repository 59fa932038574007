"""The deployed site: settings, addresses, queue and processes."""

from fairjudge_site.celery import app as celery_app

__all__ = ["celery_app"]
