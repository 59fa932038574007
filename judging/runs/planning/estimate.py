"""What a run will cost and how long it will take, before anything is sent."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

from django.db.models import Avg, Count, QuerySet, Sum

from judging.core.formatting import count, number_of, percent, usd
from judging.core.images import TOKENS, hashes_in
from judging.dataset.subsets import ALL, Subset
from judging.llm.client.limits import SECONDS_PER_MINUTE
from judging.llm.client.messages import JudgeRequest
from judging.llm.prices import Usage
from judging.llm.prompts.templates import stage_parts
from judging.projects.models import Project
from judging.runs import endpoints
from judging.runs.forms.pointwise import check_subjects
from judging.runs.forms.portia import ExampleSplits, PortiaSettings
from judging.runs.models import Call, Form, Run, Sample, Subject, subjects_of
from judging.runs.planning.agenda import FEWEST_PILOT, Questioner, pilot_size
from judging.runs.planning.reuse import reusable
from judging.runs.planning.start import (
    Judge,
    check_pace,
    check_subset,
    choose_judge,
    default_concurrency,
    default_temperature,
    has_images,
    run_fields,
)
from judging.runs.samples import Ask
from judging.runs.templates import check_references, untaught

# How many prompts are rendered, evenly spread over the project, to estimate the others.
RENDERED = 200
# Evidence and two scores, if no earlier run of this judge tells more.
TOKENS_A_SAMPLE = 200
IMAGES = (
    f"Each image counts as {TOKENS:,} tokens of the prompt, since only the endpoint knows. Most "
    "models count fewer, and a few, such as gpt-4o-mini, far more. A run's costs are those that "
    "the endpoint reports."
)
IN_BATCHES = "Batches cost half. Each is done within 24 hours."
BY_STAGES = (
    "PORTIA makes at least two calls per example, and more if the two orders disagree. The most "
    "calls are made if they disagree at every stage. Tokens and time assume the fewest calls."
)
AT_MOST = (
    "Adaptive: this is the highest number of calls. {pilot} of the {n} examples get all samples. "
    "For the others, each sample is a call that pays for its prompt. If the endpoint gives several "
    "samples per call, stopping early only saves completion tokens."
)
NOTHING_TO_SAVE = (
    "Adaptive: a pilot of at least {fewest} examples gets all samples. The project has no more "
    "than that, so stopping early saves nothing."
)
BATCH_HOURS = 24
ONE_A_CALL = (
    "It isn't known whether this endpoint gives {k} samples per call. If it gives fewer, FairJudge "
    "calls it up to {k} times and pays for the prompt each time. The highest cost assumes this."
)


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """What a run will need. Dollars are None if the price is unknown, seconds for a new judge.

    `n_calls` to `n_calls_most` calls are made. Tokens, `usd` and `seconds` assume the fewest.
    `usd_most` is reached if every sample is as long as `max_tokens` allows. `batch_hours` is the
    longest that batches take, one after another. `basis` says where the figures come from, and
    `frame` which examples these are, if they are not all. `reused` samples are copied from other
    runs, and in no other figure.
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
    budget: Decimal | None = None
    frame: str = ""
    reused: int = 0

    @property
    def of_budget(self) -> str:
        """Return a sentence on how far the budget reaches; empty without a budget."""
        if self.budget is None:
            return ""
        if self.usd is None or self.usd_most is None:
            return (
                "The price is unknown, so a run with a budget can't start. Give the price too "
                "(USD per million prompt and completion tokens), or leave the budget out."
            )
        budget = f"The budget of {usd(self.budget)}"
        if self.budget >= self.usd_most:
            return f"{budget} covers the whole run."
        if self.budget >= self.usd:
            return f"{budget} covers the expected cost. If the run costs more, it pauses."
        share = percent(float(self.budget / self.usd))
        return f"{budget} covers about {share} of the expected cost. Then the run pauses."


