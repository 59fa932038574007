"""The list of a project's examples, beside what a run says of them where one is chosen."""

from typing import Any

from django.core.paginator import Paginator
from django.db.models import F, FilteredRelation, Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from judging.access import Access, project_for
from judging.forms.examples import ExampleFilter
from judging.models.examples import Example
from judging.models.projects import Project, Role
from judging.models.runs import Run

PAGE = 50
# As many runs can be chosen from; older ones have their own pages.
MOST_RUNS = 100
EXCERPT = 300
SORTS = {
    "number": "number",
    "id": "external_id",
    "bpde": "verdict__bpde",
    "rank": "verdict__rank",
    "gap": "verdict__gap",
}
VERDICT_COLUMNS = ("state", "label", "cs_1", "cs_2", "gap", "bpde", "rank", "conflict")


@require_GET
def examples(request: HttpRequest, slug: str) -> HttpResponse:
    """Without a run nothing of the judge is shown, and looking at the list unblinds nobody."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    project = access.project
    runs = list(project.runs.only("number", "name", "project").order_by("-number")[:MOST_RUNS])
    form = ExampleFilter(project, asked_for(request, access, runs), runs)
    run = next((run for run in runs if run.number == form.run_number), None)
    if run is not None:
        project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    found = ordered(filtered(project, form.cleaned_data, run), request.GET.get("sort", ""), run)
    context = {
        **access.under("examples"),
        "form": form,
        "run": run,
        "page": Paginator(found, PAGE).get_page(request.GET.get("page")),
    }
    return render(request, "judging/examples/list.html", context)


def asked_for(request: HttpRequest, access: Access, runs: list[Run]) -> QueryDict:
    """The query; whoever has seen the judge already gets the primary run unless they say none."""
    asked = request.GET.copy()
    seen = access.membership is None or access.membership.unblinded_at is not None
    if seen and "run" not in asked:
        primary = [run for run in runs if run.pk == access.project.primary_run_id]
        asked["run"] = str(primary[0].number) if primary else ""
    return asked


def filtered(project: Project, asked: dict[str, Any], run: Run | None) -> QuerySet[Example]:
    found = Example.objects.filter(project=project).visible()
    found = found.defer("question", "response_1", "response_2", "reference")
    found = found.annotate(excerpt=Left("question", EXCERPT))
    if text := asked.get("q"):
        found = found.filter(Q(external_id__icontains=text) | Q(question__icontains=text))
    if category := asked.get("category"):
        found = found.filter(category=category)
    if run is None:
        return found
    found = found.annotate(
        verdict=FilteredRelation("verdicts", condition=Q(verdicts__run=run)),
        **{f"judge_{name}": F(f"verdict__{name}") for name in VERDICT_COLUMNS},
    )
    if label := asked.get("label"):
        found = found.filter(judge_label=label)
    if state := asked.get("state"):
        found = found.filter(
            **({"judge_conflict": True} if state == "conflict" else {"judge_state": state})
        )
    return found


def ordered(found: QuerySet[Example], sort: str, run: Run | None) -> QuerySet[Example]:
    """By one column, what has no value in it last; import order otherwise."""
    column = SORTS.get(sort.removeprefix("-"), "number")
    if run is None and column.startswith("verdict"):
        column = "number"
    field = F(column)
    down = sort.startswith("-")
    first = field.desc(nulls_last=True) if down else field.asc(nulls_last=True)
    return found.order_by(first, "number", "pk")
