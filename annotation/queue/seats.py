"""An annotator's seat in a round: found, or made where the round is open to all."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from annotation.models import Annotator, Draft, Round, Seat, Slot
from annotation.queue.settling import count_earlier_votes, locked, settle_locked
from judging.core.sql.prepared import prepared


class SeatGone(Exception):
    """The person left the round, or was taken off it, in this very moment."""


def seat_of(round_: Round, annotator: Annotator) -> Seat | None:
    """The annotator's seat; made on the way in where the round is open to all."""
    seat: Seat | None = _seats.first(round_=round_.pk, annotator=annotator.pk)
    if seat is None and round_.open_to_all:
        seat = _new_seat(round_, annotator)
    return seat if seat is not None and seat.left_at is None else None


@prepared
def _seats(round_: Any, annotator: Any) -> QuerySet[Seat]:
    return Seat.objects.filter(round=round_, annotator=annotator)


@transaction.atomic
def _new_seat(round_: Round, annotator: Annotator) -> Seat | None:
    """None where the round belongs to named people since it was looked at.

    Locked against that: whoever has a seat is one of those who are named.
    """
    rounds = Round.objects.select_for_update(of=("self",), no_key=True)
    locked = rounds.filter(pk=round_.pk, open_to_all=True).first()
    if locked is None:
        return None
    limit = locked.parameters.get("limit")
    fresh = fresh_seat(locked, annotator) | {"limit": limit}
    seat, _ = Seat.objects.get_or_create(round=locked, annotator=annotator, defaults=fresh)
    return seat


def fresh_seat(round_: Round, annotator: Annotator) -> dict[str, Any]:
    """What a seat starts with: the sides go on where they were for whoever had one before."""
    shown = Draft.objects.filter(item__round=round_, annotator=annotator)
    return {"n_shown": shown.count()}


@transaction.atomic
def give_back_slot(slot: Slot) -> None:
    """The item is locked before its slot, as a vote locks them: no two wait for each other."""
    items = locked.all(keys=[slot.item_id])
    still_held = Slot.objects.filter(pk=slot.pk, annotator=slot.annotator_id, vote=None)
    still_held.update(annotator=None, lease_until=None)
    count_earlier_votes(slot.item.round, slot.item.example_id)
    settle_locked(items)
