"""Celery tasks of the results: ids in, load, call. The settings say which queue is whose."""

from contextlib import suppress

from celery import shared_task

from annotation import deletion, letters, retention
from annotation.models import Round
from annotation.people import personal_data
from annotation.results.delivery import jobs
from annotation.results.delivery.telling import tell_of_certificate
from annotation.results.report.cache import current_report
from annotation.results.sections.routing import select_what_was_learned
from annotation.rounds import growing
from annotation.rounds.changes import rounds_due
from judging.core.errors import UserError
from judging.projects import mail
from judging.runs.models import Run


@shared_task
def go_on_with_round(round_id: int) -> None:
    """Start the second stage. A message that comes twice or too early finds nothing to do."""
    round_ = rounds_due().filter(pk=round_id).first()
    if round_ is not None:
        select_what_was_learned(round_)


@shared_task
def work_on_round(work_id: int) -> None:
    """Write what is left of a round that was opened or changed, and settle its items."""
    # A worker that has to stop raises this. The work is free again, so that another one goes on.
    with suppress(UserError):
        growing.work_on(work_id)


@shared_task
def go_on_deleting(deletion_id: int) -> None:
    """Delete what is left of a project that somebody deleted."""
    # Raised as well while somebody still works in the project: the rest is deleted later.
    with suppress(UserError):
        deletion.go_on(deletion_id)


@shared_task
def remove_due(retention_id: int) -> None:
    """Remove from a project what its owner wanted gone by today."""
    retention.remove_due(retention_id)


@shared_task
def go_on_erasing(erasure_id: int) -> None:
    """Erase a person who asked for it."""
    with suppress(UserError):
        personal_data.go_on_erasing(erasure_id)


@shared_task
def renew_report(run_id: int) -> None:
    """Compute the report again if the data changed. Until then, the page shows the last one."""
    run = Run.objects.select_related("project").filter(pk=run_id).first()
    if run is not None and run.ranked_at is not None:
        current_report(run.project, run)


@shared_task
def work_on_job(job_id: int) -> None:
    """Do what a program left to a worker. A message that comes twice finds nothing to do."""
    jobs.work_on(job_id)


@shared_task
def send_mail(server_id: int) -> None:
    """Send the mails that are due. A message that comes twice finds nothing to do."""
    mail.send_due(server_id, letters.write)


@shared_task
def look_who_waits(key: int) -> None:
    """Queue mail for people for whom pairs or decisions wait."""
    letters.look_who_waits()


@shared_task
def tell_certificate(round_id: int) -> None:
    """Tell webhooks what the audit of a round has come to, if that has changed."""
    round_ = Round.objects.select_related("project", "run").filter(pk=round_id).first()
    if round_ is not None:
        tell_of_certificate(round_)
