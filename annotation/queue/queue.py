"""Handing out items: seats, claims, leases, skips and flags.

A claim is a conditional UPDATE of one free slot, so that two people never get the same slot and
an item never gets more than n votes. Reading first and saving afterwards would claim slots twice.
A lease that ends frees its slot by itself; nothing has to sweep.

Locks are always taken in the same order, the item before its slots, so that no two people wait
for each other.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import IntegrityError, transaction
from django.db.models import Exists, Min, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from annotation.models import (
    Annotator,
    CrowdSubmission,
    Draft,
    Flag,
    Item,
    PracticeResult,
    Round,
    Seat,
    Skip,
    Slot,
    Vote,
)
from annotation.queue.drafts import SeatGone, draft_of, drafts
from annotation.queue.repeats import next_repeat, skip_again
from annotation.queue.settling import (
    count_earlier_votes,
    hand_back,
    is_free,
    locked_items,
    settle,
    settle_locked,
)
from judging.core.sql.statements import Changed, prepared, prepared_update
from judging.projects import access

LEASE = timedelta(minutes=10)
# A member may take a while over a pair. People of a panel close the page and are gone; the page
# of those who stay says so every minute.
CROWD_LEASE = timedelta(minutes=3)
# Why a person whose seat is left or held back gets nothing.
_WHY_HELD = {
    Seat.Hold.NONE: "left",
    Seat.Hold.PAUSED: "held",
    Seat.Hold.STOPPED: "stopped",
    Seat.Hold.FAILED: "failed",
}
# Enough that fifty people who start at once each find one within a try or two.
_CANDIDATES = 16

# Events of the audit trail. There are as many of the first kind as there are votes, so that pages
# show them on demand only.
VOTED, SKIPPED, UNSKIPPED = "voted", "skipped", "skip undone"
OF_EACH_ITEM = (VOTED, SKIPPED, UNSKIPPED)
# The second kind holds a person's own words, which are removed when the person is erased.
FLAGGED, ADJUDICATED = "flagged", "adjudicated"
CHANGED, WITHDRAWN = "vote changed", "decision withdrawn"
PUT_ASIDE, STOPPED = "votes put aside", "person stopped"
BY_ANNOTATORS = (*OF_EACH_ITEM, FLAGGED, CHANGED)
WITH_REASON = (FLAGGED, ADJUDICATED, WITHDRAWN, PUT_ASIDE, STOPPED)


@dataclass(frozen=True)
class NoItem:
    """Why there is nothing to hand out. until: when the first lease of somebody else ends."""

    # done | more_to_come | in_work | not_assigned | limit | left | held | stopped | failed | paused
    # | closed | first (another round comes before it), and in practice: trained | qualified
    # | try_again | not_passed | used_up
    reason: str
    until: datetime | None = None


class LimitReached(Exception):
    """The person would have more items in hand and done than their seat's limit."""


def lease_of(annotator: Annotator) -> timedelta:
    """Return how long a pair stays in this person's hands without a sign of life."""
    return CROWD_LEASE if annotator.is_crowd else LEASE


def claim_next(
    round_: Round,
    annotator: Annotator,
    *,
    ahead_of: str | None = None,
    again: bool = False,
    now: datetime | None = None,
) -> Draft | NoItem:
    """Return the annotator's current item, or claim the next free one in the round's order.

    Args:
        ahead_of: The token of an item that stays in hand while the next one is fetched ahead.
        again: Begin another try at a qualification, if the last one wasn't passed.
    """
    now = now or timezone.now()
    if round_.state != Round.State.OPEN:
        return NoItem("paused" if round_.state == Round.State.PAUSED else "closed")
    seat = seat_of(round_, annotator)
    if seat is None or annotator.left_at is not None:
        return why_no_items(round_, annotator) or NoItem("not_assigned")
    if round_.repeat_percent and (again_one := next_repeat(round_, annotator, ahead_of)):
        return again_one
    try:
        held = _held_draft(round_, annotator, seat, ahead_of, now)
        if held is not None:
            return held
        if round_.kind in Round.PRACTICE:
            nothing = _reserve_practice(round_, annotator, again=again)
            return nothing or _held_draft(round_, annotator, seat, ahead_of, now) or NoItem("done")
        if seat.limit is not None and _in_hand_or_done(round_.pk, annotator) >= seat.limit:
            return NoItem("limit")
        if (draft := _claim_free(round_, annotator, seat, now)) is not None:
            return draft
    except LimitReached:
        return NoItem("limit")
    except SeatGone:
        return why_no_items(round_, annotator) or NoItem("not_assigned")
    # While all slots of an item were in hand, a vote on it from another round found no room.
    count_earlier_votes(round_, by=annotator)
    return _why_nothing_free(round_, annotator, now)


