"""A project's annotators: people with a login, and names that came with imported votes."""

from axes.models import AccessAttempt
from django.contrib.auth.models import AbstractUser
from django.db import IntegrityError, transaction
from django.db.models import Max, Q

from annotation.counting import count_earlier_votes
from annotation.models import (
    Adjudication,
    Annotation,
    AnnotationRevision,
    Annotator,
    Draft,
    FinalLabel,
    Flag,
    Item,
    Round,
    Skip,
    Slot,
)
from annotation.settling import settle, settle_skipped
from judging import audit
from judging.errors import UserError
from judging.models import AuditEvent, Project
from judging.projects import owned_alone

_ERASED = "erased person"
_LONGEST_NAME = 200


def annotator_of(project: Project, user: AbstractUser) -> Annotator:
    """The annotator that a member labels as, made on first need."""
    found = Annotator.objects.filter(project=project, user=user).first()
    return found or _make(project, user.get_username(), user)


def annotator_named(project: Project, name: str) -> Annotator:
    """The annotator whose votes are imported under this name."""
    found = Annotator.objects.filter(project=project, name=name).first()
    return found or _make(project, name, None)


def people_changed(project: Project) -> None:
    """Somebody joined or left: whether all who could vote have skipped is another question now.

    What was decided stays decided.
    """
    waiting = Item.objects.filter(round__project=project, adjudications=None)
    settle_skipped(waiting.exclude(round__state=Round.State.CLOSED))


def erase_person(user: AbstractUser, by: AbstractUser | None, *, remove_votes: bool = False) -> int:
    """Delete a login and everything that tells who it was; votes stay unless told otherwise.

    Comments and reasons of votes are blanked, the annotator is renamed, decisions stay without a
    name. Returns the number of votes that were kept. Raises UserError for a last owner.
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
        Adjudication.objects.filter(Q(decided_by=user) | Q(decider=name)).update(decider=_ERASED)
        FinalLabel.objects.filter(adjudicator=name).update(adjudicator=_ERASED)
        AccessAttempt.objects.filter(username=name).delete()
        # The trail says what was done, no longer by whom.
        AuditEvent.objects.filter(Q(user=user) | Q(actor=name)).update(actor=_ERASED, user=None)
        AuditEvent.objects.filter(subject=name).update(subject=_ERASED)
        user.delete()
        for annotator in theirs:
            people_changed(annotator.project)
    return kept


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
    AnnotationRevision.objects.filter(annotation__in=votes).update(comment="")
    Draft.objects.filter(annotator=annotator).delete()
    Skip.objects.filter(annotator=annotator).update(reason="")
    Flag.objects.filter(annotator=annotator).update(reason="")
    Slot.objects.filter(annotator=annotator, vote=None).update(annotator=None, lease_until=None)
    if remove_votes:
        _remove_votes(annotator)
    votes.update(comment="")
    annotator.name, annotator.user = f"{_ERASED} {annotator.number}", None
    annotator.save(update_fields=["name", "user"])
    return votes.count()


def _remove_votes(annotator: Annotator) -> None:
    slots = Slot.objects.filter(vote__annotator=annotator).select_related("item__round")
    items = [slot.item for slot in slots]
    Slot.objects.filter(annotator=annotator).update(annotator=None, lease_until=None)
    Annotation.objects.filter(annotator=annotator).delete()
    for item in items:
        count_earlier_votes(item.round, item.example_id)
        settle(item)


def _make(project: Project, name: str, user: AbstractUser | None) -> Annotator:
    """Numbers go up by one; names stay apart even where a login is called like imported votes."""
    name = name[:_LONGEST_NAME]
    while True:
        last = Annotator.objects.filter(project=project).aggregate(last=Max("number"))["last"] or 0
        taken = Annotator.objects.filter(project=project, name=name)
        if user is not None:
            mine = Annotator.objects.filter(project=project, user=user).first()
            if mine is not None:
                return mine
            if taken.exists():
                name = f"{name[: _LONGEST_NAME - 8]} (login)"
        elif (found := taken.first()) is not None:
            return found
        try:
            with transaction.atomic():
                return Annotator.objects.create(
                    project=project, user=user, number=last + 1, name=name
                )
        except IntegrityError:
            # Somebody took the number or the name in the same moment: look again.
            continue
