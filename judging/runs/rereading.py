"""Reading a run's replies again in a worker: how it is asked for, and how far it is.

It stands in the run's `progress`, which is nobody else's once the run has ended; a run that goes
on takes it over, and the reading ends. A reader that died is followed by another one.
"""

import logging
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from judging.audit import record
from judging.core import waking
from judging.errors import UserError
from judging.incidents import DATABASE_AWAY, incident, stopped_by
from judging.models.runs import Run
from judging.models.workers import Worker
from judging.runs.reparse import ReparseCounts, check_replies, older, reparse
from judging.runs.states import RESUMABLE

log = logging.getLogger(__name__)

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
        return self.state in (WAITING, READING)

    @property
    def silent(self) -> bool:
        """Its worker died, or none was told of it: another one takes it up."""
        heard = datetime.fromisoformat(self.at)
        return self.under_way and timezone.now() - heard > SILENT_AFTER

    @property
    def worker_missing(self) -> bool:
        workers = Worker.objects.alive().filter(queues__contains="quick")
        return (self.state == WAITING or self.silent) and not workers.exists()


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
            send(run.pk, token)
    return reading


def send(run_id: int, token: str) -> None:
    waking.wake_on_commit(waking.REPARSE_RUN, run_id, token)


def resume_readings() -> int:
    """Called by every worker every 15 s; how many readings it set going again."""
    begun = Run.objects.filter(
        state__in=RESUMABLE, progress__rereading__state__in=(WAITING, READING)
    )
    return sum(take_up(run) for run in begun)


def take_up(run: Run) -> bool:
    """Have a worker read what one that is gone left over; that one can write no more."""
    before = rereading_of(run)
    if before is None or not before.silent:
        return False
    token, moment = uuid.uuid4().hex, timezone.now().isoformat()
    anew = replace(before, token=token, state=WAITING, at=moment)
    as_it_was = Run.objects.filter(
        pk=run.pk,
        state__in=RESUMABLE,
        progress__rereading__token=before.token,
        progress__rereading__at=before.at,
    )
    with transaction.atomic():
        taken = as_it_was.update(progress={"rereading": asdict(anew)}) == 1
        if taken:
            send(run.pk, token)
    return taken


def work_on(run: Run, token: str) -> None:
    """Read what is left. A message that comes twice, or too late, finds nothing to do."""
    reading = rereading_of(run)
    if reading is None or (reading.token, reading.state) != (token, WAITING):
        return

    def advanced(counts: ReparseCounts) -> Rereading:
        read, changed = reading.read + counts.read, reading.changed + counts.changed
        return replace(reading, state=READING, read=read, changed=changed)

    try:
        note(run, replace(reading, state=READING), before=WAITING)
        counts = reparse(run, lambda counts: note(run, advanced(counts)))
        note(run, replace(advanced(counts), state=DONE))
    except TakenOver:
        return
    except DATABASE_AWAY:
        raise
    except Exception:
        note(run, replace(reading, state=FAILED, reason=failure_reason(run)))


def failure_reason(run: Run) -> str:
    reference = incident(log, f"reading the replies of run {run.pk} again stopped")
    return stopped_by(reference, safe="What was read is kept.", go_on="Read again to go on")


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
