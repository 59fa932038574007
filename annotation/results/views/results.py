"""The results of a run: what the labels are worth, what they cost, and the exports."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRefresh

from annotation.results.costs import project_costs, run_totals
from annotation.results.exports import FORMATS, KINDS
from annotation.results.report import plots
from annotation.results.report_cache import Shown, kept_for, shown_report
from annotation.results.report_page import page_context
from annotation.results.vega import as_png, as_svg
from judging.access import Access, project_for
from judging.errors import UserError
from judging.models.projects import Role
from judging.models.runs import Run
from judging.runs.finding import find_run

_EXPORTS_SHOWN = 20
_PICTURES = {"svg": "image/svg+xml", "png": "image/png"}


@require_safe
def results(request: HttpRequest, slug: str) -> HttpResponse:
    """Until a run is ranked nothing of a judge is shown, and looking unblinds nobody."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    project = access.project
    run = chosen_run(request, access)
    found = {
        **access.under("results"),
        "runs": project.runs.order_by("-number"),
        "run": run,
        "exports": project.exports.select_related("run", "created_by").order_by("-pk")[
            :_EXPORTS_SHOWN
        ],
        "kinds": KINDS,
        "formats": FORMATS,
    }
    if run is not None and run.ranked_at is not None:
        project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
        shown = shown_report(project, run)
        if request.htmx and not shown.renewing:  # type: ignore[attr-defined]
            return HttpResponseClientRefresh()
        found |= _figures(run, shown)
    if "costs" not in found:
        people = kept_for(project, f"totals:{run.pk if run else 0}", lambda: run_totals(run))
        found["costs"] = project_costs(project, run, people)
    return render(request, "results/results.html", found)


def _figures(run: Run, shown: Shown) -> dict[str, Any]:
    """What the report says, as far as it is computed."""
    found = {"renewing": shown.renewing, "rounds": run.rounds.exists()}
    if shown.report is not None:
        found |= page_context(run, shown.report) | {"plots": plots(shown.report)}
    return found


@require_safe
def plot(request: HttpRequest, slug: str, name: str, kind: str) -> HttpResponse:
    """One plot as a file for a paper."""
    access = project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    run = chosen_run(request, access)
    report = shown_report(access.project, run).report if run and run.ranked_at else None
    found = next((one for one in plots(report) if one.name == name), None) if report else None
    if found is None:
        raise Http404
    drawn = as_svg(found).encode() if kind == "svg" else as_png(found)
    response = HttpResponse(drawn, content_type=_PICTURES[kind])
    file = f"{access.project.slug}-run{run.number}-{name}.{kind}"
    response["Content-Disposition"] = f'attachment; filename="{file}"'
    return response


def chosen_run(request: HttpRequest, access: Access) -> Run | None:
    """The run in the address, else the primary one, else the newest."""
    project = access.project
    try:
        return find_run(project, request.GET["run"])
    except (KeyError, UserError):
        return project.primary_run or project.runs.order_by("-number").first()
