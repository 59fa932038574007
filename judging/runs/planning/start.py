"""Starting a run: what was left open is decided here, once, and kept with the run.

`choose_judge` fills in defaults and refuses what can't be asked, for the page, the command and the
estimate alike. `start_run` makes the run.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from judging.core.errors import UserError
from judging.core.images import SCHEME
from judging.dataset.models import Example, ExampleImage
from judging.dataset.subsets import ALL, Subset, freeze
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.judge_client import (
    JudgeClient,
    ListingError,
    list_models,
    only_model,
    probe_images,
)
from judging.llm.endpoint import Endpoint
from judging.llm.prices import PriceSnapshot
from judging.llm.prompts.templates import Template
from judging.local_judge.running import MODEL_NAME
from judging.projects import access
from judging.projects.access import next_number
from judging.projects.models import Project
from judging.runs import endpoints, lifecycle
from judging.runs.endpoints import (
    ModelNotChosen,
    default_endpoint_name,
    find_price_of,
    key_of,
    named_endpoint,
)
from judging.runs.forms import choice, pointwise
from judging.runs.forms.choice import PATIENCE, ChoiceOptions, draw_shots
from judging.runs.forms.point_shots import draw_point_shots
from judging.runs.forms.portia import PortiaOptions, PortiaSettings, chosen_settings
from judging.runs.lifecycle import SEND_AGAIN
from judging.runs.models import BY_LOGPROBS, UNREAD_CALLS, Form, Method, Run, subjects_of
from judging.runs.templates import (
    check_references,
    chosen_criteria,
    kept_fields,
    output_of,
    untaught,
    with_criteria,
    with_schema,
)

ONE_SAMPLE = (Method.VANILLA, Method.EC)
USUALLY_ONE_SAMPLE = (*ONE_SAMPLE, Method.PORTIA)
K = 3
LEAST_CONFIDENCE = 0.5
# Two requests of three samples keep the local model's four places busy.
LOCAL_CONCURRENCY, CONCURRENCY = 2, 8
LOCAL_MAX_TOKENS, MAX_TOKENS = 300, 1024


def default_concurrency(endpoint: Endpoint) -> int:
    return LOCAL_CONCURRENCY if endpoint.is_local else CONCURRENCY


def default_method(method: str, form: str, k: int | None, options: ChoiceOptions) -> str:
    if form == Form.POINTWISE:
        return Method.VANILLA if k in (None, 1) else Method.MEC
    if form != Form.CHOICE:
        return method or Method.MEC_BPC
    by_permutations = choice.method_of(options, k)
    choice.check_method(method, by_permutations)
    return by_permutations


def default_k(method: str, form: str) -> int:
    """Return one for forms that read probabilities: these hardly differ between samples."""
    return 1 if method in USUALLY_ONE_SAMPLE or form in BY_LOGPROBS else K


def default_max_tokens(form: str, endpoint: Endpoint) -> int:
    if form in BY_LOGPROBS:
        return choice.MAX_TOKENS
    return LOCAL_MAX_TOKENS if endpoint.is_local else MAX_TOKENS


def default_temperature(form: str) -> Decimal:
    """Return 1, so that samples differ, or 0 for forms that read log-probabilities."""
    return Decimal(0) if form in BY_LOGPROBS else Decimal(1)


METHODS = (Method.VANILLA, Method.EC, Method.MEC, Method.MEC_BPC, Method.PORTIA)
FORMS = tuple(Form)
MOST_K = 100
LONGEST_MODEL = 200
Price = tuple[Decimal, Decimal]


@dataclass(frozen=True, slots=True)
class Judge:
    """Who is asked what, and at which price; None if the price is unknown."""

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
    cache_marks: bool = False

    @property
    def annotators(self) -> int:
        """How many annotators the template simulates."""
        return len(self.template.lesson.annotators) if self.template.lesson else 0

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
    json_replies: bool | None = None,
    cache_marks: bool = False,
    **of_choice: Any,
) -> Judge:
    """Fill in defaults. Raises UserError for what can't be asked.

    Args:
        json_replies: Whether the endpoint holds replies to a JSON schema, if it takes one. None
            leaves it to the template.
        cache_marks: Mark what prompts share, for providers that keep only what is marked.
        of_choice: See ChoiceOptions.
    """
    options = ChoiceOptions.of(form, of_choice)
    method = default_method(method, form, k, options)
    check_kind(method, form, k, adaptive)
    pointwise.check_form(form, scale, shots_from, shots_random=shots_random)
    chosen = named_endpoint(endpoint or default_endpoint_name())
    if batch and chosen.is_local:
        raise UserError("The local judge doesn't support batches. Choose another endpoint.")
    wording, items = pointwise.choose_wording(
        project, template, method, form, criteria, scale, chosen
    )
    if chosen.is_local:
        # Whatever mass the small local model gives its ID tokens, what it wrote counts.
        wording = replace(wording, least_mass=0.0)
    wording = choice.worded(wording, options) if form == Form.CHOICE else wording
    wording = with_schema(with_criteria(project, wording, criteria), json_replies)
    k = annotators_asked(wording, method, k, adaptive)
    name = model or choose_model(chosen)
    if len(name) > LONGEST_MODEL or not name.isprintable():
        raise UserError(
            f"A model's name has at most {LONGEST_MODEL} characters, in one line. "
            "Nothing was started."
        )
    # An unknown price is never taken for zero: such a run keeps no budget.
    usual_price = find_price_of(chosen, name, price)
    if usual_price is not None:
        usual_price = (
            usual_price.with_cache_marks() if cache_marks else usual_price.without_cache_marks()
        )
    point_shots: Mapping[str, Any] = {}
    if shots_from:
        point_shots = draw_point_shots(
            project, shots_from, list(items), wording.scale, at_random=shots_random
        )
    return Judge(
        project=project,
        endpoint=chosen,
        model=name,
        method=method,
        form=form,
        template=wording,
        k=k or default_k(method, form),
        max_tokens=max_tokens or default_max_tokens(form, chosen),
        usual_price=usual_price,
        batch=batch,
        adaptive=adaptive,
        permutations=choice.permutations_of(options) if form == Form.CHOICE else (),
        shots=options.shots or 0,
        portia=chosen_settings(method, form, wording, portia or PortiaOptions()),
        criteria="" if items else chosen_criteria(project, wording, criteria),
        items=items,
        point_shots=point_shots,
        cache_marks=cache_marks,
    )


def annotators_asked(
    template: Template, method: str, k: int | None, adaptive: float | None
) -> int | None:
    """Return k. With a template that simulates annotators, it is one sample from each of them."""
    n = len(template.lesson.annotators) if template.lesson else 0
    if not n:
        return k
    if method not in (Method.MEC, Method.MEC_BPC) or adaptive is not None or k not in (None, n):
        raise UserError(
            f"Template {template.name} simulates {n} annotators, and each is asked once in each "
            f"order. Choose the method mec_bpc or mec, leave k out or say {n}, and leave adaptive "
            "out. Nothing was started."
        )
    return n


def check_kind(method: str, form: str, k: int | None, adaptive: float | None) -> None:
    if method not in METHODS:
        raise UserError(f"Method {method} is not available. Choose from: {', '.join(METHODS)}.")
    if form not in FORMS:
        raise UserError(f"Form {form} is not available. Choose from: {', '.join(FORMS)}.")
    if k is not None and not 1 <= k <= MOST_K:
        raise UserError(f"k, the number of samples per order, must be from 1 to {MOST_K}.")
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


def has_images(judge: Judge, examples: QuerySet[Any]) -> bool:
    """Return True if there are images among what is asked. Raises UserError if they can't be."""
    if examples.model is not Example:
        return False
    images = ExampleImage.objects.filter(example__in=examples.order_by())
    if not images.exists():
        return False
    if judge.endpoint.is_local:
        raise UserError(
            "These examples have images, and the local judge takes none. Nothing was started. "
            "Choose another endpoint, or examples without images."
        )
    if judge.batch:
        raise UserError(
            "These examples have images, and the file of a batch is too small for them. Nothing "
            "was started. Start the run without batches."
        )
    in_responses = Q(response_1__contains=f"]({SCHEME}") | Q(response_2__contains=f"]({SCHEME}")
    if judge.portia and examples.filter(in_responses).exists():
        raise UserError(
            "PORTIA splits responses, and some of these hold images. Nothing was started. Choose "
            "another method, or examples whose responses have none."
        )
    return True


