"""The deployed site: settings, addresses, queue, processes, health and backups.

Everything about judges and people belongs to `judging` and `annotation`.
"""

from fairjudge_site.celery import app as celery_app

__all__ = ["celery_app"]
