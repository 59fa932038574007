"""Drafts and votes: kept on every change, recorded exactly once, edited with their history."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from annotation.answers import MAX_COMMENT, checked, label_of
from annotation.counting import count_in
from annotation.models import Annotation, AnnotationRevision, Annotator, Draft, Item, Round, Slot
from annotation.queue import claim_slot_of, release, without_seat
from annotation.settling import settle
from judging import audit
from judging.errors import UserError
from judging.models import Membership

# An item is not worked on longer than this without a pause; a broken clock must not cost money.
MAX_ADDED_SECONDS = 3600.0
# In the audit trail.
VOTED = "voted"
_CLOSED = "This round was closed. Your choice is kept, but is not counted."


class NotNeeded(UserError):
    """The item got all its votes from others while this one was being made."""


class RoundClosed(UserError):
    """The round no longer takes votes."""


def save_draft(draft: Draft, answer: dict[str, Any], comment: str, added_seconds: float) -> None:
    """Keep what was entered so far. Active time adds up and never runs backwards."""
    draft.answer, draft.comment = answer, comment[:MAX_COMMENT]
    Draft.objects.filter(pk=draft.pk).update(
        answer=draft.answer,
        comment=draft.comment,
        active_seconds=F("active_seconds") + _sane(added_seconds),
        updated_at=timezone.now(),
    )
    draft.active_seconds = Draft.objects.values_list("active_seconds", flat=True).get(pk=draft.pk)


def record_vote(
    draft: Draft, answer: Any, comment: str = "", added_seconds: float = 0.0
) -> Annotation:
    """Store the vote. Posting the same item twice stores one vote and returns it.

    Raises UserError (the answer is incomplete), RoundClosed, or NotNeeded; the draft is kept.
    """
    round_ = draft.item.round
    given = checked(round_.protocol, answer)
    save_draft(draft, given, comment, added_seconds)
    if (recorded := _recorded(draft)) is not None:
        return recorded
    if round_.state == Round.State.CLOSED:
        raise RoundClosed(_CLOSED)
    now = timezone.now()
    slot = claim_slot_of(draft.item, draft.annotator, now)
    if slot is None and (nothing := without_seat(round_, draft.annotator)):
        why = "You left this round" if nothing.reason == "left" else "This round is for others now"
        raise RoundClosed(f"{why}. Your choice is kept, but is not counted.")
    if slot is None:
        raise NotNeeded(
            "This item got all the votes it needs while you were away. "
            "Nothing else of yours is affected; go on with the next one."
        )
    try:
        with transaction.atomic():
            vote = _store(draft, slot, given, now)
    except IntegrityError:
        # The same vote arrived twice at once: the constraint kept one of them.
        if (recorded := _recorded(draft)) is not None:
            return recorded
        raise UserError(
            "This pair changed hands at this very moment. Your choice is kept; submit it again."
        ) from None
    return vote


def edit_vote(
    vote: Annotation, answer: Any, comment: str, added_seconds: float = 0.0
) -> Annotation:
    """Change one's own vote until a round that counts it is closed; what it was is a revision.

    Raises UserError (the answer is incomplete) or RoundClosed.
    """
    given = checked(vote.protocol, answer)
    side = vote.left_response
    if side is None:
        raise UserError("A vote that was imported cannot be edited here.")
    same = vote.answer == given and vote.comment == comment
    with transaction.atomic():
        _lock_items(vote.example_id, vote.protocol_id)
        if is_final(vote):
            raise RoundClosed("A round that counts this vote was closed, so the vote stands.")
        label = label_of(given["overall"], side)
        if not same:
            _tell(vote.annotator, vote.item, "vote changed", before=vote.label, now=label)
            AnnotationRevision.objects.create(
                annotation=vote,
                label=vote.label,
                answer=vote.answer,
                comment=vote.comment,
                active_seconds=vote.active_seconds,
                submitted_at=vote.submitted_at,
            )
        vote.answer, vote.comment = given, comment[:MAX_COMMENT]
        vote.label = label
        vote.active_seconds = (vote.active_seconds or 0.0) + _sane(added_seconds)
        vote.save()
        for slot in Slot.objects.filter(vote=vote).select_related("item"):
            settle(slot.item)
    return vote


def is_final(vote: Annotation) -> bool:
    """Whether a closed round counts the vote, in which it was given or another: then it stands."""
    closed = Q(item__round__state=Round.State.CLOSED)
    return Slot.objects.filter(closed, vote=vote).exists()


def _recorded(draft: Draft) -> Annotation | None:
    """The vote on this item, if it was given. Raises NotNeeded where another round took it."""
    votes = Annotation.objects.filter(
        example=draft.item.example_id,
        protocol=draft.item.round.protocol_id,
        annotator=draft.annotator_id,
    )
    vote = votes.first()
    if vote is not None and vote.item_id != draft.item_id:
        release(draft)
        raise NotNeeded(
            "You voted on this pair in another round already. That vote stands and counts here as "
            "well, so this one was not added."
        )
    return vote


def _lock_items(example_id: int, protocol_id: int) -> dict[int, str]:
    """The example's items wherever its votes count, and the state of their rounds.

    Always locked in the same order, so that votes on one example wait for each other in turn.
    """
    items = Item.objects.filter(example=example_id, round__protocol=protocol_id).order_by("pk")
    locked = items.select_for_update(of=("self",), no_key=True)
    return dict(locked.values_list("pk", "round__state"))


def _store(draft: Draft, slot: Slot, answer: dict[str, Any], now: datetime) -> Annotation:
    item = draft.item
    if _lock_items(item.example_id, item.round.protocol_id)[item.pk] == Round.State.CLOSED:
        raise RoundClosed(_CLOSED)
    vote = Annotation.objects.create(
        slot=slot,
        item=item,
        example_id=item.example_id,
        protocol=item.round.protocol,
        annotator=draft.annotator,
        label=label_of(answer["overall"], draft.left_response),
        answer=answer,
        left_response=draft.left_response,
        comment=draft.comment,
        active_seconds=draft.active_seconds,
        unblinded=_has_seen_judge(draft),
        submitted_at=now,
    )
    filled = Slot.objects.filter(pk=slot.pk, annotator=draft.annotator, vote=None).update(
        vote=vote, lease_until=None
    )
    if filled != 1:
        raise IntegrityError("the slot was filled in the same moment")
    settle(item)
    _count_in_other_rounds(vote)
    _tell(draft.annotator, item, VOTED)
    return vote


def _count_in_other_rounds(vote: Annotation) -> None:
    """An open round of the same protocol that holds the example counts the vote as well."""
    others = (
        Round.objects.filter(
            protocol=vote.protocol_id, state__in=[Round.State.OPEN, Round.State.PAUSED]
        )
        .filter(kind=Round.Kind.ROUTED, items__example=vote.example_id)
        .exclude(pk=vote.item.round_id)
    )
    for round_ in others:
        count_in(vote, round_)


def _tell(annotator: Annotator, item: Item, action: str, **detail: str) -> None:
    """In the audit trail. What the item is about is not looked up: the screen must not know it."""
    number = item.round.number
    where = {"round": number, "item": item.pk}
    audit.record(item.round.project, annotator.user, action, f"round {number}", **where, **detail)


def _has_seen_judge(draft: Draft) -> bool:
    user = draft.annotator.user
    if user is None:
        return False
    membership = Membership.objects.filter(project=draft.item.round.project_id, user=user).first()
    # A superuser outside the project sees every page of it.
    return user.is_superuser if membership is None else membership.unblinded_at is not None


def _sane(seconds: float) -> float:
    if not 0 <= seconds < float("inf"):
        return 0.0
    return min(float(seconds), MAX_ADDED_SECONDS)
