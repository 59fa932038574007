"""The form that starts a run: judge, method, pace and budget.

It has a part for each form or method with settings of its own: a choice between ID tokens, single
responses, PORTIA, and economy (batches, stopping early). Each part says which fields it has,
whether it is meant and must not stay folded, and what an earlier run had in it.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings

from judging.dataset.pages.subsets import SubsetForm
from judging.llm.prompts.templates import JudgeForm as TemplateForm
from judging.llm.prompts.templates import templates_of
from judging.projects.models import Project
from judging.runs.endpoints import default_endpoint_name, endpoint_names
from judging.runs.forms.choice import DEFAULT_PERMUTATIONS, MOST_SHOTS, PERMUTATIONS
from judging.runs.forms.portia import (
    FEWEST_PARTS,
    MOST_PARTS,
    PARTS,
    WITHOUT,
    PortiaOptions,
    PortiaSettings,
)
from judging.runs.models import UNREAD_CALLS, Form, JudgeTemplate, Method, Run
from judging.runs.planning.start import (
    CONCURRENCY,
    FORMS,
    LEAST_CONFIDENCE,
    LOCAL_CONCURRENCY,
    LOCAL_MAX_TOKENS,
    MAX_TOKENS,
    METHODS,
    MOST_K,
    MOST_UNREAD_CALLS,
    ONE_SAMPLE,
    K,
)

MOST_USD = Decimal(1_000_000)
MOST_TOKENS = 200_000


def dollars(label: str, help_text: str = "", *, required: bool = False) -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        help_text=help_text,
        required=required,
        min_value=Decimal(0),
        max_value=MOST_USD,
        decimal_places=6,
        widget=forms.NumberInput(attrs={"step": "any", "min": "0"}),
    )


def whole(label: str, most: int, help_text: str = "", least: int = 1) -> forms.IntegerField:
    return forms.IntegerField(
        label=label, help_text=help_text, required=False, min_value=least, max_value=most
    )


def plainly(amount: Decimal | None) -> str | None:
    """Return the amount without trailing zeros."""
    return None if amount is None else format(amount.normalize(), "f")


def bound(names: Sequence[str]) -> property:
    """Return a property with the form's fields of these names, for its template."""
    return property(lambda form: [form[name] for name in names])


CHOICE_FIELDS = ("permutations", "ids", "band", "shots")


class ChoiceForm(forms.Form):
    permutations = forms.TypedChoiceField(
        label="Permutations",
        required=False,
        coerce=int,
        choices=[(n, ", ".join(names)) for n, names in PERMUTATIONS.items()],
        initial=DEFAULT_PERMUTATIONS,
        empty_value=None,
        help_text="X1 and X2 show response 2 first. X2 and X3 give response 2 the first ID.",
    )
    ids = forms.CharField(
        label="Option IDs", required=False, max_length=40, help_text="Default: A,B."
    )
    band = forms.DecimalField(
        label="Tie band around ½",
        required=False,
        min_value=Decimal(0),
        max_value=Decimal("0.499"),
        decimal_places=6,
        help_text="A probability this close to ½ is a tie. Default: none, as in the paper.",
        widget=forms.NumberInput(attrs={"step": "0.01", "min": "0", "max": "0.499"}),
    )
    shots = whole(
        "Solved examples shown first",
        MOST_SHOTS,
        "Taken from this project. Default: none.",
        least=0,
    )

    choice_fields = bound(CHOICE_FIELDS)

    def choice_is_meant(self) -> bool:
        return self["form"].value() == Form.CHOICE


def choice_settings_of(run: Run) -> dict[str, Any]:
    permutations = run.parameters.get("permutations")
    if not permutations:
        return {}
    # A recorded run does not say which IDs and examples were used.
    return {
        "permutations": len(permutations),
        "ids": ",".join(run.parameters.get("output", {}).get("ids", ())),
        "band": float(run.band) or None,
        "shots": run.parameters.get("shots", {}).get("shown"),
    }


MOST_CONFIDENCE = Decimal("0.999")
ECONOMY_FIELDS = ("batch", "adaptive", "reuse", "cache_marks")


