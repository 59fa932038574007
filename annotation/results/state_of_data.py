"""The state of a project's data, in few aggregates: what was made of it holds while this is equal.

Each row counts with a weight of its own, so that two that change against each other are seen, and
so is an update of many at once, which leaves no time behind. Imported texts alone never change.
"""

import hashlib
import json

from django.db.models import (
    BigIntegerField,
    Count,
    ExpressionWrapper,
    F,
    Max,
    Sum,
    Value,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Length, Ord
from django.db.models.query import QuerySet

from annotation.models import Adjudication, Annotation, Item, Round, Slot
from annotation.results.sheet_rows import label_sign
from annotation.selecting import frame
from judging.models.projects import Project
from judging.models.runs import Run
from judging.models.verdicts import Verdict

# A prime: sums of a million rows stay far below what a database can add.
_WEIGHTS = 9973
_RUN = (
    "pk", "name", "state", "ranked_at", "spent_usd", "price", "seed", "parameters__calibration",
)  # fmt: skip
_ROUND = (
    "pk", "run", "state", "stage", "closed_at", "certificate_plan", "votes_per_item",
    "no_majority", "wage_usd", "minutes_per_vote", "cost_basis",
)  # fmt: skip
_PROJECT = (
    "name", "slug", "wage_usd", "minutes_per_vote", "cost_basis", "leave_out_unblinded",
)  # fmt: skip


def fingerprint(project: Project) -> str:
    """Changes with every vote, decision, import, label, round, ranking and setting."""
    rounds = Round.objects.filter(project=project)
    items = Item.objects.filter(round__project=project).order_by("round", "state")
    slots = Slot.objects.filter(round__project=project, vote__isnull=False)
    votes = Annotation.objects.filter(item__round__project=project)
    state = [
        list(project.runs.order_by("pk").values_list(*_RUN)),
        list(rounds.order_by("pk").values_list(*_ROUND)),
        list(items.values_list("round", "state").annotate(n=Count("pk"), last=Max("pk"))),
        _size(project.likelihoods.all()),
        _size(Adjudication.objects.filter(item__round__project=project)),
        _size(slots, votes=Sum("vote")),
        _size(frame(project).order_by(), each=_weighed(*_of_example())),
        _size(votes, last_at=Max("updated_at"), each=_weighed(*_of_vote())),
        _size(Verdict.objects.filter(run__in=_runs(project)), each=_weighed(*_of_verdict())),
        [getattr(project, name) for name in _PROJECT],
    ]
    return hashlib.sha256(json.dumps(state, default=str).encode()).hexdigest()


def _runs(project: Project) -> list[int]:
    return list(Run.objects.filter(project=project).values_list("pk", flat=True))


def _size(rows: QuerySet, **more: Combinable) -> dict[str, int]:
    return rows.aggregate(n=Count("pk"), last=Max("pk"), **more)


def _weighed(*numbers: Combinable) -> Sum:
    """numbers: of a row, each of which can change."""
    total: Combinable = Value(0, output_field=BigIntegerField())
    for place, number in enumerate(numbers):
        total = total + number * Value(2 * place + 1)
    weight = ExpressionWrapper(F("pk") % _WEIGHTS + 1, output_field=BigIntegerField())
    return Sum(weight * ExpressionWrapper(total, output_field=BigIntegerField()))


def _of_example() -> list[Combinable]:
    names = ("category", "model_1", "model_2")
    return [label_sign("gold_label"), *map(Length, names), *map(Ord, names)]


def _of_vote() -> list[Combinable]:
    return [label_sign(), Coalesce("left_response", Value(0)), F("annotator")]


def _of_verdict() -> list[Combinable]:
    return [label_sign(), Coalesce("rank", Value(0))]
