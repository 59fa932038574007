"""What is held about a person: they can read it, and have it erased.

Erasing deletes the login and everything that tells who it was. Votes stay under a pseudonym, unless
the person wants them removed as well. A person who asks for it is logged out at once, and a worker
does the rest in short transactions, also after a restart.
"""

from collections.abc import Iterator
from typing import Any

from axes.models import AccessAttempt
from django.contrib.auth.models import AbstractUser, User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.forms.models import model_to_dict
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as noop

from annotation.models import (
    Adjudication,
    Annotator,
    CrowdSubmission,
    Draft,
    Erasure,
    Flag,
    Intervention,
    Item,
    PracticeResult,
    Repeat,
    Skip,
    Slot,
    Team,
    TeamMember,
    Vote,
    VoteRevision,
)
from annotation.people.annotators import free_name, people_changed
from annotation.queue.queue import WITH_REASON
from annotation.queue.settling import count_earlier_votes, hand_back, items_with_lock, settle
from annotation.rendering.spans import by_side
from judging.core import leases, waking
from judging.core.errors import UserError
from judging.core.leases import Chunks, in_chunks, write_in_chunks
from judging.projects import access, mail
from judging.projects.access import owned_alone, preferences_of
from judging.projects.factors import tries_of
from judging.projects.models import (
    ApiToken,
    AuditEvent,
    EarlierLook,
    LoginSession,
    LostRight,
    Mail,
    Membership,
    SecondFactor,
    SignOn,
)

ERASED = "erased person"
# Items or events that are changed at once, at most.
_MOST = 1000


def held_about(user: AbstractUser) -> Iterator[dict[str, Any]]:
    """Yield all that is stored about a person, a row at a time, each with what it is `about`.

    Votes are as the person gave them, by the side that they saw, so that reading them unblinds
    nobody.
    """
    names = ("username", "email", "date_joined", "last_login")
    yield {"about": "login"} | {name: getattr(user, name) for name in names}
    yield {"about": "preferences"} | model_to_dict(preferences_of(user), exclude=["id", "user"])
    wanted = model_to_dict(mail.settings_of(user), exclude=["id", "user"])
    yield {"about": "choice of mail"} | wanted
    for about, rows, *columns in _tables(user):
        keys = [_short(name) for name in columns]
        seen = [f"{_SEEN_IN[about]}{name}" for name in _SEEN] if about in _SEEN_IN else []
        for row in rows.order_by("pk").values_list(*columns, *seen).iterator():
            entry = {"about": about} | dict(zip(keys, row, strict=False))
            if seen and "spans" in entry["answer"]:
                entry["answer"] = _as_marked(entry["answer"], *row[len(columns) :])
            yield entry


# What tells how a person saw a pair, and the way to it from the answers that they gave.
_SEEN = (
    "left_response",
    "item__round__protocol__hide_models",
    "item__example__model_1",
    "item__example__model_2",
)
_SEEN_IN = {"vote": "", "draft": "", "answer to a pair that came again": "draft__"}


def _as_marked(answer: dict[str, Any], left: int, are_hidden: bool, *models: str) -> dict[str, Any]:
    """Return an answer with the text that the person marked on each side, as they saw it."""
    names = models if are_hidden else ()
    return answer | {"spans": by_side(answer["spans"], left, *names)}


def counts_held_about(user: AbstractUser) -> list[tuple[str, int]]:
    """Return how many rows `held_about` has of each kind, without kinds that have none.

    The kinds are in the language of the page, and in the file of `held_about` in English.
    """
    return [(_(about), n) for about, rows, *rest in _tables(user) if (n := rows.count())]


