"""Celery tasks of judging: ids in, load, call, record. The settings say which queue is whose."""

from contextlib import suppress

from celery import shared_task

from judging.core.errors import UserError
from judging.dataset import writing
from judging.runs.engine import rereading
from judging.runs.engine.working import work_on
from judging.runs.models import Run
from judging.runs.verdicts.judge_figures import prepare_page


@shared_task
def pump_run(run_id: int) -> None:
    """One long pump; a message that comes twice, or too late, finds nothing to do."""
    run = Run.objects.filter(pk=run_id).first()
    if run is not None and work_on(run):
        prepare_page(run)


@shared_task
def reparse_run(run_id: int, token: str) -> None:
    run = Run.objects.filter(pk=run_id).first()
    if run is not None:
        rereading.work_on(run, token)


@shared_task
def write_import(import_id: int) -> None:
    """The second pass of an import; what stopped it stands in the import's reason."""
    with suppress(UserError):
        writing.write(import_id)
