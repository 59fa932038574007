"""Rebuild the verdicts of a run from its samples, and rank the examples."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import islice

from django.db.models import Sum
from django.utils import timezone

from judging.core.leases import Chunks, delete_rows, in_chunks
from judging.core.sql import statements
from judging.methods.verdicts.verdicts import Candidate, VerdictState, outcome_of, rank, verdict
from judging.methods.verdicts.verdicts import VerdictFigures as Result
from judging.runs.models import Form, Method, Run, Verdict, subjects_of
from judging.runs.planning.agenda import Adaptive, adaptive_of
from judging.runs.samples import ExampleSamples, Pair, samples_of

CHUNK = 500
UNIQUE = ("run", "example")
JUDGED_FIELDS = tuple(
    field.name
    for field in Verdict._meta.concrete_fields
    if field.name not in ("id", "rank", *UNIQUE)
)


# Most examples of a run have the scores of another, and exact fractions take long.
known_verdict = lru_cache(maxsize=4096)(verdict)


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    judged: int = 0
    unjudged: int = 0
    inconsistent: int = 0
    pending: int = 0


def rebuild_verdicts(run: Run) -> VerdictCounts:
    """Judge and write every example in chunks, then write the ranks.

    Only what the examples are ranked by is held in memory for all of them at once.
    """
    if run.form == Form.POINTWISE:
        # Single responses have scores, and no verdict.
        return VerdictCounts()
    candidates, ids, adaptive = [], [], adaptive_of(run)
    examples, chunks = samples_of(run), Chunks()
    while chunk := list(islice(examples, min(chunks.size, CHUNK))):
        results = [judge(run, example, adaptive) for example in chunk]
        scores = [routing_score(result, adaptive) for result in results]
        write(run, chunk, results, scores, chunks)
        candidates += [
            Candidate(example.external_id, result.state, score, result.n_valid, result.gap)
            for example, result, score in zip(chunk, results, scores, strict=True)
        ]
        ids += [example.example_id for example in chunk]
    write_ranks(run, [ids[index] for index in rank(candidates, run.seed)])
    stale = Verdict.objects.filter(run=run).exclude(example__in=subjects_of(run))
    in_chunks(stale, lambda keys: delete_rows(Verdict, pk__in=keys), CHUNK)
    Run.objects.filter(pk=run.pk).update(ranked_at=timezone.now())
    return VerdictCounts(**Counter(str(c.state) for c in candidates))


def judge(run: Run, example: ExampleSamples, adaptive: Adaptive | None = None) -> Result:
    """Return the run's verdict on one example."""
    k = adaptive.rounds_wanted(example) if adaptive else run.samples_an_order
    original, *swapped = (example.pairs(part, run.form) for part in run.orders)
    found = known_verdict(
        original,
        swapped[0] if swapped else None,
        k=None if run.method == Method.IMPORTED else k,
        band=2 * run.band,
        probabilities=run.form == Form.CHOICE,
        must_agree=bool(run.stages),
    )
    if example.standing and example.standing.stage is None:
        return Result(VerdictState.PENDING, found.outcomes, found.n_valid, found.n_asked)
    if found.state == VerdictState.JUDGED and lacks_a_permutation(run, example):
        return Result(VerdictState.UNJUDGED, found.outcomes, found.n_valid, found.n_asked)
    return found


def lacks_a_permutation(run: Run, example: ExampleSamples) -> bool:
    """Return True if a permutation of a choice's balanced set has no valid sample.

    Two of four permutations show the same order: without one, the mean would not cancel the
    preference for an ID token.
    """
    if run.form != Form.CHOICE:
        return False
    parts = (example.of_part(part) for part in run.counted_parts)
    return any(all(sample.pair(run.form) is None for sample in samples) for samples in parts)


def routing_score(result: Result, adaptive: Adaptive | None) -> float | None:
    """Return what the example is ranked by.

    Stopping early makes an entropy small by itself, so adaptive runs rank by the smoothed one.
    """
    return result.smoothed_bpde if adaptive else result.bpde


def write(
    run: Run,
    examples: Sequence[ExampleSamples],
    results: Sequence[Result],
    scores: Sequence[float | None],
    chunks: Chunks | None = None,
) -> None:
    """Write everything but the ranks; a pending example loses its rank."""
    ids = [example.example_id for example in examples]
    calls = run.calls.filter(example__in=ids).values("example").order_by("example")
    usd = dict(calls.annotate(total=Sum("usd")).values_list("example", "total"))
    pending = [
        example.example_id
        for example, result in zip(examples, results, strict=True)
        if result.state == VerdictState.PENDING
    ]
    judged = [
        row(run, example, result, score, usd.get(example.example_id))
        for example, result, score in zip(examples, results, scores, strict=True)
    ]
    with (chunks or Chunks()).transaction():
        statements.upsert(Verdict, judged, UNIQUE, JUDGED_FIELDS)
        Verdict.objects.filter(run=run, example__in=pending).update(rank=None)


def write_ranks(run: Run, ranked_ids: Sequence[int]) -> None:
    """Write the ranks; rank 1 is to be reviewed first."""
    start, chunks = 0, Chunks()
    while keys := ranked_ids[start : start + min(chunks.size, CHUNK)]:
        ranked = [
            statements.new(Verdict, run_id=run.pk, example_id=pk, rank=place)
            for place, pk in enumerate(keys, start=start + 1)
        ]
        with chunks.transaction():
            statements.update(Verdict, ranked, ("rank",), found_by=UNIQUE)
        start += len(keys)


def row(
    run: Run,
    example: ExampleSamples,
    result: Result,
    score: float | None,
    usd: Decimal | None,
) -> Verdict:
    return statements.new(
        Verdict,
        run_id=run.pk,
        example_id=example.example_id,
        state=result.state.value,
        label=result.label.value if result.label else None,
        cs_1=as_float(result.cs_1),
        cs_2=as_float(result.cs_2),
        gap=as_float(result.gap),
        bpde=result.bpde,
        routing_score=score,
        stage=(example.standing.stage or "") if example.standing else "",
        n_valid=result.n_valid,
        n_asked=result.n_asked,
        conflict=conflict(run, example),
        outcomes=dict(zip(run.orders, map(list, result.outcomes), strict=True)),
        usd=usd,
    )


def conflict(run: Run, example: ExampleSamples) -> bool | None:
    """Return True if the means of the two orders give different labels (FairEval, §2.2)."""
    pairs = (example.pairs(part, run.form) for part in run.orders)
    valid = tuple(tuple(filter(None, order)) for order in pairs)
    return None if len(valid) < 2 or not all(valid) else _differ(valid, 2 * run.band)


@lru_cache(maxsize=4096)
def _differ(orders: tuple[tuple[Pair, ...], ...], band: Fraction) -> bool:
    """The difference of the sums has the sign of the means' difference."""
    by_response = (zip(*order, strict=True) for order in orders)
    return len({outcome_of((sum(a), sum(b)), band * len(a)) for a, b in by_response}) > 1


def as_float(value: object) -> float | None:
    return None if value is None else float(value)
