"""Handing out items: claim, heartbeat, skip, release. A lease that ends returns by itself.

A claim is a conditional UPDATE of one free slot, so that two people never get the same slot and
an item never gets more than n votes. Reading first and saving afterwards would double-claim.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, Min, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from annotation.models import Annotator, Draft, Flag, Item, Round, Seat, Skip, Slot, Vote
from annotation.queue.drafts import SeatGone, draft_of, drafts
from annotation.queue.settling import count_earlier_votes, locked_items, settle, settle_locked
from judging.core.sql.statements import Changed, prepared, prepared_update
from judging.projects import access

VOTED, SKIPPED, UNSKIPPED = "voted", "skipped", "skip undone"


# So many lines that they are shown on demand.
OF_EACH_ITEM = (VOTED, SKIPPED, UNSKIPPED)


# In these words are a person's own, which go when the person is erased.
FLAGGED, ADJUDICATED = "flagged", "adjudicated"


WITH_REASON = (FLAGGED, ADJUDICATED)


def record_item_event(annotator: Annotator, item: Item, action: str, **detail: str) -> None:
    """Add a line. What the item is about is not looked up: the screen must not know it."""
    number = item.round.number
    where = {"round": number, "item": item.pk}
    access.record_event(
        item.round.project, annotator.user, action, f"round {number}", **where, **detail
    )


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
    fresh = new_seat_fields(locked, annotator) | {"limit": limit}
    seat, _ = Seat.objects.get_or_create(round=locked, annotator=annotator, defaults=fresh)
    return seat


def new_seat_fields(round_: Round, annotator: Annotator) -> dict[str, Any]:
    """What a seat starts with: the sides go on where they were for whoever had one before."""
    shown = Draft.objects.filter(item__round=round_, annotator=annotator)
    return {"n_shown": shown.count()}


@transaction.atomic
def give_back_slot(slot: Slot) -> None:
    """The item is locked before its slot, as a vote locks them: no two wait for each other."""
    items = locked_items.all(keys=[slot.item_id])
    still_held = Slot.objects.filter(pk=slot.pk, annotator=slot.annotator_id, vote=None)
    still_held.update(annotator=None, lease_until=None)
    count_earlier_votes(slot.item.round, slot.item.example_id)
    settle_locked(items)


LEASE = timedelta(minutes=10)
# Enough that fifty people who start at once each find one within a try or two.
_CANDIDATES = 16


@dataclass(frozen=True)
class NoItem:
    """Why there is nothing to hand out. `until` is when a lease of somebody else's ends."""

    reason: str  # done | more_to_come | in_work | not_assigned | limit | left | paused | closed
    until: datetime | None = None


class LimitReached(Exception):
    """The person would have more in hand and done than the limit of their seat."""


def why_no_items(round_: Round, annotator: Annotator) -> NoItem | None:
    """Why the person takes no items: by their own wish or the manager's, or as all is given."""
    seat = seat_of(round_, annotator)
    if seat is None:
        left = Seat.objects.filter(round=round_, annotator=annotator, left_at__isnull=False)
        return NoItem("left" if left.exists() else "not_assigned")
    given = Slot.objects.filter(round=round_, annotator=annotator, vote__isnull=False)
    return NoItem("limit") if seat.limit is not None and given.count() >= seat.limit else None


def claim_next(
    round_: Round, annotator: Annotator, *, beside: str | None = None, now: datetime | None = None
) -> Draft | NoItem:
    """The item in hand if there is one, else the next free one in the round's order.

    `beside` is the token of an item that stays in hand while the next one is fetched ahead.
    """
    now = now or timezone.now()
    if round_.state != Round.State.OPEN:
        return NoItem("paused" if round_.state == Round.State.PAUSED else "closed")
    seat = seat_of(round_, annotator)
    if seat is None or annotator.left_at is not None:
        return why_no_items(round_, annotator) or NoItem("not_assigned")
    try:
        held = _held(round_, annotator, seat, beside, now)
        if held is not None:
            return held
        if seat.limit is not None and in_hand_or_done(round_.pk, annotator) >= seat.limit:
            return NoItem("limit")
        if (draft := _claim_free(round_, annotator, seat, now)) is not None:
            return draft
    except LimitReached:
        return NoItem("limit")
    except SeatGone:
        return why_no_items(round_, annotator) or NoItem("not_assigned")
    # Where all slots of an item were in hand, a vote on it from another round found no room.
    count_earlier_votes(round_, by=annotator)
    return _why_nothing(round_, annotator, now)


