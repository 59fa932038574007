"""Starting a run: what was left open is decided here, once, and kept with the run."""

import secrets
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from judging import audit
from judging.errors import UserError
from judging.models.projects import Project
from judging.models.runs import Form, Run
from judging.numbering import next_number
from judging.runs import choices as choice
from judging.runs import learned, pointwise, states
from judging.runs.judges import Judge, choose_judge
from judging.runs.lease import SEND_AGAIN
from judging.runs.shots import draw_shots
from judging.runs.usual import BY_LOGPROBS, usual_concurrency, usual_temperature
from judging.runs.wording import kept_fields, output_of

LARGEST_SEED = 2**31
LONGEST_NAME = 120
HOTTEST = 5
MOST_AT_ONCE = 1000


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
    background: bool = True,
    **choices: Any,
) -> Run:
    """Make the run, and wake a worker unless the caller pumps it. `choices`: see choose_judge."""
    pointwise.check_subjects(project, choices.get("form", Form.SCORE))
    judge = choose_judge(project, **choices)
    temperature = usual_temperature(judge.form) if temperature is None else temperature
    check_pace(name, temperature, concurrency)
    if budget is not None and judge.price is None:
        raise UserError(
            f"The price of {judge.model} at {judge.endpoint.name} is unknown, so a budget can't "
            "be kept. Nothing was started. Give the price (USD a million prompt and completion "
            "tokens) or leave the budget out."
        )
    if judge.form in BY_LOGPROBS:
        choice.check_logprobs(judge.endpoint, judge.model)
    known, _ = learned.recall_for(judge.endpoint.base_url, judge.model)
    seed = secrets.randbelow(LARGEST_SEED) if seed is None else seed
    fields = run_fields(judge, seed) | {
        "project": project,
        "seed": seed,
        "learned": known.to_json() if known else {},
        "temperature": temperature,
        "budget_usd": budget,
        "concurrency": concurrency or usual_concurrency(judge.endpoint),
        "rpm": rpm,
        "tpm": tpm,
        "lease_until": timezone.now() + SEND_AGAIN,
        "created_by": user,
    }
    with transaction.atomic():
        run = create(name, fields)
        audit.record(project, user, "run started", run.name, model=run.model, method=run.method)
        if background:
            states.send(run.pk)
    return run


def check_pace(name: str, temperature: Decimal, concurrency: int | None) -> None:
    if len(name) > LONGEST_NAME:
        raise UserError(f"A run's name has at most {LONGEST_NAME} characters, not {len(name)}.")
    if not 0 <= temperature <= HOTTEST:
        raise UserError(f"The temperature lies between 0 and {HOTTEST}, not at {temperature}.")
    if concurrency is not None and not 1 <= concurrency <= MOST_AT_ONCE:
        raise UserError(f"Calls at once: from 1 to {MOST_AT_ONCE}, not {concurrency}.")


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
    if judge.items:
        # Pairs, since a database may order the keys of an object as it likes.
        kept["items"] = [list(pair) for pair in judge.items.items()]
    if judge.point_shots:
        kept["point_shots"] = dict(judge.point_shots)
    if judge.permutations:
        kept["permutations"] = list(judge.permutations)
        kept["shots"] = draw_shots(judge.project, judge.shots, seed)
    return kept


def create(name: str, fields: dict[str, Any]) -> Run:
    """Number the run; a name that is taken is the user's to change."""
    project = fields["project"]
    number = next_number(project, Run)
    model = fields["model"].rpartition("/")[2][:80]
    kind = fields["form"] if fields["form"] in BY_LOGPROBS else fields["method"]
    default = f"{model} {kind} {number}".strip()
    try:
        with transaction.atomic():
            return Run.objects.create(number=number, name=name or default, **fields)
    except IntegrityError:
        raise UserError(
            f"Project {project.slug} has a run named {name or default} already. "
            "Nothing was started. Choose another name."
        ) from None
