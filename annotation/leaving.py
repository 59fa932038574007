"""Leaving a round or a project: what is in hand goes back to others, what was given stays.

Nothing that is complete opens again, and nobody waits for the person any more: an item that all
who could vote have skipped then needs a decision.
"""

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.utils import timezone

from annotation.annotators import people_changed
from annotation.counting import count_earlier_votes
from annotation.models import Annotator, Round, Seat, Slot
from annotation.seats import fresh_seat
from annotation.settling import locked, settle_locked
from judging import audit
from judging.errors import UserError
from judging.models.projects import Membership
from judging.projects import remove_member


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
                create_defaults=fresh_seat(round_, annotator) | {"left_at": now},
            )
        audit.record(round_.project, annotator.user, "round left", f"round {round_.number}")
    give_back(annotator, round_)
    people_changed(round_.project)


def come_back(round_: Round, annotator: Annotator) -> None:
    """Take items again of a round that one left."""
    left = Seat.objects.filter(round=round_, annotator=annotator, left_at__isnull=False)
    with transaction.atomic():
        if not left.update(left_at=None):
            return
        audit.record(round_.project, annotator.user, "came back to round", f"round {round_.number}")
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
        give_back(annotator)
    people_changed(project)


def give_back(annotator: Annotator, round_: Round | None = None) -> None:
    """What the person has in hand goes to others, at once and not when the lease ends."""
    held = Slot.objects.filter(annotator=annotator, vote=None)
    if round_ is not None:
        held = held.filter(round=round_)
    for slot in held.select_related("item__round"):
        give_back_slot(slot)


@transaction.atomic
def give_back_slot(slot: Slot) -> None:
    """The item is locked before its slot, as a vote locks them: no two wait for each other."""
    items = locked.all(keys=[slot.item_id])
    still_held = Slot.objects.filter(pk=slot.pk, annotator=slot.annotator_id, vote=None)
    still_held.update(annotator=None, lease_until=None)
    count_earlier_votes(slot.item.round, slot.item.example_id)
    settle_locked(items)
