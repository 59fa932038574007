"""Whether the site works: `/healthz` for its own host, `/readyz` for what sends people to it."""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.models import Max
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError

from fairjudge_site.celery import app
from judging.core.models import SILENT_AFTER, Worker
from judging.core.processes import parts_down


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    database = database_answers()
    broker = broker_answers()
    age = worker_age() if database else None
    workers = age is not None and age < SILENT_AFTER
    parts = parts_down(settings.FAIRJUDGE_DATA)
    # The pages and the other parts go on while one starts again, so that alone is no reason to
    # send people elsewhere.
    healthy = database and broker and workers and "given up" not in parts.values()
    return JsonResponse(
        {
            "status": "ok" if healthy else "unavailable",
            "database": database,
            "broker": broker,
            "worker": workers,
            "worker_seen_seconds_ago": None if age is None else round(age.total_seconds(), 1),
            "parts": parts,
        },
        status=200 if healthy else 503,
    )


@login_not_required
@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Say whether all work is done that pages can start: a live worker for each queue as well."""
    database, broker = database_answers(), broker_answers()
    queues = {
        queue.name: database and has_worker(queue.name) for queue in settings.CELERY_TASK_QUEUES
    }
    ready = database and broker and all(queues.values())
    return JsonResponse(
        {
            "status": "ok" if ready else "unavailable",
            "database": database,
            "broker": broker,
            "queues": queues,
        },
        status=200 if ready else 503,
    )


def has_worker(queue: str) -> bool:
    try:
        return Worker.objects.alive().serve(queue)
    except DatabaseError:
        return False


def database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def broker_answers() -> bool:
    try:
        with app.connection_for_write(connect_timeout=2) as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=3)
    except (OperationalError, OSError):
        return False
    return True


def worker_age() -> timedelta | None:
    """Return the time since the last heartbeat of any worker, or None if there never was one."""
    try:
        seen = Worker.objects.aggregate(last=Max("seen_at"))["last"]
    except DatabaseError:
        return None
    return None if seen is None else timezone.now() - seen