def check_takes_images(endpoint: Endpoint, model: str) -> None:
    """Show the model a small picture once. Raises UserError unless it answers."""
    known, _ = endpoints.recall_for(endpoint.base_url, model)
    if known and known.images:
        return
    # One call now is cheaper than thousands of refusals after the start.
    reason, learned = asyncio.run(_shown_a_picture(endpoint, model, known))
    # A refusal is kept too, for the notes on runs. A later start asks the endpoint again.
    endpoints.keep_for(endpoint.base_url, model, learned, known)
    if reason:
        raise UserError(
            f"These examples have images, and {model} at {endpoint.name} didn't take one "
            f"({reason.rstrip('.')}). Nothing was started. Choose a model that takes images, or "
            "examples without images."
        )


async def _shown_a_picture(
    endpoint: Endpoint, model: str, known: EndpointCapabilities | None
) -> tuple[str, EndpointCapabilities]:
    before = {model: known} if known else {}
    async with JudgeClient(endpoint, key_of(endpoint), retry=PATIENCE, learned=before) as client:
        reason = await probe_images(client, model)
        return reason, replace(client.learned(model), images=not reason)


def choose_model(endpoint: Endpoint) -> str:
    """Return the operator's model, else the only one that the endpoint lists."""
    if endpoint.is_local:
        return MODEL_NAME
    if settings.FAIRJUDGE_JUDGE_MODEL:
        return settings.FAIRJUDGE_JUDGE_MODEL
    try:
        return only_model(asyncio.run(list_models(endpoint, key_of(endpoint))))
    except ListingError as error:
        raise ModelNotChosen(str(error)) from None


