"""Removing a project's comments, people and texts on the dates that its owner set.

A worker does it on the day, in short transactions, and also after a restart. Labels, times and
counts stay, so that results, reports and costs don't change. Doing it twice does no harm.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.contrib.auth.models import AbstractUser, User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.crypto import salted_hmac

from annotation.models import (
    Adjudication,
    Annotator,
    CrowdSubmission,
    Draft,
    FirstChoice,
    Flag,
    Intervention,
    Job,
    Lesson,
    Repeat,
    Round,
    Skip,
    Vote,
    VoteRevision,
)
from annotation.people.annotators import people_changed
from annotation.people.invitations import INVITED
from annotation.people.personal_data import ERASED, blank_reasons, erase_annotator, forget_deeds
from annotation.queue.queue import BY_ANNOTATORS
from judging.core import leases, waking
from judging.core.errors import UserError
from judging.core.leases import in_chunks, write_in_chunks
from judging.dataset.images import release
from judging.dataset.models import Example, ExampleImage, Import, PointItem
from judging.dataset.uploads import discard_named, remove_uploads
from judging.projects.access import end_password_links, record_event, who_may
from judging.projects.models import AuditEvent, Membership, Project, Retention, Role
from judging.runs.models import Parse, Run, Sample

What = Retention.What
# Tables with texts of the data set, and their columns.
_TEXTS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (Example, ("question", "response_1", "response_2", "reference", "explanation")),
    (PointItem, ("input", "output")),
)
_ROWS = 500
# Each table with words that people wrote: how its rows lead to the project, and the column.
_WORDS: tuple[tuple[Any, str, str], ...] = (
    (Vote.every, "example__project", "comment"),
    (VoteRevision._base_manager, "annotation__example__project", "comment"),
    (Draft.every, "item__round__project", "comment"),
    (Repeat._base_manager, "round__project", "comment"),
    (Skip._base_manager, "item__round__project", "reason"),
    (Flag._base_manager, "item__round__project", "reason"),
    (Adjudication._base_manager, "item__round__project", "reason"),
    (Intervention._base_manager, "round__project", "reason"),
    # A model drafted it from comments, and may have repeated them.
    (Lesson._base_manager, "project", "drafted"),
)
SAID = {
    What.COMMENTS: "Comments on votes, reasons for skips, flags, decisions and votes put aside, "
    "and drafts of rubrics are emptied. Labels, names and approved rubrics stay.",
    What.LOGINS: "All but owners, researchers and observers leave the project. Every annotator "
    "becomes an erased person: their votes stay under the pseudonym, without comments. Logins that "
    "came by a crowd link are deleted, with the panel's IDs and the background answers.",
    What.TEXTS: "Questions, responses, references, images, judges' replies and uploaded files go. "
    "Labels, scores, lengths and counts stay. Afterwards no run or round can be started.",
}
WAITS = "It waits until all rounds of the project are closed and no run is under way."


@dataclass(frozen=True)
class Planned:
    """A kind of what is removed, as it is now. n: rows that still hold something."""

    what: str
    label: str
    said: str
    on: date | None
    done_at: Any
    n: int
    waits: bool


def plan(project: Project) -> list[Planned]:
    """Return what is removed when, and how much there is of it."""
    rows = {row.what: row for row in Retention.objects.filter(project=project)}
    counts = {
        What.COMMENTS: sum(words.count() for words in _words(project)),
        What.LOGINS: _people(project).count(),
        What.TEXTS: sum(rows.count() for rows in _with_texts(project)),
    }
    removals = []
    for what, label in What.choices:
        row = rows.get(what)
        on = row.on if row else None
        waits = on is not None and on <= timezone.now().date() and _is_busy(project, what)
        done = row.done_at if row else None
        removals.append(Planned(what, label, SAID[What(what)], on, done, counts[What(what)], waits))
    return removals


def set_dates(
    project: Project, user: AbstractUser | None, dates: Mapping[str, date | None]
) -> None:
    """Set on which day what is removed; None keeps it. Raises UserError for a day in the past."""
    today = timezone.now().date()
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        before = dict(Retention.objects.filter(project=project).values_list("what", "on"))
        for what, on in dates.items():
            if what not in What.values:
                raise UserError(f"“{what}” is none of {', '.join(What.values)}.")
            if on == before.get(what):
                continue
            if on is not None and on <= today:
                raise UserError(
                    f"{on} is not in the future. The first possible day is tomorrow, so that you "
                    "can still change your mind. Nothing was changed."
                )
            Retention.objects.filter(project=project, what=what).delete()
            if on is not None:
                Retention.objects.create(project=project, what=what, on=on)
            was = before.get(what)
            record_event(
                project, user, "retention changed", what,
                before=str(was) if was else "kept", now=str(on) if on else "kept",
            )  # fmt: skip


def wake_due() -> None:
    """Have a worker remove what is due, once rounds don't need it any more."""
    for row in _due():
        leases.wake_once(waking.REMOVE_DUE, "retention", row.pk, 3600)


