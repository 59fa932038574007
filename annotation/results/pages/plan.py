"""What one may choose in the planner, and the settings that come of it."""

import re
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from annotation.results.data.figures import Plot, colour, plot, tooltip, x_axis, y_axis
from annotation.results.planner.planning import (
    EPSILONS,
    Plan,
    advice,
    expected_at,
    may_certify,
    measured_minutes,
)
from annotation.results.planner.planning import plan as plan_of
from annotation.results.report.cache import Shown, shown_report
from annotation.results.report.report import Report
from annotation.results.sections.review import Expectation, Unforeseen
from annotation.rounds.opening import LEARN, RoundSettings, open_round
from judging.core.errors import UserError
from judging.methods.review.cost import HumanRate
from judging.projects.access import Access, project_for
from judging.projects.models import Project, Role
from judging.runs.models import Run

DEFAULT_EPSILON = Decimal(10)
DEFAULT_BETA = 20
HOW_MUCH = [("beta", "the top β %"), ("budget", "what a budget buys"), ("all", "everything")]
ROUTES = [
    ("bpde", "where the judge contradicts itself (BPDE)"),
    ("learned", "where a random sample shows that it errs"),
]
_MOST_LOOKS = 20
_MOST_USD = 1_000_000_000


class PlanForm(forms.Form):
    """β and money are exact decimals; what is left empty does not count."""

    run = forms.ModelChoiceField(Run.objects.none(), required=False, label="Ranked by")
    how = forms.ChoiceField(choices=HOW_MUCH, initial="beta", label="People label")
    beta = forms.DecimalField(
        min_value=0,
        max_value=100,
        initial=DEFAULT_BETA,
        required=False,
        label="β, percent of all examples",
    )
    # An amount of a million digits is written out in the advice.
    budget = forms.DecimalField(
        min_value=0, max_value=_MOST_USD, required=False, label="Money for people, USD"
    )
    votes = forms.IntegerField(min_value=1, max_value=99, initial=3, label="Votes an example")
    minutes = forms.DecimalField(
        min_value=Decimal("0.01"), max_value=1000, required=False, label="Minutes a vote"
    )
    wage = forms.DecimalField(
        min_value=Decimal("0.01"), max_value=10_000, required=False, label="Wage, USD an hour"
    )
    k = forms.IntegerField(
        min_value=1, max_value=99, required=False, label="k, the judge's samples in each order"
    )
    route = forms.ChoiceField(
        choices=ROUTES,
        initial="bpde",
        required=False,
        label="People first see",
    )
    learn = forms.IntegerField(
        min_value=1,
        initial=LEARN,
        required=False,
        label="Random sample to learn from",
        help_text="Labelled first and counted in the cut. What it teaches selects the rest, if it "
        "finds this judge's errors better than BPDE; otherwise BPDE does, and the report says why.",
    )
    audit = forms.IntegerField(
        min_value=0,
        initial=0,
        label="Audit",
        help_text="Examples drawn at random from the rest. Without it nothing can be said about "
        "the labels that nobody checks.",
    )
    looks = forms.CharField(
        required=False,
        label="Looks at the audit",
        help_text="Sizes at which the certificate may be asked for, such as 30, 60. They share "
        "the error. Empty: once, at the end.",
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
    second = forms.ModelChoiceField(
        Run.objects.none(),
        required=False,
        label="A second judge on the contested part",
        help_text="What another run's label would bring and cost there. It changes nothing in the "
        "round.",
    )
    partial = forms.BooleanField(required=False, label="Open although the run is not finished")

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        runs = project.runs.filter(ranked_at__isnull=False).order_by("-number")
        self.project = project
        self.fields["run"].queryset = runs
        first = project.primary_run or runs.first()
        self.fields["run"].initial = first
        self.fields["second"].queryset = runs
        self.fields["second"].empty_label = "none"
        self.fields["run"].empty_label = "no ranking (everything only)"
        self.fields["minutes"].initial = project.minutes_per_vote.normalize()
        self.fields["wage"].initial = project.wage_usd.normalize()
        self.fields["k"].initial = first.k if first else None
        if first is None:
            self.fields["how"].initial = "all"

    def clean_looks(self) -> tuple[int, ...]:
        parts = re.split(r"[\s,;]+", self.cleaned_data["looks"].strip())
        try:
            looks = tuple(int(part) for part in parts if part)
        except ValueError as error:
            raise forms.ValidationError("Give audit sizes as whole numbers: 30, 60.") from error
        rising = all(a < b for a, b in zip((0, *looks), looks, strict=False))
        if not rising or len(looks) > _MOST_LOOKS:
            raise forms.ValidationError(
                f"Looks are at most {_MOST_LOOKS} audit sizes, each larger than the one before."
            )
        return looks

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        looks, audit = data.get("looks"), data.get("audit")
        if data.get("how") != "all" and looks and audit is not None and looks[-1] > audit:
            self.add_error(
                "looks", f"A look at {looks[-1]} is after the end of an audit of {audit}."
            )
        return data

    def settings(self) -> tuple[Run | None, RoundSettings]:
        data, project = self.cleaned_data, self.project
        everything = data["how"] == "all"
        return data["run"], RoundSettings(
            beta=data["beta"] if data["how"] == "beta" else None,
            budget=data["budget"] if data["how"] == "budget" else None,
            everything=everything,
            votes=data["votes"],
            audit=0 if everything else data["audit"],
            partial=data["partial"],
            learn=(data["learn"] or LEARN) if data["route"] == "learned" and not everything else 0,
            epsilon=float((data["epsilon"] or DEFAULT_EPSILON) / 100),
            looks=() if everything else data["looks"],
            rate=HumanRate(
                data["minutes"] or project.minutes_per_vote, data["wage"] or project.wage_usd
            ),
        )


def defaults(project: Project) -> PlanForm:
    """As the page is when it opens, filled in."""
    empty = PlanForm(project)
    first = empty.fields["run"].initial
    data = {name: field.initial for name, field in empty.fields.items() if name != "run"}
    return PlanForm(project, data | {"run": first.pk if first else "", "looks": ""})


CURVE, BAND, CHANCE, CHOSEN = "by BPDE", "at least", "at random", "chosen"


def cost_curve(expected: Expectation | Unforeseen, plan: Plan) -> Plot:
    """One point a β; the lower band holds at all of them at once. No rows without known labels."""
    rows = []
    if isinstance(expected, Expectation):
        first, last = expected.accuracy[0], expected.accuracy[-1]
        for place, beta in enumerate(expected.beta):
            values = {
                CURVE: expected.accuracy[place],
                BAND: expected.lower_band[place],
                CHANCE: first + beta / 100 * (last - first),
            }
            usd = float(plan.usd_at(beta))
            rows += [
                {"beta": beta, "usd": usd, "line": line, "value": value}
                for line, value in values.items()
            ]
        here = expected_at(expected, float(plan.beta), plan.n_frame, plan.usd)
        at = {"beta": round(float(plan.beta), 1), "usd": float(plan.usd)}
        rows.append(at | {"line": CHOSEN, "value": here.accuracy})
    lines = [CURVE, BAND, CHANCE]
    encoding = {
        "x": x_axis("usd", "people, USD"),
        "y": y_axis("value", "expected accuracy"),
        "color": colour("line", lines),
        "tooltip": tooltip("line", "beta", "usd", "value"),
    }
    drawing = {
        "layer": [
            {
                "transform": [{"filter": f"datum.line != '{CHOSEN}'"}],
                "mark": {"type": "line", "point": {"size": 14}},
                "encoding": encoding | {"strokeDash": colour("line", lines)},
            },
            {
                "transform": [{"filter": f"datum.line == '{CHOSEN}'"}],
                "mark": {"type": "point", "size": 140, "filled": True},
                "encoding": {name: encoding[name] for name in ("x", "y", "tooltip")},
            },
        ]
    }
    caption = "The large point is the chosen one; “at least” holds at every β at once."
    return plot("plan", "Accuracy by money for people", caption, rows, drawing)


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
        found["waiting"] = shown.waiting
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
    return bool(found.get("expected") or (at_k and at_k.accuracy) or found.get("cascades"))


def _audit(plan: Plan, epsilon: float, looks: tuple[int, ...]) -> dict[str, Any]:
    """The published errors and the one chosen, by the looks chosen."""
    epsilons = sorted({*EPSILONS, epsilon})
    sizes = looks or ((plan.audit,) if plan.audit else ())
    return {"epsilons": epsilons, "looks": may_certify(sizes, epsilons)}


def _expected(report: Report, plan: Plan) -> dict[str, Any]:
    known = report.expected
    found = {
        "expected": expected_at(known, float(plan.beta), plan.n_frame, plan.usd),
        "no_expected": known.reason if isinstance(known, Unforeseen) else "",
    }
    drawn = cost_curve(known, plan)
    return found | ({"plots": [drawn]} if drawn.table else {})


def _at_k(report: Report, run: Run | None, k: int | None) -> dict[str, Any]:
    """What so many samples in each order cost and reach, where fewer than the run's were asked."""
    if run is None or not k:
        return {}
    orders = len(run.orders) == 2
    rows = [row for row in report.methods if not row.beta and (row.bpc, row.k) == (orders, k)]
    # A row of recorded labels before one that is derived from this run's samples.
    return {"at_k": next(iter(sorted(rows, key=lambda row: row.run is None)), None), "k": k}


def _cascade(report: Report, second: Run | None) -> dict[str, Any]:
    """What asking the second judge about the most contested would reach and cost."""
    if second is None:
        return {}
    rows = [row for row in report.cascades if row.run == second.name]
    return {"second": second, "cascades": rows}
