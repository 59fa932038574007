"""The page of a project's preregistration: its versions, a new one, and checking a file."""

import json
import re
from decimal import Decimal
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from annotation.models import Preregistration, Round
from annotation.results.data.figures import Json
from annotation.results.pages.plan import SizesForm
from annotation.results.planner.registration import (
    LARGEST_FILE,
    LONGEST,
    Plan,
    as_file,
    as_markdown,
    check_file,
    described,
    existing,
    register,
    rests_on_judge,
    versions,
)
from annotation.results.planner.sizes import GOALS, Need, Study, needs
from annotation.results.report.cache import is_large
from annotation.results.sections.registration import ANALYSES, ROUTES
from annotation.rounds.opening import ALPHA, EPSILON
from judging.core.caching import kept_a_while
from judging.core.errors import UserError
from judging.dataset.models import n_judged
from judging.llm.prompts.templates import names as catalogue_names
from judging.projects.access import Access, project_for
from judging.projects.models import Project, Role
from judging.runs.models import JudgeTemplate

_AIMS = {
    "better": "which model is better",
    "win_rate": "people's win rate",
    "accuracy": "the judge's accuracy",
    "kappa": "the judge's kappa",
    "certificate": "a certificate",
}


class RegisterForm(forms.Form):
    """What a study promises. `sizes` holds the values of the page *How many labels?*, if any."""

    goal = forms.CharField(
        max_length=LONGEST, label="Goal", help_text="What do you want to find out?",
        widget=forms.Textarea(attrs={"rows": 3}),
    )  # fmt: skip
    hypotheses = forms.CharField(
        required=False, max_length=50 * LONGEST, label="Hypotheses", help_text="One per line.",
        widget=forms.Textarea(attrs={"rows": 4}),
    )  # fmt: skip
    sizes = forms.CharField(required=False, max_length=2000, widget=forms.HiddenInput)
    aim = forms.ChoiceField(required=False, label="These labels are for", choices=[*_AIMS.items()])
    examples = forms.IntegerField(required=False, label="Examples")
    beta = forms.DecimalField(required=False, max_digits=6, label="Share to review, %")
    budget = forms.DecimalField(required=False, max_digits=12, label="Or a budget, USD")
    everything = forms.BooleanField(required=False, label="Let people label everything")
    votes = forms.IntegerField(label="Votes per example", initial=3)
    audit = forms.IntegerField(required=False, label="Audit, examples")
    seed = forms.IntegerField(required=False, label="Seed of the round")
    route = forms.ChoiceField(label="Rank the review", choices=[*ROUTES.items()])
    learn = forms.IntegerField(required=False, label="Learning sample, examples")
    epsilon = forms.DecimalField(
        label="Largest share of wrong labels to certify, %", initial=Decimal(repr(EPSILON)) * 100
    )
    alpha = forms.DecimalField(
        label="Error of the certificate, %", initial=Decimal(repr(ALPHA)) * 100
    )
    looks = forms.CharField(required=False, max_length=200, label="Check the audit at these sizes")
    templates = forms.MultipleChoiceField(
        required=False, label="Judge templates", widget=forms.CheckboxSelectMultiple
    )
    analyses = forms.MultipleChoiceField(
        required=False, label="Analyses to report", widget=forms.CheckboxSelectMultiple,
        choices=[*ANALYSES.items()],
    )  # fmt: skip

    GROUPS = {
        "first": ("goal", "hypotheses"),
        "work": ("examples", "beta", "budget", "everything", "votes", "audit", "seed"),
        "more": ("route", "learn", "epsilon", "alpha", "looks"),
        "lists": ("templates", "analyses"),
    }

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = JudgeTemplate.objects.filter(project=project, retired_at=None)
        # A template of the project may have the name of one in the catalogue, and is listed once.
        names = dict.fromkeys([*own.order_by("name").values_list("name", flat=True),
                               *catalogue_names()])  # fmt: skip
        self.fields["templates"].choices = [(name, name) for name in names]

    def groups(self) -> dict[str, list[forms.BoundField]]:
        return {group: [self[name] for name in names] for group, names in self.GROUPS.items()}

    def more_is_wrong(self) -> bool:
        return any(name in self.errors for name in (*self.GROUPS["more"], *self.GROUPS["lists"]))

    def clean_sizes(self) -> Study | None:
        return study_of(self.cleaned_data["sizes"])

    def clean_looks(self) -> tuple[int, ...]:
        parts = re.split(r"[\s,;]+", self.cleaned_data["looks"].strip())
        # Only plain digits: Python would also take those of other scripts.
        if not all(part.isascii() and part.isdecimal() for part in parts if part):
            raise forms.ValidationError("Enter audit sizes as whole numbers: 30, 60.")
        return tuple(int(part) for part in parts if part)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors:
            for name, why in self.plan().problems():
                self.add_error(name, why)
        return data

    def plan(self) -> Plan:
        data = self.cleaned_data
        return Plan(
            goal=data["goal"],
            hypotheses=tuple(line for line in data["hypotheses"].splitlines() if line.strip()),
            study=data["sizes"],
            aim=data["aim"] or GOALS[0],
            learn=data["learn"] or 0,
            epsilon=float(data["epsilon"] / 100),
            alpha=float(data["alpha"] / 100),
            templates=tuple(data["templates"]),
            analyses=tuple(data["analyses"]),
            **{
                name: data[name]
                for name in ("examples", "beta", "budget", "everything", "votes", "audit",
                             "seed", "route", "looks")
            },
        )  # fmt: skip


