"""Rebuild the verdicts of a run from its samples, and rank the examples."""

from array import array
from collections import Counter, namedtuple
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from django.db.models import Sum
from django.utils import timezone

from judging.core.leases import Chunks, KeptRows, delete_rows, in_chunks
from judging.core.sql.statements import insert_columns, new, rows_came, upsert
from judging.methods.verdicts.verdicts import Candidate, VerdictState, rank, verdict
from judging.methods.verdicts.verdicts import VerdictFigures as Result
from judging.runs.models import Form, Method, Run, Verdict, among, n_subjects, subjects_of
from judging.runs.planning.agenda import Adaptive, adaptive_of
from judging.runs.samples import ExampleSamples, samples_of

CHUNK = 2000
UNIQUE = ("run", "example")
_FIELDS = [field for field in Verdict._meta.concrete_fields if not field.primary_key]
JUDGED_FIELDS = tuple(field.name for field in _FIELDS if field.name not in UNIQUE)
# A verdict without its rank.
Judged = namedtuple("Judged", [f.attname for f in _FIELDS if f.name not in ("run", "rank")])
# Most examples of a run have the scores of another, and exact fractions take long.
MOST_KNOWN = 4096
# Told how many examples of how many are done. Returns False if nobody wants the rest any more.
Advance = Callable[[int, int], bool]


class RankingStopped(Exception):
    """Nobody wants the ranking any more. The run has the verdicts that it had before."""


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    judged: int = 0
    unjudged: int = 0
    inconsistent: int = 0
    pending: int = 0


def rebuild_verdicts(run: Run, advance: Advance = lambda done, total: True) -> VerdictCounts:
    """Judge every example, rank them, and write all verdicts with their ranks in chunks.

    Only what the examples are ranked by is held in memory for all of them at once. The verdicts
    are in a temporary file meanwhile.

    Args:
        advance: Told after each chunk. It is no longer heard once earlier verdicts are replaced,
            because a part of them would be of another ranking than the rest.

    Raises:
        RankingStopped: `advance` returned False.
    """
    if run.form == Form.POINTWISE:
        # Single responses have scores, and no verdict.
        return VerdictCounts()
    judged: KeptRows[Judged] = KeptRows(Judged)
    states: Counter[str] = Counter()
    total = n_subjects(run)

    def chunk_done() -> None:
        if not advance(states.total() // 2, total):
            raise RankingStopped

    order = rank(_judged(run, judged, states, chunk_done), run.seed)
    n = states.total()
    places = array("q", bytes(8 * n))
    for place, index in enumerate(order, start=1):
        places[index] = place
    rows = zip(judged, (place or None for place in places), strict=True)
    write(run, rows, lambda written: advance((n + written) // 2, total))
    stale = Verdict.objects.filter(run=run).exclude(example__in=subjects_of(run))
    in_chunks(stale, lambda keys: delete_rows(Verdict, pk__in=keys), CHUNK)
    Run.objects.filter(pk=run.pk).update(ranked_at=timezone.now())
    rows_came(n, Verdict)
    return VerdictCounts(**states)


def _judged(
    run: Run, judged: KeptRows[Judged], states: Counter[str], chunk_done: Callable[[], object]
) -> Iterator[Candidate]:
    """Yield what each example is ranked by, after its verdict is kept and its state counted."""
    known: dict[Hashable, tuple[tuple[Any, ...], Judged]] = {}
    examples, adaptive, of_each = samples_of(run), adaptive_of(run), run.samples_an_order
    while chunk := list(islice(examples, CHUNK)):
        usd = usd_of(run, chunk)
        for example in chunk:
            wanted = adaptive.rounds_wanted(example) if adaptive else of_each
            alike = example.samples, example.counted, example.standing, wanted
            if alike not in known:
                if len(known) == MOST_KNOWN:
                    known.clear()
                result = judge(run, example, wanted)
                score = routing_score(result, adaptive)
                ranked_by = result.state, score, result.n_valid, result.gap
                known[alike] = ranked_by, row(run, example, result, score)
            ranked_by, judged_alike = known[alike]
            key = example.example_id
            judged.add(judged_alike._replace(example_id=key, usd=usd.get(key)))
            states[str(ranked_by[0])] += 1
            yield Candidate(example.external_id, *ranked_by)
        chunk_done()


def judge(run: Run, example: ExampleSamples, wanted: int) -> Result:
    """Return the run's verdict on one example. `wanted`: how many samples each order shall get."""
    original, *swapped = (example.pairs(part, run.form) for part in run.orders)
    measured = verdict(
        original,
        swapped[0] if swapped else None,
        k=None if run.method == Method.IMPORTED else wanted,
        band=2 * run.band,
        probabilities=run.form == Form.CHOICE,
        must_agree=bool(run.stages),
    )
    counted = measured.outcomes, measured.n_valid, measured.n_asked
    if example.standing and example.standing.stage is None:
        return Result(VerdictState.PENDING, *counted, conflict=measured.conflict)
    if measured.state == VerdictState.JUDGED and lacks_a_permutation(run, example):
        return Result(VerdictState.UNJUDGED, *counted, conflict=measured.conflict)
    return measured


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


def usd_of(run: Run, examples: Sequence[ExampleSamples]) -> dict[int, Decimal | None]:
    """Return what the calls about each of these examples cost; None if it is unknown."""
    about = among("example", [example.example_id for example in examples])
    calls = run.calls.filter(**about).values("example").order_by("example")
    return dict(calls.annotate(total=Sum("usd")).values_list("example", "total"))


def write(
    run: Run, ranked: Iterator[tuple[Judged, int | None]], advance: Callable[[int], bool]
) -> None:
    """Write verdicts and ranks: rank 1 is to be reviewed first, and a pending example has none."""
    verdicts, n_written = Verdict.objects.filter(run=run), 0
    chunks, first = Chunks(), not verdicts.exists()
    while chunk := list(islice(ranked, min(chunks.size, CHUNK))):
        with chunks.transaction():
            if first:
                judged, ranks = zip(*chunk, strict=True)
                columns = dict(zip(Judged._fields, zip(*judged, strict=True), strict=True))
                insert_columns(Verdict, len(chunk), run_id=run.pk, rank=ranks, **columns)
            else:
                cells = ({"rank": place, **verdict_row._asdict()} for verdict_row, place in chunk)
                rows = [new(Verdict, run_id=run.pk, **values) for values in cells]
                upsert(Verdict, rows, UNIQUE, JUDGED_FIELDS)
        n_written += len(chunk)
        if not advance(n_written) and first:
            in_chunks(verdicts, lambda keys: delete_rows(Verdict, pk__in=keys), CHUNK)
            raise RankingStopped


def row(run: Run, example: ExampleSamples, result: Result, score: float | None) -> Judged:
    return Judged(
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
        conflict=result.conflict,
        outcomes=dict(zip(run.orders, map(list, result.outcomes), strict=True)),
        usd=None,
    )


def as_float(value: object) -> float | None:
    return None if value is None else float(value)