@dataclass(frozen=True, slots=True)
class RunPace:
    """What limits a run's speed."""

    places: int
    rpm: int | None
    tpm: int | None

    def seconds(self, a_call: float, calls: int, tokens: int) -> float:
        """Return the longest time by latency, requests per minute and tokens per minute."""
        needed = [a_call * calls / self.places]
        needed += [calls * SECONDS_PER_MINUTE / self.rpm] if self.rpm else []
        needed += [tokens * SECONDS_PER_MINUTE / self.tpm] if self.tpm else []
        return max(needed)


def estimate_run(
    project: Project,
    *,
    name: str = "",
    temperature: Decimal | None = None,
    budget: Decimal | None = None,
    concurrency: int | None = None,
    rpm: int | None = None,
    tpm: int | None = None,
    subset: Subset = ALL,
    reuse: bool = False,
    **choices: object,
) -> RunEstimate:
    """Estimate the run that a start with these `choices` makes, or refuse it as a start does."""
    check_subjects(project, str(choices.get("form", Form.SCORE)))
    judge = choose_judge(project, **choices)
    check_pace(name, temperature or default_temperature(judge.form), concurrency)
    run = Run(project=project, **run_fields(judge))
    if temperature is not None:
        run.temperature = temperature
    else:
        run.temperature = default_temperature(judge.form)
    run.parameters["reuse"] = reuse
    check_subset(subset, judge.form)
    subset = untaught(project, subset, judge.template)
    examples = subjects_of(run) if subset.is_all else subset.rows(project)
    check_references(judge.template, examples)
    has_images(judge, examples)
    n_examples = examples.count()
    asked = list(rendered(run, examples, n_examples, judge.k))
    requests = [request for of_example in asked for request in of_example]
    full = n_examples if judge.adaptive is None else pilot_size(n_examples)
    # PORTIA asks its first stage in both orders, and most examples settle there.
    least = 2 if run.stages else len(run.parts)
    most_parts = sum(map(len, asked)) / max(1, len(asked))
    past = calls_like(run)
    together = samples_a_call(judge, past)
    calls_a_part, most_a_part = (
        full * math.ceil(judge.k / (together or unseen)) + (n_examples - full) * judge.k
        for unseen in (judge.k, 1)
    )
    n_calls = least * calls_a_part
    prompt = round(sum(r.prompt_tokens for r in requests) / max(1, len(requests)) * n_calls)
    # What a call took inside a batch says nothing about a call that is waited for.
    timed = past.filter(batch=None) if not judge.batch else past.none()
    tokens, known = tokens_a_sample(past)
    completion = round(min(tokens, judge.max_tokens) * judge.k * least * n_examples)
    asks = [
        Ask(subject, part, ())
        for subject in shown_of(run, examples)
        for part in parts_of(run, subject)
    ]
    saved = Saved.of(reusable(run, examples, asks), least * n_examples, judge.k)
    n_calls, prompt = round(n_calls * saved.calls), round(prompt * saved.calls)
    completion = round(completion * saved.samples)
    pace = RunPace(concurrency or default_concurrency(judge.endpoint), rpm, tpm)
    return RunEstimate(
        n_examples,
        n_calls,
        round(most_parts * calls_a_part * saved.calls),
        prompt,
        completion,
        cost(judge, prompt, completion, n_calls),
        most(
            judge,
            requests,
            most_parts * n_examples * saved.calls,
            most_parts * most_a_part * saved.samples,
        ),
        seconds(timed, pace, n_calls, prompt + completion),
        basis(judge, known, n_examples, seen=together is not None, requests=requests),
        judge.model,
        judge.endpoint.name,
        batch_hours(judge, n_examples > full),
        budget,
        subset.words,
        saved.reused,
    )


