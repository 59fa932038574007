"""The planner: what reviewing β percent of the examples costs and achieves. Rounds open from here.

The form is the same for the page, for its preview, which follows the sliders, and for opening the
round with these settings. Another page says how many labels a study needs, before there are any.
"""

import re
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from annotation.models import Round
from annotation.results.data.figures import Plot, colour, named_lines, plot, tooltip, x_axis, y_axis
from annotation.results.planner.planning import (
    EPSILONS,
    ReviewPlan,
    advice,
    audit_for,
    errors_allowed,
    expected_at,
    may_certify,
    measured_minutes,
    problems,
    width_of,
)
from annotation.results.planner.planning import plan as plan_of
from annotation.results.planner.sizes import Study, answer, needs, pilot_of
from annotation.results.report.cache import Shown, shown_report
from annotation.results.report.report import Report
from annotation.results.sections.review import Expectation, Unforeseen
from annotation.rounds.opening import (
    LEARN,
    REPEAT_AFTER,
    CheckRule,
    RoundSettings,
    open_round,
    practice_rounds,
    rate_in,
    read_check_rules,
)
from annotation.rounds.selecting import size_for_beta
from judging.core.errors import UserError
from judging.dataset.models import has_examples
from judging.dataset.pages.subsets import SubsetForm
from judging.methods.review.cost import HumanRate
from judging.projects.access import Access, project_for
from judging.projects.models import Project, Role
from judging.runs.models import Run, run_to_show

DEFAULT_EPSILON = Decimal(10)
DEFAULT_BETA = Decimal(20)
HOW_MUCH = [("beta", "A share"), ("budget", "A budget"), ("all", "Everything")]
ROUTES = [
    ("bpde", "examples with the highest BPDE"),
    ("learned", "examples with likely errors (learned)"),
]
_MOST_LOOKS = 20
_MOST_USD = 1_000_000_000