def why_no_items(
    round_: Round, annotator: Annotator, *, within_limit: bool = False
) -> NoItem | None:
    """Return why nothing may be handed out to this person, or None if something may.

    Args:
        within_limit: Don't ask whether they have reached their limit.
    """
    seat = seat_of(round_, annotator)
    if seat is None:
        held: Seat | None = _seats.first(round_=round_.pk, annotator=annotator.pk)
        if not (held and (held.hold or held.left_at)) and not may_begin(round_, annotator):
            return NoItem("first")
        return NoItem(_WHY_HELD[held.hold] if held else "not_assigned")
    if within_limit:
        return None
    votes = Slot.objects.filter(round=round_, annotator=annotator, vote__isnull=False)
    return NoItem("limit") if seat.limit is not None and votes.count() >= seat.limit else None


def _why_nothing_free(round_: Round, annotator: Annotator, now: datetime) -> NoItem:
    """Done, or all that is left is in the hands of others until the first of their leases ends."""
    skipped = Skip.objects.filter(annotator=annotator).values("item")
    voted = Vote.every.filter(annotator=annotator, protocol=round_.protocol_id)
    others = (
        Slot.objects.filter(round=round_, vote=None, lease_until__gte=now)
        .exclude(annotator=annotator)
        .exclude(item__in=skipped)
        .exclude(item__example__in=voted.values("example"))
    )
    until = others.aggregate(first=Min("lease_until"))["first"]
    if until:
        return NoItem("in_work", until)
    # The rest of the round is selected once its learning sample is settled.
    return NoItem("more_to_come" if round_.stage == Round.Stage.LEARN else "done")


def seat_of(round_: Round, annotator: Annotator) -> Seat | None:
    """Return the annotator's seat unless they left or are held back, making one if the round is
    open to all."""
    seat: Seat | None = _seats.first(round_=round_.pk, annotator=annotator.pk)
    if not may_begin(round_, annotator):
        return None
    if seat is None and round_.open_to_all and not annotator.is_crowd:
        seat = _seat_if_still_open_to_all(round_, annotator)
    may_label = seat is not None and seat.left_at is None and not seat.hold
    return seat if may_label else None


def is_held(round_: Round, annotator: Annotator) -> bool:
    """Return True if nothing more of the round is handed out to this person."""
    seat: Seat | None = _seats.first(round_=round_.pk, annotator=annotator.pk)
    return bool(seat and seat.hold)


def may_begin(round_: Round, annotator: Annotator) -> bool:
    """Return False if the round opens after another one that the person hasn't passed yet."""
    if round_.after_id is None:
        return True
    return _passes.first(round_=round_.after_id, annotator=annotator.pk) is not None


@prepared
def _passes(round_: Any, annotator: Any) -> QuerySet[PracticeResult, Any]:
    passed = PracticeResult.objects.filter(round=round_, annotator=annotator, passed=True)
    return passed.values_list("pk")