@dataclass(frozen=True, slots=True)
class PairsPrice:
    """What judging new pairs will take, as a run took it for its own.

    calls, usd: None if no run, or none of its answers, or no price says it.
    """

    pairs: int
    calls: int | None = None
    usd: Decimal | None = None
    run: Run | None = None
    judged: int = 0

    @property
    def words(self) -> str:
        """The price in a sentence."""
        pairs = number_of(self.pairs, "new pair")
        if self.calls is None or self.run is None:
            return (
                f"{pairs[0].upper()}{pairs[1:]}. A judge that sees both orders is called at least "
                f"{count(2 * self.pairs)} times. No run has judged yet, so the cost isn't known. "
                "After the import, the estimate of a run gives it, and nothing is sent."
            )
        priced = f"about {usd(self.usd)}" if self.usd is not None else "an unknown cost"
        return (
            f"{pairs[0].upper()}{pairs[1:]}: {count(self.calls)} calls and {priced}, by the mean "
            f"of the {number_of(self.judged, 'example')} that the run “{self.run.name}” has judged."
        )


def price_of_pairs(pairs: int, run: Run | None) -> PairsPrice:
    """Price pairs that are no examples yet by the mean of the examples that a run has judged."""
    if run is None:
        return PairsPrice(pairs)
    done = Call.objects.filter(
        run=run, state=Call.State.DONE, reused_from=None, example__isnull=False
    )
    sums = done.aggregate(
        cost=Sum("usd"),
        priced=Count("usd"),
        calls=Count("pk"),
        judged=Count("example", distinct=True),
    )
    # A new run of no calls has no mean, and zero would promise that judging is free.
    if not sums["calls"]:
        return PairsPrice(pairs, run=run)
    share = Decimal(pairs) / sums["judged"]
    # A sum over some of the calls would be too low without saying so.
    cost = sums["cost"] * share if sums["priced"] == sums["calls"] else None
    return PairsPrice(pairs, math.ceil(sums["calls"] * share), cost, run, sums["judged"])


# For how many examples the prompts are compared with those of other runs.
COMPARED = 20


@dataclass(frozen=True, slots=True)
class Saved:
    """What copies save: the shares of calls and samples that are still asked, and how many not."""

    calls: float
    samples: float
    reused: int

    @classmethod
    def of(cls, covered: Mapping[tuple[int, str], int], parts: int, k: int) -> Self:
        """`covered`: slots by subject and part. `parts`: how many parts are asked, of k slots."""
        reused = min(sum(min(n, k) for n in covered.values()), parts * k)
        whole = min(sum(n >= k for n in covered.values()), parts)
        if not reused:
            return cls(1.0, 1.0, 0)
        return cls(1 - whole / parts, 1 - reused / (parts * k), reused)


def shown_of(run: Run, examples: QuerySet[Any]) -> list[Subject]:
    """Return the first examples, if prompts are to be compared with those of other runs."""
    return list(examples.order_by("number", "pk")[:COMPARED]) if run.parameters["reuse"] else []


def calls_like(run: Run) -> QuerySet[Call]:
    """Return the calls that this judge has answered so far, in any project."""
    judge = {"run__base_url": run.base_url, "run__model": run.model, "reused_from": None}
    return Call.objects.filter(**judge, state=Call.State.DONE)


def samples_a_call(judge: Judge, past: QuerySet[Call]) -> int | None:
    """Return how many samples this judge gives per call; None if it isn't known."""
    if judge.annotators:
        return 1
    known, _ = endpoints.recall_for(judge.endpoint.base_url, judge.model)
    if known and known.max_n:
        return min(judge.k, known.max_n)
    gave_several = judge.k == 1 or Sample.objects.filter(call__in=past, index__gt=0).exists()
    return judge.k if gave_several else None


