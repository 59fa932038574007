"""A project's annotators: who they are, who labels in which round, who leaves and who is erased.

An annotator is a member who labels, or a name that came with imported votes. Members become
annotators with the first item that they open. When somebody leaves, what they have in hand goes
back to others and what they voted stays. Nothing that is complete opens again, and nobody waits
for the person any more: an item that everybody else has skipped then needs a decision.
"""

from collections.abc import Collection, Mapping
from itertools import chain, count
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from annotation.models import Annotator, Item, Round, Seat, Slot
from annotation.queue.queue import give_back_slot, make_seat
from annotation.queue.settling import (
    annotators_who_may_vote,
    crowd_places,
    possible_voters,
    settle_skipped,
)
from judging.core.errors import UserError
from judging.core.sql.statements import prepared
from judging.projects import access
from judging.projects.access import next_number, remove_member, who_label
from judging.projects.models import Membership, Project

_LONGEST_NAME = 200


def annotator_of(project: Project, user: AbstractUser) -> Annotator:
    """Return the annotator that a member labels as, made if there is none.

    An annotator who had left the project is back by this.
    """
    annotator = _labelling_as.first(project=project.pk, user=user.pk)
    if annotator is not None and annotator.left_at is not None:
        annotator.left_at = None
        annotator.save(update_fields=["left_at"])
    return annotator or _make(project, user.get_username(), user)


@prepared
def _labelling_as(project: Any, user: Any) -> QuerySet[Annotator]:
    return Annotator.objects.filter(project=project, user=user)


def annotator_named(project: Project, name: str) -> Annotator:
    """Return the annotator whose votes are imported under this name, made if there is none."""
    annotator = Annotator.objects.filter(project=project, name=name).first()
    return annotator or _make(project, name, None)


def crowd_annotator(project: Project, user: AbstractUser) -> Annotator:
    """Make the annotator that a login labels as who came by a crowd link."""
    return _make(project, user.get_username(), user, is_crowd=True)


@transaction.atomic
def _make(
    project: Project, name: str, user: AbstractUser | None, *, is_crowd: bool = False
) -> Annotator:
    """Numbers go up by one. Names differ even if a login has the name of an imported annotator."""
    number = next_number(project, Annotator)
    # Somebody else may have made it while this one waited for its turn.
    here, name = Annotator.objects.filter(project=project), name[:_LONGEST_NAME]
    matching = here.filter(user=user) if user is not None else here.filter(name=name)
    if (made := matching.first()) is not None:
        return made
    name = free_name(here, name, "login")
    fields = {"user": user, "number": number, "name": name, "is_crowd": is_crowd}
    return Annotator.objects.create(project=project, **fields)


def free_name(here: QuerySet[Annotator], name: str, word: str) -> str:
    """Return the name, with the word and a number added if the name is taken."""
    again = (f" ({word})" if n == 1 else f" ({word} {n})" for n in count(1))
    wanted = chain([name], (name[: _LONGEST_NAME - len(more)] + more for more in again))
    return next(name for name in wanted if not here.filter(name=name).exists())


def members_who_may_vote(project: Project) -> QuerySet[Membership]:
    """Return the members who label or may start to: all but observers."""
    gone = Annotator.objects.filter(project=project, user__isnull=False, left_at__isnull=False)
    members = who_label().filter(project=project, user__is_active=True)
    return members.exclude(user__in=gone.values("user"))


def voters_of(round_: Round) -> tuple[set[int], int]:
    """Return the ids of the annotators who may take items of this round, and how many members
    who never labelled may do so too.

    Nobody waits for these members: what all others skipped is decided without them. People who may
    still come by a crowd link count with them.
    """
    places = crowd_places(round_.pk)
    if not round_.open_to_all:
        return possible_voters(round_), places
    known = Annotator.objects.filter(project=round_.project_id, user__isnull=False)
    members = members_who_may_vote(round_.project)
    newcomers = members.exclude(user__in=known.values("user")).count()
    return possible_voters(round_), newcomers + places


def assignable(project: Project) -> QuerySet[Annotator]:
    """Return the annotators to whom items can be assigned, by name."""
    return annotators_who_may_vote(project.pk).order_by("name", "pk")


