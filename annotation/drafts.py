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
from judging.prepared_writes import Changed, prepared_update
from judging.rows import insert_one

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
    draft: Draft | None = drafts.first(item=item.pk, annotator=annotator.pk)
    if draft is not None:
        if not _moved.count(seat=seat.pk, cursor=cursor):
            raise SeatGone
    else:
        shown = _shown_one_more.row(seat=seat.pk, cursor=cursor)
        if shown is None:
            raise SeatGone
        draft = Draft(
            item=item,
            annotator=annotator,
            token=secrets.token_urlsafe(24),
            left_response=left_response(item.round.seed, annotator.pk, shown[0] - 1),
        )
        insert_one(draft)
    draft.item, draft.annotator = item, annotator
    return draft


@prepared_update()
def _moved(seat: Any, cursor: Any) -> Changed:
    return Seat.objects.filter(pk=seat, left_at=None), {"cursor": cursor}


@prepared_update("n_shown")
def _shown_one_more(seat: Any, cursor: Any) -> Changed:
    mine = Seat.objects.filter(pk=seat, left_at=None)
    return mine, {"cursor": cursor, "n_shown": F("n_shown") + 1}


def save_draft(draft: Draft, answer: dict[str, Any], comment: str, added_seconds: float) -> None:
    """Keep what was entered so far. Active time adds up and never runs backwards.

    Raises Draft.DoesNotExist where the project or the person was deleted meanwhile.
    """
    draft.answer, draft.comment = answer, comment[:MAX_COMMENT]
    kept = _kept.row(
        draft=draft.pk,
        answer=draft.answer,
        comment=draft.comment,
        added=sane(added_seconds),
        now=timezone.now(),
    )
    if kept is None:
        raise Draft.DoesNotExist
    (draft.active_seconds,) = kept


@prepared_update("active_seconds")
def _kept(draft: Any, answer: Any, comment: Any, added: Any, now: Any) -> Changed:
    return Draft.objects.filter(pk=draft), {
        "answer": answer,
        "comment": comment,
        "active_seconds": F("active_seconds") + added,
        "updated_at": now,
    }


def sane(seconds: float) -> float:
    """What may be added at once to the active time of an item."""
    if not 0 <= seconds < float("inf"):
        return 0.0
    return min(float(seconds), MAX_ADDED_SECONDS)
