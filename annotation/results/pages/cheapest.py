"""The page of the cheapest plan: three fields, the answer, and a table to plan a round from."""

from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from annotation.models import Job, Round
from annotation.results.delivery.jobs import leave_to_worker
from annotation.results.planner.cheapest import (
    CONFIDENCE,
    DEFAULTS,
    MOST_EXAMPLES,
    Wish,
    answer_here,
    asked_of,
    frontier_plot,
    goal_checks,
    goal_to_store,
    kept_answer,
    open_plan,
    progress_of,
    settings_of,
    waiting_job,
)
from annotation.results.planner.ways import ranked_runs
from annotation.results.report.cache import kept_for
from judging.core.errors import UserError
from judging.core.models import Worker
from judging.dataset.models import has_examples
from judging.methods.review.pipelines import Goal
from judging.projects.access import Access, project_for
from judging.projects.models import Project, Role

GOALS = [
    (Goal.ACCURACY, "Accuracy of the final labels, at least"),
    (Goal.WIN_RATE, "Win rate known to ± points"),
    (Goal.CERTIFICATE, "Wrong labels among those nobody reviews, at most"),
]


class WishForm(forms.Form):
    """The goal, its value and the confidence, in percent; and what else may be known better."""

    goal = forms.ChoiceField(choices=GOALS, initial=Goal.ACCURACY, label="Goal")
    value = forms.DecimalField(
        required=False,
        label="Value, percent",
        help_text="If empty: 90 for accuracy, 5 for the win rate, 10 for wrong labels.",
    )
    confidence = forms.DecimalField(
        initial=int(100 * CONFIDENCE), label="Confidence that the plan reaches it, percent"
    )
    examples = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_EXAMPLES,
        label="Examples to price the plan for",
        help_text="If empty: all of the project.",
    )

    MAIN = ("goal", "value", "confidence")

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project = project
        for run in ranked_runs(project):
            # A price that was recorded isn't asked for, so that plans are priced by what was paid.
            if run.price is None:
                self.fields[f"price_{run.number}"] = forms.DecimalField(
                    required=False,
                    min_value=0,
                    max_value=1000,
                    label=f"Price of “{run.name}”, USD per example",
                    help_text="It was not recorded. Without it, this run is left out.",
                )

    def main_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.MAIN]

    def other_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in self.MAIN]

    def others_are_open(self) -> bool:
        return any(field.value() or field.errors for field in self.other_fields())

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors:
            for name, why in self.wish().problems():
                self.add_error(name if name in self.fields else None, why)
        return data

    def wish(self) -> Wish:
        data = self.cleaned_data
        goal = Goal(data["goal"])
        values = data["value"]
        prices = {
            int(name.removeprefix("price_")): data[name]
            for name in self.fields
            if name.startswith("price_") and data.get(name) is not None
        }
        return Wish(
            goal=goal,
            value=DEFAULTS[goal] if values is None else values / 100,
            confidence=data["confidence"] / 100,
            examples=data["examples"],
            prices=prices,
        )

    def address(self) -> str:
        """Return the query by which the page opens with this form."""
        values = {name: self[name].data for name in self.fields}
        return "?" + urlencode(
            {key: text for key, text in values.items() if text not in (None, "")}
        )


