"""The figures of single responses for a run's page: computed once for each state of the data.

Thousands of resamples of each correlation take seconds for a thousand items, and minutes for ten
thousand, which a page does not wait for.
"""

import hashlib
import json

from django.db.models import Count, Max, QuerySet, Sum

from judging.kept import kept
from judging.methods.estimates import Undefined
from judging.models.calls import Parse
from judging.models.points import HumanScore, PointItem
from judging.models.runs import Run
from judging.runs.point_shots import whole_report
from judging.runs.pointwise_report import Json, pointwise_report

MOST_ON_PAGE = 2_000
TOO_MANY = (
    "above {} items the correlations take minutes: manage.py report {} --run {} --json has them"
)


def shown_points(run: Run) -> Json:
    """As `whole_report`; with many items a reason in place of what takes long."""
    items = PointItem.objects.filter(project=run.project_id).visible().count()
    if items > MOST_ON_PAGE:
        reason = TOO_MANY.format(f"{MOST_ON_PAGE:,}", run.project.slug, run.number)
        found = pointwise_report(run, with_bias=False)
        return found | {"likelihood": Undefined(reason).as_json(), "comparison": None}
    return kept("points", run, state_of(run), lambda: whole_report(run))


def state_of(run: Run) -> str:
    """Changes with every reply, score and likelihood, and with the runs compared."""
    scores = HumanScore.objects.filter(point_item__project=run.project_id)
    state = [
        run.name,
        run.parameters,
        list(run.project.runs.order_by("pk").values_list("pk", "name", "state", "finished_at")),
        size(Parse.objects.filter(sample__call__run__project=run.project_id, current=True)),
        size(scores) | scores.aggregate(total=Sum("value")),
        size(run.project.likelihoods.all()),
    ]
    return hashlib.sha256(json.dumps(state, default=str).encode()).hexdigest()


def size(rows: QuerySet) -> dict[str, object]:
    return rows.aggregate(n=Count("pk"), last=Max("pk"))
