"""What the verdicts of a run say about the judge alone: for its page."""

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from django.db.models import Case, Count, F, FloatField, Max, Q, Sum, Value, When
from django.db.models.functions import Cast

from judging.core.caching import cached
from judging.dataset.models import Label, questions_of
from judging.llm.prompts.templates import PromptVariant
from judging.methods.arrays import Floats, Signs
from judging.methods.intervals.estimates import Figure
from judging.methods.verdicts.position import FirstPosition, conflicts, first_position
from judging.methods.verdicts.verdicts import cut
from judging.runs.forms.portia import last_stages
from judging.runs.models import Call, Form, Parse, Run, Verdict

LIKERT_MIDDLE = 4
BIN = 0.1
BINS = math.ceil(math.log(3) / BIN)
# Sums come back as floats; scores have far fewer places than this.
PLACES = 6
NEXT_TO_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class Bar:
    """Examples with a BPDE above `low`, at most `high`; the first bar is 0 alone."""

    low: float
    high: float
    n: int
    selected: int


@dataclass(frozen=True, slots=True)
class Spread:
    """How BPDE is distributed, and what the top β % are: so many, down to a BPDE of `at_cut`.

    The share is of all examples; of a run that was stopped fewer than that may be ranked.
    `at_cut` is None where the cut falls among examples without a BPDE, or selects none.
    """

    bars: tuple[Bar, ...]
    beta: Decimal
    n_selected: int
    n_ranked: int
    at_cut: float | None
    disputed: int
    disputed_selected: int


@dataclass(frozen=True, slots=True)
class LabelsByOrder:
    """Labels of the means within one order."""

    part: str
    win: int
    tie: int
    lose: int


@dataclass(frozen=True, slots=True)
class JudgeCosts:
    """Dollars are None where the price is unknown."""

    calls: int
    failed: int
    lost: int
    estimated: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    usd: Decimal | None
    usd_an_example: Decimal | None


@dataclass(frozen=True, slots=True)
class JudgeReport:
    n: int
    judged: int
    unjudged: int
    inconsistent: int
    pending: int
    win: int
    tie: int
    lose: int
    conflict_rate: Figure
    first: FirstPosition
    orders: tuple[LabelsByOrder, ...]
    spread: Spread
    costs: JudgeCosts


def report_on(run: Run, beta: Decimal) -> JudgeReport:
    """A few aggregates, however large the project. `beta` in percent."""
    n = run.project.examples.judged().count()
    verdicts = Verdict.objects.filter(run=run)
    counts = verdicts.aggregate(
        **{state: Count("pk", filter=Q(state=state)) for state in Verdict.State.values},
        **{label: Count("pk", filter=Q(label=label)) for label in Label.values},
    )
    orders, first, conflict_rate = kept_by_order(run)
    return JudgeReport(
        n=n,
        **counts,
        conflict_rate=conflict_rate,
        first=first,
        orders=orders,
        spread=spread_of(run, n, beta),
        costs=costs_of(run, counts["judged"]),
    )


ByOrder = tuple[tuple[LabelsByOrder, ...], FirstPosition, Figure]


def kept_by_order(run: Run) -> ByOrder:
    """All samples of a large project are summed in seconds. They change with a call that ended,
    and their readings with a new ranking."""
    last = run.calls.aggregate(last=Max("finished_at"))["last"]
    return cached("orders", run, (run.ranked_at, last), lambda: by_order(run))


def prepare_page(run: Run) -> None:
    """A run's page then opens at once, however large the project."""
    run.refresh_from_db()
    if run.ranked_at and run.form != Form.POINTWISE:
        kept_by_order(run)


