"""The planner: what reviewing β percent of the examples costs and achieves. Rounds open from here.

The form is the same for the page, for its preview, which follows the sliders, and for opening the
round with these settings.
"""

import re
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from annotation.models import Round
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
HOW_MUCH = [("beta", "the top β %"), ("budget", "what a budget pays for"), ("all", "everything")]
ROUTES = [
    ("bpde", "examples on which the judge contradicts itself (BPDE)"),
    ("learned", "examples like those that it gets wrong in a random sample"),
]
_MOST_LOOKS = 20
_MOST_USD = 1_000_000_000


class PlanForm(forms.Form):
    """The settings of a round, and questions that change nothing in it: target, k, second judge.

    β and money are exact decimals.
    """

    run = forms.ModelChoiceField(Run.objects.none(), required=False, label="Ranked by")
    how = forms.ChoiceField(choices=HOW_MUCH, initial="beta", label="People label")
    beta = forms.DecimalField(
        min_value=0,
        max_value=100,
        initial=DEFAULT_BETA,
        required=False,
        label="β, percent of all examples",
    )
    # Bounded, because the advice writes the amount out: a million digits would be a long sentence.
    budget = forms.DecimalField(
        min_value=0, max_value=_MOST_USD, required=False, label="Budget for annotators, USD"
    )
    votes = forms.IntegerField(min_value=1, max_value=99, initial=3, label="Votes per example")
    minutes = forms.DecimalField(
        min_value=Decimal("0.01"), max_value=1000, required=False, label="Minutes per vote"
    )
    wage = forms.DecimalField(
        min_value=Decimal("0.01"), max_value=10_000, required=False, label="Wage, USD per hour"
    )
    k = forms.IntegerField(
        min_value=1, max_value=99, required=False, label="k, judge samples per order"
    )
    route = forms.ChoiceField(
        choices=ROUTES,
        initial="bpde",
        required=False,
        label="People label first",
    )
    learn = forms.IntegerField(
        min_value=1,
        initial=LEARN,
        required=False,
        label="Random sample to learn from",
        help_text="People label this sample first; it counts towards β. If a score learned from it "
        "finds this judge's errors better than BPDE, that score selects the rest. Otherwise BPDE "
        "does, and the report says why.",
    )
    audit = forms.IntegerField(
        min_value=0,
        initial=0,
        label="Audit",
        help_text="Number of examples drawn at random from the rest. Without an audit, nothing is "
        "known about the unreviewed labels.",
    )
    looks = forms.CharField(
        required=False,
        label="Certificate checks",
        help_text="Check the certificate after this many audited examples, for example 30, 60. "
        "Each extra check makes it a little harder to pass. If empty: once, at the end.",
    )
    epsilon = forms.DecimalField(
        min_value=Decimal("0.1"),
        max_value=50,
        initial=DEFAULT_EPSILON,
        required=False,
        label="Max wrong labels to certify, percent",
        help_text="Set this before opening the round. Choosing it after seeing votes would "
        "invalidate the guarantee.",
    )
    target = forms.DecimalField(
        min_value=0,
        max_value=100,
        required=False,
        label="Target accuracy, percent",
        help_text="FairJudge tells you which β it needs. This changes nothing in the round.",
    )
    second = forms.ModelChoiceField(
        Run.objects.none(),
        required=False,
        label="Second judge for the most contested examples",
        help_text="See what another run's labels would achieve and cost there. This changes "
        "nothing in the round.",
    )
    partial = forms.BooleanField(required=False, label="Open even though the run isn't finished")

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
            raise forms.ValidationError("Enter audit sizes as whole numbers: 30, 60.") from error
        rising = all(a < b for a, b in zip((0, *looks), looks, strict=False))
        if not rising or len(looks) > _MOST_LOOKS:
            raise forms.ValidationError(
                f"Enter at most {_MOST_LOOKS} audit sizes, each larger than the one before."
            )
        return looks

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        looks, audit = data.get("looks"), data.get("audit")
        if data.get("how") != "all" and looks and audit is not None and looks[-1] > audit:
            self.add_error(
                "looks", f"The audit has {audit} examples, so it can't be checked at {looks[-1]}."
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
    """Return the form as the page shows it at first, with every field filled in."""
    empty = PlanForm(project)
    first = empty.fields["run"].initial
    data = {name: field.initial for name, field in empty.fields.items() if name != "run"}
    return PlanForm(project, data | {"run": first.pk if first else "", "looks": ""})


CURVE, BAND, CHANCE, CHOSEN = "by BPDE", "at least", "at random", "chosen"


def cost_curve(expected: Expectation | Unforeseen, plan: Plan) -> Plot:
    """Plot accuracy by cost, one point per β; without known labels the plot has no rows.

    The lower bound is valid at all β at once, so also at the β that you pick from it.
    """
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
        "x": x_axis("usd", "cost of annotators, USD"),
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
    caption = "The large point is your β. The line “at least” is valid whichever β you choose."
    return plot("plan", "Accuracy by cost of annotators", caption, rows, drawing)


@require_http_methods(["GET", "POST"])
def plan(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = PlanForm(access.project, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            run, settings = form.settings()
            round_ = open_round(access.project, request.user, run, settings, background=True)
        except UserError as error:
            form.add_error(None, str(error))
        else:
            if round_.state == Round.State.OPEN:
                messages.success(request, f"Round {round_.number} is open.")
            return redirect("round", access.project.slug, round_.number)
    found = {"form": form, **access.under("plan")}
    found["measured"], found["n_measured"] = measured_minutes(access.project)
    found |= _preview(access, form if form.is_bound else defaults(access.project))
    return render(request, "results/plan.html", found, status=422 if form.errors else 200)


@require_safe
def plan_preview(request: HttpRequest, slug: str) -> HttpResponse:
    """What these settings cost and achieve, as a fragment for the sliders."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = PlanForm(access.project, request.GET)
    return render(request, "results/_plan_preview.html", _preview(access, form))


def _preview(access: Access, form: PlanForm) -> dict[str, Any]:
    if not form.is_valid():
        return {"plan_error": "Correct the settings to see what they achieve.", "plan": None}
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
    """Return True if the page shows how often the judge is right, which is judge output.

    Before a label is known, it shows only counts, costs and the cut by rank, which reveal no
    verdict.
    """
    at_k = found.get("at_k")
    return bool(found.get("expected") or (at_k and at_k.accuracy) or found.get("cascades"))


def _audit(plan: Plan, epsilon: float, looks: tuple[int, ...]) -> dict[str, Any]:
    """Return how many errors the audit may have, by its sizes, for published errors and yours."""
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
    """Return what the judge would cost and reach with k samples per order."""
    if run is None or not k:
        return {}
    orders = len(run.orders) == 2
    rows = [row for row in report.methods if not row.beta and (row.bpc, row.k) == (orders, k)]
    # A row of recorded labels before one that is derived from this run's samples.
    return {"at_k": next(iter(sorted(rows, key=lambda row: row.run is None)), None), "k": k}


def _cascade(report: Report, second: Run | None) -> dict[str, Any]:
    """Return what asking the second judge about the most contested examples achieves and costs."""
    if second is None:
        return {}
    rows = [row for row in report.cascades if row.run == second.name]
    return {"second": second, "cascades": rows}