class PlanForm(SubsetForm):
    """The settings of a round, and questions that change nothing in it: target, k, second judge.

    β and money are exact decimals.
    """

    how = forms.ChoiceField(
        choices=HOW_MUCH, initial="beta", label="How much review?", widget=forms.RadioSelect
    )
    beta = forms.DecimalField(
        min_value=0,
        max_value=100,
        initial=DEFAULT_BETA,
        required=False,
        label="Share of all examples (β), percent",
    )
    # Bounded, because the advice writes the amount out: a million digits would be a long sentence.
    budget = forms.DecimalField(
        min_value=0, max_value=_MOST_USD, required=False, label="Budget for annotators, USD"
    )
    votes = forms.IntegerField(min_value=1, max_value=99, initial=3, label="Votes per example")
    audited = forms.BooleanField(
        required=False, initial=True, label="Audit unreviewed labels (recommended)"
    )
    # Sent by the page alone: a script that names the size of an audit means it.
    asks_audit = forms.BooleanField(required=False, initial=True, widget=forms.HiddenInput)
    audit = forms.IntegerField(
        min_value=0,
        required=False,
        label="Size of the audit",
        help_text="Examples drawn at random from the rest. Without an audit, nothing is known "
        "about the unreviewed labels.",
    )
    minutes = forms.DecimalField(
        min_value=Decimal("0.01"), max_value=1000, required=False, label="Minutes per vote"
    )
    wage = forms.DecimalField(
        min_value=Decimal("0.01"), max_value=10_000, required=False, label="Wage, USD per hour"
    )
    run = forms.ModelChoiceField(Run.objects.none(), required=False, label="Ranked by")
    route = forms.ChoiceField(
        choices=ROUTES, initial="bpde", required=False, label="People label first"
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
    epsilon = forms.DecimalField(
        min_value=Decimal("0.1"),
        max_value=50,
        initial=DEFAULT_EPSILON,
        required=False,
        label="Max wrong labels to certify, percent",
        help_text="Set this before opening the round. Choosing it after seeing votes would "
        "invalidate the guarantee.",
    )
    looks = forms.CharField(
        required=False,
        label="Certificate checks",
        help_text="Check the certificate after this many audited examples, for example 30, 60. "
        "Each extra check makes it a little harder to pass. If empty: once, at the end.",
    )
    cite = forms.ChoiceField(
        choices=Round.Cite.choices,
        initial=Round.Cite.NARROWER,
        required=False,
        label="Win rate to cite",
        help_text="The estimates are judge and people together, and people alone. Choose "
        "before you see votes, so that they can't influence the choice. The results show all "
        "estimates. If a run has several rounds with an audit, the first decides.",
    )
    check_rules = forms.CharField(
        required=False,
        max_length=500,
        label="Rules about attention checks",
        help_text="For example “after 3 checks, below 100 % right: warn; after 5 checks, below "
        "60 % right: stop”. The second rule stops people who have less than 60 % right after 5 "
        "checks or more, and puts their votes aside. You can also use “pause”.",
    )
    repeat_percent = forms.IntegerField(
        min_value=0,
        max_value=50,
        initial=0,
        required=False,
        label="Repeated pairs, percent of a person's pairs",
        help_text="The same person gets the same pair again with the sides exchanged, to see if "
        "they agree with themselves. It doesn't count as a second vote, but its time is paid.",
    )
    repeat_after = forms.IntegerField(
        min_value=1,
        max_value=1000,
        initial=REPEAT_AFTER,
        required=False,
        label="Other pairs before a pair is repeated",
    )
    after = forms.ModelChoiceField(
        Round.objects.none(),
        required=False,
        empty_label="nothing: everybody can start at once",
        label="Required first",
        help_text="People can label in this round only after they have finished this training "
        "or passed this qualification.",
    )
    target = forms.DecimalField(
        min_value=0,
        max_value=100,
        required=False,
        label="Target accuracy, percent",
        help_text="FairJudge tells you which β it needs. This changes nothing in the round.",
    )
    k = forms.IntegerField(
        min_value=1, max_value=99, required=False, label="k, judge samples per order"
    )
    second = forms.ModelChoiceField(
        Run.objects.none(),
        required=False,
        label="Second judge for the most contested examples",
        help_text="See what another run's labels would achieve and cost there. This changes "
        "nothing in the round.",
    )
    partial = forms.BooleanField(required=False, label="Open even though the run isn't finished")
    # The goal, its value and the confidence of the plan that was filled in.
    goal = forms.RegexField(
        r"^(accuracy|win_rate|certificate):0\.\d{1,10}:0\.\d{1,10}$",
        required=False,
        widget=forms.HiddenInput,
    )

    COSTS = ("minutes", "wage")
    EXPERT = (
        "run", "route", "learn", "epsilon", "looks", "cite", "check_rules", "repeat_percent",
        "repeat_after", "after", "target", "k", "second", "partial",
    )  # fmt: skip

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        runs = project.runs.filter(ranked_at__isnull=False).order_by("-number")
        self.project = project
        self.fields["run"].queryset = runs
        first = project.primary_run or runs.first()
        self.fields["run"].initial = first
        self.offer_subsets(project)
        self.fields["after"].queryset = practice_rounds(project)
        self.fields["second"].queryset = runs
        self.fields["second"].empty_label = "none"
        self.fields["run"].empty_label = "no ranking (everything only)"
        self.fields["minutes"].initial = project.minutes_per_vote.normalize()
        self.fields["wage"].initial = project.wage_usd.normalize()
        self.fields["k"].initial = first.k if first else None
        if first is None:
            self.fields["how"].initial = "all"

    def cost_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.COSTS]

    def expert_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.EXPERT]

    def costs_are_wrong(self) -> bool:
        return any(name in self.errors for name in self.COSTS)

    def expert_is_wrong(self) -> bool:
        return any(name in self.errors for name in self.EXPERT)

    def wrong_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name in self.errors]

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

    def clean_check_rules(self) -> tuple[CheckRule, ...]:
        try:
            return read_check_rules(self.cleaned_data["check_rules"])
        except UserError as error:
            raise forms.ValidationError(str(error)) from None

    def clean(self) -> dict[str, Any]:
        """Find every setting that makes no round, also if others can't be read."""
        data = super().clean() or {}
        for name, what in (("beta", "a share between 0 and 100 %"), ("budget", "an amount")):
            if data.get("how") == name and data.get(name) is None and name not in self.errors:
                self.add_error(name, f"Enter {what}, or choose another way.")
        # A field that can't be read has a message already, so no rule complains about its default.
        unread = set(self.errors)
        run, settings = self.settings()
        for name, why in problems(self.project, run, settings, unread):
            # A subset is no field of this form. Its faults are shown at the sample.
            name = "sample" if name == "subset" else name
            self.add_error(name if name in self.fields else None, why)
        return data

    def settings(self) -> tuple[Run | None, RoundSettings]:
        """Return what the form asks for; a field that can't be read counts as its default."""
        data, project = self.cleaned_data, self.project

        def stated(name: str, otherwise: Any) -> Any:
            value = data.get(name)
            return otherwise if value is None or value == "" else value

        how = data.get("how", "beta")
        everything = how == "all"
        dropped = everything or (data.get("asks_audit") and not data.get("audited"))
        learned = data.get("route") == "learned" and not everything
        return data.get("run"), RoundSettings(
            beta=stated("beta", Decimal(0)) if how == "beta" else None,
            budget=stated("budget", Decimal(0)) if how == "budget" else None,
            everything=everything,
            votes=stated("votes", 1),
            audit=0 if dropped else stated("audit", 0),
            partial=data.get("partial", False),
            learn=stated("learn", LEARN) if learned else 0,
            epsilon=float(stated("epsilon", DEFAULT_EPSILON) / 100),
            looks=() if dropped else data.get("looks", ()),
            cite=stated("cite", Round.Cite.NARROWER),
            check_rules=data.get("check_rules", ()),
            repeat_percent=stated("repeat_percent", 0),
            repeat_after=stated("repeat_after", REPEAT_AFTER),
            after=data.get("after"),
            rate=HumanRate(
                stated("minutes", project.minutes_per_vote), stated("wage", project.wage_usd)
            ),
            subset=self.subset(),
            goal=self._goal(),
        )

    def _goal(self) -> dict[str, str] | None:
        parts = (self.cleaned_data.get("goal") or "").split(":")
        if len(parts) != 3:
            return None
        return dict(zip(("goal", "value", "confidence"), parts, strict=True))


