"""Jobs: long work that a page or a program leaves to a worker, so that no request waits for it.

A job is a row: what was asked, and later the answer. What a worker answers is what the request
would have been answered at once, by the same functions. The answer is written in the transaction
that does the last of the work, so that a crash keeps both or neither.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone

from annotation.models import Job, Lesson
from annotation.results.delivery.drift import decide_asked
from annotation.results.delivery.package import deliver
from annotation.results.delivery.teaching import draft
from annotation.results.report.cache import MOST_AT_ONCE
from annotation.results.tables.exports import (
    BLIND_KINDS,
    STREAMED,
    ExportRequest,
    export,
    file_name,
    role_for,
    whole_file,
)
from annotation.votes.imports import import_votes
from judging.core import leases, storage, waking
from judging.core.errors import UserError
from judging.core.incidents import DATABASE_AWAY, incident
from judging.core.leases import Lease, new_holder
from judging.core.models import Worker
from judging.core.processes import stop_requested
from judging.dataset.models import Frame, frame_of
from judging.dataset.records import codes_of
from judging.dataset.scores import import_scores
from judging.dataset.uploads import discard_named, new_folder, shortened, stored_name
from judging.projects.access import Access, project_for
from judging.projects.models import Project, Role
from judging.runs.models import Run
from judging.runs.recorded.writing import import_judgments

LEASE = Lease(timedelta(seconds=60))
_RENEW_SECONDS = 20.0
# How far a file is, and whether it is still wanted, is written and read with each renewal.
_RENEW_FILE_SECONDS = 2.0
# A browser gets the first rows of a text at once and shows how far it is, so only those that take
# minutes are left to a worker. Each of some gigabytes would begin again if the connection broke.
MOST_STREAMED = 50_000
log = logging.getLogger(__name__)
Asked = Mapping[str, Any]
Keep = Callable[[dict[str, Any]], object]
Advance = Callable[[int], None]


def is_left(project: Project, run: Run | None, kind: str) -> bool:
    """Return True if a page leaves this kind of file to a worker: it takes long, and there is one.

    Args:
        kind: The format of a table, or the ending of a report.
    """
    most = MOST_STREAMED if kind in STREAMED else MOST_AT_ONCE
    examples = frame_of(project, run.frame_id if run else None).order_by().values_list("pk")
    # One row behind the limit answers this without counting all.
    return bool(examples[most : most + 1]) and Worker.objects.take_long_work()


def leave_to_worker(
    project: Project, user: AbstractUser, kind: str, asked: Asked, *, again: bool = True
) -> Job:
    """Record what a program asks, and wake a worker for it.

    Args:
        again: If False, a job of this person that waits for the same is returned instead.
    """
    with transaction.atomic():
        if not again:
            waiting = Job.objects.filter(project=project, user=user, kind=kind)
            same = waiting.filter(state=Job.State.WAITING, asked=asked).first()
            if same is not None:
                return same
        job = Job.objects.create(project=project, user=user, kind=kind, asked=asked)
        waking.wake_on_commit(waking.WORK_ON_JOB, job.pk)
    return job


def role_of(job: Job) -> Role:
    """Return the role that a job needs."""
    if job.kind == Job.Kind.TABLE:
        return role_for(export_asked(job.asked))
    return Role.OBSERVER if job.kind == Job.Kind.REPORT else Role.RESEARCHER


def shows_judge(job: Job) -> bool:
    """Return True if the file of a job shows what the judge said."""
    return job.kind == Job.Kind.REPORT or export_asked(job.asked).what not in BLIND_KINDS


def files_of(project: Project) -> QuerySet[Job]:
    """Return the reports and tables that were left to a worker, the newest first."""
    return project.jobs.filter(kind__in=Job.FILES).select_related("user").order_by("-pk")


def open_file(job: Job) -> BinaryIO:
    """Return the report or table that a worker has written. Raises UserError if there is none."""
    if job.result is None:
        raise UserError(f"Job {job.pk} is {job.get_state_display()}, so it has no file yet.")
    with storage.at_hand([job.result["file"]]) as root:
        path = root / job.result["file"]
        if not path.is_file():
            raise UserError("The file was kept for a week. Ask for the report or table again.")
        # An open file can be read to its end after the folder at hand is gone.
        return path.open("rb")


def cancel_file(access: Access, job: Job) -> None:
    """Have no worker write this file any more. What was written of it is removed.

    Raises UserError if it is no file that waits, or if an observer didn't ask for it.
    """
    if job.user != access.user and not access.may_manage:
        raise UserError("Only researchers cancel a file that another person asked for.")
    waiting = Job.objects.filter(pk=job.pk, kind__in=Job.FILES, state=Job.State.WAITING)
    ended = {"state": Job.State.STOPPED, "ended_at": timezone.now(), "reason": "It was cancelled."}
    # A conditional update: a worker that is done at this moment keeps its file, and a worker that
    # still writes loses its lease and stops.
    if not waiting.update(**ended, **leases.FREE):
        raise UserError("Only a file that isn't written yet can be cancelled. Nothing was changed.")


def answer_asked(
    project: Project,
    user: AbstractUser | None,
    kind: str,
    asked: Asked,
    keep: Keep,
    advance: Advance = lambda rows: None,
) -> None:
    """Do what a page or a program asked.

    Args:
        asked: The fields of a request, which names runs by their numbers.
        keep: Gets the answer, in the transaction that does the last of the work.
        advance: Told how many rows of a file are written.
    """
    if kind in Job.GATES:
        decide_asked(project, user, kind, asked, keep)
    elif kind in Job.IMPORTS:
        import_asked(project, user, kind, asked, keep)
    elif kind == Job.Kind.LESSON:
        draft(Lesson.objects.get(project=project, number=asked["lesson"]), keep)
    else:
        _write_asked(project, user, kind, asked, keep, advance)


def import_asked(
    project: Project, user: AbstractUser | None, kind: str, asked: Asked, keep: Keep
) -> None:
    """Import rows that were sent. Raises UserError with the lines that are wrong."""
    with storage.at_hand([asked["file"]]) as root:
        _import_file(project, user, kind, asked, root / asked["file"], keep)


def _import_file(
    project: Project, user: AbstractUser | None, kind: str, asked: Asked, path: Path, keep: Keep
) -> None:
    sheet = asked["sheet"]
    if kind == Job.Kind.SCORES:
        import_scores(
            project, user, path, rater=asked["rater"], sheet=sheet,
            keep=lambda done: keep(
                {"items": done.items, "added": done.scores, "known": done.known,
                 "conflicts": list(done.conflicts)}
            ),
        )  # fmt: skip
        return
    labels = codes_of(asked["labels"])
    if kind == Job.Kind.JUDGMENTS:
        import_judgments(
            project, user, [path], name=asked["name"], labels=labels, sheet=sheet,
            keep=lambda run: keep({"run": run.number}),
        )  # fmt: skip
        return
    import_votes(
        project, user, path, annotator=asked["annotator"], protocol=asked["protocol"] or None,
        labels=labels, sheet=sheet,
        keep=lambda done: keep(
            {"added": done.added, "known": done.known, "conflicts": list(done.conflicts),
             "annotators": list(done.annotators), "protocol": done.protocol,
             "filled": done.filled}
        ),
    )  # fmt: skip


def export_asked(asked: Asked) -> ExportRequest:
    """Return what a table was asked for, without the examples that it is about."""
    return ExportRequest(**asked["table"])


def table_asked(run: Run | None, wanted: ExportRequest) -> dict[str, Any]:
    """Return what a job holds about a table."""
    fields = ("what", "format", "names", "escape", "values", "background", "model")
    table = {name: getattr(wanted, name) for name in fields}
    frame = wanted.frame.pk if wanted.frame else None
    return {"run": run.number if run else None, "table": table, "frame": frame}


def _write_asked(
    project: Project,
    user: AbstractUser | None,
    kind: str,
    asked: Asked,
    keep: Keep,
    advance: Advance,
) -> None:
    """Write a report or a table into a folder of the site's own, which a week later is deleted."""
    number = asked["run"]
    run = None if number is None else project.runs.get(number=number)
    folder = new_folder()
    try:
        if kind == Job.Kind.REPORT:
            assert run is not None
            path = folder / f"{project.slug}-run{run.number}-report.{asked['kind']}"
            deliver(project, run, user, path, advance=advance)
        else:
            wanted = replace(export_asked(asked), frame=_frame(project, asked["frame"]))
            path = folder / shortened(file_name(project, run, wanted))
            pieces = export(project, run, user, wanted, advance=advance)
            with whole_file(path) as partial, partial.open("wb") as stream:
                stream.writelines(pieces)
        storage.share(folder)
        keep({"file": stored_name(path)})
    # Also if the worker has to stop, because nothing else knows of the folder yet.
    except BaseException:
        discard_named([stored_name(folder / "file")])
        raise