def _reserve_practice(round_: Round, annotator: Annotator, *, again: bool) -> NoItem | None:
    """Give the person slots of their own for all pairs of a training, or of one try.

    Nobody else can take them, since each is the item's slot of this person's number. Returns why
    nothing is given, or None.
    """
    with transaction.atomic():
        # Locked, so that two tabs begin one try.
        Annotator.objects.select_for_update(no_key=True).only("pk").get(pk=annotator.pk)
        mine = Slot.objects.filter(round=round_, annotator=annotator)
        if mine.filter(vote=None).exists():
            return None
        last = practice_results(round_, annotator).last()
        if last is not None and (last.is_over or not again):
            return NoItem(_practice_ended(round_, last))
        items = Item.objects.filter(_not_voted_on_example(round_, annotator), round=round_)
        new = items.exclude(slots__in=mine).order_by("position").values_list("pk", "position")
        n = round_.parameters["pairs"]
        chosen = list(new if n is None else new[:n])
        if not chosen and round_.kind == Round.Kind.TRAINING:
            # They answered all its pairs in an earlier round that asked the same.
            fields = {"n": 0, "right": 0, "passed": True, "is_over": True}
            PracticeResult.objects.create(round=round_, annotator=annotator, number=1, **fields)
            return NoItem("trained")
        if round_.kind == Round.Kind.QUALIFICATION and len(chosen) < n:
            return NoItem("used_up")
        Slot.objects.bulk_create(
            Slot(
                round=round_,
                item_id=key,
                index=annotator.number,
                position=position,
                annotator=annotator,
            )
            for key, position in chosen
        )
    return None


def practice_results(round_: Round, annotator: Annotator) -> QuerySet[PracticeResult]:
    """Return what came of the person's practice in this round, the first try first."""
    return PracticeResult.objects.filter(round=round_, annotator=annotator).order_by("number")


def _practice_ended(round_: Round, last: PracticeResult) -> str:
    if last.passed:
        return "trained" if round_.kind == Round.Kind.TRAINING else "qualified"
    return "not_passed" if last.is_over else "try_again"


def _not_voted_on_example(round_: Round, annotator: Annotator) -> Exists:
    votes = Vote.every.filter(annotator=annotator, protocol=round_.protocol_id)
    return ~Exists(votes.filter(example=OuterRef("example")))


@prepared
def _seats(round_: Any, annotator: Any) -> QuerySet[Seat]:
    return Seat.objects.filter(round=round_, annotator=annotator)


@transaction.atomic
def _seat_if_still_open_to_all(round_: Round, annotator: Annotator) -> Seat | None:
    """The round is locked, so that it can't be assigned to named people at the same time: this
    person would then count as one of them."""
    rounds = Round.objects.select_for_update(of=("self",), no_key=True)
    locked = rounds.filter(pk=round_.pk, open_to_all=True).first()
    return make_seat(locked, annotator, locked.parameters.get("limit")) if locked else None


def make_seat(round_: Round, annotator: Annotator, limit: int | None) -> Seat:
    """Return the annotator's seat, made if there is none.

    If they had one before, the sides continue from where they were, so that they stay balanced.
    """
    n_shown = Draft.objects.filter(item__round=round_, annotator=annotator).count()
    seat, _ = Seat.objects.get_or_create(
        round=round_, annotator=annotator, defaults={"n_shown": n_shown, "limit": limit}
    )
    return seat


def _held_draft(
    round_: Round, annotator: Annotator, seat: Seat, ahead_of: str | None, now: datetime
) -> Draft | None:
    """Return the oldest item in hand, its lease renewed.

    An item whose lease has ended is still the person's own as long as nobody else took it.
    """
    held = _in_hand.all(round_=round_.pk, annotator=annotator.pk)
    # Sorted here: asked to order by position, SQLite would walk the whole unfilled round.
    for slot in sorted(held, key=lambda slot: slot.position):
        item = _open_items.first(key=slot.item_id)
        if item is None:
            continue
        draft = drafts.first(item=slot.item_id, annotator=annotator.pk)
        item.round = round_
        if draft is not None and draft.token == ahead_of:
            continue
        until = now + lease_of(annotator)
        if not _renewed.count(item=item.pk, annotator=annotator.pk, until=until):
            continue
        if draft is not None:
            draft.item, draft.annotator = item, annotator
            return draft
        # A slot of practice, or a vote whose lease had ended took the slot, and was not stored.
        try:
            with transaction.atomic():
                return draft_of(item, annotator, seat, cursor=slot.position)
        except IntegrityError:
            # Another tab of this person began the item in the same moment.
            return _held_draft(round_, annotator, seat, ahead_of, now)
    return None


@prepared
def _in_hand(round_: Any, annotator: Any) -> QuerySet[Slot]:
    """Mostly one or two: the item on the screen, and the one fetched ahead.

    Without their items: PostgreSQL expects a person's unfilled slots to be many, and would read
    all items of the round to join them.
    """
    mine = Slot.objects.filter(round=round_, annotator=annotator, vote=None)
    return mine.only("item", "position")


