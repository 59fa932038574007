"""The figures of single responses for a run's page: computed once for each state of the data.

Thousands of resamples of each correlation take seconds for a thousand items, and minutes for ten
thousand, which a page does not wait for.
"""

import hashlib
import json

from django.core.cache import caches
from django.db.models import Count, Max, QuerySet, Sum

from judging.methods.estimates import Undefined
from judging.models import HumanScore, Parse, PointItem, Run
from judging.runs.point_shots import whole_report
from judging.runs.pointwise_report import Json, pointwise_report

MOST_ON_PAGE = 2_000
KEPT_SECONDS = 7 * 24 * 3600
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
    # Shared by the processes of this machine, unlike the default cache.
    reports = caches["reports"]
    key, state = f"points:{run.pk}:{run.created_at.timestamp()}", state_of(run)
    kept = reports.get(key)
    if kept is None or kept[0] != state:
        kept = (state, whole_report(run))
        reports.set(key, kept, KEPT_SECONDS)
    return kept[1]


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
