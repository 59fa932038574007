"""What one may choose in the planner, and the settings that come of it."""

import re
from decimal import Decimal
from typing import Any

from django import forms

from annotation.rounds import LEARN, RoundSettings
from judging.methods.cost import Rate
from judging.models.projects import Project
from judging.models.runs import Run

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
            rate=Rate(
                data["minutes"] or project.minutes_per_vote, data["wage"] or project.wage_usd
            ),
        )


def defaults(project: Project) -> PlanForm:
    """As the page is when it opens, filled in."""
    empty = PlanForm(project)
    first = empty.fields["run"].initial
    data = {name: field.initial for name, field in empty.fields.items() if name != "run"}
    return PlanForm(project, data | {"run": first.pk if first else "", "looks": ""})
