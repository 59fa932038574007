"""Taking up an item by its name: after its lease ended, or when a skip is taken back."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import OuterRef, QuerySet, Subquery

from annotation.leaving import give_back_slot
from annotation.models import Annotator, Draft, Item, Seat, Slot
from annotation.queue import (
    LimitReached,
    check_limit,
    free_slots,
    in_hand_or_done,
    not_voted_on,
    take,
)
from annotation.seats import seat_of
from judging.prepared import prepared


def claim_slot_of(item: Item, annotator: Annotator, now: datetime) -> Slot | None:
    """A slot of this very item, one's own or a free one, within the person's limit."""
    own: Slot | None = _own_slots.first(item=item.pk, annotator=annotator.pk)
    if own is not None:
        return own
    seat = seat_of(item.round, annotator)
    if seat is None:
        return None
    mine = not_voted_on(item.round.protocol_id, annotator)
    free = list(free_slots(item.round, now).filter(mine, item=item).order_by("index"))
    if not free or not _make_room(item, annotator, seat):
        return None
    for slot in free:
        try:
            if _take_within_limit(slot, annotator, seat, now):
                return slot
        except IntegrityError:
            continue
        except LimitReached:
            return None
    return None


@prepared
def _own_slots(item: Any, annotator: Any) -> QuerySet[Slot]:
    """Held, and not filled: at most one."""
    return Slot.objects.filter(item=item, annotator=annotator, vote=None)


def _make_room(item: Item, annotator: Annotator, seat: Seat) -> bool:
    """Where the limit is reached, what the person took up last goes back: its draft is kept."""
    if seat.limit is None:
        return True
    opened = Draft.objects.filter(item=OuterRef("item"), annotator=annotator).values("pk")
    held = Slot.objects.filter(round=item.round_id, annotator=annotator, vote=None)
    held = held.exclude(item=item).annotate(draft=Subquery(opened[:1])).order_by("-draft")
    while in_hand_or_done(item.round_id, annotator) >= seat.limit:
        last = held.select_related("item__round").first()
        if last is None:
            return False
        give_back_slot(last)
    return True


@transaction.atomic
def _take_within_limit(slot: Slot, annotator: Annotator, seat: Seat, now: datetime) -> bool:
    taken = take(slot, annotator, now)
    if taken and seat.limit is not None:
        # Locked, as where the next item is handed out: the person may ask twice at once.
        Seat.objects.select_for_update().filter(pk=seat.pk).first()
        check_limit(slot.round_id, annotator, seat)
    return taken