def _frame(project: Project, key: int | None) -> Frame | None:
    return None if key is None else Frame.objects.get(project=project, pk=key)


def work_on(key: int) -> None:
    """Do the job of this key if it waits, unless another process is at it.

    After a kill, the next process begins again. Rows that were written are then known, and a gate
    takes the same look, because the data is the same.
    """
    rows = Job.objects.filter(pk=key, state=Job.State.WAITING)
    job, holder = rows.select_related("project", "user").first(), new_holder()
    if job is None or not LEASE.take(rows.filter(leases.abandoned(job)), holder, n_done=0):
        return
    n_done, lost, leaves = 0, threading.Event(), threading.Event()

    def renew() -> bool:
        """The file is read in a snapshot, which can't see that somebody cancelled it."""
        held = LEASE.renew(rows, holder, n_done=n_done)
        if not held:
            lost.set()
        return held

    def advance(n: int) -> None:
        nonlocal n_done
        n_done += n
        if lost.is_set() or stop_requested.is_set():
            leaves.set()
            raise leases.TakenOver

    def ask(query: Callable[..., Any], *statement: Any) -> Any:
        """A report is read and computed for a long time before its first row is written.

        Only once, so that what is broken off can still be put on record.
        """
        if not leaves.is_set():
            advance(0)
        return query(*statement)

    def end(state: str, **fields: Any) -> int:
        ended = {"state": state, "ended_at": timezone.now()} | fields | leases.FREE
        return LEASE.held_by(rows, holder).update(**ended)

    def keep(document: dict[str, Any]) -> None:
        # The file is whole, so that a worker that has to stop keeps it.
        leaves.set()
        if not end(Job.State.DONE, result=document):
            raise leases.TakenOver

    is_file = job.kind in Job.FILES
    every = _RENEW_FILE_SECONDS if is_file else _RENEW_SECONDS
    try:
        with (
            leases.kept(renew, every, f"job {key}"),
            connection.execute_wrapper(ask) if is_file else nullcontext(),
        ):
            # A person who has lost their role meanwhile opens no round and spends no error.
            project_for(job.user or AnonymousUser(), job.project.slug, role_of(job))
            answer_asked(job.project, job.user, job.kind, job.asked, keep, advance)
    except leases.TakenOver:
        # If this process has to stop, another one takes the job up at once.
        LEASE.held_by(rows, holder).update(**leases.FREE)
        return
    except DATABASE_AWAY:
        # The sweep finds it again.
        return
    except UserError as error:
        end(Job.State.REFUSED, reason=str(error))
    except (Http404, PermissionDenied):
        reason = "The person who asked no longer has permission to. Nothing was done."
        end(Job.State.REFUSED, reason=reason)
    except Exception:
        reason = f"An unexpected error stopped this (reference {incident(log, 'A job failed')})."
        end(Job.State.REFUSED, reason=f"{reason} The operator finds it in the log.")
    # The rows that were sent are needed as long as another worker may take the job up.
    if not rows.exists() and (sent := job.asked.get("file")):
        discard_named([sent])


def wake_jobs() -> None:
    waiting = Job.objects.filter(state=Job.State.WAITING)
    leases.wake_abandoned(waiting, waking.WORK_ON_JOB, "job")