def free_slots(round_: Any, now: Any) -> QuerySet[Slot]:
    """Slots that nobody fills or holds."""
    return Slot.objects.filter(round=round_, vote=None, item__state=Item.State.OPEN).filter(
        Q(annotator=None) | Q(lease_until__lt=now)
    )


@prepared
def _claimable(round_: Any, protocol: Any, annotator: Any, now: Any, after: Any) -> QuerySet[Slot]:
    """The next free slots of items that this person has not voted on, skipped, or in hand."""
    item = OuterRef("item")
    mine = {"annotator": annotator}
    slots = _with_item(free_slots(round_, now)).filter(
        ~Exists(Slot.objects.filter(item=item, **mine).filter(_held_or_filled(now))),
        ~Exists(Skip.objects.filter(item=item, **mine)),
        not_voted_on(protocol, annotator),
        position__gt=after,
    )
    return slots.order_by("position", "index")[:_CANDIDATES]


def heartbeat(draft: Draft, now: datetime | None = None) -> bool:
    """Renew the lease. False when the slot went to somebody else meanwhile."""
    until = (now or timezone.now()) + LEASE
    return _renewed.count(item=draft.item_id, annotator=draft.annotator_id, until=until) == 1


@prepared_update()
def _renewed(item: Any, annotator: Any, until: Any) -> Changed:
    mine = Slot.objects.filter(item=item, annotator=annotator, vote=None)
    return mine, {"lease_until": until}


def release(draft: Draft) -> None:
    """Give the slot back; what was entered stays in the draft."""
    Slot.objects.filter(item=draft.item_id, annotator=draft.annotator_id, vote=None).update(
        annotator=None, lease_until=None
    )


def skip(draft: Draft, reason: str = "") -> None:
    """Return the item for others and hide it from this person; skipped by all → adjudication."""
    with transaction.atomic():
        # The item before its slot, as a vote locks them.
        items = locked_items.all(keys=[draft.item_id])
        _, is_new = Skip.objects.get_or_create(
            item=draft.item, annotator=draft.annotator, defaults={"reason": reason[:500]}
        )
        if is_new:
            record_item_event(draft.annotator, draft.item, SKIPPED)
        release(draft)
        count_earlier_votes(draft.item.round, draft.item.example_id)
        settle_locked(items)


def unskip(draft: Draft) -> None:
    """Take a skip back: the item may come again."""
    with transaction.atomic():
        skips = Skip.objects.filter(item=draft.item_id, annotator=draft.annotator_id)
        if skips.delete()[0]:
            record_item_event(draft.annotator, draft.item, UNSKIPPED)
        settle(draft.item)


def flag(draft: Draft, reason: str) -> Flag:
    """Tell the project's owners that something is wrong with the item; it stays in hand."""
    mine = {"item": draft.item, "annotator": draft.annotator}
    with transaction.atomic():
        is_told = Flag.objects.filter(**mine, reason=reason, settled_at=None).exists()
        fresh = {"reason": reason, "settled_at": None}
        row, _ = Flag.objects.update_or_create(**mine, defaults=fresh)
        if not is_told:
            record_item_event(draft.annotator, draft.item, FLAGGED, reason=reason)
    return row


def not_voted_on(protocol: Any, annotator: Any) -> Exists:
    """Nobody votes twice on an example under one protocol, whichever round asks."""
    votes = Vote.objects.filter(annotator=annotator, protocol=protocol)
    return ~Exists(votes.filter(example=OuterRef("item__example")))


def _held_or_filled(now: Any) -> Q:
    return Q(vote__isnull=False) | Q(lease_until__gte=now)


def _held(
    round_: Round, annotator: Annotator, seat: Seat, beside: str | None, now: datetime
) -> Draft | None:
    """The oldest item in hand, its lease renewed. One whose lease ended is still the person's
    own as long as nobody else took it."""
    held = _in_hand.all(round_=round_.pk, annotator=annotator.pk)
    # Sorted here: asked to order by position, SQLite would walk the whole unfilled round.
    for slot in sorted(held, key=lambda slot: slot.position):
        item = _open_items.first(key=slot.item_id)
        if item is None:
            continue
        draft = drafts.first(item=slot.item_id, annotator=annotator.pk)
        item.round = round_
        if draft is not None and draft.token == beside:
            continue
        if not _renewed.count(item=item.pk, annotator=annotator.pk, until=now + LEASE):
            continue
        if draft is not None:
            draft.item, draft.annotator = item, annotator
            return draft
        # A vote whose lease had ended took the slot, and was not stored.
        return draft_of(item, annotator, seat, cursor=slot.position)
    return None


