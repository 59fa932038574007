"""Deleting a project: nobody sees it any more at once, and its rows go in short transactions.

Each chunk takes a number of items, calls or examples with all that belongs to them, found by the
indexes of their round, run or project. Looking for the rows of a project in each table would read
the rows of all other projects, again for each chunk.
"""

from collections.abc import Callable
from datetime import timedelta

from django.contrib.auth.models import AbstractUser, User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from annotation.models import (
    Adjudication,
    Annotator,
    CrowdLink,
    CrowdSubmission,
    Draft,
    FirstChoice,
    Flag,
    Intervention,
    Invitation,
    Item,
    Job,
    PracticeResult,
    Protocol,
    Repeat,
    Round,
    RoundWork,
    Skip,
    Slot,
    Vote,
    VoteRevision,
)
from judging.core import leases, waking
from judging.core.errors import UserError
from judging.core.leases import Lease, TakenOver, delete_rows, in_chunks, new_holder
from judging.core.processes import stop_requested
from judging.dataset.images import release
from judging.dataset.models import (
    Example,
    ExampleImage,
    FrameMember,
    HumanScore,
    Import,
    PointItem,
    Tagging,
)
from judging.dataset.uploads import discard_named, remove_uploads
from judging.projects import access
from judging.projects.access import end_password_links
from judging.projects.models import AuditEvent, Deletion, Project
from judging.runs.models import Call, Parse, Run, Sample, TextLikelihood, Verdict

LEASE = Lease(timedelta(seconds=60))
# A page deletes a smaller project at once, and leaves a larger one to a worker.
AT_ONCE = 5000
# SQLite takes some 30,000 values in a statement.
_MOST = 10_000
_TRIES = 10
Advance = Callable[[int], None]


def delete_project(
    project: Project,
    user: AbstractUser | None,
    *,
    advance: Advance = lambda rows: None,
    background: bool = False,
) -> bool:
    """Delete everything of the project, with its uploads. Nobody sees it from the start on.

    The audit trail stays, and then belongs to no project. Returns False if the rows are left to a
    worker, or if another process deletes them. Raises UserError while a worker writes to the
    project.

    Args:
        advance: Told how many items, calls, verdicts or examples are gone.
        background: Leave a large project to a worker.
    """
    deletion = Deletion.objects.filter(project=project).first() or _hide(project, user)
    if background and deletion.n_total > AT_ONCE:
        waking.wake_on_commit(waking.DELETE_PROJECT, deletion.pk)
        return False
    return go_on(deletion.pk, advance)


def leave_to_worker(project: Project, user: AbstractUser) -> Deletion:
    """Make the project unknown to everybody, and leave all its rows to a worker."""
    deletion = _hide(project, user)
    waking.wake_on_commit(waking.DELETE_PROJECT, deletion.pk)
    return deletion


def _hide(project: Project, user: AbstractUser | None) -> Deletion:
    """Make the project unknown to everybody, and record that its rows have to go."""
    now = timezone.now()
    n_total = sum(rows.count() for rows in _parents(project))
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        for busy in (project.runs, project.imports):
            if busy.filter(lease_until__gte=now).exists():
                raise UserError(
                    "A run or an import is at work in this project. Stop it and try again. "
                    "Nothing was deleted."
                )
        access.record_event(None, user, "project deleted", project.slug)
        # Closed first: people may be at work, and a new vote would keep its item.
        open_rounds = Round.every.filter(project=project).exclude(state=Round.State.CLOSED)
        open_rounds.update(state=Round.State.CLOSED, closed_at=now)
        # Who still writes to a round finds that the row is gone, and leaves.
        RoundWork.objects.filter(round__project=project).delete()
        project.runs.at_work().update(state=Run.State.CANCELLED)
        unfinished = project.imports.exclude(state=Import.State.DONE)
        unfinished.update(state=Import.State.UNDONE, holder="", lease_until=None)
        end_password_links(project.memberships.values_list("user", flat=True))
        project.memberships.all().delete()
        Invitation.objects.filter(project=project).delete()
        deletion = Deletion.objects.create(
            project=project, slug=project.slug, user=user, n_total=n_total
        )
        # Another project may take the slug at once.
        Project.every.filter(pk=project.pk).update(slug=f"deleted-{project.pk}", deleted_at=now)
    return deletion


def deletions_of(user: AbstractUser) -> QuerySet[Deletion]:
    """Return the deletions under way that this person started, or all of them for a superuser."""
    deletions = Deletion.objects.order_by("pk")
    return deletions if user.is_superuser else deletions.filter(user=user)


def wake_deletions() -> None:
    leases.wake_abandoned(Deletion.objects.all(), waking.DELETE_PROJECT, "deletion")