def defaults(access: Access, chosen: QueryDict) -> PlanForm:
    """Return the form as the page shows it at first, with the recommendation filled in.

    Args:
        chosen: May name a category and a tag, as the data browser does.
    """
    project = access.project
    empty = PlanForm(project)
    run = empty.fields["run"].initial
    data = {name: field.initial for name, field in empty.fields.items() if name != "run"}
    # No audit yet: how large it can be depends on the share that is advised.
    data |= {"run": run.pk if run else "", "looks": "", "check_rules": "", "after": "", "audit": 0}
    data |= {name: chosen.get(name, "") for name in ("category", "tag")}
    form = PlanForm(project, data)
    if run is None or data["how"] == "all" or not form.is_valid():
        return form
    preview = _preview(access, form)
    if (advised := preview.get("advice")) and advised.beta is not None:
        # From the digits that a float shows, because its binary digits would fill the field.
        data["beta"] = Decimal(repr(advised.beta))
    n = preview["plan"].n_frame
    # No more can be audited than the review leaves.
    data["audit"] = min(audit_for(float(DEFAULT_EPSILON / 100)), n - size_for_beta(n, data["beta"]))
    return PlanForm(project, data)


CURVE, BAND, CHANCE, CHOSEN = "by BPDE", "at least", "at random", "chosen"


def cost_curve(expected: Expectation | Unforeseen, plan: ReviewPlan) -> Plot:
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
                # A random review finds errors at a constant rate, so accuracy rises in a straight
                # line.
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
    x, y = x_axis("usd", "cost of annotators, USD"), y_axis("value", "expected accuracy")
    shown = tooltip("line", "beta", "usd", "value")
    layers = named_lines(
        rows, x, y, "line", lines, mark={"point": {"size": 14}}, strokeDash=colour("line", lines),
        tooltip=shown,
    )  # fmt: skip
    point = {
        "transform": [{"filter": f"datum.line == '{CHOSEN}'"}],
        "mark": {"type": "point", "size": 140, "filled": True},
        "encoding": {"x": x, "y": y, "tooltip": shown},
    }
    drawing = {"layer": [*layers, point]}
    caption = (
        "The large point is your share (β). The line “at least” holds for any share you choose."
    )
    return plot("plan", "Accuracy by cost of annotators", caption, rows, drawing)