@prepared
def _in_hand(round_: Any, annotator: Any) -> QuerySet[Slot]:
    """Mostly one or two: the item on the screen, and the one fetched ahead.

    Without their items: PostgreSQL takes a person's unfilled slots for many, and would read all
    items of the round along.
    """
    mine = Slot.objects.filter(round=round_, annotator=annotator, vote=None)
    return mine.only("item", "position")


@prepared
def _open_items(key: Any) -> QuerySet[Item]:
    return Item.objects.filter(pk=key, state=Item.State.OPEN).only("round", "example")


def _with_item(slots: QuerySet[Slot]) -> QuerySet[Slot]:
    """With what handing out needs of the item, and nothing that the judge said of it."""
    needed = ("round", "item", "position", "index", "item__round", "item__example")
    return slots.select_related("item").only(*needed)


def in_hand_or_done(round_: int, annotator: Annotator) -> int:
    return Slot.objects.filter(round=round_, annotator=annotator).count()


def _claim_free(round_: Round, annotator: Annotator, seat: Seat, now: datetime) -> Draft | None:
    """From the cursor on, then once more from the start: for what was skipped or given back."""
    for after in (seat.cursor, float("-1e18")):
        while True:
            candidates = _claimable.all(
                round_=round_.pk,
                protocol=round_.protocol_id,
                annotator=annotator.pk,
                now=now,
                after=after,
            )
            for slot in candidates:
                slot.item.round = round_
                if draft := _claim(slot, annotator, seat, now):
                    return draft
            if len(candidates) < _CANDIDATES:
                break
            after = candidates[-1].position
    return None


def _claim(slot: Slot, annotator: Annotator, seat: Seat, now: datetime) -> Draft | None:
    """None when somebody was faster, or another slot of the item is ours."""
    try:
        with transaction.atomic():
            if claim_slot(slot, annotator, now):
                draft = draft_of(slot.item, annotator, seat, cursor=slot.position)
                check_limit(slot.round_id, annotator, seat)
                return draft
    except IntegrityError:
        pass
    return None


def check_limit(round_: int, annotator: Annotator, seat: Seat) -> None:
    """Once more, now that the seat is locked: the person may ask twice at once."""
    if seat.limit is not None and in_hand_or_done(round_, annotator) > seat.limit:
        raise LimitReached


def claim_slot(slot: Slot, annotator: Annotator, now: datetime) -> bool:
    """Raises IntegrityError where another slot of the item is ours."""
    given = {"slot": slot.pk, "annotator": annotator.pk, "now": now, "until": now + LEASE}
    return _taken.count(**given) == 1


@prepared_update()
def _taken(slot: Any, annotator: Any, now: Any, until: Any) -> Changed:
    free = Q(annotator=None) | Q(lease_until__lt=now)
    still_free = Slot.objects.filter(free, pk=slot, vote=None)
    return still_free, {"annotator": annotator, "lease_until": until}


def _why_nothing(round_: Round, annotator: Annotator, now: datetime) -> NoItem:
    """Done, or in the hands of others until the first of their leases ends."""
    skipped = Skip.objects.filter(annotator=annotator).values("item")
    voted = Vote.objects.filter(annotator=annotator, protocol=round_.protocol_id)
    others = (
        Slot.objects.filter(round=round_, vote=None, lease_until__gte=now)
        .exclude(annotator=annotator)
        .exclude(item__in=skipped)
        .exclude(item__example__in=voted.values("example"))
    )
    until = others.aggregate(first=Min("lease_until"))["first"]
    if until:
        return NoItem("in_work", until)
    # The rest of the round is selected once what it learns from is settled.
    return NoItem("more_to_come" if round_.stage == Round.Stage.LEARN else "done")


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
    taken = claim_slot(slot, annotator, now)
    if taken and seat.limit is not None:
        # Locked, as where the next item is handed out: the person may ask twice at once.
        Seat.objects.select_for_update().filter(pk=seat.pk).first()
        check_limit(slot.round_id, annotator, seat)
    return taken
