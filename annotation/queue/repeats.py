"""Pairs that a person gets again, with the sides exchanged, to see if they agree with themselves.

Which ones is drawn with each vote, evenly over the person's votes from a start that the round's
seed gives. A repeat fills no slot, so that an item still gets exactly n votes; it comes between the
person's other pairs and looks like them.
"""

import hashlib
import secrets
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from annotation.models import Annotator, Draft, Item, Repeat, Round, Slot, Vote
from annotation.queue.drafts import label_of
from judging.core.sql.statements import prepared


def n_repeats(round_: Round, annotator: Annotator, n_votes: int) -> int:
    """Return how many of the person's first votes in the round are drawn to be asked again."""
    # The floor below goes up by one with p of every 100 votes, and the start decides with which.
    # A digest gives the same start in each process, which Python's `hash` of a text doesn't.
    named = f"repeat:{round_.seed}:{annotator.pk}".encode()
    start = int.from_bytes(hashlib.sha256(named).digest()[:8]) % 100
    return (n_votes * round_.repeat_percent + start) // 100


def repeats_to_expect(round_: Round, annotator: Annotator, n_pairs: int) -> int:
    """Return how many repeats come if the person votes on this many pairs.

    The last ones are followed by too few others, and don't come again.
    """
    return n_repeats(round_, annotator, max(0, n_pairs - round_.parameters["repeat_after"]))


def _n_votes(round_: Round, annotator: Annotator) -> int:
    return Slot.objects.filter(round=round_, annotator=annotator, vote__isnull=False).count()


def plan_repeat(vote: Vote, round_: Round) -> None:
    """Draw whether the person gets this pair again. Call it in the vote's transaction."""
    n = _n_votes(round_, vote.annotator)
    if n_repeats(round_, vote.annotator, n) > n_repeats(round_, vote.annotator, n - 1):
        due = n + round_.parameters["repeat_after"]
        Repeat.objects.create(vote=vote, round=round_, annotator=vote.annotator, due=due)


def next_repeat(round_: Round, annotator: Annotator, ahead_of: str | None) -> Draft | None:
    """Return the pair that is due to come again, or that the person has in hand again."""
    due = _to_come.all(round_=round_.pk, annotator=annotator.pk)
    n_votes = _n_votes(round_, annotator) if due else 0
    for repeat in due:
        if repeat.due > n_votes:
            return None
        draft = Draft.every.filter(repeat=repeat).first()
        if draft is None:
            draft = _draft_of(repeat)
        if draft.token != ahead_of:
            draft.item = Item.objects.only("round", "example", "state").get(pk=draft.item_id)
            draft.item.round, draft.annotator = round_, annotator
            return draft
    return None


@prepared
def _to_come(round_: Any, annotator: Any) -> QuerySet[Repeat]:
    """The next ones. Two are enough: one may be on the screen, and the other fetched ahead."""
    repeats = Repeat.objects.filter(round=round_, annotator=annotator, submitted_at=None)
    repeats = repeats.filter(skipped_at=None, vote__aside_at=None).select_related("vote")
    return repeats.order_by("due", "pk")[:2]


def _draft_of(repeat: Repeat) -> Draft:
    try:
        with transaction.atomic():
            return Draft.every.create(
                repeat=repeat,
                item_id=repeat.vote.item_id,
                annotator_id=repeat.annotator_id,
                token=secrets.token_urlsafe(24),
                left_response=3 - repeat.vote.left_response,
            )
    except IntegrityError:
        # Another tab of this person has it.
        return Draft.every.get(repeat=repeat)


def answer_again(draft: Draft) -> Repeat | None:
    """Return what the person said when they had the pair again, as a vote reads; None before."""
    repeat = Repeat.objects.select_related("vote").filter(pk=draft.repeat_id).first()
    if repeat is None or repeat.submitted_at is None:
        return None
    # What the screen asks of a vote.
    repeat.aside_at, repeat.is_practice = repeat.vote.aside_at, False
    return repeat


def may_answer_again(draft: Draft) -> bool:
    """Return False if the vote was put aside."""
    return Repeat.objects.filter(pk=draft.repeat_id, vote__aside_at=None).exists()


def record_again(draft: Draft, checked: dict[str, Any], comment: str) -> Repeat | None:
    """Store the answer, also over an earlier one. None if the vote was put aside meanwhile."""
    now = timezone.now()
    with transaction.atomic():
        rows = Repeat.objects.select_for_update(of=("self",), no_key=True)
        repeat = rows.select_related("vote").filter(pk=draft.repeat_id).first()
        if repeat is None or repeat.vote.aside_at is not None:
            return None
        if repeat.submitted_at is None:
            repeat.submitted_at, repeat.first_label = now, repeat.vote.label
        repeat.label = label_of(checked["overall"], draft.left_response)
        repeat.answer, repeat.comment = checked, comment
        repeat.active_seconds, repeat.skipped_at = draft.active_seconds, None
        repeat.save()
    return repeat


def skip_again(draft: Draft, *, is_skipped: bool) -> None:
    """Leave the pair out, or take that back. It is nobody else's, so nothing else follows."""
    unanswered = Repeat.objects.filter(pk=draft.repeat_id, submitted_at=None)
    unanswered.update(skipped_at=timezone.now() if is_skipped else None)