@prepared
def _open_items(key: Any) -> QuerySet[Item]:
    return Item.objects.filter(pk=key, state=Item.State.OPEN).only("round", "example")


def _claim_free(round_: Round, annotator: Annotator, seat: Seat, now: datetime) -> Draft | None:
    """Look from the cursor on, then from the start, for what was skipped or given back."""
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


@prepared
def _claimable(round_: Any, protocol: Any, annotator: Any, now: Any, after: Any) -> QuerySet[Slot]:
    """Only what handing out needs is read of an item, and nothing that the judge said about it."""
    slots = free_for(protocol, now, annotator=annotator).filter(round=round_, position__gt=after)
    needed = ("round", "item", "position", "index", "item__round", "item__example")
    return slots.select_related("item").only(*needed).order_by("position", "index")[:_CANDIDATES]


def free_for(protocol: Any, now: Any, **whose: Any) -> QuerySet[Slot]:
    """Return free slots of items that this person has not voted on, skipped, or in hand."""
    mine = {"item": OuterRef("item"), **whose}
    held_or_filled = Q(vote__isnull=False) | Q(lease_until__gte=now)
    return _free_slots(now).filter(
        ~Exists(Slot.objects.filter(held_or_filled, **mine)),
        ~Exists(Skip.objects.filter(**mine)),
        _not_voted_on(protocol, **whose),
    )


def _free_slots(now: Any) -> QuerySet[Slot]:
    return Slot.objects.asked().filter(is_free(now), item__state=Item.State.OPEN)


def _not_voted_on(protocol: Any, **whose: Any) -> Exists:
    """Nobody votes twice on an example under one protocol, whichever round asks."""
    votes = Vote.every.filter(protocol=protocol, **whose)
    return ~Exists(votes.filter(example=OuterRef("item__example")))


def _claim(slot: Slot, annotator: Annotator, seat: Seat, now: datetime) -> Draft | None:
    """Return None if somebody was faster, or the person holds another slot of the item."""
    try:
        with transaction.atomic():
            if _take(slot, annotator, now):
                draft = draft_of(slot.item, annotator, seat, cursor=slot.position)
                # `draft_of` has locked the seat, so that the count is right.
                _check_limit(slot.round_id, annotator, seat)
                return draft
    except IntegrityError:
        pass
    return None


def _take(slot: Slot, annotator: Annotator, now: datetime) -> bool:
    """Take a free slot. Raises IntegrityError if the person holds another slot of the item."""
    until = now + lease_of(annotator)
    values = {"slot": slot.pk, "annotator": annotator.pk, "now": now, "until": until}
    return _taken.count(**values) == 1


@prepared_update()
def _taken(slot: Any, annotator: Any, now: Any, until: Any) -> Changed:
    still_free = Slot.objects.filter(is_free(now), pk=slot)
    return still_free, {"annotator": annotator, "lease_until": until}


def _check_limit(round_id: int, annotator: Annotator, seat: Seat) -> None:
    """Count once more while the seat is locked, since the person may ask twice at once."""
    if seat.limit is not None and _in_hand_or_done(round_id, annotator) > seat.limit:
        raise LimitReached


def _in_hand_or_done(round_id: int, annotator: Annotator) -> int:
    return Slot.objects.filter(round=round_id, annotator=annotator).count()


def claim_slot_of(item: Item, annotator: Annotator, now: datetime) -> Slot | None:
    """Return a slot of this very item, the person's own or a free one within their limit.

    For an item that is opened by its address: after its lease ended, or when a skip is undone.
    """
    own: Slot | None = _own_slots.first(item=item.pk, annotator=annotator.pk)
    if own is not None or item.round.kind in Round.PRACTICE:
        return own
    seat = seat_of(item.round, annotator)
    if seat is None:
        return None
    not_voted_on = _not_voted_on(item.round.protocol_id, annotator=annotator)
    free = list(_free_slots(now).filter(not_voted_on, item=item).order_by("index"))
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
    """If the limit is reached, give back what the person took up last; its draft is kept."""
    if seat.limit is None:
        return True
    opened = Draft.objects.filter(item=OuterRef("item"), annotator=annotator).values("pk")
    held = Slot.objects.filter(round=item.round_id, annotator=annotator, vote=None)
    held = held.exclude(item=item).annotate(draft=Subquery(opened[:1])).order_by("-draft")
    while _in_hand_or_done(item.round_id, annotator) >= seat.limit:
        last = held.select_related("item__round").first()
        if last is None:
            return False
        give_back_slot(last)
    return True