def _tables(user: AbstractUser) -> list[tuple[Any, ...]]:
    """Return kinds of rows, where they are, and the columns that tell something of the person."""
    theirs = Annotator.objects.filter(user=user)
    mine = {"annotator__in": theirs}
    project = "item__round__project__name"
    name = user.get_username()
    attempts = AccessAttempt.objects.filter(username__in=(name, tries_of(name)))
    return [
        (noop("failed login"), attempts, "attempt_time", "ip_address", "user_agent"),
        (
            noop("token"),
            ApiToken.objects.filter(user=user),
            *("name", "prefix", "scopes", "created_at", "last_used_at"),
        ),
        (noop("mail"), Mail.objects.filter(user=user), "kind", "state", "at", "tried_at"),
        (
            noop("session"),
            LoginSession.objects.filter(user=user),
            *("device", "began_at", "used_at"),
        ),
        (
            noop("second factor"),
            SecondFactor.objects.filter(user=user),
            *("kind", "name", "created_at", "used_at"),
        ),
        (
            noop("single sign-on"),
            SignOn.objects.filter(user=user),
            *("issuer", "subject", "email", "granted", "created_at", "used_at"),
        ),
        (
            noop("membership"),
            Membership.objects.filter(user=user),
            *("project__name", "role", "joined_at", "unblinded_at"),
        ),
        (noop("team"), TeamMember.objects.filter(user=user), "team__name", "tags", "added_at"),
        (noop("team that you made"), Team.objects.filter(owner=user), "name", "created_at"),
        (
            noop("role or membership that ended"),
            LostRight.objects.filter(user=user),
            "project__name",
            "how",
            "at",
        ),
        (
            noop("warning, pause or votes put aside"),
            Intervention.objects.filter(**mine),
            *("round__project__name", "round__number", "kind", "at"),
        ),
        (
            noop("time you saw what the judge said"),
            EarlierLook.objects.filter(user=user),
            "project__name",
            "at",
        ),
        (noop("annotator"), theirs, "project__name", "name", "created_at", "left_at"),
        (
            noop("submission to a panel"),
            CrowdSubmission.objects.filter(**mine),
            *("worker_id", "study_id", "session_id", "answers", "state", "started_at"),
        ),
        (
            noop("vote"),
            Vote.every.filter(**mine),
            *("example__project__name", "item__round__number", "answer", "comment"),
            *("active_seconds", "submitted_at", "language"),
        ),
        (noop("skipped pair"), Skip.objects.filter(**mine), project, "reason", "at"),
        (noop("flag"), Flag.objects.filter(**mine), project, "reason", "at"),
        (
            noop("answer to a pair that came again"),
            # Who has one in hand isn't told that it is one.
            Repeat.objects.filter(**mine, submitted_at__isnull=False),
            *("round__project__name", "round__number", "answer", "comment"),
            *("active_seconds", "submitted_at"),
        ),
        (
            noop("training or try at a qualification"),
            PracticeResult.objects.filter(**mine),
            *("round__project__name", "round__number", "n", "right", "passed", "at"),
        ),
        (noop("draft"), Draft.every.filter(**mine), "answer", "comment", "opened_at"),
        (noop("decision"), Adjudication.objects.filter(decided_by=user), project, "reason", "at"),
        (
            noop("entry in an audit trail"),
            AuditEvent.objects.filter(user=user),
            *("project_slug", "action", "at"),
        ),
    ]


def _short(name: str) -> str:
    """`project__name` becomes `project`, `item__round__number` becomes `round`."""
    *_, near, last = ["", *name.split("__")]
    return near if last in ("name", "number") and near else last


def ask_to_erase(user: AbstractUser, *, remove_votes: bool) -> Erasure:
    """Log a person out for good and leave the rest to a worker.

    Raises UserError if the person is the only owner of a project.
    """
    _keep_projects_owned(user)
    with transaction.atomic():
        User.objects.filter(pk=user.pk).update(is_active=False)
        asked, _ = Erasure.objects.update_or_create(
            user=user, defaults={"remove_votes": remove_votes, "asked_at": timezone.now()}
        )
        waking.wake_on_commit(waking.ERASE_PERSON, asked.pk)
    return asked


def wake_erasures() -> None:
    """Make up for lost messages, and for processes that were killed."""
    for key in Erasure.objects.values_list("pk", flat=True):
        leases.wake_once(waking.ERASE_PERSON, "erasure", key)


def go_on_erasing(key: int) -> None:
    """Erase who asked for it. Two at once do no harm, and what was interrupted goes on."""
    asked = Erasure.objects.select_related("user").filter(pk=key).first()
    if asked is not None:
        erase_person(asked.user, asked.user, remove_votes=asked.remove_votes)


def _keep_projects_owned(user: AbstractUser) -> None:
    if alone := owned_alone(user):
        raise UserError(
            _(
                "%(name)s is the only owner of %(projects)s. Make another member an owner first. "
                "Nothing was erased."
            )
            % {"name": user.get_username(), "projects": ", ".join(alone)}
        )


def erase_person(user: AbstractUser, by: AbstractUser | None, *, remove_votes: bool = False) -> int:
    """Delete a login and everything that tells who it was. Returns how many votes were kept.

    Comments and reasons are blanked, the annotator is renamed, and decisions stay without a name.
    Raises UserError if the person is the only owner of a project.
    """
    _keep_projects_owned(user)
    name = user.get_username()
    # Nobody logs in as this person from here on. If it is interrupted, erasing again goes on.
    User.objects.filter(pk=user.pk).update(is_active=False)
    kept = 0
    theirs = list(Annotator.objects.filter(user=user).select_related("project"))
    for annotator in theirs:
        kept += erase_annotator(annotator, by, remove_votes=remove_votes)
    _anonymise_trail(user)
    with transaction.atomic():
        AccessAttempt.objects.filter(username__in=(name, tries_of(name))).delete()
        user.delete()
    # Afterwards, since other people could vote now on what was skipped.
    for annotator in theirs:
        people_changed(annotator.project)
    return kept


