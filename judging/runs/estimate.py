"""What a run will cost and how long it will take, before anything is sent."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Avg, QuerySet, Sum

from judging.llm.parts import stage_parts
from judging.llm.requests import JudgeRequest
from judging.llm.usage import Usage
from judging.models import Call, Form, Project, Run
from judging.runs.adaptive import FEWEST_PILOT, pilot_size
from judging.runs.judges import Judge, choose_judge
from judging.runs.pointwise import check_subjects
from judging.runs.portia.settings import PortiaSettings
from judging.runs.portia.splits import ExampleSplits
from judging.runs.questions import Questioner
from judging.runs.starting import run_fields
from judging.runs.subjects import Subject, subjects_of
from judging.runs.usual import usual_concurrency

# As many prompts are rendered, evenly spread over the project, and the rest reckoned from them.
RENDERED = 200
# Evidence and two scores, where no earlier run of this judge says better.
TOKENS_A_SAMPLE = 200
IN_BATCHES = "Batches cost half, and are done within 24 hours each."
BY_STAGES = (
    "PORTIA asks on where the two orders disagree: the fewest calls are two an example, the most "
    "are made where no stage makes them agree. Tokens and time are of the fewest."
)
AT_MOST = (
    "Adaptive: these are the most calls. {pilot} of the {n} examples are asked in full; of the "
    "others each sample is a call and pays for its prompt, so where an endpoint gives several "
    "samples a call it saves completion tokens alone."
)
NOTHING_TO_SAVE = (
    "Adaptive: a pilot of at least {fewest} examples is asked in full, and there are no more than "
    "that, so nothing is saved."
)
BATCH_HOURS = 24


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """Dollars are None where the price is unknown, seconds where this judge has not run before.

    Calls are from `n_calls` to `n_calls_most`; tokens, `usd` and `seconds` are of the fewest.
    `usd_most` is reached when every sample is as long as `max_tokens` allows; `batch_hours` is the
    longest that batches take, one after the other; `basis` says where the figures come from.
    """

    n_examples: int
    n_calls: int
    n_calls_most: int
    prompt_tokens: int
    completion_tokens: int
    usd: Decimal | None
    usd_most: Decimal | None
    seconds: float | None
    basis: str
    model: str
    endpoint: str
    batch_hours: int | None = None


def estimate_run(
    project: Project, *, concurrency: int | None = None, **choices: object
) -> RunEstimate:
    """`choices` are those of `choose_judge`."""
    check_subjects(project, str(choices.get("form", Form.SCORE)))
    judge = choose_judge(project, **choices)
    run = Run(project=project, **run_fields(judge))
    examples = subjects_of(run)
    n_examples = examples.count()
    asked = list(rendered(run, examples, n_examples, judge.k))
    requests = [request for one in asked for request in one]
    full = n_examples if judge.adaptive is None else pilot_size(n_examples)
    least = 2 if run.stages else len(run.parts)
    most_parts = sum(map(len, asked)) / max(1, len(asked))
    calls_a_part = full + (n_examples - full) * judge.k
    n_calls = least * calls_a_part
    prompt = round(sum(r.prompt_tokens for r in requests) / max(1, len(requests)) * n_calls)
    past = Call.objects.filter(
        run__base_url=run.base_url, run__model=run.model, state=Call.State.DONE
    )
    timed = past.filter(batch=None) if not judge.batch else past.none()
    tokens, known = tokens_a_sample(past)
    tokens = min(tokens, judge.max_tokens)
    completion = round(tokens * judge.k * least * n_examples)
    places = concurrency or usual_concurrency(judge.endpoint)
    return RunEstimate(
        n_examples,
        n_calls,
        round(most_parts * calls_a_part),
        prompt,
        completion,
        cost(judge, prompt, completion, n_calls),
        most(judge, requests, most_parts * full, most_parts * (n_examples - full)),
        seconds(timed, n_calls, places),
        basis(judge, known, n_examples),
        judge.model,
        judge.endpoint.name,
        batch_hours(judge, n_examples > full),
    )


def rendered(
    run: Run, examples: QuerySet[Any], count: int, samples: int
) -> Iterator[list[JudgeRequest]]:
    """The requests of examples evenly spread over the project: all that each may come to."""
    questioner = Questioner.of(run)
    step = max(1, count // RENDERED)
    ids = list(examples.order_by("number", "pk").values_list("pk", flat=True)[::step])[:RENDERED]
    for example in examples.filter(pk__in=ids).order_by().iterator(chunk_size=50):
        parts = parts_of(run, example)
        yield [questioner.request(example, part, samples) for part in parts]


def parts_of(run: Run, example: Subject) -> tuple[str, ...]:
    portia = PortiaSettings.of(run)
    if portia is None:
        return run.parts
    splits = ExampleSplits(example, portia)
    plan = portia.plan(splits.splittable, splits.overlapping)
    return tuple(part for stage in plan for part in stage_parts(stage))


def tokens_a_sample(past: QuerySet[Call]) -> tuple[float, bool]:
    """What this judge has written a sample so far, and whether it has."""
    sums = past.aggregate(tokens=Sum("completion_tokens"))
    samples = past.filter(samples__isnull=False).count()
    if not samples or not sums["tokens"]:
        return TOKENS_A_SAMPLE, False
    return sums["tokens"] / samples, True


def cost(judge: Judge, prompt: int, completion: int, n_calls: int) -> Decimal | None:
    """Priced as calls of average size, since prices may depend on a call's size."""
    if judge.price is None:
        return None
    if not n_calls:
        return Decimal(0)
    average = Usage(prompt // n_calls, 0, completion // n_calls)
    return judge.price.cost(average) * n_calls


def most(
    judge: Judge, requests: list[JudgeRequest], in_full: float, by_rounds: float
) -> Decimal | None:
    """`in_full` questions are one call for all samples, `by_rounds` are a call for each."""
    if judge.price is None:
        return None
    total = Decimal(0)
    for samples, calls in ((judge.k, in_full), (1, by_rounds * judge.k)):
        bounds = [judge.price.reserve(r.prompt_tokens, samples, r.max_tokens) for r in requests]
        total += sum(bounds, Decimal(0)) / max(1, len(bounds)) * Decimal(calls)
    return total


def batch_hours(judge: Judge, by_rounds: bool) -> int | None:
    """A round waits for the batch of the one before it, and so does a stage."""
    if not judge.batch:
        return None
    stages = len(judge.portia.stages) if judge.portia else 1
    return BATCH_HOURS * max(judge.k if by_rounds else 1, stages)


def seconds(past: QuerySet[Call], n_calls: int, concurrency: int) -> float | None:
    average = past.aggregate(ms=Avg("duration_ms"))["ms"]
    return None if average is None else average / 1000 * n_calls / concurrency


def basis(judge: Judge, known: bool, n_examples: int) -> str:
    assumed = min(TOKENS_A_SAMPLE, judge.max_tokens)
    sentences = [
        "Tokens and times a call are those of this judge's earlier calls."
        if known
        else f"This judge has not run here before: {assumed} tokens a sample are assumed, and the "
        "time is not known."
    ]
    sentences += [BY_STAGES] if judge.portia else []
    sentences += [IN_BATCHES] if judge.batch else []
    sentences += [adaptive_note(n_examples)] if judge.adaptive else []
    return " ".join(sentences)


def adaptive_note(n_examples: int) -> str:
    pilot = pilot_size(n_examples)
    if pilot == n_examples:
        return NOTHING_TO_SAVE.format(fewest=FEWEST_PILOT)
    return AT_MOST.format(pilot=pilot, n=n_examples)
