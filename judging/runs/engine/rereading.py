"""Reading the stored replies again with today's parser, without a call.

A worker does it, and the run's `progress` says how far it is. Only this uses `progress` once the
run has ended. A run that goes on takes it over, which ends the reading. If the reader dies, another
one takes up the rest. If a person stops the reading, its worker still rebuilds the verdicts: they
agree with what was read.
"""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from judging.core import leases, waking
from judging.core.errors import UserError
from judging.core.incidents import DATABASE_AWAY, incident, stopped_by
from judging.core.leases import Chunks
from judging.core.models import Worker
from judging.llm.parsing.parse import PARSER_VERSION
from judging.projects.access import record_event
from judging.runs.engine.recording import read_again
from judging.runs.lifecycle import RESUMABLE
from judging.runs.models import Method, Parse, Run, content_free, subject_of
from judging.runs.planning.agenda import Questioner
from judging.runs.verdicts.rebuild import Advance, RankingStopped, rebuild_verdicts

CHUNK = 500
COMPARED = ("status", "score_1", "score_2", "rating", "p_first", "outcome", "criteria")


@dataclass(frozen=True, slots=True)
class ReparseCounts:
    read: int
    changed: int


def reparse(
    run: Run,
    advance: Callable[[ReparseCounts], None] = lambda counts: None,
    ranked: Advance = lambda done, total: True,
) -> ReparseCounts:
    """Add a version to every reply that an older parser read, and rebuild the verdicts.

    If it was interrupted it goes on where it was: what today's parser has read is left alone.

    Args:
        advance: Called with each chunk; if it raises, the chunk is not written.
        ranked: Told how far the verdicts are.
    """
    check_replies(run)
    counts, chunks = ReparseCounts(0, 0), Chunks()
    # What was read leaves the query, so the first rows are always the next ones.
    while chunk := next_chunk(run, min(chunks.size, CHUNK)):
        newer = read_chunk(run, chunk)
        changed = sum(values(old) != values(new) for old, new in zip(chunk, newer, strict=True))
        counts = ReparseCounts(counts.read + len(chunk), counts.changed + changed)
        with chunks.transaction():
            # The old reading stays for the trail, and a constraint allows one current reading of a
            # sample.
            Parse.objects.filter(pk__in=[old.pk for old in chunk]).update(current=False)
            Parse.objects.bulk_create(newer)
            advance(counts)
    rebuild_verdicts(run, ranked)
    return counts


def check_replies(run: Run) -> None:
    if run.method == Method.IMPORTED:
        raise UserError(f"Run {run.name} was recorded elsewhere, so it has no replies to parse.")


def older(run: Run) -> QuerySet[Parse]:
    """Return what an older parser read."""
    return Parse.objects.filter(
        sample__call__run=run,
        sample__raw_text__isnull=False,
        current=True,
        version__lt=PARSER_VERSION,
    )


def next_chunk(run: Run, size: int = CHUNK) -> list[Parse]:
    about = "sample__call__example", "sample__call__point_item"
    return list(older(run).select_related(*about).order_by("pk")[:size])


def read_chunk(run: Run, chunk: Sequence[Parse]) -> list[Parse]:
    asked, inputs = Questioner.of(run), content_free(run)
    newer = []
    for old in chunk:
        call = old.sample.call
        quoted = asked.quoted(subject_of(call, inputs), call.part)
        newer.append(read_again(old.sample, asked.template, call.part, quoted))
    return newer


def values(parse: Parse) -> tuple[object, ...]:
    return tuple(getattr(parse, name) for name in COMPARED)


log = logging.getLogger(__name__)

# A chunk takes a second or two, so a reader that is silent for this long is dead.
LEASE = leases.Lease(timedelta(seconds=60), "progress__rereading__token", "progress__rereading__at")
WAITING, READING, DONE, FAILED = "waiting", "reading", "done", "failed"
STOPPING, STOPPED = "stopping", "stopped"


@dataclass(frozen=True, slots=True)
class Rereading:
    """`at` is the last sign of life; `token` names this one reading.

    read, changed: replies. ranked, to_rank: examples, once the replies are read.
    """

    token: str
    state: str
    total: int
    at: str
    read: int = 0
    changed: int = 0
    reason: str = ""
    ranked: int = 0
    to_rank: int = 0

    @property
    def under_way(self) -> bool:
        return self.state in (WAITING, READING, STOPPING)

    @property
    def silent(self) -> bool:
        """True if its worker died or none was told of it, so that another one may take it up."""
        heard = datetime.fromisoformat(self.at)
        return self.under_way and leases.is_over(heard + LEASE.length)

    @property
    def worker_missing(self) -> bool:
        waits = self.state == WAITING or self.silent
        return waits and not Worker.objects.alive().serve(settings.QUICK)


def rereading_of(run: Run) -> Rereading | None:
    kept: Mapping[str, Any] | None = run.progress.get("rereading")
    return Rereading(**kept) if kept else None