def remove_due(key: int) -> bool:
    """Remove what is due by this row. False if it isn't, or if a round is still open."""
    row = _due().filter(pk=key).first()
    if row is None:
        return False
    remove = {What.COMMENTS: _remove_comments, What.LOGINS: _remove_people}
    n = _remove_texts(row) if row.what == What.TEXTS else remove[What(row.what)](row.project)
    with transaction.atomic():
        if Retention.objects.filter(pk=key, done_at=None).update(done_at=timezone.now()):
            record_event(row.project, None, f"{row.what} removed", str(row.on), n=n)
    return True


def _due() -> QuerySet[Retention]:
    due = Retention.objects.filter(done_at=None, on__lte=timezone.now().date())
    busy = Round.objects.exclude(kind=Round.Kind.IMPORT).exclude(state=Round.State.CLOSED)
    rows = due.filter(project__deleted_at=None).exclude(project__in=busy.values("project"))
    rows = rows.exclude(what=What.TEXTS, project__in=_runs_under_way().values("project"))
    return rows.select_related("project").order_by("pk")


def _is_busy(project: Project, what: str) -> bool:
    rounds = project.rounds.exclude(kind=Round.Kind.IMPORT)
    is_judged = what == What.TEXTS and _runs_under_way().filter(project=project).exists()
    return is_judged or bool(rounds.exclude(state=Round.State.CLOSED).exists())


def _runs_under_way() -> QuerySet[Run]:
    ended = (Run.State.DONE, Run.State.FAILED, Run.State.CANCELLED, Run.State.PAUSED)
    return Run.objects.exclude(state__in=ended)


def _with_texts(project: Project) -> list[QuerySet[Any]]:
    """Return the rows that still hold texts of the data set, or what judges replied."""
    held = [model._base_manager.filter(project=project) for model, _ in _TEXTS]
    return [*([] if project.texts_removed_at else held), _replies(project)]


def _replies(project: Project) -> QuerySet[Sample]:
    has_words = (
        Q(raw_text__isnull=False) | ~Q(reasoning="") | ~Q(refusal="") | Q(logprobs__isnull=False)
    )
    return Sample.objects.filter(has_words, call__run__project=project)


def removed(text: str, project: int) -> str:
    """Return what stays of a text: as many characters, the same for the same text of a project.

    So equal questions are still told from others, and lengths stay. The site's secret key keeps
    anybody from finding a text by trying.
    """
    if not text.strip():
        return text
    mark = salted_hmac(f"removed texts {project}", text, algorithm="sha256").hexdigest()
    known = f"[removed {mark[:12]}]"
    return known.ljust(len(text), "·") if len(text) >= len(known) else mark[: len(text)]


def _remove_texts(row: Retention) -> int:
    """Remove the texts, with what quotes them. It goes on where it stopped.

    From the first row on, whatever needs texts is refused.
    """
    project = row.project
    n = sum(rows.count() for rows in _with_texts(project))
    Project.objects.filter(pk=project.pk, texts_removed_at=None).update(
        texts_removed_at=timezone.now()
    )
    for model, columns in _TEXTS:
        _remove_columns(row, model, columns)
    # Without a text, no newer parser reads them again, and no other run uses them again.
    write_in_chunks(_replies(project), raw_text=None, reasoning="", refusal="", logprobs=None)
    parses = Parse.objects.filter(sample__call__run__project=project)
    write_in_chunks(parses.exclude(evidence="", why=""), evidence="", why="")
    for rows, path, _ in _WORDS:
        # Answers quote what was marked.
        if hasattr(rows.model, "answer"):
            _remove_quotes(rows.filter(**{path: project, "answer__has_key": "spans"}))
    in_chunks(
        ExampleImage.objects.filter(example__project=project),
        lambda keys: ExampleImage.objects.filter(pk__in=keys).delete(),
    )
    imports = list(Import.objects.filter(project=project))
    release(imports)
    for imported in imports:
        remove_uploads(imported, with_refused=True)
        shown = imported.summary | {"rows": [], "problems": [], "conflicts": []}
        Import.objects.filter(pk=imported.pk).update(summary=shown)
    Lesson.objects.filter(project=project).update(drafted="")
    for job in Job.objects.filter(project=project).exclude(state=Job.State.WAITING):
        discard_named(job.files)
    return n