class EconomyForm(forms.Form):
    batch = forms.BooleanField(
        label="Send the calls as batches",
        required=False,
        help_text="Half the price, but each batch takes up to 24 hours. The endpoint must support "
        "OpenAI’s Batch API; local doesn’t.",
    )
    adaptive = forms.DecimalField(
        label="Confidence for stopping early",
        required=False,
        min_value=Decimal(str(LEAST_CONFIDENCE)),
        max_value=MOST_CONFIDENCE,
        widget=forms.NumberInput(
            attrs={"step": "any", "min": str(LEAST_CONFIDENCE), "max": str(MOST_CONFIDENCE)}
        ),
        help_text="Usually 0.95. If empty, every sample is requested. Sampling of an example stops "
        "when its label can’t change, or when it is, with this confidence, the label that all "
        "samples would give. This concerns the judge’s verdict, not its accuracy. Needs both "
        "orders and a k of at least 2.",
    )

    reuse = forms.BooleanField(
        label="Reuse answers of other runs",
        required=False,
        help_text="An identical call of another run of this project is copied at no cost: the same "
        "endpoint, model, prompt, settings and sample number. Copies are marked.",
    )
    cache_marks = forms.BooleanField(
        label="Mark the shared part of prompts for the provider’s cache",
        required=False,
        help_text="For Anthropic’s models behind OpenRouter, LiteLLM and the like, with long "
        "prompts and k of at least 2. Reading from the cache costs about a tenth, and writing to "
        "it a quarter more. Other providers cache without marks.",
    )

    @property
    def economy(self) -> dict[str, Any]:
        """The arguments of `choose_judge` from this part."""
        confidence = self.cleaned_data["adaptive"]
        return {
            "batch": self.cleaned_data["batch"],
            "adaptive": None if confidence is None else float(confidence),
            "cache_marks": self.cleaned_data["cache_marks"],
        }

    economy_fields = bound(ECONOMY_FIELDS)

    def economy_is_meant(self) -> bool:
        return any(field.value() or field.errors for field in self.economy_fields)


def economy_settings_of(run: Run) -> dict[str, Any]:
    adaptive = run.parameters.get("adaptive") or {}
    kept = {name: bool(run.parameters.get(name)) for name in ("batch", "cache_marks")}
    return kept | {"adaptive": adaptive.get("confidence")}


POINT_FIELDS = ("criteria", "scale")


class PointsForm(forms.Form):
    criteria = forms.CharField(
        label="Criteria",
        required=False,
        max_length=400,
        help_text="For example fluency, relevance. Default: the criteria of people’s scores.",
    )
    scale = forms.CharField(
        label="Scale",
        required=False,
        max_length=20,
        help_text="Lowest and highest score, for example 1,5. Default: the template’s scale.",
    )

    point_fields = bound(POINT_FIELDS)

    def points_are_meant(self) -> bool:
        return self["form"].value() == Form.POINTWISE


def points_settings_of(run: Run) -> dict[str, Any]:
    items = run.parameters.get("items")
    if not items:
        return {}
    low, high = run.parameters["output"]["scale"][:2]
    return {"criteria": ", ".join(name for name, _ in items), "scale": f"{low},{high}"}


PORTIA_FIELDS = ("parts", "tokens", "unsplit_first", "without")


class PortiaForm(forms.Form):
    parts = forms.IntegerField(
        label="Parts",
        required=False,
        min_value=FEWEST_PARTS,
        max_value=MOST_PARTS,
        help_text=f"Parts per response. Default: {PARTS}.",
    )
    tokens = forms.ChoiceField(
        label="Similarity of parts",
        required=False,
        choices=[
            ("word", "shared words, in lower case"),
            ("split", "shared text between spaces"),
            ("embedding", "meaning of sentences, by the operator’s model"),
        ],
    )
    unsplit_first = forms.BooleanField(
        label="Show the whole responses first",
        required=False,
        help_text="Needed to measure fixed coverage. Costs two more calls per example.",
    )
    without = forms.ChoiceField(
        label="Alignments",
        required=False,
        choices=[
            ("", "by length, then by similarity"),
            ("semantic", "by length only"),
            ("length", "by similarity only"),
        ],
    )

    portia_fields = bound(PORTIA_FIELDS)

    def portia_is_meant(self) -> bool:
        return self["method"].value() == Method.PORTIA


def portia_settings_of(run: Run) -> dict[str, Any]:
    kept = PortiaSettings.of(run)
    if kept is None:
        return {}
    without = [name for name in WITHOUT if name not in kept.alignments]
    chosen = {"parts": kept.parts, "tokens": kept.tokens, "unsplit_first": kept.unsplit_first}
    return chosen | {"without": "".join(without)}


MOST_AT_ONCE = 4096
LARGEST_SEED = 2**31 - 1
JUDGE_FIELDS = (
    *("endpoint", "model", "method", "form", "template", "k", "max_tokens", "json_replies"),
)
KEPT_FIELDS = (
    *(name for name in JUDGE_FIELDS if name not in ("template", "json_replies")),
    *("temperature", "concurrency", "rpm", "tpm", "unread_calls"),
)
PACE_FIELDS = (
    *("name", "seed", "temperature", "budget", "concurrency", "rpm", "tpm", "unread_calls"),
)