def by_order(run: Run) -> ByOrder:
    """Only valid samples carry a verdict, and a slot has one of them at most."""
    rows = (
        Parse.objects.filter(current=True, status=Parse.Status.VALID, sample__call__run=run)
        .order_by()
        .values_list("sample__call__example", "sample__call__part")
        .annotate(total=Sum(difference(run)), n=Count("pk"))
    )
    parts = run.parts if run.stages else run.counted_parts
    columns = {part: run.orders.index(PromptVariant.parse(part).order) for part in parts}
    last = last_stages(run) if run.stages else {}
    places: dict[int, int] = {}
    found: list[tuple[int, int, float, int]] = []
    for example, part, total, n in rows.iterator(chunk_size=5000):
        stage = PromptVariant.parse(part).stage
        if part in columns and last.get(example, stage) == stage:
            place = places.setdefault(example, len(places))
            found.append((place, columns[part], total, n))
    sums, counts = np.zeros((len(places), 2)), np.zeros((len(places), 2))
    for place, column, total, n in found:
        sums[place, column] += total
        counts[place, column] += n
    table, there = signs(run, sums, counts), counts > 0
    orders = tuple(
        LabelsByOrder(name, *(int((table[there[:, c], c] == sign).sum()) for sign in (1, 0, -1)))
        for c, name in enumerate(run.orders)
    )
    questions = questions_of(run.project_id, list(places))
    first = first_position(table, there, questions)
    return orders, first, conflicts(table, there, questions).conflict_rate


def signs(run: Run, sums: Floats, counts: Floats) -> Signs:
    """Of the sums of differences: probabilities are compared with the band that is a tie."""
    if run.form != Form.CHOICE:
        return np.sign(np.round(sums, PLACES)).astype(np.int8)
    tied = np.abs(sums) <= 2 * float(run.band) * counts + NEXT_TO_NOTHING
    return np.where(tied, 0, np.sign(sums)).astype(np.int8)


def difference(run: Run) -> Case:
    """Score 1 - score 2 of a sample, or P of response 1 less P of response 2."""
    if run.form == Form.CHOICE:
        return preference(run.counted_parts)
    return Case(
        When(score_1__isnull=False, then=as_float(F("score_1") - F("score_2"))),
        When(rating__isnull=False, then=as_float(F("rating") - LIKERT_MIDDLE)),
        When(outcome=Label.WIN, then=Value(1.0)),
        When(outcome=Label.LOSE, then=Value(-1.0)),
        default=Value(0.0),
        output_field=FloatField(),
    )


def preference(parts: tuple[str, ...]) -> Case:
    """P of response 1 less P of response 2, from P of what stood first."""
    swapped = [part for part in parts if PromptVariant.parse(part).swapped]
    turned = When(
        sample__call__part__in=swapped, p_first__isnull=False, then=1.0 - 2.0 * F("p_first")
    )
    return Case(
        turned,
        When(p_first__isnull=False, then=2.0 * F("p_first") - 1.0),
        default=Value(0.0),
    )


def as_float(expression: object) -> Cast:
    return Cast(expression, FloatField())


def spread_of(run: Run, n: int, beta: Decimal) -> Spread:
    n_selected = cut(n, beta)
    verdicts = Verdict.objects.filter(run=run)
    selected = Count("pk", filter=Q(rank__lte=n_selected))
    rows = verdicts.filter(bpde__isnull=False).order_by().values_list("bpde")
    heights, within = [0] * (BINS + 1), [0] * (BINS + 1)
    for bpde, count, within_cut in rows.annotate(n=Count("pk"), within_cut=selected):
        place = min(BINS, math.ceil(round(bpde / BIN, PLACES)))
        heights[place] += count
        within[place] += within_cut
    chosen = verdicts.aggregate(n=selected, at_cut=Max("bpde", filter=Q(rank=n_selected)))
    ends = [0.0, *(round(BIN * i, 1) for i in range(1, BINS + 1))]
    return Spread(
        bars=tuple(
            Bar(ends[max(0, i - 1)], ends[i], heights[i], within[i]) for i in range(BINS + 1)
        ),
        beta=beta,
        n_selected=n_selected,
        n_ranked=chosen["n"],
        at_cut=chosen["at_cut"],
        disputed=sum(heights[1:]),
        disputed_selected=sum(within[1:]),
    )


def costs_of(run: Run, judged: int) -> JudgeCosts:
    sums = run.calls.aggregate(
        calls=Count("pk"),
        failed=Count("pk", filter=Q(state=Call.State.FAILED)),
        lost=Count("pk", filter=Q(state=Call.State.LOST)),
        estimated=Count("pk", filter=Q(estimated=True)),
        prompt_tokens=Sum("prompt_tokens", default=0),
        cached_tokens=Sum("cached_tokens", default=0),
        completion_tokens=Sum("completion_tokens", default=0),
    )
    usd = run.spent_usd if run.price is not None else None
    each = usd / judged if usd is not None and judged else None
    return JudgeCosts(**sums, usd=usd, usd_an_example=each)
