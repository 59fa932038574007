"""The planner: what does β buy? A round opens from here with these settings."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from annotation.results.advice import advice
from annotation.results.expecting import EPSILONS, expected_at, may_certify
from annotation.results.figures import Json
from annotation.results.plan_form import PlanForm, defaults
from annotation.results.plan_plot import cost_curve
from annotation.results.planning import Plan, measured_minutes
from annotation.results.planning import plan as plan_of
from annotation.results.report_cache import Shown, shown_report
from annotation.rounds import open_round
from judging.access import Access, project_for
from judging.errors import UserError
from judging.models.projects import Role
from judging.models.runs import Run


@require_http_methods(["GET", "POST"])
def plan(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = PlanForm(access.project, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            round_ = open_round(access.project, request.user, *form.settings())
        except UserError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"Round {round_.number} is open.")
            return redirect("round", access.project.slug, round_.number)
    found = {"form": form, **access.under("plan")}
    found["measured"], found["n_measured"] = measured_minutes(access.project)
    found |= _preview(access, form if form.is_bound else defaults(access.project))
    return render(request, "results/plan.html", found, status=422 if form.errors else 200)


@require_safe
def plan_preview(request: HttpRequest, slug: str) -> HttpResponse:
    """What the settings would buy, redrawn as the sliders move."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = PlanForm(access.project, request.GET)
    return render(request, "results/_plan_preview.html", _preview(access, form))


def _preview(access: Access, form: PlanForm) -> dict[str, Any]:
    if not form.is_valid():
        return {"plan_error": "Correct the settings to see what they buy.", "plan": None}
    run, settings = form.settings()
    try:
        plan = plan_of(access.project, run, settings)
    except UserError as error:
        return {"plan_error": str(error), "plan": None}
    shown = shown_report(access.project, run) if run and run.ranked_at else Shown(None)
    report = shown.report
    found = {"access": access, "project": access.project}
    found |= {"plan": plan, "epsilon": settings.epsilon, "how": form.cleaned_data["how"]}
    found |= _audit(plan, settings.epsilon, settings.looks)
    target = form.cleaned_data["target"]
    if shown.renewing and report is None:
        found["awaits_figures"] = True
    else:
        found["advice"] = advice(report, plan, target, settings.epsilon, settings.budget)
    if report is not None:
        found |= _expected(report, plan) | _at_k(report, run, form.cleaned_data["k"])
        found |= _cascade(report, form.cleaned_data["second"])
    if _says_how_right_the_judge_is(found):
        project_for(access.user, access.project.slug, Role.RESEARCHER, shows_judge=True)
    return found


def _says_how_right_the_judge_is(found: dict[str, Any]) -> bool:
    """That is judge output. Counts, costs and the cut by rank, which are all that the page shows
    before a label is known, tell of no verdict."""
    at_k = found.get("at_k")
    reached = at_k is not None and at_k["accuracy"]["value"] is not None
    return bool(found.get("expected") or reached or found.get("cascades"))


def _audit(plan: Plan, epsilon: float, looks: tuple[int, ...]) -> dict[str, Any]:
    """The published errors and the one chosen, by the looks chosen."""
    epsilons = sorted({*EPSILONS, epsilon})
    sizes = looks or ((plan.audit,) if plan.audit else ())
    return {"epsilons": epsilons, "looks": may_certify(sizes, epsilons)}


def _expected(report: Json, plan: Plan) -> dict[str, Any]:
    known = report["expected"]
    found = {
        "expected": expected_at(known, float(plan.beta), plan.n_frame, plan.usd),
        "no_expected": known.get("reason", ""),
    }
    drawn = cost_curve(known, plan)
    return found | ({"plots": [drawn]} if drawn.table else {})


def _at_k(report: Json, run: Run | None, k: int | None) -> dict[str, Any]:
    """What so many samples in each order cost and reach, where fewer than the run's were asked."""
    if run is None or not k:
        return {}
    orders = len(run.orders) == 2
    rows = [row for row in report["methods"] if not row["beta"] and row["bpc"] == orders]
    return {
        "at_k": next((row for row in rows if row["k"] == k and "run" in row), None)
        or next((row for row in rows if row["k"] == k), None),
        "k": k,
    }


def _cascade(report: Json, second: Run | None) -> dict[str, Any]:
    """What asking the second judge about the most contested would reach and cost."""
    if second is None:
        return {}
    rows = [row for row in report["cascades"] if row["run"] == second.name]
    return {"second": second, "cascades": rows}
