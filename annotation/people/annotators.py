"""A project's annotators: people with a login, and names that came with imported votes."""

from collections.abc import Collection
from itertools import chain, count
from typing import Any

from axes.models import AccessAttempt
from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from annotation.models import (
    Adjudication,
    Annotator,
    Draft,
    Flag,
    Item,
    Round,
    Seat,
    Skip,
    Slot,
    Vote,
    VoteRevision,
)
from annotation.queue.queue import WITH_REASON, give_back_slot, new_seat_fields
from annotation.queue.settling import (
    count_earlier_votes,
    items_with_lock,
    possible_voters,
    settle,
    settle_skipped,
)
from judging.core.errors import UserError
from judging.core.sql.statements import prepared
from judging.projects import access
from judging.projects.access import next_number, owned_alone, remove_member
from judging.projects.models import AuditEvent, Membership, Project

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
        access.record_event(annotator.project, by, "person erased", annotator.pseudonym)
    return kept


def _erase_annotator(annotator: Annotator, *, remove_votes: bool) -> int:
    votes = Vote.objects.filter(annotator=annotator)
    held = Slot.objects.filter(annotator=annotator, vote=None)
    items = Q(pk__in=held.values("item"))
    if remove_votes:
        # Those too where one of the votes is about to be counted.
        items |= Q(example__in=votes.values("example"))
    # Each item before its slots, as a vote locks them.
    touched = list(items_with_lock().filter(items).order_by("pk"))
    VoteRevision.objects.filter(annotation__in=votes).update(comment="")
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


def leave_round(round_: Round, annotator: Annotator) -> None:
    """Take no more items of this round, until one comes back. Raises UserError where one has none.

    Drafts are kept.
    """
    now = timezone.now()
    with transaction.atomic():
        seats = Seat.objects.filter(round=round_, annotator=annotator)
        if not seats.filter(left_at=None).update(left_at=now):
            if seats.exists():
                return
            if not round_.open_to_all:
                raise UserError("No pair of this round is assigned to you, so there is no leaving.")
            # A first item may be handed out in this very moment, and make the seat.
            Seat.objects.update_or_create(
                round=round_,
                annotator=annotator,
                defaults={"left_at": now},
                create_defaults=new_seat_fields(round_, annotator) | {"left_at": now},
            )
        access.record_event(round_.project, annotator.user, "round left", f"round {round_.number}")
    give_back_items(annotator, round_)
    people_changed(round_.project)


def come_back(round_: Round, annotator: Annotator) -> None:
    """Take items again of a round that one left."""
    left = Seat.objects.filter(round=round_, annotator=annotator, left_at__isnull=False)
    with transaction.atomic():
        if not left.update(left_at=None):
            return
        access.record_event(
            round_.project, annotator.user, "came back to round", f"round {round_.number}"
        )
    people_changed(round_.project)


def leave_project(membership: Membership, by: AbstractUser) -> None:
    """End somebody's membership, by themselves or by an owner. Their votes stay.

    Raises UserError for the last owner. Who joins again is the same annotator as before.
    """
    project = membership.project
    people = Annotator.objects.filter(project=project, user=membership.user_id)
    with transaction.atomic():
        remove_member(membership, by)
        people.filter(left_at=None).update(left_at=timezone.now())
    for annotator in people:
        give_back_items(annotator)
    people_changed(project)


def give_back_items(annotator: Annotator, round_: Round | None = None) -> None:
    """What the person has in hand goes to others, at once and not when the lease ends."""
    held = Slot.objects.filter(annotator=annotator, vote=None)
    if round_ is not None:
        held = held.filter(round=round_)
    for slot in held.select_related("item__round"):
        give_back_slot(slot)


def members_who_may_vote(project: Project) -> QuerySet[Membership]:
    """Owners and researchers are among them; who has left the labelling is not."""
    gone = Annotator.objects.filter(project=project, user__isnull=False, left_at__isnull=False)
    members = Membership.objects.filter(project=project, user__is_active=True)
    return members.exclude(user__in=gone.values("user"))


def voters_of(round_: Round) -> tuple[set[int], int]:
    """Ids of the annotators who may take items of this round, and how many members may besides.

    Nobody waits for the latter: what all others skipped is decided without them.
    """
    if not round_.open_to_all:
        return possible_voters(round_), 0
    known = Annotator.objects.filter(project=round_.project_id, user__isnull=False)
    members = members_who_may_vote(round_.project)
    return possible_voters(round_), members.exclude(user__in=known.values("user")).count()


def assignable(project: Project) -> QuerySet[Annotator]:
    """The annotators who can log in and are members, by name."""
    people = Annotator.objects.filter(project=project, left_at=None, user__is_active=True)
    people = people.filter(user__memberships__project=project)
    return people.order_by("name", "pk")


def assign(
    round_: Round,
    by: AbstractUser | None,
    people: Collection[Annotator],
    limit: int | None = None,
) -> None:
    """Hand out items to these alone, or to everybody where nobody is named.

    Votes that were given stay; what is in the hands of others goes back. Who left the round by
    their own wish is not called back.
    """
    if limit is not None and limit < 1:
        raise UserError("A limit is at least 1 item a person.")
    with transaction.atomic():
        locked = Round.objects.select_for_update(of=("self",), no_key=True).get(pk=round_.pk)
        if locked.kind == Round.Kind.IMPORT or locked.state == Round.State.CLOSED:
            raise UserError("Nothing is handed out in this round, so nobody can be assigned to it.")
        locked.open_to_all = not people
        locked.parameters |= {"limit": limit}
        locked.save(update_fields=["open_to_all", "parameters"])
        seats = Seat.objects.filter(round=locked)
        seats.update(limit=limit)
        gone: list[Annotator] = []
        if people:
            unseat = seats.exclude(annotator__in=people).exclude(left_at__isnull=False)
            gone = list(Annotator.objects.filter(seats__in=unseat))
            unseat.delete()
        for person in people:
            fresh = new_seat_fields(locked, person) | {"limit": limit}
            Seat.objects.get_or_create(round=locked, annotator=person, defaults=fresh)
        subject = f"round {locked.number}"
        to = [person.pseudonym for person in people] or "everybody"
        access.record_event(locked.project, by, "assigned", subject, to=to, limit=limit)
    for person in gone:
        give_back_items(person, round_)
    people_changed(round_.project)
    round_.refresh_from_db(fields=["open_to_all", "parameters"])
