"""The judge of a run to come: what was left open is filled in, and what can't be asked refused."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.conf import settings

from judging.errors import UserError
from judging.llm.endpoint import Endpoint
from judging.llm.listing import ListingError, list_models, only_model
from judging.llm.prices import PriceSnapshot
from judging.llm.templating import Template
from judging.local_judge.model import MODEL_NAME
from judging.models.projects import Project
from judging.models.runs import Form, Method
from judging.runs import choices as choice
from judging.runs import pointwise
from judging.runs.choices import ChoiceOptions
from judging.runs.endpoints import (
    default_endpoint_name,
    find_price_of,
    key_of,
    named_endpoint,
)
from judging.runs.listing import ModelNotChosen
from judging.runs.point_shots import draw_point_shots
from judging.runs.portia.settings import PortiaOptions, PortiaSettings, chosen_settings
from judging.runs.usual import (
    LEAST_CONFIDENCE,
    ONE_SAMPLE,
    usual_k,
    usual_max_tokens,
    usual_method,
)
from judging.runs.wording import chosen_criteria

METHODS = (Method.VANILLA, Method.EC, Method.MEC, Method.MEC_BPC, Method.PORTIA)
FORMS = (Form.SCORE, Form.RELATION, Form.LIKERT, Form.CHOICE, Form.POINTWISE)
MOST_K = 100
LONGEST_MODEL = 200
Price = tuple[Decimal, Decimal]


@dataclass(frozen=True, slots=True)
class Judge:
    """Who is asked what, and at which price; None where the price is unknown."""

    project: Project
    endpoint: Endpoint
    model: str
    method: str
    form: str
    template: Template
    k: int
    max_tokens: int
    usual_price: PriceSnapshot | None
    batch: bool
    adaptive: float | None
    permutations: tuple[str, ...] = ()
    shots: int = 0
    portia: PortiaSettings | None = None
    criteria: str = ""
    items: Mapping[str, str] = field(default_factory=dict)
    point_shots: Mapping[str, Any] = field(default_factory=dict)

    @property
    def price(self) -> PriceSnapshot | None:
        return self.usual_price.half() if self.usual_price and self.batch else self.usual_price


def choose_judge(
    project: Project,
    *,
    endpoint: str = "",
    model: str = "",
    method: str = "",
    form: str = Form.SCORE,
    template: str | Template = "",
    k: int | None = None,
    max_tokens: int | None = None,
    price: Price | None = None,
    batch: bool = False,
    adaptive: float | None = None,
    portia: PortiaOptions | None = None,
    criteria: str = "",
    scale: str = "",
    shots_from: str = "",
    shots_random: bool = False,
    **of_choice: Any,
) -> Judge:
    """Fill in what was left open, and refuse what can't be asked. `of_choice`: ChoiceOptions."""
    options = ChoiceOptions.of(form, of_choice)
    method = usual_method(method, form, k, options)
    check_kind(method, form, k, adaptive)
    pointwise.check_form(form, scale, shots_from, shots_random=shots_random)
    chosen = endpoint_for(endpoint, batch)
    wording, items = pointwise.choose_wording(
        project, template, method, form, criteria, scale, chosen
    )
    wording = choice.worded(wording, options) if form == Form.CHOICE else wording
    name = named_model(model or choose_model(chosen))
    return Judge(
        project=project,
        endpoint=chosen,
        model=name,
        method=method,
        form=form,
        template=wording,
        k=k or usual_k(method, form),
        max_tokens=max_tokens or usual_max_tokens(form, chosen),
        usual_price=find_price_of(chosen, name, price),
        batch=batch,
        adaptive=adaptive,
        permutations=choice.permutations_of(options) if form == Form.CHOICE else (),
        shots=options.shots or 0,
        portia=chosen_settings(method, form, wording, portia or PortiaOptions()),
        criteria="" if items else chosen_criteria(project, wording, criteria),
        items=items,
        point_shots=point_shots(project, wording, list(items), shots_from, shots_random),
    )


def point_shots(
    project: Project, wording: Template, items: list[str], source: str, at_random: bool
) -> Mapping[str, Any]:
    """Scored responses that are shown to the judge before it scores others."""
    if not source:
        return {}
    return draw_point_shots(project, source, items, wording.scale, at_random=at_random)


def check_kind(method: str, form: str, k: int | None, adaptive: float | None) -> None:
    if method not in METHODS:
        raise UserError(f"Method {method} is not available. Choose from: {', '.join(METHODS)}.")
    if form not in FORMS:
        raise UserError(f"Form {form} is not available. Choose from: {', '.join(FORMS)}.")
    if k is not None and not 1 <= k <= MOST_K:
        raise UserError(f"k is the number of samples in each order, from 1 to {MOST_K}.")
    if method in ONE_SAMPLE and k not in (None, 1):
        raise UserError(f"{method} takes one sample. Choose mec for k samples in one order.")
    check_adaptive(method, form, k, adaptive)


def check_adaptive(method: str, form: str, k: int | None, confidence: float | None) -> None:
    if confidence is None:
        return
    if form == Form.CHOICE:
        raise UserError(
            "A choice gives its probability in one sample, so there is nothing to stop early. "
            "Leave adaptive out. Nothing was started."
        )
    if method != Method.MEC_BPC or k == 1:
        raise UserError("An adaptive run needs mec_bpc and k of at least 2. Nothing was started.")
    if not LEAST_CONFIDENCE <= confidence < 1:
        raise UserError(
            f"The confidence lies between {LEAST_CONFIDENCE} and 1, not at {confidence}. "
            "Nothing was started."
        )


def endpoint_for(name: str, batch: bool) -> Endpoint:
    endpoint = named_endpoint(name or default_endpoint_name())
    if batch and endpoint.is_local:
        raise UserError("The local judge takes no batches. Choose another endpoint.")
    return endpoint


def named_model(name: str) -> str:
    if len(name) > LONGEST_MODEL or not name.isprintable():
        raise UserError(
            f"A model's name has at most {LONGEST_MODEL} characters, in one line. "
            "Nothing was started."
        )
    return name


def choose_model(endpoint: Endpoint) -> str:
    """The operator's model, else the only one that the endpoint lists."""
    if endpoint.is_local:
        return MODEL_NAME
    if settings.FAIRJUDGE_JUDGE_MODEL:
        return settings.FAIRJUDGE_JUDGE_MODEL
    try:
        return only_model(asyncio.run(list_models(endpoint, key_of(endpoint))))
    except ListingError as error:
        raise ModelNotChosen(str(error)) from None