@require_http_methods(["GET", "HEAD", "POST"])
def plan(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the planner, and open the round. The address holds what was entered, for a reload."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    if request.method != "POST" and not has_examples(access.project):
        return render(request, "results/plan_empty.html", access.under("plan"))
    if request.method == "POST":
        form = PlanForm(access.project, request.POST)
        if form.is_valid():
            try:
                run, settings = form.settings()
                round_ = open_round(access.project, request.user, run, settings, background=True)
            except UserError as error:
                form.add_error(None, str(error))
            else:
                if round_.state == Round.State.OPEN:
                    messages.success(request, f"Round {round_.number} is open.")
                return redirect("round", access.project.slug, round_.number)
    # Addresses of the data browser name a category or a tag only, and get the defaults below.
    elif "how" in request.GET:
        form = PlanForm(access.project, request.GET)
    else:
        form = defaults(access, request.GET)
    context = {"form": form, **access.under("plan"), **_preview(access, form)}
    failed = request.method == "POST" and form.errors
    return render(request, "results/plan.html", context, status=422 if failed else 200)


@require_safe
def plan_preview(request: HttpRequest, slug: str) -> HttpResponse:
    """What these settings cost and achieve, as a fragment, with the errors of each field."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = PlanForm(access.project, request.GET)
    context = {"form": form, **access.under("plan"), **_preview(access, form), "is_part": True}
    return render(request, "results/_plan_preview.html", context)


def _preview(access: Access, form: PlanForm) -> dict[str, Any]:
    measured, n_measured = measured_minutes(access.project)
    estimates: dict[str, Any] = {"measured": measured, "n_measured": n_measured, "plan": None}
    if not form.is_valid():
        return estimates
    run, settings = form.settings()
    plan = plan_of(access.project, run, settings)
    shown = shown_report(access.project, run) if run and run.ranked_at else Shown(None)
    report = shown.report
    n_looks = len(settings.looks)
    estimates |= {"plan": plan, "epsilon": settings.epsilon, "how": form.cleaned_data["how"]}
    estimates["subset"] = settings.subset.words
    estimates |= {"needed": audit_for(settings.epsilon, n_looks), "n_looks": n_looks}
    estimates["allowed"] = errors_allowed(plan, settings.epsilon, n_looks)
    if measured is not None:
        wage = settings.rate.wage if settings.rate else access.project.wage_usd
        estimates["measured_usd"] = plan.new_votes * Decimal(repr(measured)) * wage / 60
    estimates |= _audit(plan, settings.epsilon, settings.looks)
    estimates["address_of_all"] = address_of(form, how="all")
    target = form.cleaned_data["target"]
    if shown.renewing and report is None:
        return estimates | {"awaits_figures": True, "shown": shown}
    advised = advice(report, plan, target, settings.epsilon, settings.budget)
    # Without a run the advice would say that no judge has labelled anything.
    has_advice = run is not None or not form.fields["run"].queryset.exists()
    figures: dict[str, Any] = {"advice": advised} if has_advice else {}
    # Two shares that select equally many examples are the same plan.
    if (
        advised.beta is not None
        and size_for_beta(plan.n_frame, Decimal(repr(advised.beta))) != plan.m
    ):
        figures["address_of_advice"] = address_of(form, how="beta", beta=f"{advised.beta:g}")
    figures["width"] = width_of(report, plan)
    if report is not None:
        figures |= _expected(report, plan) | _at_k(report, run, form.cleaned_data["k"])
        figures |= _cascade(report, form.cleaned_data["second"])
    if _says_how_right_the_judge_is(figures) and not access.has_seen_judge:
        page = reverse("plan", args=[access.project.slug])
        return estimates | {"is_blind": True, "address_of_this": page + address_of(form)}
    return estimates | figures


def address_of(form: PlanForm, **changes: str) -> str:
    """Return the query by which the page opens with this form, and some fields changed."""
    values = {name: form[name].data for name in form.fields} | changes
    shown = {name: value for name, value in values.items() if value not in (None, "", False)}
    return "?" + urlencode(shown)


def _says_how_right_the_judge_is(figures: dict[str, Any]) -> bool:
    """Return True if the page shows how often the judge is right, which is judge output.

    Before a label is known, it shows only counts, costs and the cut by rank, which reveal no
    verdict.
    """
    at_k = figures.get("at_k")
    width = figures.get("width")
    if width and width.expected is not None:
        return True
    return bool(figures.get("expected") or (at_k and at_k.accuracy) or figures.get("cascades"))


def _audit(plan: ReviewPlan, epsilon: float, looks: tuple[int, ...]) -> dict[str, Any]:
    """Return how many errors the audit may have, by its sizes, for published errors and yours."""
    epsilons = sorted({*EPSILONS, epsilon})
    sizes = looks or ((plan.audit,) if plan.audit else ())
    return {"epsilons": epsilons, "looks": may_certify(sizes, epsilons)}


def _expected(report: Report, plan: ReviewPlan) -> dict[str, Any]:
    known = report.expected
    context = {
        "expected": expected_at(known, float(plan.beta), plan.n_frame, plan.usd),
        "no_expected": known.reason if isinstance(known, Unforeseen) else "",
    }
    drawn = cost_curve(known, plan)
    return context | ({"plots": [drawn]} if drawn.table else {})


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


class SizesForm(forms.Form):
    """What you expect of a study, and what it is to show. Shares are percents but for two."""

    win_rate = forms.DecimalField(label="Model 1's win rate, percent")
    ties = forms.DecimalField(label="Ties, percent of people's labels")
    accuracy = forms.DecimalField(label="Judge's accuracy, percent")
    kappa = forms.DecimalField(label="Judge's kappa")
    wrong = forms.DecimalField(
        label="Wrong among the labels nobody reviews, percent",
        help_text="Labels with a low BPDE are usually wrong less often.",
    )
    within = forms.DecimalField(
        label="Half the width of intervals",
        help_text="0.05 is 5 percentage points, and 0.05 of kappa.",
    )
    power = forms.DecimalField(
        label="Probability of success, percent",
        help_text="That the study shows which model is better, or gets its certificate.",
    )
    epsilon = forms.DecimalField(label="Max wrong labels to certify, percent")
    examples = forms.IntegerField(
        required=False,
        label="Examples that the judge labels",
        help_text="People's win rate needs this number. The other rows work without it.",
    )
    votes = forms.IntegerField(label="Votes per example")
    minutes = forms.DecimalField(
        min_value=Decimal("0.01"), max_value=1000, label="Minutes per vote"
    )
    wage = forms.DecimalField(
        min_value=Decimal("0.01"), max_value=10_000, label="Wage, USD per hour"
    )

    PERCENTS = ("win_rate", "ties", "accuracy", "wrong", "power", "epsilon")
    EXPECTED = ("win_rate", "ties", "accuracy", "kappa", "wrong")
    SHOWN = ("within", "power", "epsilon")
    WORK = ("examples", "votes", "minutes", "wage")

    @classmethod
    def values_of(cls, study: Study) -> dict[str, str]:
        """Return what the fields hold for this study."""
        values = {"minutes": study.rate.minutes, "wage": study.rate.wage}
        for name in (*cls.EXPECTED, *cls.SHOWN):
            exact = Decimal(repr(getattr(study, name)))
            values[name] = exact * (100 if name in cls.PERCENTS else 1)
        amounts = {name: f"{value.normalize():f}" for name, value in values.items()}
        return amounts | {"examples": str(study.examples or ""), "votes": str(study.votes)}

    def groups(self) -> list[tuple[str, list[forms.BoundField]]]:
        titles = ("What you expect", "What the study should show", "The work")
        parts = (self.EXPECTED, self.SHOWN, self.WORK)
        return [
            (title, [self[name] for name in names])
            for title, names in zip(titles, parts, strict=True)
        ]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors:
            for name, why in self.study().problems():
                self.add_error(name, why)
        return data

    def study(self) -> Study:
        data = self.cleaned_data
        shares = {
            name: float(data[name] / (100 if name in self.PERCENTS else 1))
            for name in (*self.EXPECTED, *self.SHOWN)
        }
        rate = HumanRate(data["minutes"], data["wage"])
        return Study(**shares, examples=data["examples"], votes=data["votes"], rate=rate)


@require_safe
def sizes(request: HttpRequest) -> HttpResponse:
    """Say how many labels a study needs, from what you expect. No project is needed."""
    return _sizes(request, Study(), None, {})


@require_safe
def project_sizes(request: HttpRequest, slug: str) -> HttpResponse:
    """Say it with what the project's primary run has measured so far, as a pilot."""
    access = project_for(request.user, slug, Role.OBSERVER, shows_judge=True)
    project = access.project
    run = run_to_show(project)
    shown = shown_report(project, run) if run and run.ranked_at else Shown(None)
    waits = shown.renewing and not shown.report
    context = {**access.under("plan"), "run": run, "waits": waits, "missing": shown.missing}
    return _sizes(request, Study(rate=rate_in(project)), shown.report, context)


def _sizes(
    request: HttpRequest, usual: Study, report: Report | None, context: dict[str, Any]
) -> HttpResponse:
    pilot = pilot_of(report, usual) if report else None
    start = pilot.study if pilot else usual
    # What the address says comes before what the pilot measured.
    form = SizesForm(SizesForm.values_of(start) | request.GET.dict())
    message: dict[str, Any] = {}
    if form.is_valid():
        study = form.study()
        rows = needs(study, pilot)
        message = {"needs": rows, "answer": answer(rows, study)}
        message["query"] = urlencode(SizesForm.values_of(study))
        message["has_cautious"] = pilot is not None and pilot.is_of(study)
    context |= {"form": form, "measured": pilot.measured if pilot else (), **message}
    return render(request, "results/sizes.html", context, status=200 if message else 422)