def begin(run: Run, user: Any) -> Rereading:
    """Have a worker read the replies again; a reading that is under way goes on."""
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
        # Two people may begin at once: the second finds another `progress` and changes nothing.
        ended = Run.objects.filter(pk=run.pk, state__in=RESUMABLE, progress=run.progress)
        if ended.update(progress={"rereading": asdict(reading)}):
            record_event(run.project, user, "replies read again", run.name, replies=reading.total)
            send(run.pk, token)
    return reading


def stop(run: Run, user: Any) -> None:
    """End a reading early. What was read is kept, and another one goes on from there."""
    with transaction.atomic():
        now = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        before = rereading_of(now)
        if now.state not in RESUMABLE or before is None or before.state not in (WAITING, READING):
            raise UserError(f"No replies of run {run.name} are being read. Nothing was changed.")
        if before.to_rank:
            raise UserError(
                f"All replies of run {run.name} are read, and its verdicts are being updated. "
                "Nothing was changed."
            )
        stopping = replace(before, state=STOPPING, at=timezone.now().isoformat())
        Run.objects.filter(pk=run.pk).update(progress={"rereading": asdict(stopping)})
        record_event(run.project, user, "reading stopped", run.name, replies=before.read)
        # Nobody may be at it yet.
        send(run.pk, before.token)


def _end_early(run: Run, token: str) -> None:
    """Rebuild the verdicts from what was read, if a person stopped this reading."""
    run.refresh_from_db()
    reading = rereading_of(run)
    if reading is None or (reading.token, reading.state) != (token, STOPPING):
        return
    with suppress(leases.TakenOver, RankingStopped):
        if reading.read:
            rebuild_verdicts(run, partial(_ranks_on, run, reading))
        note(run, replace(reading, state=STOPPED), before=STOPPING)


def _ranks_on(run: Run, reading: Rereading, done: int, total: int) -> bool:
    """Note how far the verdicts are, and that their worker lives. False if nobody wants them.

    Raises TakenOver if another worker has the reading.
    """
    try:
        note(run, replace(reading, ranked=done, to_rank=total), before=reading.state)
    except leases.TakenOver:
        run.refresh_from_db()
        now = rereading_of(run)
        if now is not None and now.token != reading.token:
            # That worker's verdicts must not be deleted.
            raise
        return False
    return True


def send(run_id: int, token: str) -> None:
    waking.wake_on_commit(waking.REPARSE_RUN, run_id, token)


def readings_under_way() -> QuerySet[Run]:
    """Return the runs whose replies are being read again."""
    states = (WAITING, READING, STOPPING)
    return Run.objects.filter(state__in=RESUMABLE, progress__rereading__state__in=states)


def resume_readings() -> int:
    """Send abandoned readings to workers again. Every worker calls it every 15 s."""
    return sum(take_up(run) for run in readings_under_way())


def take_up(run: Run) -> bool:
    """Have another worker read what a silent one left; that one can write no more."""
    before = rereading_of(run)
    if before is None or not before.silent:
        return False
    # A new token, since the silent worker may only be slow and wake up later.
    token, moment = uuid.uuid4().hex, timezone.now().isoformat()
    state = before.state if before.state == STOPPING else WAITING
    anew = replace(before, token=token, state=state, at=moment, ranked=0, to_rank=0)
    ended = Run.objects.filter(pk=run.pk, state__in=RESUMABLE)
    as_it_was = LEASE.unchanged(ended, before.token, before.at)
    with transaction.atomic():
        taken = as_it_was.update(progress={"rereading": asdict(anew)}) == 1
        if taken:
            send(run.pk, token)
    return taken


def work_on(run: Run, token: str) -> None:
    """Read what is left. A message that comes twice or too late finds nothing to do."""
    reading = rereading_of(run)
    if reading is None or (reading.token, reading.state) != (token, WAITING):
        _end_early(run, token)
        return

    now = replace(reading, state=READING, ranked=0, to_rank=0)

    def read(counts: ReparseCounts) -> None:
        nonlocal now
        so_far = {"read": reading.read + counts.read, "changed": reading.changed + counts.changed}
        now = replace(now, **so_far)
        note(run, now)

    try:
        note(run, now, before=WAITING)
        reparse(run, read, lambda *far: _ranks_on(run, now, *far))
        note(run, replace(now, state=DONE))
    except (leases.TakenOver, RankingStopped):
        _end_early(run, token)
    except DATABASE_AWAY:
        raise
    # Any other error would come again with the next worker, so the page shows it instead.
    except Exception:
        note(run, replace(reading, state=FAILED, reason=failure_reason(run)))


def failure_reason(run: Run) -> str:
    reference = incident(log, f"reading the replies of run {run.pk} again stopped")
    return stopped_by(reference, safe="What was read is kept.", go_on="Read again to go on")


def note(run: Run, now: Rereading, before: str = READING) -> None:
    kept = asdict(replace(now, at=timezone.now().isoformat()))
    ended = Run.objects.filter(pk=run.pk, state__in=RESUMABLE, progress__rereading__state=before)
    if not LEASE.held_by(ended, now.token).update(progress={"rereading": kept}):
        raise leases.TakenOver