@transaction.atomic
def _take_within_limit(slot: Slot, annotator: Annotator, seat: Seat, now: datetime) -> bool:
    taken = _take(slot, annotator, now)
    if taken and seat.limit is not None:
        Seat.objects.select_for_update().filter(pk=seat.pk).first()
        _check_limit(slot.round_id, annotator, seat)
    return taken


def heartbeat(draft: Draft, now: datetime | None = None) -> bool:
    """Renew the lease. Returns False if the slot went to somebody else meanwhile."""
    if draft.repeat_id is not None:
        # No lease says that a person of a panel is still here.
        theirs = CrowdSubmission.objects.filter(annotator=draft.annotator_id)
        theirs.update(back_at=now or timezone.now())
        return True
    until = (now or timezone.now()) + lease_of(draft.annotator)
    return _renewed.count(item=draft.item_id, annotator=draft.annotator_id, until=until) == 1


@prepared_update()
def _renewed(item: Any, annotator: Any, until: Any) -> Changed:
    mine = Slot.objects.filter(item=item, annotator=annotator, vote=None)
    return mine, {"lease_until": until}


def release(draft: Draft) -> None:
    """Give the slot back; what was entered stays in the draft."""
    hand_back(Slot.objects.filter(item=draft.item_id, annotator=draft.annotator_id))


@transaction.atomic
def give_back_slot(slot: Slot) -> None:
    """Free a slot in its annotator's hands, and let earlier votes or a decision take its place."""
    items = locked_items.all(keys=[slot.item_id])
    hand_back(Slot.objects.filter(pk=slot.pk, annotator=slot.annotator_id))
    count_earlier_votes(slot.item.round, slot.item.example_id)
    settle_locked(items)


def skip(draft: Draft, reason: str = "") -> None:
    """Give the item back for others, and hide it from this person.

    An item that everybody skipped waits for a person's decision.
    """
    if draft.repeat_id is not None:
        return skip_again(draft, is_skipped=True)
    with transaction.atomic():
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
    if draft.repeat_id is not None:
        return skip_again(draft, is_skipped=False)
    with transaction.atomic():
        skips = Skip.objects.filter(item=draft.item_id, annotator=draft.annotator_id)
        if skips.delete()[0]:
            record_item_event(draft.annotator, draft.item, UNSKIPPED)
        settle(draft.item)


def flag(draft: Draft, reason: str) -> Flag:
    """Tell the project's owners that something is wrong with the item; it stays in hand."""
    mine = {"item": draft.item, "annotator": draft.annotator}
    with transaction.atomic():
        is_recorded = Flag.objects.filter(**mine, reason=reason, settled_at=None).exists()
        fields = {"reason": reason, "settled_at": None}
        row, _ = Flag.objects.update_or_create(**mine, defaults=fields)
        if not is_recorded:
            record_item_event(draft.annotator, draft.item, FLAGGED, reason=reason)
    return row


def settle_flag(row: Flag, user: AbstractUser) -> None:
    """Note that somebody has dealt with what a flag says. Once settled, it stays so."""
    if Flag.objects.filter(pk=row.pk, settled_at=None).update(settled_at=timezone.now()):
        subject = row.item.example.external_id
        access.record_event(row.item.round.project, user, "flag settled", subject)


def record_item_event(annotator: Annotator, item: Item, action: str, **detail: str) -> None:
    """Record what an annotator did to an item in the project's audit trail.

    The item's example is not looked up: the annotator's screen must know nothing about it.
    """
    number = item.round.number
    detail_of_item = {"round": number, "item": item.pk, **detail}
    access.record_event(
        item.round.project, annotator.user, action, f"round {number}", **detail_of_item
    )