def _remove_columns(row: Retention, model: Any, columns: tuple[str, ...]) -> None:
    """Replace the texts of a table, some rows in each transaction, which remembers the last."""
    name, project = model._meta.model_name, row.project_id
    rows = model._base_manager.filter(project=project).order_by("pk")
    while chunk := list(rows.filter(pk__gt=row.reached.get(name, 0))[:_ROWS]):
        for kept in chunk:
            for column in columns:
                setattr(kept, column, removed(getattr(kept, column), project))
            if model is Example:
                kept.conversation = None
        row.reached = row.reached | {name: chunk[-1].pk}
        changed = [*columns, *(["conversation"] if model is Example else [])]
        with transaction.atomic():
            model._base_manager.bulk_update(chunk, changed, batch_size=100)
            row.save(update_fields=["reached"])


def _remove_quotes(rows: QuerySet[Any]) -> None:
    def write(keys: list[int]) -> None:
        chunk = list(rows.filter(pk__in=keys))
        for row in chunk:
            spans = [span | {"text": ""} for span in row.answer["spans"]]
            row.answer = row.answer | {"spans": spans}
        rows.model._base_manager.bulk_update(chunk, ["answer"])

    in_chunks(rows, write, most=_ROWS)


def _words(project: Project) -> list[QuerySet[Any]]:
    return [rows.filter(**{path: project}).exclude(**{column: ""}) for rows, path, column in _WORDS]


def _remove_comments(project: Project) -> int:
    n = 0
    for words, (_, _, column) in zip(_words(project), _WORDS, strict=True):
        n += words.count()
        write_in_chunks(words, **{column: ""})
    blank_reasons(AuditEvent.objects.filter(project=project))
    return n


def _people(project: Project) -> QuerySet[Annotator]:
    """Return annotators of whom something is known: a login, a name or a panel's ID."""
    known = Q(user__isnull=False) | ~Q(name__startswith=ERASED)
    by_panel = CrowdSubmission.objects.filter(annotator__project=project).exclude(worker_id="")
    return Annotator.objects.filter(project=project).filter(
        known | Q(pk__in=by_panel.values("annotator"))
    )


def _remove_people(project: Project) -> int:
    annotators = list(_people(project).select_related("project", "user").order_by("pk"))
    names = {each.user.get_username() for each in annotators if each.user is not None}
    crowd = [each.user_id for each in annotators if each.is_crowd and each.user_id is not None]
    for annotator in annotators:
        erase_annotator(annotator, None)
    managers = who_may(Role.OBSERVER).filter(project=project)
    leaving = Membership.objects.filter(project=project).exclude(pk__in=managers.values("pk"))
    names |= set(leaving.values_list("user__username", flat=True))
    names -= set(managers.values_list("user__username", flat=True))
    screened_out = CrowdSubmission.objects.filter(link__round__project=project)
    screened_out.update(worker_id="", study_id="", session_id="", answers={})
    with transaction.atomic():
        end_password_links(leaving.values_list("user", flat=True))
        leaving.delete()
    # Which side somebody saw and chose first tells who decided.
    first = FirstChoice.objects.filter(item__round__project=project)
    first.exclude(user__in=managers.values("user")).delete()
    events = AuditEvent.objects.filter(project=project)
    forget_deeds(
        Adjudication.objects.filter(item__round__project=project, decider__in=names),
        Intervention.objects.filter(round__project=project, actor__in=names),
        # What owners did to pairs as annotators would tell which votes are theirs.
        events.filter(Q(actor__in=names) | Q(action__in=BY_ANNOTATORS)),
        events.filter(subject__in=names),
    )
    # An owner's note says whom a link was for.
    project.invitations.update(note="")
    events.filter(action__in=INVITED).update(subject="")
    # These open this project's round alone.
    User.objects.filter(pk__in=crowd, memberships=None).delete()
    people_changed(project)
    return len(annotators)
