"""Celery tasks of judging: ids in, load, call, record."""

from celery import shared_task

from judging.models import Run
from judging.runs.working import work_on


@shared_task(queue="runs")
def pump_run(run_id: int) -> None:
    """One long pump; a message that comes twice, or too late, finds nothing to do."""
    run = Run.objects.filter(pk=run_id).first()
    if run is not None:
        work_on(run)
