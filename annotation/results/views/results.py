"""The results of a run: what the labels are worth, what they cost, and the exports."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from annotation.results.analysis import Analysis
from annotation.results.costs import project_costs
from annotation.results.exports import FORMATS, KINDS
from judging.access import Access, project_for
from judging.errors import UserError
from judging.methods.estimates import Undefined
from judging.models import Role, Run
from judging.runs.finding import find_run
from judging.runs.progress import progress_of

_EXPORTS_SHOWN = 20


@require_safe
def results(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    project = access.project
    run = _chosen(request, access)
    found = {
        "project": project,
        "access": access,
        "tab": "results",
        "runs": project.runs.order_by("-number"),
        "run": run,
        "exports": project.exports.select_related("run", "created_by").order_by("-pk")[
            :_EXPORTS_SHOWN
        ],
        "kinds": KINDS,
        "formats": FORMATS,
        "costs": project_costs(project, run),
    }
    if run is not None and run.ranked_at is not None:
        found |= _figures(Analysis(project, run)) | {"progress": progress_of(run)}
    return render(request, "results/results.html", found)


def _chosen(request: HttpRequest, access: Access) -> Run | None:
    """The run in the address, else the primary one, else the newest."""
    project = access.project
    try:
        return find_run(project, request.GET["run"])
    except (KeyError, UserError):
        return project.primary_run or project.runs.order_by("-number").first()


def _figures(analysis: Analysis) -> dict[str, object]:
    lines, position = analysis.lines(), analysis.position
    return {
        "analysis": analysis,
        "before": analysis.before(),
        "after": analysis.after(),
        "lines": None if isinstance(lines, Undefined) else lines,
        "no_lines": lines.reason if isinstance(lines, Undefined) else "",
        "position": None if isinstance(position, Undefined) else position,
        "no_position": position.reason if isinstance(position, Undefined) else "",
    }