def rendered(
    run: Run, examples: QuerySet[Any], count: int, samples: int
) -> Iterator[list[JudgeRequest]]:
    """Yield all possible requests of some examples, evenly spread over the project."""
    questioner = Questioner.of(run)
    # Files are often sorted by length or source, so the first ones alone would mislead.
    step = max(1, count // RENDERED)
    ids = list(examples.order_by("number", "pk").values_list("pk", flat=True)[::step])[:RENDERED]
    chosen = examples.filter(pk__in=ids).order_by().iterator(chunk_size=50)
    for place, example in enumerate(chosen):
        # The prompts of simulated annotators take turns, and are of different lengths.
        slot = place % samples
        parts = parts_of(run, example)
        yield [questioner.request(example, part, samples, slot) for part in parts]


def parts_of(run: Run, example: Subject) -> tuple[str, ...]:
    portia = PortiaSettings.of(run)
    if portia is None:
        return run.parts
    splits = ExampleSplits(example, portia)
    plan = portia.plan(splits.splittable, splits.overlapping)
    return tuple(part for stage in plan for part in stage_parts(stage))


def tokens_a_sample(past: QuerySet[Call]) -> tuple[float, bool]:
    """Return this judge's mean tokens per sample, or a guess; and whether it is known."""
    sums = past.aggregate(tokens=Sum("completion_tokens"))
    # One row for each sample, since the join repeats a call for each of its samples.
    samples = past.filter(samples__isnull=False).count()
    if not samples or not sums["tokens"]:
        return TOKENS_A_SAMPLE, False
    return sums["tokens"] / samples, True


def cost(judge: Judge, prompt: int, completion: int, n_calls: int) -> Decimal | None:
    """Return the cost of calls of average size, since prices may depend on a call's size."""
    if judge.price is None:
        return None
    if not n_calls:
        return Decimal(0)
    average = Usage(prompt // n_calls, 0, completion // n_calls)
    return judge.price.cost(average) * n_calls


def most(
    judge: Judge, requests: list[JudgeRequest], questions: float, calls: float
) -> Decimal | None:
    """Return the highest cost: all samples at full length, and the prompt billed per call."""
    if judge.price is None:
        return None
    total = Decimal(0)
    for samples, times in ((judge.k, questions), (0, calls - questions)):
        bounds = [judge.price.reserve(r.prompt_tokens, samples, r.max_tokens) for r in requests]
        total += sum(bounds, Decimal(0)) / max(1, len(bounds)) * Decimal(times)
    return total


def batch_hours(judge: Judge, by_rounds: bool) -> int | None:
    """Return the longest wait: each round or stage waits for the batch before it."""
    if not judge.batch:
        return None
    stages = len(judge.portia.stages) if judge.portia else 1
    return BATCH_HOURS * max(judge.k if by_rounds else 1, stages)


def seconds(past: QuerySet[Call], pace: RunPace, n_calls: int, tokens: int) -> float | None:
    average = past.aggregate(ms=Avg("duration_ms"))["ms"]
    return None if average is None else pace.seconds(average / 1000, n_calls, tokens)


def basis(
    judge: Judge, known: bool, n_examples: int, *, seen: bool, requests: Sequence[JudgeRequest] = ()
) -> str:
    assumed = min(TOKENS_A_SAMPLE, judge.max_tokens)
    sentences = [
        "Tokens and time per call are taken from this judge's earlier calls."
        if known
        else "This judge has not run here before, so the time is unknown. The estimate assumes "
        f"{assumed} tokens per sample."
    ]
    sentences += [] if seen else [ONE_A_CALL.format(k=judge.k)]
    pictured = any(hashes_in(*(m.content for m in request.messages)) for request in requests)
    sentences += [IMAGES] if pictured else []
    sentences += [BY_STAGES] if judge.portia else []
    sentences += [IN_BATCHES] if judge.batch else []
    sentences += [adaptive_note(n_examples)] if judge.adaptive else []
    return " ".join(sentences)


def adaptive_note(n_examples: int) -> str:
    pilot = pilot_size(n_examples)
    if pilot == n_examples:
        return NOTHING_TO_SAVE.format(fewest=FEWEST_PILOT)
    return AT_MOST.format(pilot=pilot, n=n_examples)
