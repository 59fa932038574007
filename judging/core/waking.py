"""Wake workers by the name of a task. The database says what is to be done.

Tasks are named and never imported, so that a lower room can start work that a higher room does.
A lost message costs only time: a worker's sweep finds the work by itself.
"""

import logging
from functools import partial
from typing import Any

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

from judging.core import tracing

logger = logging.getLogger(__name__)

PUMP_RUN = "judging.tasks.pump_run"
PREPARE_PAGE = "judging.tasks.prepare_run_page"
REPARSE_RUN = "judging.tasks.reparse_run"
WRITE_IMPORT = "judging.tasks.write_import"
GO_ON_WITH_ROUND = "annotation.results.tasks.go_on_with_round"
WORK_ON_ROUND = "annotation.results.tasks.work_on_round"
SEND_WEBHOOKS = "judging.tasks.send_webhooks"
SEND_MAIL = "annotation.results.tasks.send_mail"
LOOK_WHO_WAITS = "annotation.results.tasks.look_who_waits"
TELL_CERTIFICATE = "annotation.results.tasks.tell_certificate"
ERASE_PERSON = "annotation.results.tasks.go_on_erasing"
REMOVE_DUE = "annotation.results.tasks.remove_due"
DELETE_PROJECT = "annotation.results.tasks.go_on_deleting"
RENEW_REPORT = "annotation.results.tasks.renew_report"
WORK_ON_JOB = "annotation.results.tasks.work_on_job"
NOTHING_LOST = "The work is recorded in the database, and a worker finds it later."


def wake(task: str, *values: Any) -> bool:
    """Send the task's message now. If the broker is away, log a warning and return False."""
    try:
        with tracing.span(f"send {task.rpartition('.')[2]}", "producer"):
            current_app.send_task(task, list(values), headers=tracing.traceparent() or None)
    except (OperationalError, OSError) as error:
        logger.warning("The broker does not answer (%s) to %s. %s", error, task, NOTHING_LOST)
        return False
    return True


def wake_on_commit(task: str, *values: Any) -> None:
    """Send the task's message once the transaction is committed."""
    # The work is committed by then, so an error in sending must not fail the request.
    transaction.on_commit(partial(wake, task, *values), robust=True)
