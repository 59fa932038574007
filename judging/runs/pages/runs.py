"""The list of runs, and the form that starts one and says what it will cost."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Count, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from judging.core.errors import UserError
from judging.core.formatting import count, number_of
from judging.core.models import count_of
from judging.dataset.models import n_judged
from judging.dataset.pages.imports import import_for
from judging.projects.access import Access, project_for
from judging.projects.models import Project, Role
from judging.runs.endpoints import models_at
from judging.runs.models import Form, Run, Verdict
from judging.runs.pages.start_form import StartForm
from judging.runs.planning.estimate import RunEstimate, estimate_run, price_of_pairs
from judging.runs.planning.start import start_run
from judging.runs.templates import simulating

PAGE = 50
MAY_NOT_START = (
    "Runs cost money. To start or resume runs or change budgets, you need the site permission "
    "“researcher”. Ask the operator."
)


def starter(request: HttpRequest, slug: str) -> Access:
    """Return the project if the user may start runs."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    if not access.may_start_runs:
        raise PermissionDenied(MAY_NOT_START)
    return access


def listed(project: Project) -> QuerySet[Run]:
    """Return the runs with the number of examples that each has judged, the latest first."""
    judged = Verdict.objects.filter(run=OuterRef("pk"), state=Verdict.State.JUDGED)
    runs = Run.objects.filter(project=project).defer("template_text", "schema")
    return runs.annotate(n_judged=count_of(judged, "run")).order_by("-number")


@require_GET
def runs(request: HttpRequest, slug: str) -> HttpResponse:
    """List the runs. It shows nothing that the judge said, so it unblinds nobody."""
    access = project_for(request.user, slug, Role.OBSERVER)
    context = {
        **access.under("runs"),
        "page": Paginator(listed(access.project), PAGE).get_page(request.GET.get("page")),
        "heading": heading(access.project),
        **judgeable(access.project),
    }
    return render(request, "judging/runs/list.html", context)


def heading(project: Project) -> str:
    """Say how many runs are in which state: first those that wait for a person, then by work."""
    states = Run.objects.filter(project=project).order_by().values_list("state")
    numbers = dict(states.annotate(n=Count("pk")))
    wanted = dict.fromkeys([Run.State.PAUSED, Run.State.FAILED, *Run.State])
    parts = [
        (numbers[state], f"{'is' if numbers[state] == 1 else 'are'} {Run.State(state).label}")
        for state in wanted
        if state in numbers
    ]
    if not parts:
        return "No judge has been asked yet."
    runs = number_of(sum(numbers.values()), "run")
    if len(parts) == 1:
        return f"{runs} {parts[0][1]}."
    return f"{runs}: {', '.join(f'{count(n)} {state}' for n, state in parts)}."


def judgeable(project: Project) -> dict[str, int]:
    """Count the pairs and single responses that a run could be about."""
    return {"n_examples": n_judged(project.pk), "n_points": project.point_items.visible().count()}


@require_http_methods(["GET", "HEAD", "POST"])
def run_start(request: HttpRequest, slug: str) -> HttpResponse:
    access = starter(request, slug)
    if request.method != "POST":
        like = Run.objects.filter(project=access.project, number=number_in(request)).first()
        form = StartForm(access.project, like=like)
        for name in ("category", "tag"):
            # The data browser leads here with what it shows.
            form.fields[name].initial = request.GET.get(name, "")
        if "template" in request.GET:
            # A lesson leads here with what it taught.
            form.initial["template"] = request.GET["template"]
            form.initial |= simulating(access.project, request.GET["template"])
        return start_page(request, access, form)
    form = StartForm(access.project, request.POST)
    if form.is_valid():
        try:
            run = start_run(access.project, access.user, **form.judge, **form.pace)
        except UserError as error:
            form.add_error(None, str(error))
        else:
            return redirect("run", slug, run.number)
    return start_page(request, access, form, status=422)


@require_POST
def run_estimate(request: HttpRequest, slug: str) -> HttpResponse:
    """Render what the form will cost; without JavaScript in a whole page."""
    access = starter(request, slug)
    form = StartForm(access.project, request.POST)
    estimate, problem = None, "The form has an error. Nothing was started."
    if form.is_valid():
        try:
            pace = {name: value for name, value in form.pace.items() if name != "seed"}
            estimate = estimate_run(access.project, **form.judge, **pace)
        except UserError as error:
            problem = str(error)
    return start_page(request, access, form, estimate, problem if estimate is None else "")


@require_GET
def run_models(request: HttpRequest, slug: str) -> HttpResponse:
    """Suggest the models of an endpoint for the form."""
    starter(request, slug)
    context: dict[str, Any] = {"endpoint": request.GET.get("endpoint", "")}
    try:
        context["models"] = models_at(context["endpoint"])
    except UserError as error:
        context["problem"] = str(error)
    return render(request, "judging/runs/_start_models.html", context)


@require_GET
def import_price(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Say what a judge would need for the pairs of a checked import, by one of the runs."""
    access, imported = import_for(request, slug, number)
    done = access.project.runs.exclude(form=Form.POINTWISE).order_by("-number")
    run = done.filter(number=number_in(request, "run")).first() or access.project.primary_run
    context = {
        **access.under("examples"),
        "import": imported,
        "runs": done[:PAGE],
        "run": run,
        "price": price_of_pairs(imported.summary.get("n_new", 0), run),
    }
    part = request.htmx and request.htmx.target == "price"  # type: ignore[attr-defined]
    return render(request, f"judging/imports/{'_price' if part else 'price'}.html", context)


def number_in(request: HttpRequest, name: str = "like") -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else None


def start_page(
    request: HttpRequest,
    access: Access,
    form: StartForm,
    estimate: RunEstimate | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {
        **access.under("runs"),
        "form": form,
        "estimate": estimate,
        "problem": problem,
        **judgeable(access.project),
    }
    part = request.htmx and request.htmx.target == "estimate"  # type: ignore[attr-defined]
    template = "_start_estimate.html" if part else "start.html"
    return render(request, f"judging/runs/{template}", context, status=status)
