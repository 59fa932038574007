"""Whether the site works: `/healthz` for its own host, `/readyz` for what sends people to it.

With `?only=web`, each answers for the pages of the container alone: what starts it again, or keeps
people from it, must not do so because something else is away.
"""

from datetime import timedelta
from typing import Any

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
    if for_pages_alone(request):
        # The process that answers is what is asked about.
        return JsonResponse({"status": "ok"})
    database = database_answers()
    broker = broker_answers()
    age = worker_age() if database else None
    workers = age is not None and age < SILENT_AFTER
    parts = parts_down(settings.FAIRJUDGE_DATA)
    # The pages and the other parts go on while one starts again, so that alone is no reason to
    # send people elsewhere.
    healthy = database and broker and workers and "given up" not in parts.values()
    return _unlogged(
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
    database = database_answers()
    if for_pages_alone(request):
        # People vote without a broker and without workers.
        status = "ok" if database else "unavailable"
        return _unlogged({"status": status, "database": database}, status=200 if database else 503)
    broker = broker_answers()
    queues = {
        queue.name: database and has_worker(queue.name) for queue in settings.CELERY_TASK_QUEUES
    }
    ready = database and broker and all(queues.values())
    return _unlogged(
        {
            "status": "ok" if ready else "unavailable",
            "database": database,
            "broker": broker,
            "queues": queues,
        },
        status=200 if ready else 503,
    )


def for_pages_alone(request: HttpRequest) -> bool:
    return request.GET.get("only") == "web"


def _unlogged(document: dict[str, Any], status: int) -> JsonResponse:
    """Answer a probe, which asks every few seconds: Django would log each 503 as an error."""
    response = JsonResponse(document, status=status)
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


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
