"""Drafts: what a person has in hand, which side stands left, and all that was entered so far."""

import secrets
from typing import Any

from django.db.models import F, QuerySet
from django.utils import timezone

from annotation.answers import MAX_COMMENT
from annotation.models import Annotator, Draft, Item, Seat
from annotation.seats import SeatGone
from annotation.sides import left_response
from judging.prepared import prepared

# An item is not worked on longer than this without a pause; a broken clock must not cost money.
MAX_ADDED_SECONDS = 3600.0


@prepared
def drafts(item: Any, annotator: Any) -> QuerySet[Draft]:
    """One at most."""
    return Draft.objects.filter(item=item, annotator=annotator)


def draft_of(item: Item, annotator: Annotator, seat: Seat, cursor: float) -> Draft:
    """The draft of an item in hand; the side is drawn when it is first shown, and then stays.

    The seat moves to `cursor`, the item's place. Raises IntegrityError where it is asked for
    twice at once, and SeatGone.
    """
    mine = Seat.objects.filter(pk=seat.pk, left_at=None)
    draft: Draft | None = drafts.first(item=item.pk, annotator=annotator.pk)
    shown = {} if draft else {"n_shown": F("n_shown") + 1}
    if not mine.update(cursor=cursor, **shown):
        raise SeatGone
    if draft is None:
        n_shown = _shown.first(seat=seat.pk).n_shown
        draft = Draft.objects.create(
            item=item,
            annotator=annotator,
            token=secrets.token_urlsafe(24),
            left_response=left_response(item.round.seed, annotator.pk, n_shown - 1),
        )
    draft.item, draft.annotator = item, annotator
    return draft


@prepared
def _shown(seat: Any) -> QuerySet[Seat, Any]:
    return Seat.objects.filter(pk=seat).values_list("n_shown")


def save_draft(draft: Draft, answer: dict[str, Any], comment: str, added_seconds: float) -> None:
    """Keep what was entered so far. Active time adds up and never runs backwards.

    Raises Draft.DoesNotExist where the project or the person was deleted meanwhile.
    """
    draft.answer, draft.comment = answer, comment[:MAX_COMMENT]
    kept = Draft.objects.filter(pk=draft.pk).update(
        answer=draft.answer,
        comment=draft.comment,
        active_seconds=F("active_seconds") + sane(added_seconds),
        updated_at=timezone.now(),
    )
    if not kept:
        raise Draft.DoesNotExist
    draft.active_seconds = _active_seconds.first(draft=draft.pk).active_seconds


@prepared
def _active_seconds(draft: Any) -> QuerySet[Draft, Any]:
    return Draft.objects.filter(pk=draft).values_list("active_seconds")


def sane(seconds: float) -> float:
    """What may be added at once to the active time of an item."""
    if not 0 <= seconds < float("inf"):
        return 0.0
    return min(float(seconds), MAX_ADDED_SECONDS)
