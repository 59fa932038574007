"""A worker's sign of life in the database, and its sweep for work that was abandoned."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable

from django.db import close_old_connections, connection
from django.utils import timezone

from annotation import retention
from annotation.deletion import wake_deletions
from annotation.people.crowds import release_absent
from annotation.people.personal_data import wake_erasures
from annotation.results.delivery.jobs import wake_jobs
from annotation.results.report.cache import wake_for_reports
from annotation.rounds.changes import wake_due
from annotation.rounds.growing import wake_unfinished
from annotation.rounds.telling import tell_of_rounds
from annotation.votes.aside import carry_out_due
from judging.core import storage
from judging.core.caching import code_version
from judging.core.incidents import DATABASE_AWAY
from judging.core.models import Worker
from judging.dataset.writing import resume_imports, tidy_uploads
from judging.projects import mail, webhooks
from judging.projects.accounts import forget_logins
from judging.runs.engine.recording import sweep
from judging.runs.engine.rereading import resume_readings
from judging.runs.verdicts.judge_figures import wake_for_pages

BEAT_EVERY = 5.0
SWEEP_EVERY = 15.0
TIDY_EVERY = 3600.0
# Each goes on with work whose process or message was lost, or wakes a worker for it.
SWEPT = (
    *(sweep, resume_readings, wake_due, wake_unfinished, wake_deletions, release_absent),
    *(wake_erasures, carry_out_due, wake_for_reports, resume_imports, tell_of_rounds),
    *(webhooks.COURIER.wake, mail.COURIER.wake, mail.wake_to_look, wake_jobs),
)
TIDIED = (
    *(tidy_uploads, storage.tidy, webhooks.COURIER.forget_old, mail.COURIER.forget_old),
    *(mail.forget_addresses, forget_logins, retention.wake_due, wake_for_pages),
)
logger = logging.getLogger(__name__)


class Heartbeat(threading.Thread):
    """Runs in a thread of its own, since the worker's tasks may take hours."""

    def __init__(self, name: str, queues: list[str]) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.row = {"queues": ",".join(sorted(queues)), "hostname": socket.gethostname()}
        self.row |= {"pid": os.getpid(), "started_at": timezone.now()}
        self.row |= {"release": code_version(), "secret_key": storage.key_mark()}
        self.worker_name = name
        self.ended = threading.Event()
        self.is_away = False

    def run(self) -> None:
        sweep_due = tidy_due = time.monotonic()
        while not self.ended.is_set():
            self.attempt(self.beat)
            # What asks for nothing in the database would seem to work meanwhile.
            if self.is_away:
                self.ended.wait(BEAT_EVERY)
                continue
            if time.monotonic() >= sweep_due:
                for action in SWEPT:
                    self.attempt(action)
                sweep_due = time.monotonic() + SWEEP_EVERY
            if time.monotonic() >= tidy_due:
                for action in TIDIED:
                    self.attempt(action)
                tidy_due = time.monotonic() + TIDY_EVERY
            self.ended.wait(BEAT_EVERY)
        self.attempt(Worker.objects.filter(name=self.worker_name).delete)
        connection.close()

    def beat(self) -> None:
        Worker.objects.update_or_create(
            name=self.worker_name, defaults={**self.row, "seen_at": timezone.now()}
        )

    def attempt(self, action: Callable[[], object]) -> None:
        """Do it, and go on after any error: the database may be away for a while."""
        close_old_connections()
        try:
            action()
        except DATABASE_AWAY as error:
            # Once, and not every five seconds.
            if not self.is_away:
                reason = " ".join(str(error).split())
                logger.error("The database is away (%s). The worker waits for it.", reason)
            self.is_away = True
        except Exception:
            logger.exception("The worker's heartbeat failed; it goes on.")
        else:
            if self.is_away:
                logger.info("The database is back.")
            self.is_away = False

    def end(self) -> None:
        self.ended.set()
        self.join(timeout=BEAT_EVERY)