LARGEST_SEED = 2**31
LONGEST_NAME = 120
HOTTEST = 5
MOST_AT_ONCE = 4096
MOST_UNREAD_CALLS = 10_000


def start_run(
    project: Project,
    user: Any,
    *,
    name: str = "",
    seed: int | None = None,
    temperature: Decimal | None = None,
    budget: Decimal | None = None,
    concurrency: int | None = None,
    rpm: int | None = None,
    tpm: int | None = None,
    unread_calls: int | None = None,
    subset: Subset = ALL,
    reuse: bool = False,
    background: bool = True,
    made: Callable[[Run], None] = lambda run: None,
    **choices: Any,
) -> Run:
    """Make the run, and wake a worker unless the caller pumps it.

    Args:
        made: Called in the transaction that makes the run. If it raises, there is no run.
        subset: The examples that are asked about, fixed now. By default all, also later ones; of a
            taught template, the present ones whose labels didn't teach it.
        reuse: Copy answers to identical calls of other runs of the project, at no cost.
        unread_calls: How many first calls may bring no verdict before the run pauses; 0: never.
        choices: See choose_judge.
    """
    access.need_texts(project, "A run needs them.")
    pointwise.check_subjects(project, choices.get("form", Form.SCORE))
    judge = choose_judge(project, **choices)
    check_subset(subset, judge.form)
    subset = untaught(project, subset, judge.template)
    frame = freeze(project, subset) if subset != ALL else None
    # A run that is not stored, since the checks read examples through the run's frame.
    of_frame = Run(project=project, form=judge.form, frame=frame)
    check_references(judge.template, subjects_of(of_frame))
    if has_images(judge, subjects_of(of_frame)):
        check_takes_images(judge.endpoint, judge.model)
    temperature = default_temperature(judge.form) if temperature is None else temperature
    check_pace(name, temperature, concurrency)
    check_unread_calls(unread_calls)
    if budget is not None and judge.price is None:
        raise UserError(
            f"The price of {judge.model} at {judge.endpoint.name} is unknown, so a budget can't "
            "be kept. Nothing was started. Give the price (USD per million prompt and completion "
            "tokens) or leave the budget out."
        )
    if judge.form in BY_LOGPROBS:
        choice.check_logprobs(judge.endpoint, judge.model)
    known, _ = endpoints.recall_for(judge.endpoint.base_url, judge.model)
    seed = secrets.randbelow(LARGEST_SEED) if seed is None else seed
    fields = run_fields(judge, seed) | {
        "project": project,
        "frame": frame,
        "seed": seed,
        "learned": known.to_json() if known else {},
        "temperature": temperature,
        "budget_usd": budget,
        "concurrency": concurrency or default_concurrency(judge.endpoint),
        "rpm": rpm,
        "tpm": tpm,
        # If the message to a worker is lost, the sweep sends it again after this time.
        "lease_until": timezone.now() + SEND_AGAIN,
        "created_by": user,
    }
    if reuse:
        fields["parameters"]["reuse"] = True
    fields["parameters"]["unread_calls"] = UNREAD_CALLS if unread_calls is None else unread_calls
    with transaction.atomic():
        run = create(name, fields)
        access.record_event(
            project, user, "run started", run.name, model=run.model, method=run.method
        )
        made(run)
        if background:
            lifecycle.send(run.pk)
    return run