def _anonymise_trail(user: AbstractUser) -> None:
    """Let the audit trail say what was done, but not by whom or in whose words."""
    name = user.get_username()
    by_them = Q(user=user) | Q(actor=name)
    forget_deeds(
        Adjudication.objects.filter(Q(decided_by=user) | Q(decider=name)),
        Intervention.objects.filter(by_them),
        AuditEvent.objects.filter(by_them),
        AuditEvent.objects.filter(subject=name),
    )


def forget_deeds(
    decided: QuerySet[Adjudication],
    made: QuerySet[Intervention],
    theirs: QuerySet[AuditEvent],
    about: QuerySet[AuditEvent],
) -> None:
    """Leave what was decided and done, but not by whom, in whose words, or to whom by name."""
    write_in_chunks(decided, decider=ERASED, decided_by=None, reason="")
    made.update(actor=ERASED, user=None, reason="")
    blank_reasons(theirs)
    write_in_chunks(theirs.exclude(actor=ERASED), actor=ERASED, user=None)
    write_in_chunks(about, subject=ERASED)


def blank_reasons(events: QuerySet[AuditEvent]) -> None:
    """Empty the reasons that people gave, in chunks."""

    def blank(keys: list[int]) -> None:
        for event in AuditEvent.objects.filter(pk__in=keys):
            event.detail["reason"] = ""
            event.save(update_fields=["detail"])

    in_chunks(events.filter(action__in=WITH_REASON, detail__has_key="reason"), blank, _MOST)


def erase_annotator(
    annotator: Annotator, by: AbstractUser | None, *, remove_votes: bool = False
) -> int:
    """Erase one project's annotator only, such as a name that came with imported votes.

    Each of its short transactions is about some items. Done twice, it changes nothing more.
    """
    votes = Vote.every.filter(annotator=annotator)
    held = Slot.objects.filter(annotator=annotator, vote=None)
    items = Q(pk__in=held.values("item"))
    items |= Q(pk__in=votes.values("item"))
    if remove_votes:
        # Also the items of other rounds in which one of the votes is about to be counted.
        items |= Q(example__in=votes.values("example"))
    skipped = Q(skips__annotator=annotator) | Q(flags__annotator=annotator)
    items |= Q(drafts__annotator=annotator) | skipped
    keys = list(Item.objects.filter(items).order_by("pk").values_list("pk", flat=True).distinct())
    n_kept, chunks = votes.count(), Chunks()
    while keys:
        chunk, keys = keys[: min(chunks.size, _MOST)], keys[min(chunks.size, _MOST) :]
        with chunks.transaction():
            _erase_from_items(annotator, chunk, remove_votes=remove_votes)
    others = Annotator.objects.filter(project=annotator.project).exclude(pk=annotator.pk)
    with transaction.atomic():
        annotator.name = free_name(others, f"{ERASED} {annotator.number}", "erased")
        annotator.user = None
        annotator.save(update_fields=["name", "user"])
        if remove_votes:
            PracticeResult.objects.filter(annotator=annotator).delete()
        emptied = {"worker_id": "", "study_id": "", "session_id": "", "answers": {}}
        CrowdSubmission.objects.filter(annotator=annotator).update(**emptied)
        # Why their votes were put aside may tell who they were.
        Intervention.objects.filter(annotator=annotator).update(reason="")
        about = AuditEvent.objects.filter(project=annotator.project)
        blank_reasons(about.filter(detail__annotator=annotator.pseudonym))
        access.record_event(annotator.project, by, "person erased", annotator.pseudonym)
    return 0 if remove_votes else n_kept


def _erase_from_items(annotator: Annotator, keys: list[int], *, remove_votes: bool) -> None:
    theirs = {"annotator": annotator, "item__in": keys}
    votes, held = Vote.every.filter(**theirs), Slot.objects.filter(vote=None, **theirs)
    changed = set(held.values_list("item", flat=True))
    if remove_votes:
        changed |= set(keys)
        counted_in = Slot.objects.filter(vote__in=votes.values("pk"))
        changed |= set(counted_in.values_list("item", flat=True))
    # Each item before its slots, as a vote locks them.
    touched = list(items_with_lock().filter(pk__in=changed | set(keys)).order_by("pk"))
    VoteRevision.objects.filter(annotation__in=votes).update(comment="")
    Draft.every.filter(**theirs).delete()
    Repeat.objects.filter(vote__in=votes).update(comment="")
    Skip.objects.filter(**theirs).update(reason="")
    Flag.objects.filter(**theirs).update(reason="")
    hand_back(held)
    if remove_votes:
        Slot.objects.filter(**theirs).update(annotator=None, lease_until=None)
        votes.delete()
    votes.update(comment="")
    for item in touched:
        if item.pk in changed:
            count_earlier_votes(item.round, item.example_id)
            settle(item)
