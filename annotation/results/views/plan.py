"""The planner: what does β buy? A round opens from here with these settings."""

from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from annotation.results.expecting import beta_for, expected_at, may_certify
from annotation.results.planning import Plan
from annotation.results.planning import plan as plan_of
from annotation.results.report_cache import current_report
from annotation.rounds import RoundSettings, open_round
from judging.access import Access, project_for
from judging.errors import UserError
from judging.models import Project, Role, Run

DEFAULT_EPSILON = Decimal(10)
HOW_MUCH = [("beta", "the top β %"), ("budget", "what a budget buys"), ("all", "everything")]


class PlanForm(forms.Form):
    """β and money are exact decimals; what is left empty does not count."""

    run = forms.ModelChoiceField(Run.objects.none(), required=False, label="Ranked by")
    how = forms.ChoiceField(choices=HOW_MUCH, initial="beta", label="People label")
    beta = forms.DecimalField(
        min_value=0,
        max_value=100,
        initial=20,
        required=False,
        label="β, percent of all examples",
        widget=forms.NumberInput(attrs={"type": "range", "step": "1", "min": "1", "max": "100"}),
    )
    budget = forms.DecimalField(min_value=0, required=False, label="Budget for people, USD")
    votes = forms.IntegerField(min_value=1, max_value=99, initial=3, label="Votes an example")
    audit = forms.IntegerField(
        min_value=0,
        initial=0,
        label="Audit",
        help_text="Examples drawn at random from the rest. Without it nothing can be said about "
        "the labels that nobody checks.",
    )
    epsilon = forms.DecimalField(
        min_value=Decimal("0.1"),
        max_value=50,
        initial=DEFAULT_EPSILON,
        required=False,
        label="Wrong labels to certify at most, percent",
        help_text="Fixed when the round opens: a certificate that is planned afterwards is false "
        "more often than it says.",
    )
    target = forms.DecimalField(
        min_value=0,
        max_value=100,
        required=False,
        label="Accuracy to reach, percent",
        help_text="To be told which β it needs. It changes nothing in the round.",
    )
    partial = forms.BooleanField(required=False, label="Open although the run is not finished")

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        runs = project.runs.filter(ranked_at__isnull=False).order_by("-number")
        self.fields["run"].queryset = runs
        self.fields["run"].initial = project.primary_run or runs.first()
        if self.fields["run"].initial is None:
            self.fields["how"].initial = "all"
        self.fields["run"].empty_label = "no ranking (everything only)"

    def settings(self) -> tuple[Run | None, RoundSettings]:
        data = self.cleaned_data
        return data["run"], RoundSettings(
            beta=data["beta"] if data["how"] == "beta" else None,
            budget=data["budget"] if data["how"] == "budget" else None,
            everything=data["how"] == "all",
            votes=data["votes"],
            audit=0 if data["how"] == "all" else data["audit"],
            partial=data["partial"],
            epsilon=float((data["epsilon"] or DEFAULT_EPSILON) / 100),
        )


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
    found = {"form": form, "project": access.project, "access": access, "tab": "plan"}
    found |= _preview(access, form if form.is_bound else _defaults(access.project))
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
    found = {"plan": plan, "certifies": may_certify(plan.audit), "epsilon": settings.epsilon}
    return found | _expected(access.project, run, plan, form.cleaned_data["target"])


def _expected(
    project: Project, run: Run | None, plan: Plan, target: Decimal | None
) -> dict[str, Any]:
    """Nothing without a run to rank by."""
    if run is None:
        return {}
    known = current_report(project, run)["expected"]
    found = {
        "expected": expected_at(known, float(plan.beta), plan.n_frame, plan.usd),
        "no_expected": known.get("reason", ""),
        "target": target,
    }
    if target is not None and known["beta"]:
        found["beta_for_target"] = beta_for(known, float(target) / 100)
    return found


def _defaults(project: Project) -> PlanForm:
    empty = PlanForm(project)
    first = empty.fields["run"].initial
    data = {name: field.initial for name, field in empty.fields.items() if name != "run"}
    data |= {"run": first.pk if first else ""}
    return PlanForm(project, data)
