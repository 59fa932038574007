"""What the rounds of a run would select now, where it was ranked anew after they were opened.

A better parser changes verdicts, and items keep the rank they were selected by: nothing is
selected again by itself, and this says how much that would change.
"""

from dataclasses import dataclass

from django.db.models import Q

from annotation.changes import COVERS
from annotation.models import Item, Round, Selection
from annotation.selecting import frame
from judging.models.runs import Run
from judging.models.verdicts import Verdict


@dataclass(frozen=True)
class Reselection:
    """differ: of `m` items selected by rank, so many are not among the first m any more."""

    round: Round
    m: int
    differ: int


def reselections(run: Run) -> list[Reselection]:
    """Rounds whose cut would differ. A few queries a round; rounds of one run are few."""
    if run.ranked_at is None:
        return []
    rounds = Round.objects.filter(
        run=run, kind=Round.Kind.ROUTED, stage=Round.Stage.ONLY, opened_at__lt=run.ranked_at
    ).exclude(paper_mode=True)
    found = [_of(run, round_) for round_ in rounds.order_by("number")]
    return [one for one in found if one.differ]


def _of(run: Run, round_: Round) -> Reselection:
    top = Selection.objects.filter(round=round_, kind=Selection.Kind.TOP)
    covered = [pk for one in top for pk in one.parameters.get(COVERS, ())]
    items = Item.objects.filter(Q(selection__in=top) | Q(pk__in=covered))
    m = items.count()
    ranked = Verdict.objects.filter(run=run, rank__isnull=False, example__in=frame(run.project))
    last = list(ranked.order_by("rank").values_list("rank", flat=True)[max(m - 1, 0) : max(m, 1)])
    if not m or not last:
        return Reselection(round_, m, m)
    within = Verdict.objects.filter(run=run, rank__lte=last[0]).values("example")
    return Reselection(round_, m, items.exclude(example__in=within).count())
