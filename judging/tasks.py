"""Celery tasks of judging. Each gets ids, loads the rows and calls one function.

The settings say which queue a task belongs to. A message that comes twice, or too late, does
nothing: the functions take the work by a conditional UPDATE.
"""

from contextlib import suppress

from celery import shared_task

from judging.core.errors import UserError
from judging.core.incidents import logged_as
from judging.dataset import writing
from judging.projects import webhooks
from judging.runs.engine import rereading
from judging.runs.engine.progress import counted
from judging.runs.engine.working import work_on
from judging.runs.models import Run
from judging.runs.verdicts.judge_figures import prepare_page


@shared_task
def pump_run(run_id: int) -> None:
    """Work on a run until it ends, however long that takes, or help who works on it."""
    run = Run.objects.select_related("project").filter(pk=run_id).first()
    if run is not None:
        with logged_as(run=f"{run.project.slug}/{run.number}"):
            if work_on(run, helps=True):
                prepare_run_page(run_id)


@shared_task
def prepare_run_page(run_id: int) -> None:
    """Compute what a run's page would wait for. What is kept is not computed again."""
    for run in Run.objects.select_related("project").filter(pk=run_id):
        counted(run)
        # Last, since pages wait for what this keeps.
        prepare_page(run)


@shared_task
def reparse_run(run_id: int, token: str) -> None:
    run = Run.objects.select_related("project").filter(pk=run_id).first()
    if run is not None:
        with logged_as(run=f"{run.project.slug}/{run.number}"):
            rereading.work_on(run, token)


@shared_task
def write_import(import_id: int) -> None:
    """Do the second pass of an import. What stops it is recorded as the import's reason."""
    with suppress(UserError):
        writing.write(import_id)


@shared_task
def send_webhooks(webhook_id: int) -> None:
    """Send what is due for a webhook. A message that comes twice finds nothing to do."""
    webhooks.send_due(webhook_id)
