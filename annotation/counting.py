"""Votes given in one round count in others that ask the same: they fill what is free there."""

from django.db import transaction
from django.db.models import Case, Q, When
from django.utils import timezone

from annotation.models import Annotation, Annotator, Item, Round, Slot
from annotation.settling import settle

_CHUNK = 500


def count_earlier_votes(
    round_: Round, example_id: int | None = None, *, by: Annotator | None = None
) -> int:
    """Let votes that were given under the same protocol elsewhere fill this round's slots.

    Earliest first, never more than n an item; on one example or by one person alone where they
    are named. Returns how many slots were filled.
    """
    filled = 0
    earlier = (
        Annotation.objects.filter(protocol=round_.protocol_id, example__items__round=round_)
        .exclude(item__round=round_)
        .exclude(counted_in__round=round_)
        .order_by("example", "submitted_at", "pk")
    )
    if example_id is not None:
        earlier = earlier.filter(example=example_id)
    if by is not None:
        earlier = earlier.filter(annotator=by)
    for vote in earlier.iterator():
        filled += count_in(vote, round_)
    return filled


def count_all_earlier_votes(round_: Round) -> int:
    """The same for a round whose items have just come, or that has just opened: also votes that
    are being given at this moment, and that did not see it yet.

    A vote holds the items of its example until it is stored, and looks once more after it held
    them for where it counts. Whoever waits for these items afterwards misses none.
    """
    elsewhere = Item.objects.filter(round__protocol=round_.protocol_id)
    elsewhere = elsewhere.filter(example__items__round=round_).exclude(round=round_)
    keys = list(elsewhere.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(keys), _CHUNK):
        with transaction.atomic():
            held = Item.objects.select_for_update(no_key=True).order_by("pk")
            list(held.filter(pk__in=keys[start : start + _CHUNK]).values_list("pk", flat=True))
    return count_earlier_votes(round_)


def count_in(vote: Annotation, round_: Round) -> int:
    """A free slot of the example, the voter's own before others: they cannot fill it any more."""
    item = Item.objects.filter(round=round_, example=vote.example_id)
    with transaction.atomic():
        # Locked first: two who count the same vote at once must not give it two slots.
        locked = item.select_for_update(of=("self",), no_key=True).first()
        if locked is None or Slot.objects.filter(item=locked, vote=vote).exists():
            return 0
        # It may have been deleted with the person who gave it.
        if not Annotation.objects.filter(pk=vote.pk).exists():
            return 0
        return _fill_free_slot(locked, vote)


def _fill_free_slot(item: Item, vote: Annotation) -> int:
    mine = Q(annotator=vote.annotator_id)
    open_to_it = mine | Q(annotator=None) | Q(lease_until__lt=timezone.now())
    # The slot's own columns alone: a join would be judged by what it held before the update.
    free = Slot.objects.filter(open_to_it, item=item, vote=None)
    for slot in free.order_by(Case(When(mine, then=0), default=1), "index"):
        if free.filter(pk=slot.pk).update(vote=vote, annotator=None, lease_until=None):
            settle(item)
            return 1
    return 0
