"""The list of a project's examples, and what a chosen run says about them."""

from typing import Any

from django import forms
from django.core.paginator import Paginator
from django.db.models import F, FilteredRelation, Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.text import Truncator
from django.views.decorators.http import require_GET

from judging.dataset.models import Example, Label
from judging.projects.access import Access, project_for
from judging.projects.models import Project, Role
from judging.runs.models import Run, Verdict

MOST_CATEGORIES = 200
LONGEST_SEARCH = 200


def shortened(name: str) -> str:
    return Truncator(name).chars(40)


class ExampleFilter(forms.Form):
    """Invalid values filter nothing. The run comes first: labels and states belong to it."""

    run = forms.ChoiceField(label="Run", required=False)
    q = forms.CharField(label="Search", required=False, max_length=LONGEST_SEARCH)
    category = forms.ChoiceField(label="Category", required=False)
    label = forms.ChoiceField(
        label="Judge’s label", required=False, choices=[("", "any"), *Label.choices]
    )
    state = forms.ChoiceField(
        label="Verdict",
        required=False,
        choices=[("", "any"), *Verdict.State.choices, ("conflict", "orders in conflict")],
    )

    def __init__(self, project: Project, data: object, runs: list[Run]) -> None:
        super().__init__(data, auto_id="filter-%s")
        self.fields["run"].choices = [
            ("", "none: texts only"),
            *((str(run.number), shortened(f"{run.number} · {run.name}")) for run in runs),
        ]
        examples = Example.objects.filter(project=project).exclude(category="").visible()
        names = examples.order_by("category").values_list("category", flat=True).distinct()
        self.fields["category"].choices = [
            ("", "all"),
            *((name, shortened(name)) for name in names[:MOST_CATEGORIES]),
        ]
        self.is_valid()

    def shown_fields(self) -> list[forms.BoundField]:
        names = ["run", "q", "category"]
        return [self[name] for name in names + (["label", "state"] if self.run_number else [])]

    @property
    def run_number(self) -> int | None:
        number = self.cleaned_data.get("run")
        return int(number) if number else None


PAGE = 50
# How many runs you can choose from; older ones have their own pages.
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
    """List the examples. Without a run it shows nothing of the judge, so it unblinds nobody."""
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
    """Return the query, by default with the primary run for users who have seen the judge."""
    asked = request.GET.copy()
    if access.has_seen_judge and "run" not in asked:
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
    """Order by one column, empty values last; by default in import order."""
    column = SORTS.get(sort.removeprefix("-"), "number")
    if run is None and column.startswith("verdict"):
        column = "number"
    field = F(column)
    down = sort.startswith("-")
    first = field.desc(nulls_last=True) if down else field.asc(nulls_last=True)
    return found.order_by(first, "number", "pk")
