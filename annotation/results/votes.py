"""The votes on items, read in one query, as far as results need them."""

from collections import defaultdict
from typing import NamedTuple

from django.db.models import Case, F, IntegerField, QuerySet, Value, When

from annotation.models import Item, Slot
from annotation.results.columns import CHUNK, as_read


class Vote(NamedTuple):
    annotator_id: int
    label: str
    active_seconds: float | None
    both_bad: bool = False
    unblinded: bool = False
    left_response: int | None = None


def votes_on(items: QuerySet[Item]) -> dict[int, list[Vote]]:
    both_bad = When(vote__answer__overall="both_bad", then=Value(1))
    rows = (
        Slot.objects.filter(item__in=items.values("pk"), vote__isnull=False)
        .order_by("item", "index")
        .annotate(
            both_bad=as_read(Case(both_bad, default=Value(0), output_field=IntegerField())),
            unblinded=as_read(F("vote__unblinded")),
        )
        .values_list(
            "item",
            "vote__annotator",
            "vote__label",
            "vote__active_seconds",
            "both_bad",
            "unblinded",
            "vote__left_response",
        )
    )
    votes: dict[int, list[Vote]] = defaultdict(list)
    for item, annotator, label, seconds, both_bad, unblinded, left in rows.iterator(CHUNK):
        vote = Vote(annotator, label, seconds, bool(both_bad), bool(unblinded), left)
        votes[item].append(vote)
    return votes
