"""A project's annotators: people with a login, and names that came with imported votes."""

from itertools import chain, count
from typing import Any

from axes.models import AccessAttempt
from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import Q, QuerySet

from annotation.counting import count_earlier_votes
from annotation.models import (
    Adjudication,
    Annotation,
    AnnotationRevision,
    Annotator,
    Draft,
    Flag,
    Item,
    Round,
    Skip,
    Slot,
)
from annotation.settling import settle, settle_skipped, with_lock
from annotation.trail import WITH_REASON
from judging import audit
from judging.errors import UserError
from judging.models.audit import AuditEvent
from judging.models.projects import Project
from judging.numbering import next_number
from judging.prepared import prepared
from judging.projects import owned_alone

_ERASED = "erased person"
_LONGEST_NAME = 200


def annotator_of(project: Project, user: AbstractUser) -> Annotator:
    """The annotator that a member labels as, made on first need; who left before is back."""
    found = _labelling_as.first(project=project.pk, user=user.pk)
    if found is not None and found.left_at is not None:
        found.left_at = None
        found.save(update_fields=["left_at"])
    return found or _make(project, user.get_username(), user)


@prepared
def _labelling_as(project: Any, user: Any) -> QuerySet[Annotator]:
    return Annotator.objects.filter(project=project, user=user)


def annotator_named(project: Project, name: str) -> Annotator:
    """The annotator whose votes are imported under this name."""
    found = Annotator.objects.filter(project=project, name=name).first()
    return found or _make(project, name, None)


def people_changed(project: Project) -> None:
    """Somebody joined or left: whether all who could vote have skipped is another question now.

    What is complete, by votes or by a decision, does not open again.
    """
    waiting = Item.objects.filter(round__project=project).exclude(state=Item.State.COMPLETE)
    settle_skipped(waiting.exclude(round__state=Round.State.CLOSED))


def erase_person(user: AbstractUser, by: AbstractUser | None, *, remove_votes: bool = False) -> int:
    """Delete a login and everything that tells who it was; votes stay unless told otherwise.

    Comments and reasons are blanked, the annotator is renamed, decisions stay without a name.
    Returns the number of votes that were kept. Raises UserError for a last owner.
    """
    if alone := owned_alone(user):
        raise UserError(
            f"{user.get_username()} is the only owner of {', '.join(alone)}. Make somebody else "
            "an owner first. Nothing was erased."
        )
    name = user.get_username()
    with transaction.atomic():
        kept = 0
        theirs = list(Annotator.objects.filter(user=user).select_related("project"))
        for annotator in theirs:
            kept += erase_annotator(annotator, by, remove_votes=remove_votes)
        decided = Adjudication.objects.filter(Q(decided_by=user) | Q(decider=name))
        decided.update(decider=_ERASED, reason="")
        AccessAttempt.objects.filter(username=name).delete()
        _leave_the_trail(user)
        user.delete()
    # Afterwards: it locks items in the order of their keys, and others are held until here.
    for annotator in theirs:
        people_changed(annotator.project)
    return kept


def _leave_the_trail(user: AbstractUser) -> None:
    """The trail says what was done, no longer by whom nor in whose words."""
    name = user.get_username()
    theirs = AuditEvent.objects.filter(Q(user=user) | Q(actor=name))
    for event in theirs.filter(action__in=WITH_REASON, detail__has_key="reason"):
        event.detail["reason"] = ""
        event.save(update_fields=["detail"])
    theirs.update(actor=_ERASED, user=None)
    AuditEvent.objects.filter(subject=name).update(subject=_ERASED)


def erase_annotator(
    annotator: Annotator, by: AbstractUser | None, *, remove_votes: bool = False
) -> int:
    """The same for one project's annotator alone, such as a name that came with imported votes."""
    with transaction.atomic():
        kept = _erase_annotator(annotator, remove_votes=remove_votes)
        audit.record(annotator.project, by, "person erased", annotator.pseudonym)
    return kept


def _erase_annotator(annotator: Annotator, *, remove_votes: bool) -> int:
    votes = Annotation.objects.filter(annotator=annotator)
    held = Slot.objects.filter(annotator=annotator, vote=None)
    items = Q(pk__in=held.values("item"))
    if remove_votes:
        # Those too where one of the votes is about to be counted.
        items |= Q(example__in=votes.values("example"))
    # Each item before its slots, as a vote locks them.
    touched = list(with_lock().filter(items).order_by("pk"))
    AnnotationRevision.objects.filter(annotation__in=votes).update(comment="")
    Draft.objects.filter(annotator=annotator).delete()
    Skip.objects.filter(annotator=annotator).update(reason="")
    Flag.objects.filter(annotator=annotator).update(reason="")
    Slot.objects.filter(annotator=annotator, vote=None).update(annotator=None, lease_until=None)
    if remove_votes:
        Slot.objects.filter(annotator=annotator).update(annotator=None, lease_until=None)
        votes.delete()
    votes.update(comment="")
    for item in touched:
        count_earlier_votes(item.round, item.example_id)
        settle(item)
    others = Annotator.objects.filter(project=annotator.project).exclude(pk=annotator.pk)
    annotator.name = _free(others, f"{_ERASED} {annotator.number}", "erased")
    annotator.user = None
    annotator.save(update_fields=["name", "user"])
    return votes.count()


@transaction.atomic
def _make(project: Project, name: str, user: AbstractUser | None) -> Annotator:
    """Numbers go up by one; names stay apart even where a login is called like imported votes."""
    number = next_number(project, Annotator)
    # Somebody else may have made it while this one waited for its turn.
    here, name = Annotator.objects.filter(project=project), name[:_LONGEST_NAME]
    found = here.filter(user=user) if user is not None else here.filter(name=name)
    if (made := found.first()) is not None:
        return made
    name = _free(here, name, "login")
    return Annotator.objects.create(project=project, user=user, number=number, name=name)


def _free(here: QuerySet[Annotator], name: str, word: str) -> str:
    """The name, or with a word behind it where somebody is called so already."""
    again = (f" ({word})" if n == 1 else f" ({word} {n})" for n in count(1))
    wanted = chain([name], (name[: _LONGEST_NAME - len(more)] + more for more in again))
    return next(one for one in wanted if not here.filter(name=one).exists())