def go_on(key: int, advance: Advance = lambda rows: None) -> bool:
    """Delete what is left. Returns False if another process does, or if nothing is left."""
    deletion = Deletion.objects.select_related("project").filter(pk=key).first()
    if deletion is None:
        return False
    holder = new_holder()
    same = LEASE.unchanged(Deletion.objects.filter(pk=key), deletion.holder, deletion.lease_until)
    if not LEASE.take(same.filter(leases.abandoned(deletion)), holder):
        return False
    rest = _Rest(deletion, holder, advance)
    try:
        for _ in range(_TRIES):
            try:
                rest.delete()
                return True
            except IntegrityError:
                # A vote was on its way when the rounds were closed, or an export ended meanwhile
                # and was put on record.
                continue
        raise UserError(
            f"Somebody still works in {deletion.slug}. Nobody sees it any more, and a worker "
            "deletes the rest later."
        )
    except TakenOver:
        return False
    finally:
        mine = LEASE.held_by(Deletion.objects.filter(pk=key), holder)
        mine.update(**leases.FREE)


def _parents(project: Project) -> list[QuerySet]:
    """Return the rows that are deleted in chunks, each with all rows that refer to it."""
    rounds, runs = Round.every.filter(project=project), project.runs.all()
    return [
        *(Item.every.filter(round=round_) for round_ in rounds),
        *(Call.objects.filter(run=run) for run in runs),
        *(Verdict.objects.filter(run=run) for run in runs),
        PointItem.objects.filter(project=project),
        TextLikelihood.objects.filter(project=project),
        FrameMember.objects.filter(frame__project=project),
        Tagging.objects.filter(tag__project=project),
        ExampleImage.objects.filter(example__project=project),
        Example.objects.filter(project=project),
    ]


class _Rest:
    """What is left of a project that is being deleted."""

    def __init__(self, deletion: Deletion, holder: str, advance: Advance) -> None:
        self.deletion, self.project = deletion, deletion.project
        self.holder, self.advance = holder, advance

    def delete(self) -> None:
        for imported in self.project.imports.order_by("pk"):
            remove_uploads(imported, with_refused=True)
        for rows in _parents(self.project):
            self._delete(rows)
        release(self.project.imports.all())
        crowd = Annotator.objects.filter(project=self.project, is_crowd=True)
        in_chunks(crowd, _of_crowd, _MOST)
        links = CrowdLink.objects.filter(round__project=self.project)
        screened_out = CrowdSubmission.objects.filter(link__in=links)
        in_chunks(screened_out, lambda keys: delete_rows(CrowdSubmission, pk__in=keys), _MOST)
        links.delete()
        made = Intervention.objects.filter(round__project=self.project)
        in_chunks(made, lambda keys: delete_rows(Intervention, pk__in=keys), _MOST)
        results = PracticeResult.objects.filter(round__project=self.project)
        in_chunks(results, lambda keys: delete_rows(PracticeResult, pk__in=keys), _MOST)
        jobs = Job.objects.filter(project=self.project)
        for job in jobs.iterator():
            discard_named(job.files)
        in_chunks(jobs, lambda keys: delete_rows(Job, pk__in=keys), _MOST)
        events = AuditEvent.objects.filter(project=self.project)
        in_chunks(events, lambda keys: events.filter(pk__in=keys).update(project=None), _MOST)
        with transaction.atomic():
            # What a model's own rule would have deleted first.
            Round.every.filter(project=self.project).delete()
            Protocol.objects.filter(project=self.project).delete()
            Project.every.filter(pk=self.project.pk).delete()

    def _delete(self, rows: QuerySet) -> None:
        dependants = {Item: _of_items, Call: _of_calls, PointItem: _of_point_items}
        first = dependants.get(rows.model)

        def chunk(keys: list[int]) -> None:
            self._renew(len(keys))
            if first:
                first(keys)
            delete_rows(rows.model, pk__in=keys)
            self.advance(len(keys))

        in_chunks(rows, chunk, _MOST)

    def _renew(self, gone: int) -> None:
        """Keep the deletion. Raises TakenOver, or UserError if the process has to stop."""
        if stop_requested.is_set():
            raise UserError("The process was stopped. A worker deletes the rest later.")
        mine = Deletion.objects.filter(pk=self.deletion.pk)
        self.deletion.n_done += gone
        if not LEASE.renew(mine, self.holder, n_done=self.deletion.n_done):
            raise TakenOver


def _of_crowd(keys: list[int]) -> None:
    """Delete people of crowds and their logins, which opened only a round of the project."""
    crowd = Annotator.objects.filter(pk__in=keys)
    User.objects.filter(pk__in=list(crowd.values_list("user", flat=True))).delete()
    crowd.delete()


def _of_items(keys: list[int]) -> None:
    # These votes may count in other rounds, whose items are deleted later.
    elsewhere = Slot.objects.filter(vote__item__in=keys).exclude(item__in=keys)
    elsewhere.update(vote=None)
    delete_rows(VoteRevision, annotation__item__in=keys)
    delete_rows(Draft, item__in=keys)
    delete_rows(Repeat, vote__item__in=keys)
    for table in (Skip, Flag, FirstChoice, Adjudication, Vote, Slot):
        delete_rows(table, item__in=keys)


def _of_calls(keys: list[int]) -> None:
    delete_rows(Parse, sample__call__in=keys)
    delete_rows(Sample, call__in=keys)


def _of_point_items(keys: list[int]) -> None:
    delete_rows(HumanScore, point_item__in=keys)
