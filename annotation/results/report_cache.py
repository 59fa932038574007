"""The report of a run, computed once for each state of the data."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery import current_app
from django.db.models import Count, Max
from django.db.models.query import QuerySet

from annotation.models import Adjudication, Annotation, Item, Round, Slot
from annotation.results.analysis import Analysis
from annotation.results.figures import Json
from annotation.results.report import report
from annotation.selecting import frame
from judging.kept import kept, key, shelf
from judging.models import Project, Run, Worker

# With more examples a page would wait for the figures: a worker renews them meanwhile.
MOST_AT_ONCE = 5_000
ASKED_SECONDS = 60
TASK = "annotation.results.tasks.renew_report"


@dataclass(frozen=True)
class Shown:
    """report: the newest there is, None before the first. renewing: a worker is at a newer one."""

    report: Json | None
    renewing: bool = False


def current_report(project: Project, run: Run) -> Json:
    """A constant number of queries that count, where nothing has changed."""
    state = fingerprint(project)
    return kept("report", run, state, lambda: report(Analysis(project, run)))


def shown_report(project: Project, run: Run) -> Shown:
    """For a page, which opens at once however large the project: the last report meanwhile."""
    state = fingerprint(project)
    if (found := _kept(run, state)) is not None:
        return Shown(found)
    large = frame(project).count() > MOST_AT_ONCE
    if not large or not Worker.objects.alive().filter(queues__contains="quick").exists():
        return Shown(current_report(project, run))
    if shelf.add(f"{key('report', run)}:{state}", True, ASKED_SECONDS):
        current_app.send_task(TASK, [run.pk])
    before = shelf.get(key("report", run))
    return Shown(before[1] if before else None, renewing=True)


def kept_for(project: Project, name: str, make: Callable[[], Any]) -> Any:
    """Anything that is made of the same state of the data."""
    return kept(name, project, fingerprint(project), make)


def _kept(run: Run, state: str) -> Json | None:
    found = shelf.get(key("report", run))
    return found[1] if found and found[0] == state else None


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