def assign(
    round_: Round,
    by: AbstractUser | None,
    people: Collection[Annotator],
    limit: int | None = None,
    *,
    limits: Mapping[int, int] | None = None,
    words: Mapping[str, Any] | None = None,
) -> None:
    """Hand out items to these people only, or to everybody if `people` is empty.

    Votes given by others stay, and what others have in hand goes back. People who left the round
    themselves are not called back.

    Args:
        limits: Items for some of the annotators, by their keys, in place of `limit`.
        words: Whom the round asks, as `annotation.people.teams` says it.
    """
    if limit is not None and limit < 1:
        raise UserError("The limit must be at least 1 item per person.")
    with transaction.atomic():
        locked = Round.objects.select_for_update(of=("self",), no_key=True).get(pk=round_.pk)
        if locked.kind == Round.Kind.IMPORT or locked.state == Round.State.CLOSED:
            raise UserError("This round hands out no items, so nobody can be assigned to it.")
        # People of a panel have a seat and a limit by their link.
        seats = Seat.objects.filter(round=locked, annotator__is_crowd=False)
        seats.update(limit=limit)
        gone: list[Annotator] = []
        if people:
            unseat = seats.may_label().exclude(annotator__in=people)
            gone = list(Annotator.objects.filter(seats__in=unseat))
            unseat.delete()
        seat_people(locked, people, limit, limits, words)
        subject = f"round {locked.number}"
        to = [person.pseudonym for person in people] or "everybody"
        more = {"whom": words} if words else {}
        access.record_event(locked.project, by, "assigned", subject, to=to, limit=limit, **more)
    for person in gone:
        give_back_items(person, round_)
    people_changed(round_.project)
    round_.refresh_from_db(fields=["open_to_all", "parameters"])


def seat_people(
    round_: Round,
    people: Collection[Annotator],
    limit: int | None,
    limits: Mapping[int, int] | None = None,
    words: Mapping[str, Any] | None = None,
) -> None:
    """Give these people seats, or open the round to all, and keep in whose words. See `assign`."""
    before = {name: kept for name, kept in round_.parameters.items() if name != "assigned"}
    round_.open_to_all = not people
    round_.parameters = before | {"limit": limit} | ({"assigned": dict(words)} if words else {})
    round_.save(update_fields=["open_to_all", "parameters"])
    for person in people:
        make_seat(round_, person, limit)
    for key, own in (limits or {}).items():
        Seat.objects.filter(round=round_, annotator=key).update(limit=own)


def leave_round(round_: Round, annotator: Annotator) -> None:
    """Let the annotator take no more items of this round, until they come back. Drafts are kept.

    Raises UserError if no item of the round is assigned to them.
    """
    now = timezone.now()
    with transaction.atomic():
        seats = Seat.objects.filter(round=round_, annotator=annotator)
        if not seats.filter(left_at=None).update(left_at=now):
            if seats.exists():
                return
            if not round_.open_to_all:
                raise UserError(
                    _("No pair of this round is assigned to you, so you can't leave it.")
                )
            # A first item may be handed out at this very moment, which makes the seat too.
            make_seat(round_, annotator, round_.parameters.get("limit"))
            seats.update(left_at=now)
        access.record_event(round_.project, annotator.user, "round left", f"round {round_.number}")
    give_back_items(annotator, round_)
    people_changed(round_.project)


def come_back(round_: Round, annotator: Annotator) -> None:
    """Let the annotator take items again of a round that they left."""
    left = Seat.objects.filter(round=round_, annotator=annotator, left_at__isnull=False)
    with transaction.atomic():
        if not left.update(left_at=None):
            return
        access.record_event(
            round_.project, annotator.user, "came back to round", f"round {round_.number}"
        )
    people_changed(round_.project)


def leave_project(membership: Membership, by: AbstractUser, *, made_for: str | None = None) -> None:
    """End a membership, by the member or by an owner. Their votes stay.

    Raises UserError for the last owner. Someone who joins again is the same annotator as before.

    Args:
        made_for: The role that the form showed. Raises Overtaken if it is another by now.
    """
    project = membership.project
    people = Annotator.objects.filter(project=project, user=membership.user_id)
    with transaction.atomic():
        remove_member(membership, by, made_for=made_for)
        people.filter(left_at=None).update(left_at=timezone.now())
    for annotator in people:
        give_back_items(annotator)
    people_changed(project)


def give_back_items(annotator: Annotator, round_: Round | None = None) -> None:
    """Give what the person has in hand to others at once, before the leases end."""
    held = Slot.objects.filter(annotator=annotator, vote=None)
    if round_ is not None:
        held = held.filter(round=round_)
    for slot in held.select_related("item__round"):
        give_back_slot(slot)


def people_changed(project: Project) -> None:
    """Settle skipped items after somebody joined or left, since other people could vote now.

    What is complete, by votes or by a decision, does not open again.
    """
    waiting = Item.objects.filter(round__project=project).exclude(state=Item.State.COMPLETE)
    settle_skipped(waiting.exclude(round__state=Round.State.CLOSED))
