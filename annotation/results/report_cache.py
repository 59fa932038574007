"""The report of a run, computed once for each state of the data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery import current_app

from annotation.results.analysis import Analysis
from annotation.results.figures import Json
from annotation.results.report import report
from annotation.results.state_of_data import fingerprint
from annotation.selecting import frame
from judging.kept import kept, key, shelf
from judging.models.projects import Project
from judging.models.runs import Run
from judging.models.workers import Worker

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
