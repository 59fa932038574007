"""What a run will cost and how long it will take, before anything is sent."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Avg, QuerySet, Sum

from judging.llm.parts import stage_parts
from judging.llm.requests import JudgeRequest
from judging.llm.usage import Usage
from judging.models import Call, Example, Project, Run
from judging.runs.portia.settings import PortiaSettings
from judging.runs.portia.splits import ExampleSplits
from judging.runs.questions import Questioner
from judging.runs.starting import Judge, choose_judge, run_fields
from judging.runs.usual import usual_concurrency

# As many prompts are rendered, evenly spread over the project, and the rest reckoned from them.
RENDERED = 200
# Evidence and two scores, where no earlier run of this judge says better.
TOKENS_A_SAMPLE = 200
IN_BATCHES = "Batches cost half, and are done within 24 hours."
BY_STAGES = (
    "PORTIA asks on where the two orders disagree: the fewest calls are two an example, the most "
    "are made where no stage makes them agree. Tokens and time are of the fewest."
)
AT_MOST = (
    "Adaptive: these are the most calls. Each sample is a call and pays for its prompt, so where "
    "an endpoint gives several samples a call it saves completion tokens alone."
)


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """Dollars are None where the price is unknown, seconds where this judge has not run before.

    Calls are from `n_calls` to `n_calls_most`; tokens, `usd` and `seconds` are of the fewest.
    `usd_most` is reached when every sample is as long as `max_tokens` allows; `basis` says in a
    sentence where the figures come from.
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


def estimate_run(
    project: Project, *, concurrency: int | None = None, **choices: object
) -> RunEstimate:
    """`choices` are those of `choose_judge`."""
    judge = choose_judge(project, **choices)
    run = Run(project=project, **run_fields(judge))
    examples = project.examples.judged()
    n_examples = examples.count()
    asked = list(rendered(run, examples, n_examples, judge.samples_a_call))
    requests = [request for one in asked for request in one]
    each = judge.k // judge.samples_a_call
    least = 2 if run.stages else len(run.parts)
    n_calls = n_examples * least * each
    n_most = round(n_examples * sum(map(len, asked)) / max(1, len(asked)) * each)
    prompt = round(sum(r.prompt_tokens for r in requests) / max(1, len(requests)) * n_calls)
    past = Call.objects.filter(
        run__base_url=run.base_url, run__model=run.model, state=Call.State.DONE
    )
    timed = past.filter(batch=None) if not judge.batch else past.none()
    tokens, known = tokens_a_sample(past)
    tokens = min(tokens, judge.max_tokens)
    completion = round(tokens * judge.samples_a_call * n_calls)
    places = concurrency or usual_concurrency(judge.endpoint)
    return RunEstimate(
        n_examples,
        n_calls,
        n_most,
        prompt,
        completion,
        cost(judge, prompt, completion, n_calls),
        most(judge, requests, n_most),
        seconds(timed, n_calls, places),
        basis(judge, known),
        judge.model,
        judge.endpoint.name,
    )


def rendered(
    run: Run, examples: QuerySet[Example], count: int, samples: int
) -> Iterator[list[JudgeRequest]]:
    """The requests of examples evenly spread over the project: all that each may come to."""
    questioner = Questioner.of(run)
    step = max(1, count // RENDERED)
    ids = list(examples.order_by("number", "pk").values_list("pk", flat=True)[::step])[:RENDERED]
    for example in Example.objects.filter(pk__in=ids).iterator(chunk_size=50):
        parts = parts_of(run, example)
        yield [questioner.request(example, part, samples) for part in parts]


def parts_of(run: Run, example: Example) -> tuple[str, ...]:
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


def most(judge: Judge, requests: list[JudgeRequest], n_calls: int) -> Decimal | None:
    if judge.price is None:
        return None
    bounds = [judge.price.reserve(r.prompt_tokens, r.n, r.max_tokens) for r in requests]
    return sum(bounds, Decimal(0)) / max(1, len(bounds)) * n_calls


def seconds(past: QuerySet[Call], n_calls: int, concurrency: int) -> float | None:
    average = past.aggregate(ms=Avg("duration_ms"))["ms"]
    return None if average is None else average / 1000 * n_calls / concurrency


def basis(judge: Judge, known: bool) -> str:
    assumed = min(TOKENS_A_SAMPLE, judge.max_tokens)
    sentences = [
        "Tokens and times a call are those of this judge's earlier calls."
        if known
        else f"This judge has not run here before: {assumed} tokens a sample are assumed, and the "
        "time is not known."
    ]
    sentences += [BY_STAGES] if judge.portia else []
    sentences += [IN_BATCHES] if judge.batch else []
    sentences += [AT_MOST] if judge.adaptive else []
    return " ".join(sentences)