class StartForm(EconomyForm, ChoiceForm, PointsForm, PortiaForm, SubsetForm):
    """All parts. `start_run` fills in what is left open, for the page as for the command."""

    endpoint = forms.ChoiceField(
        label="Endpoint", help_text="The operator configures the endpoints."
    )
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
        label="Form of the judge’s answer",
        choices=[(name, Form(name).label) for name in FORMS],
        initial=Form.SCORE,
    )
    template = forms.ChoiceField(label="Template", required=False)
    json_replies = forms.TypedChoiceField(
        label="JSON schema of replies",
        required=False,
        choices=[("", "if the template asks for JSON"), ("yes", "always"), ("no", "never")],
        coerce=lambda text: text == "yes",
        empty_value=None,
        help_text="If the endpoint supports JSON schemas, replies must follow the schema. "
        "Otherwise they are read as text. The prompt stays the same.",
    )
    k = whole(
        "k",
        MOST_K,
        f"Samples per order. Default: {K} (1 for PORTIA). Always 1 for VANILLA, EC and choice.",
    )
    temperature = forms.DecimalField(
        label="Temperature",
        help_text="Default: 1, or 0 for the form choice.",
        required=False,
        min_value=Decimal(0),
        max_value=Decimal(2),
        decimal_places=2,
        widget=forms.NumberInput(attrs={"step": "0.05", "min": "0", "max": "2"}),
    )
    name = forms.CharField(label="Name", required=False, max_length=120)
    budget = dollars(
        "Budget, USD", "The run pauses when it reaches the budget. You can raise it later."
    )
    price_in = dollars(
        "Price of prompts", "USD per million tokens. Needed only if FairJudge doesn’t know it."
    )
    price_out = dollars("Price of completions", "USD per million tokens.")
    max_tokens = whole(
        "Max tokens per sample",
        MOST_TOKENS,
        f"Default: {MAX_TOKENS}, or {LOCAL_MAX_TOKENS} on local.",
    )
    concurrency = whole(
        "Max concurrent calls",
        MOST_AT_ONCE,
        f"Default: {CONCURRENCY}, or {LOCAL_CONCURRENCY} on local.",
    )
    rpm = whole("Max requests per minute", 10**6)
    tpm = whole("Max tokens per minute", 10**9)
    unread_calls = whole(
        "Pause if no reply is readable",
        MOST_UNREAD_CALLS,
        f"First calls without any verdict, after which the run pauses. Default: {UNREAD_CALLS}. "
        "0: never.",
        least=0,
    )
    seed = whole(
        "Seed", LARGEST_SEED, "Decides the order of equal ranks. Default: random.", least=0
    )

    def __init__(self, project: Project, data: Any = None, like: Run | None = None) -> None:
        super().__init__(data, initial=settings_of(like) if like else None)
        self.fields["endpoint"].choices = [(name, name) for name in endpoint_names()]
        self.fields["endpoint"].initial = default_endpoint_name()
        # The last choice compares by meaning, which needs the operator's model of sentences.
        if not settings.FAIRJUDGE_SENTENCE_MODEL:
            self.fields["tokens"].choices = self.fields["tokens"].choices[:-1]
        self.fields["template"].choices = list(template_choices(project))
        self.offer_subsets(project)

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if (values.get("price_in") is None) != (values.get("price_out") is None):
            raise forms.ValidationError("Give both prices, or neither.")
        # The field may hold the k of a method that was chosen before, which these methods refuse.
        if values.get("method") in ONE_SAMPLE:
            values["k"] = None
        if values.get("form") == Form.CHOICE:
            # The permutations decide how many orders are asked.
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
        chosen = {name: self.cleaned_data[name] for name in names}
        prices = self.cleaned_data["price_in"], self.cleaned_data["price_out"]
        chosen |= {"price": None if prices[0] is None else prices, **self.economy}
        if chosen["method"] == Method.PORTIA:
            of_portia = {name: self.cleaned_data[name] for name in PORTIA_FIELDS}
            chosen["portia"] = PortiaOptions(**of_portia)
        return chosen

    @property
    def pace(self) -> dict[str, Any]:
        """The other arguments of `start_run`."""
        pace = {name: self.cleaned_data[name] for name in PACE_FIELDS}
        pace |= {"reuse": self.cleaned_data["reuse"]}
        return pace | {"subset": self.subset(pace["seed"])}

    more_fields = bound(
        (
            *("price_in", "price_out", "max_tokens", "concurrency", "rpm", "tpm"),
            *("unread_calls", "seed", "json_replies"),
        )
    )

    def more_is_wrong(self) -> bool:
        """Return True if the folded part has an error and must not stay folded."""
        return any(field.errors for field in self.more_fields)


def template_choices(project: Project) -> Iterator[tuple[str, Any]]:
    """Yield the default, then the project's templates, then the catalogue's by form."""
    yield "", "default for this method and form"
    own = JudgeTemplate.objects.filter(project=project, form__in=FORMS, retired_at=None)
    names = sorted(set(own.values_list("name", flat=True)))
    if names:
        yield "This project’s templates", [(name, name) for name in names]
    for form in FORMS:
        shipped = templates_of(TemplateForm(form))
        yield Form(form).label, [(shown.name, shown.name) for shown in shipped]


def settings_of(run: Run) -> dict[str, Any]:
    """Return the initial values for another run like this one, except name and seed."""
    kept = {name: getattr(run, name) for name in KEPT_FIELDS}
    kept |= {"template": run.template_name, "budget": plainly(run.budget_usd)}
    enforced = run.parameters.get("output", {}).get("enforced")
    kept["json_replies"] = {None: "", True: "yes", False: "no"}[enforced]
    kept |= economy_settings_of(run)
    return kept | choice_settings_of(run) | points_settings_of(run) | portia_settings_of(run)
