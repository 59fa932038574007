"""Reading a run's replies again in a worker: how it is asked for, and how far it is.

It stands in the run's `progress`, which is nobody else's once the run has ended; a run that goes
on takes it over, and the reading ends.
"""

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from judging.audit import record
from judging.errors import UserError
from judging.models import Run, Worker
from judging.runs.reparse import ReparseCounts, check_replies, older, reparse
from judging.runs.states import RESUMABLE

# A chunk is read within a second or two; a reader that is silent for so long is dead.
SILENT_AFTER = timedelta(seconds=60)
WAITING, READING, DONE, FAILED = "waiting", "reading", "done", "failed"


class TakenOver(Exception):
    """The run goes on, or somebody began anew: this reading ends."""


@dataclass(frozen=True, slots=True)
class Rereading:
    """`at` is the last sign of life; `token` names this one reading."""

    token: str
    state: str
    total: int
    at: str
    read: int = 0
    changed: int = 0
    reason: str = ""

    @property
    def under_way(self) -> bool:
        silent = timezone.now() - datetime.fromisoformat(self.at) > SILENT_AFTER
        return self.state in (WAITING, READING) and not silent

    @property
    def stopped(self) -> bool:
        """Its worker died: what was read stays, and another begin reads the rest."""
        return self.state in (WAITING, READING) and not self.under_way

    @property
    def worker_missing(self) -> bool:
        workers = Worker.objects.alive().filter(queues__contains="quick")
        return self.state == WAITING and not workers.exists()


def rereading_of(run: Run) -> Rereading | None:
    kept: Mapping[str, Any] | None = run.progress.get("rereading")
    return Rereading(**kept) if kept else None


def begin(run: Run, user: Any) -> Rereading:
    """Leave it to a worker; one that is under way already goes on."""
    check_replies(run)
    run.refresh_from_db()
    if run.state not in RESUMABLE:
        raise UserError(
            f"Run {run.name} is still at work. Nothing was changed. Its replies can be read again "
            "once it has ended."
        )
    before = rereading_of(run)
    if before and before.under_way:
        return before
    token = uuid.uuid4().hex
    reading = Rereading(token, WAITING, older(run).count(), timezone.now().isoformat())
    with transaction.atomic():
        ended = Run.objects.filter(pk=run.pk, state__in=RESUMABLE, progress=run.progress)
        if ended.update(progress={"rereading": asdict(reading)}):
            record(run.project, user, "replies read again", run.name, replies=reading.total)
            # The task ends here again.
            from judging.tasks import reparse_run

            reparse_run.delay_on_commit(run.pk, token)
    return reading


def work_on(run: Run, token: str) -> None:
    """Read what is left. A message that comes twice, or too late, finds nothing to do."""
    reading = rereading_of(run)
    if reading is None or (reading.token, reading.state) != (token, WAITING):
        return

    def advance(counts: ReparseCounts) -> None:
        note(run, replace(reading, state=READING, **asdict(counts)))

    try:
        note(run, replace(reading, state=READING), before=WAITING)
        counts = reparse(run, advance)
        note(run, replace(reading, state=DONE, **asdict(counts)))
    except TakenOver:
        return
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:300]
        note(run, replace(reading, state=FAILED, reason=reason))
        raise


def note(run: Run, now: Rereading, before: str = READING) -> None:
    kept = asdict(replace(now, at=timezone.now().isoformat()))
    ours = Run.objects.filter(
        pk=run.pk,
        state__in=RESUMABLE,
        progress__rereading__token=now.token,
        progress__rereading__state=before,
    )
    if not ours.update(progress={"rereading": kept}):
        raise TakenOver
