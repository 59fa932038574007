"""The report of a run, computed once for each state of the data."""

import hashlib
import json

from django.core.cache import cache
from django.db.models import Count, Max
from django.db.models.query import QuerySet

from annotation.models import Adjudication, Annotation, Item, Round, Slot
from annotation.results.analysis import Analysis
from annotation.results.figures import Json
from annotation.results.report import report
from annotation.selecting import frame
from judging.models import Project, Run

KEPT_SECONDS = 7 * 24 * 3600


def current_report(project: Project, run: Run) -> Json:
    """A constant number of queries that count, where nothing has changed."""
    key = f"report:{project.pk}:{run.pk}:{fingerprint(project)}"
    found: Json | None = cache.get(key)
    if found is None:
        found = report(Analysis(project, run))
        cache.set(key, found, KEPT_SECONDS)
    return found


def fingerprint(project: Project) -> str:
    """Changes with every vote, decision, import, round, ranking and setting of the project."""
    rounds = Round.objects.filter(project=project)
    votes = Annotation.objects.filter(item__round__project=project)
    counted = Slot.objects.filter(round__project=project, vote__isnull=False)
    decided = Adjudication.objects.filter(item__round__project=project)
    state = [
        list(
            project.runs.order_by("pk").values_list(
                "pk", "state", "ranked_at", "spent_usd", "parameters__calibration"
            )
        ),
        _size(project.likelihoods.all()),
        list(rounds.order_by("pk").values_list("pk", "state", "closed_at", "certificate_plan")),
        _size(frame(project).order_by()),
        _size(Item.objects.filter(round__project=project)),
        _size(decided),
        _size(counted),
        votes.aggregate(n=Count("pk"), last=Max("updated_at")),
        (project.name, project.wage_usd, project.minutes_per_vote, project.cost_basis),
    ]
    return hashlib.sha256(json.dumps(state, default=str).encode()).hexdigest()


def _size(rows: QuerySet) -> dict[str, int]:
    return rows.aggregate(n=Count("pk"), last=Max("pk"))
