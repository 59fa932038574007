"""The start form: which judge is asked how, at which pace, and for how much."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings

from judging.forms.amounts import MOST_TOKENS, dollars, plainly, whole
from judging.forms.choice import CHOICE_FIELDS, ChoiceForm, choice_settings_of
from judging.forms.economy import EconomyForm, economy_settings_of
from judging.forms.points import POINT_FIELDS, PointsForm, points_settings_of
from judging.forms.portia import PORTIA_FIELDS, PortiaForm, portia_settings_of
from judging.llm.catalogue import templates_of
from judging.llm.templating import Form as TemplateForm
from judging.models.endpoints import JudgeTemplate
from judging.models.projects import Project
from judging.models.runs import Form, Method, Run
from judging.runs.endpoints import default_endpoint_name, endpoint_names
from judging.runs.judges import FORMS, METHODS, MOST_K
from judging.runs.portia.settings import PortiaOptions
from judging.runs.usual import (
    CONCURRENCY,
    LOCAL_CONCURRENCY,
    LOCAL_MAX_TOKENS,
    MAX_TOKENS,
    ONE_SAMPLE,
    K,
)

MOST_AT_ONCE = 1000
LARGEST_SEED = 2**31 - 1
JUDGE_FIELDS = ("endpoint", "model", "method", "form", "template", "k", "max_tokens")
KEPT_FIELDS = (
    *(name for name in JUDGE_FIELDS if name != "template"),
    *("temperature", "concurrency", "rpm", "tpm"),
)
PACE_FIELDS = ("name", "seed", "temperature", "budget", "concurrency", "rpm", "tpm")


class StartForm(EconomyForm, ChoiceForm, PointsForm, PortiaForm):
    """What is left open is decided by `start_run`, for the page as for the command."""

    endpoint = forms.ChoiceField(label="Endpoint", help_text="Endpoints are named by the operator.")
    model = forms.CharField(
        label="Model",
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"list": "models", "autocomplete": "off"}),
    )
    method = forms.ChoiceField(
        label="Method",
        choices=[(name, Method(name).label) for name in METHODS],
        initial=Method.MEC_BPC,
    )
    form = forms.ChoiceField(
        label="What the judge is asked for",
        choices=[(name, Form(name).label) for name in FORMS],
        initial=Form.SCORE,
    )
    template = forms.ChoiceField(label="Template", required=False)
    k = whole(
        "k",
        MOST_K,
        f"Samples in each order: {K}, of PORTIA 1, unless said. VANILLA, EC, choice: 1.",
    )
    temperature = forms.DecimalField(
        label="Temperature",
        help_text="1 when left out, and 0 for a choice.",
        required=False,
        min_value=Decimal(0),
        max_value=Decimal(2),
        decimal_places=2,
        widget=forms.NumberInput(attrs={"step": "0.05", "min": "0", "max": "2"}),
    )
    name = forms.CharField(label="Name", required=False, max_length=120)
    budget = dollars("Budget, USD", "The run pauses when it is reached. It can be raised later.")
    price_in = dollars("Price of prompts", "USD a million tokens. Only where it is not known.")
    price_out = dollars("Price of completions", "USD a million tokens.")
    max_tokens = whole(
        "Most tokens a sample", MOST_TOKENS, f"{MAX_TOKENS}, and {LOCAL_MAX_TOKENS} on local."
    )
    concurrency = whole(
        "Calls at a time", MOST_AT_ONCE, f"{CONCURRENCY}, and {LOCAL_CONCURRENCY} on local."
    )
    rpm = whole("Requests a minute at most", 10**6)
    tpm = whole("Tokens a minute at most", 10**9)
    seed = whole(
        "Seed", LARGEST_SEED, "Settles the order of equal ranks. Drawn when left out.", least=0
    )

    def __init__(self, project: Project, data: Any = None, like: Run | None = None) -> None:
        super().__init__(data, initial=settings_of(like) if like else None)
        self.fields["endpoint"].choices = [(name, name) for name in endpoint_names()]
        self.fields["endpoint"].initial = default_endpoint_name()
        if not settings.FAIRJUDGE_SENTENCE_MODEL:
            self.fields["tokens"].choices = self.fields["tokens"].choices[:-1]
        self.fields["template"].choices = list(template_choices(project))

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if (values.get("price_in") is None) != (values.get("price_out") is None):
            raise forms.ValidationError("Give both prices, or neither.")
        if values.get("method") in ONE_SAMPLE:
            values["k"] = None
        if values.get("form") == Form.CHOICE:
            # The permutations say how many orders are asked.
            values["method"] = ""
        else:
            values |= dict.fromkeys(CHOICE_FIELDS)
        if values.get("form") == Form.POINTWISE:
            values["method"] = ""
        else:
            values |= dict.fromkeys(POINT_FIELDS, "")
        return values

    @property
    def judge(self) -> dict[str, Any]:
        """The arguments of `choose_judge`."""
        names = (*JUDGE_FIELDS, *CHOICE_FIELDS, *POINT_FIELDS)
        given = {name: self.cleaned_data[name] for name in names}
        prices = self.cleaned_data["price_in"], self.cleaned_data["price_out"]
        given |= {"price": None if prices[0] is None else prices, **self.economy}
        if given["method"] == Method.PORTIA:
            of_portia = {name: self.cleaned_data[name] for name in PORTIA_FIELDS}
            given["portia"] = PortiaOptions(**of_portia)
        return given

    @property
    def pace(self) -> dict[str, Any]:
        """The other arguments of `start_run`."""
        return {name: self.cleaned_data[name] for name in PACE_FIELDS}

    def more_fields(self) -> list[forms.BoundField]:
        names = "price_in", "price_out", "max_tokens", "concurrency", "rpm", "tpm", "seed"
        return [self[name] for name in names]

    def more_is_wrong(self) -> bool:
        """Whether the folded part holds a mistake, and must not stay folded."""
        return any(field.errors for field in self.more_fields())


def template_choices(project: Project) -> Iterator[tuple[str, Any]]:
    """The default first, then the project's own and the catalogue's, by form."""
    yield "", "the usual one for method and form"
    own = JudgeTemplate.objects.filter(project=project, form__in=FORMS, retired_at=None)
    names = sorted(set(own.values_list("name", flat=True)))
    if names:
        yield "of this project", [(name, name) for name in names]
    for form in FORMS:
        shipped = templates_of(TemplateForm(form))
        yield Form(form).label, [(found.name, found.name) for found in shipped]


def settings_of(run: Run) -> dict[str, Any]:
    """What another run like this one starts from; its name and seed are its own."""
    kept = {name: getattr(run, name) for name in KEPT_FIELDS}
    kept |= {"template": run.template_name, "budget": plainly(run.budget_usd)}
    kept |= economy_settings_of(run)
    return kept | choice_settings_of(run) | points_settings_of(run) | portia_settings_of(run)