def check_subset(subset: Subset, form: str) -> None:
    if form == Form.POINTWISE and subset != ALL:
        raise UserError(
            "A run over single responses is about all of them: only pairs have a category and "
            "tags. Nothing was started. Leave the choice of examples out."
        )


def check_pace(name: str, temperature: Decimal, concurrency: int | None) -> None:
    if len(name) > LONGEST_NAME:
        raise UserError(f"A run's name has at most {LONGEST_NAME} characters, not {len(name)}.")
    if not 0 <= temperature <= HOTTEST:
        raise UserError(f"The temperature must be between 0 and {HOTTEST}, not {temperature}.")
    if concurrency is not None and not 1 <= concurrency <= MOST_AT_ONCE:
        raise UserError(
            f"The number of concurrent calls must be from 1 to {MOST_AT_ONCE}, not {concurrency}."
        )


def check_unread_calls(calls: int | None) -> None:
    if calls is not None and not 0 <= calls <= MOST_UNREAD_CALLS:
        raise UserError(
            f"A run may pause after 1 to {MOST_UNREAD_CALLS} calls without a verdict, or never "
            f"(0), not {calls}. Nothing was started."
        )


def run_fields(judge: Judge, seed: int = 0) -> dict[str, Any]:
    return kept_fields(judge.template, judge.max_tokens) | {
        "method": judge.method,
        "form": judge.form,
        "endpoint": judge.endpoint.name,
        "base_url": judge.endpoint.base_url,
        "model": judge.model,
        "k": judge.k,
        "max_tokens": judge.max_tokens,
        "price": judge.price.to_json() if judge.price else None,
        "price_source": judge.price.source if judge.price else "",
        "parameters": parameters(judge, seed),
    }


def parameters(judge: Judge, seed: int) -> dict[str, Any]:
    kept: dict[str, Any] = {"output": output_of(judge.template)}
    if judge.batch:
        usual = judge.usual_price
        kept["batch"] = {"usual_price": usual.to_json() if usual else None}
    if judge.adaptive is not None:
        kept["adaptive"] = {"confidence": judge.adaptive}
    if judge.portia is not None:
        kept["portia"] = judge.portia.to_json()
    if judge.criteria:
        kept["criteria"] = judge.criteria
    if judge.cache_marks:
        kept["cache_marks"] = True
    if judge.items:
        # Pairs, since a database may change the order of an object's keys.
        kept["items"] = [list(pair) for pair in judge.items.items()]
    if judge.point_shots:
        kept["point_shots"] = dict(judge.point_shots)
    if judge.permutations:
        kept["permutations"] = list(judge.permutations)
        kept["shots"] = draw_shots(judge.project, judge.shots, seed)
    return kept


def create(name: str, fields: dict[str, Any]) -> Run:
    """Create the run under the next number. Raises UserError if its name is taken."""
    project = fields["project"]
    number = next_number(project, Run)
    # Models on a server are often paths, and only the end of one tells them apart.
    model = fields["model"].rpartition("/")[2][:80]
    kind = fields["form"] if fields["form"] in BY_LOGPROBS else fields["method"]
    default = f"{model} {kind} {number}".strip()
    try:
        # A savepoint, since PostgreSQL takes no further query in a transaction after an error.
        with transaction.atomic():
            return Run.objects.create(number=number, name=name or default, **fields)
    except IntegrityError:
        raise UserError(
            f"Project {project.slug} has a run named {name or default} already. "
            "Nothing was started. Choose another name."
        ) from None