@require_http_methods(["GET", "HEAD", "POST"])
def cheapest(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the cheapest plan for a goal, compute it, or open the round of a plan."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    project = access.project
    if request.method != "POST" and not has_examples(project):
        return render(request, "results/plan_empty.html", access.under("plan"))
    # An empty project has no judge to show, so its page above unblinds nobody.
    access = project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    data = request.POST if request.method == "POST" else request.GET
    usual = {name: field.initial for name, field in WishForm(project).fields.items()}
    # A link may name the goal alone. Every other field then has its default.
    form = WishForm(project, {**usual, **data.dict()})
    if request.method == "POST" and form.is_valid():
        try:
            return _done(access, form, data.get("plan", ""))
        except UserError as error:
            form.add_error(None, str(error))
    # Kept until the data changes, because each check reads the votes of a round.
    checks = kept_for(project, "goal-checks", lambda: goal_checks(project))
    context = {**access.under("plan"), "form": form, "checks": checks}
    # An error of the whole form, such as a plan that is gone, leaves the answer readable.
    if form.is_valid() or not form.errors.keys() - {"__all__"}:
        context |= _shown(access, form)
    failed = bool(form.errors)
    return render(request, "results/cheapest.html", context, status=422 if failed else 200)


def _done(access: Access, form: WishForm, plan: str) -> HttpResponse:
    """Open the round of a plan, or compute the answer."""
    project, wish = access.project, form.wish()
    if plan:
        told = kept_answer(project, wish)
        if told is None or not plan.isdecimal():
            # A number means a plan of the answer that was shown, and of no other.
            raise UserError("The data changed since this page was shown. Compare the plans again.")
        round_: Round = open_plan(project, access.user, told, int(plan), background=True)
        return redirect("round", project.slug, round_.number)
    if kept_answer(project, wish) is None:
        if Worker.objects.take_long_work():
            asked = asked_of(project, wish)
            leave_to_worker(project, access.user, Job.Kind.CHEAPEST, asked, again=False)
        else:
            answer_here(project, access.user, wish)
    return redirect(reverse("project_cheapest", args=[project.slug]) + form.address())


@require_safe
def cheapest_progress(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Say how far a worker is, as a fragment. It loads the page again once the answer is there."""
    access = project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    job = access.project.jobs.filter(kind=Job.Kind.CHEAPEST, pk=number).first()
    if job is None or job.state != Job.State.WAITING:
        # The answer is there, or was refused: the page itself says which.
        return HttpResponse(headers={"HX-Refresh": "true"})
    context = {**access.under("plan"), "job": job, "progress": progress_of(job)}
    return render(request, "results/_cheapest_wait.html", context)


def _shown(access: Access, form: WishForm) -> dict[str, Any]:
    project, wish = access.project, form.wish()
    told = kept_answer(project, wish)
    if told is None:
        job = waiting_job(project, wish)
        refused = job is not None and job.state == Job.State.REFUSED
        about = {"job": None if refused else job, "refused": job.reason if job and refused else ""}
        return about | {"progress": progress_of(job) if job else None, "goal_words": wish.words}
    rows = [row | {"address": _plan_address(project, told, row)} for row in told["rows"]]
    by_number = {row["number"]: row for row in rows}
    context = {"told": told, "rows": rows, "answer": told["sentence"], "goal_words": wish.words}
    context |= {name: by_number.get(told[name]) for name in ("best", "second", "hoped")}
    context["in_points"] = wish.goal is Goal.WIN_RATE
    if not told["has_sample"]:
        return context | {"address_of_sample": _sample_address(project, told)}
    return context | {"plots": [frontier_plot(told)]}


def _plan_address(project: Project, told: dict[str, Any], row: dict[str, Any]) -> str:
    """Return where the plan's form is filled with a row; empty for judges in a row."""
    if row["route"] == "row":
        return ""
    run, chosen = settings_of(project, told, row)
    values: dict[str, Any] = {
        "how": "all" if chosen.everything else "beta",
        "beta": f"{Decimal(chosen.beta or 0).normalize():f}",
        "votes": chosen.votes,
        "run": run.pk if run else "",
        "audited": "on" if chosen.audit else "",
        "audit": chosen.audit,
        "route": "learned" if chosen.learn else "bpde",
        "learn": chosen.learn,
        "epsilon": f"{Decimal(repr(round(100 * chosen.epsilon, 2))).normalize():f}",
        "goal": ":".join(map(str, goal_to_store(told).values())),
    }
    shown = {name: value for name, value in values.items() if value not in ("", 0)}
    return reverse("plan", args=[project.slug]) + "?" + urlencode(shown)


def _sample_address(project: Project, told: dict[str, Any]) -> str:
    """Return where the plan's form is filled with the round that draws a learning sample."""
    values = {"how": "beta", "beta": 0, "audited": "on", "audit": told["labels_needed"], "votes": 3}
    return reverse("plan", args=[project.slug]) + "?" + urlencode(values)