def study_of(query: str) -> Study | None:
    """Return what the page *How many labels?* was asked, from the query of its address.

    Raises:
        ValidationError: It isn't such a query.
    """
    if not query:
        return None
    form = SizesForm(QueryDict(query).dict())
    if not form.is_valid():
        raise forms.ValidationError("The sizes can't be read. Compute them again.")
    return form.study()


@require_safe
def preregistration(request: HttpRequest, slug: str) -> HttpResponse:
    """Show the versions of the plan, and the form for a new one."""
    access = project_for(request.user, slug, Role.OBSERVER)
    made = _shown(request, access)
    return _page(request, access, made, _begun(request, access, made))


@require_POST
def preregistration_new(request: HttpRequest, slug: str) -> HttpResponse:
    """Store a plan, or an amendment if there is one."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = RegisterForm(access.project, request.POST)
    if form.is_valid():
        try:
            stored = register(access.project, access.user, form.plan())
        except UserError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"Version {stored.number} of the plan is registered.")
            return redirect("preregistration", slug)
    return _page(request, access, _shown(request, access), form)


def _page(
    request: HttpRequest, access: Access, made: list[Preregistration], form: RegisterForm
) -> HttpResponse:
    context = {
        **access.under("plan"),
        "versions": [(version, _document(version)) for version in made],
        "form": form,
        "needs": _needs(form),
        "existing": _existing(access.project),
    }
    status = 422 if form.errors else 200
    return render(request, "results/preregistration.html", context, status=status)


def _existing(project: Project) -> Json:
    """Counts of a large project may be a minute old. A version that is registered counts again."""
    if not is_large(project):
        return existing(project)
    changed = project.imports, project.runs, Round.every.filter(project=project)
    state = [list(rows.order_by("pk").values_list("pk", "state")) for rows in changed]
    make = partial(existing, project)
    return dict(kept_a_while("existing", project, state, make, is_large=True))


def _shown(request: HttpRequest, access: Access) -> list[Preregistration]:
    """Return the versions. If sizes in them come from a pilot, looking at them is recorded."""
    made = versions(access.project)
    if any(map(rests_on_judge, made)):
        project_for(request.user, access.project.slug, Role.OBSERVER, shows_judge=True)
    return made


def _begun(request: HttpRequest, access: Access, made: list[Preregistration]) -> RegisterForm:
    """Return the form as it is shown first: an amendment begins with the newest version."""
    plan = json.loads(made[0].text)["plan"] if made else {}
    start = {
        "examples": n_judged(access.project.pk) or None,
        "analyses": list(ANALYSES)[:3],
        "route": "bpde",
        "sizes": request.GET.urlencode(),
    }
    if plan:
        start |= {name: value for name, value in plan.items() if value is not None}
        start["sizes"] = request.GET.urlencode()
        start["hypotheses"] = "\n".join(plan["hypotheses"])
        start["looks"] = ", ".join(map(str, plan["looks"] or ()))
        start["templates"] = [template["name"] for template in plan["templates"]]
        for name in ("epsilon", "alpha"):
            if plan[name] is not None:
                # Stored as a share, and asked for in percent.
                start[name] = f"{100 * plan[name]:g}"
    return RegisterForm(access.project, initial=start)


def _needs(form: RegisterForm) -> tuple[Need, ...]:
    """Return what each goal takes, if the form has sizes that can be read."""
    try:
        study = study_of(str(form["sizes"].value() or ""))
    except forms.ValidationError:
        return ()
    return needs(study) if study else ()


def _document(version: Preregistration) -> dict[str, Any]:
    document = json.loads(version.text)
    return document | {"parts": list(described(document["plan"]))}


@require_safe
def preregistration_file(request: HttpRequest, slug: str, number: int, kind: str) -> HttpResponse:
    """Send one version, as JSON that can be checked or as Markdown to read."""
    access = project_for(request.user, slug, Role.OBSERVER)
    made = next((version for version in _shown(request, access) if version.number == number), None)
    if made is None or kind not in ("json", "md"):
        raise Http404("No such version.")
    if kind == "json":
        text = json.dumps(as_file(made), indent=2, ensure_ascii=False) + "\n"
        response = HttpResponse(text, content_type="application/json")
    else:
        response = HttpResponse(as_markdown(made), content_type="text/markdown; charset=utf-8")
    name = f"{slug}-preregistration-{number}.{kind}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@require_POST
def preregistration_check(request: HttpRequest, slug: str) -> HttpResponse:
    """Say whether an uploaded file is a version of this project that nobody changed."""
    access = project_for(request.user, slug, Role.OBSERVER)
    sent = request.FILES.get("file")
    try:
        if sent is None:
            raise UserError("Choose a file first.")
        # One byte too many is enough to tell that a file is too large.
        check = check_file(sent.read(LARGEST_FILE + 1), access.project)
    except UserError as error:
        messages.error(request, str(error))
    else:
        tell = messages.success if check.stored else messages.warning
        tell(request, check.sentence)
    return redirect("preregistration", slug)
