"""What a run's samples and verdicts say about the judge alone.

The run's page and the results page both take these figures from here, so that they agree: how often
the two orders conflict, how often the first position wins, and how BPDE is distributed.
"""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from django.db.models import Case, Count, F, FloatField, Max, Q, QuerySet, Sum, Value, When
from django.db.models.functions import Cast
from numpy.typing import ArrayLike

from judging.core import waking
from judging.core.caching import LONGEST_KEPT, cache_key, cached, report_cache
from judging.core.models import Worker
from judging.dataset.models import Label, alike_questions, import_states, questions_of
from judging.llm.prompts.templates import PromptVariant
from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.estimates import Figure
from judging.methods.verdicts.position import Conflicts, FirstPosition, conflicts, first_position
from judging.methods.verdicts.verdicts import cut
from judging.projects.models import Project
from judging.runs.forms.portia import last_stages
from judging.runs.models import Call, Form, Parse, Run, Sample, Verdict, n_subjects

LIKERT_MIDDLE = 4
# Bars up to ln 3, the largest entropy of three outcomes.
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
    """How BPDE is distributed, and what the top β % are: `n_selected` examples.

    The share is of all examples; a run that was stopped may have ranked fewer. `at_cut` is the BPDE
    of the last selected example, None if it has no BPDE or nothing is selected.
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
class OrderFigures:
    """What the judge says in each order, and how often the order decides."""

    orders: tuple[LabelsByOrder, ...]
    conflicts: Conflicts
    first: FirstPosition


@dataclass(frozen=True, slots=True)
class JudgeCosts:
    """Dollars are None if the price is unknown."""

    calls: int
    failed: int
    lost: int
    estimated: int
    prompt_tokens: int
    cached_tokens: int
    written_tokens: int
    completion_tokens: int
    usd: Decimal | None
    usd_an_example: Decimal | None


@dataclass(frozen=True, slots=True)
class Winners:
    """How often the judge lets each of two models win, whichever is response 1.

    is_fixed: model_1 is response 1 of every example.
    """

    model_1: str
    model_2: str
    wins_1: int
    ties: int
    wins_2: int
    is_fixed: bool

    @property
    def n(self) -> int:
        return self.wins_1 + self.ties + self.wins_2

    @property
    def ahead(self) -> str:
        """The model that wins more often, or "" if both win as often."""
        if self.wins_1 == self.wins_2:
            return ""
        return self.model_1 if self.wins_1 > self.wins_2 else self.model_2


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
    winners: Winners | None


def report_on(run: Run, beta: Decimal) -> JudgeReport:
    """Return the figures of the run's page, by a few aggregates. `beta` is in percent."""
    figures, totals = order_figures(run), totals_of(run)
    return JudgeReport(
        n=totals.n,
        **totals.counts,
        conflict_rate=figures.conflicts.conflict_rate,
        first=figures.first,
        orders=figures.orders,
        spread=spread_of(run, totals.n, beta),
        costs=totals.costs,
        winners=totals.winners,
    )


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run's page says of all verdicts and calls. counts: of verdicts, by state and label."""

    n: int
    counts: dict[str, int]
    costs: JudgeCosts
    winners: Winners | None


# With more examples, what is counted over all of them is kept until the run changes.
MANY_EXAMPLES = 10_000


def totals_of(run: Run) -> Totals:
    n = n_subjects(run)
    if n <= MANY_EXAMPLES:
        return _totals(run, n)
    # An import of pairs changes how many there are, and with that what is pending.
    totals: Totals = cached("totals", run, (state_of(run), n), lambda: _totals(run, n))
    return totals


def _totals(run: Run, n: int) -> Totals:
    counts = Verdict.objects.filter(run=run).aggregate(
        **{state: Count("pk", filter=Q(state=state)) for state in Verdict.State.values},
        **{label: Count("pk", filter=Q(label=label)) for label in Label.values},
    )
    return Totals(n, counts, costs_of(run, counts["judged"]), winners_of(run))


def state_of(run: Run) -> tuple[object, ...]:
    """Return what changes when a call ends, and with a new ranking, which readings lead to."""
    if run.state == Run.State.DONE and run.finished_at:
        return run.ranked_at, run.finished_at, run.spent_usd, run.price
    # While the run is at work, a call that ends changes the last time.
    last = run.calls.aggregate(last=Max("finished_at"))["last"]
    return run.ranked_at, last, run.spent_usd, run.price


def winners_of(run: Run) -> Winners | None:
    """Return the wins of each model, or None unless all labels compare the same two named ones."""
    labelled = Verdict.objects.filter(run=run, label__isnull=False).order_by()
    models = ("example__model_1", "example__model_2")
    rows = list(labelled.values_list(*models, "label").annotate(n=Count("pk")))
    names = {frozenset(row[:2]) for row in rows}
    # With several pairs of models there is no winner of the run, only one of each pair.
    if len(names) != 1 or "" in next(iter(names)) or len(next(iter(names))) != 2:
        return None
    first, second = rows[0][:2]
    wins = {first: 0, second: 0, "": 0}
    for model_1, model_2, label, n in rows:
        wins[{Label.WIN: model_1, Label.LOSE: model_2}.get(label, "")] += n
    is_fixed = len({row[:2] for row in rows}) == 1
    return Winners(first, second, wins[first], wins[""], wins[second], is_fixed)


def prepare_page(run: Run) -> None:
    """Compute what a run's page would wait for, so that it opens at once in a large project."""
    run.refresh_from_db()
    if run.ranked_at and run.form != Form.POINTWISE:
        judgments_of(run)
        alike_in(run.project)
        totals_of(run)
        order_figures(run)


def alike_in(project: Project) -> tuple[float, int]:
    """Return `alike_questions` of a project, read again after an import or a removal of texts."""
    state, examples = (import_states(project), project.texts_removed_at), project.examples.judged()
    alike: tuple[float, int] = cached("alike", project, state, lambda: alike_questions(examples))
    return alike


def judgments_of(run: Run) -> int:
    """Count the samples of a run that is done, once."""
    return int(cached("judgments", run, state_of(run), Sample.objects.filter(call__run=run).count))


def n_judgments(project: Project) -> int:
    """Count the samples of all runs. Those of large finished runs are counted already."""
    large = list(_large_and_done().filter(project=project))
    others = Sample.objects.filter(call__run__project=project).exclude(call__run__in=large)
    return others.count() + sum(map(judgments_of, large))


def _large_and_done() -> QuerySet[Run]:
    return Run.objects.filter(state=Run.State.DONE, verdicts__rank=MANY_EXAMPLES)


def wake_for_pages() -> None:
    """Have the pages of large finished runs computed ahead, as after an upgrade."""
    for run in _large_and_done().only("created_at"):
        if report_cache.get(cache_key("orders", run)) is None:
            _wake_for(run)


def _wake_for(run: Run) -> bool:
    """Ask a worker once in a minute. Return False if the queue does not answer."""
    key = f"{cache_key('orders', run)}:asked"
    # Each worker looks when it starts, and one message is enough.
    if report_cache.add(key, True, LONGEST_KEPT) and not waking.wake(waking.PREPARE_PAGE, run.pk):
        report_cache.set(key, False, LONGEST_KEPT)
    return report_cache.get(key) is not False


def awaits_worker(run: Run) -> bool:
    """Return True if a worker computes what the run's page would count for seconds.

    Without a worker, or a queue that answers, the page computes it itself.
    """
    if not run.ranked_at or run.state != Run.State.DONE:
        return False
    kept = report_cache.get(cache_key("orders", run))
    if kept is not None and kept[0] == state_of(run):
        return False
    if not _large_and_done().filter(pk=run.pk).exists():
        return False
    return Worker.objects.take_long_work() and _wake_for(run)


def order_figures(run: Run) -> OrderFigures:
    """Return the figures by order, summed once for each state of the run.

    Summing all samples of a large project takes seconds. They change when a call ends, and their
    readings with a new ranking.
    """
    return cached("orders", run, state_of(run), lambda: _order_figures(run))


def _order_figures(run: Run) -> OrderFigures:
    rows = (
        Parse.objects.that_count(run)
        .filter(status=Parse.Status.VALID)
        .order_by()
        .values_list("sample__call__example", "sample__call__part")
        .annotate(total=Sum(difference(run)), n=Count("pk"))
    )
    parts = run.parts if run.stages else run.counted_parts
    columns = {part: run.orders.index(PromptVariant.parse(part).order) for part in parts}
    last = last_stages(run) if run.stages else {}
    # As numbers of C: as Python's they need five times as much memory.
    keys, of_cells, totals, numbers = array("q"), array("q"), array("d"), array("q")
    for example, part, total, n in rows.iterator(chunk_size=5000):
        stage = PromptVariant.parse(part).stage
        if part in columns and last.get(example, stage) == stage:
            keys.append(example)
            of_cells.append(columns[part])
            totals.append(total)
            numbers.append(n)
    examples, places = np.unique(np.asarray(keys), return_inverse=True)
    cells = 2 * places + np.asarray(of_cells)
    sums, counts = (
        np.bincount(cells, weights=np.asarray(each), minlength=2 * len(examples)).reshape(-1, 2)
        for each in (totals, numbers)
    )
    questions = questions_of(run.project_id, examples)
    return figures_of_labels(run.orders, signs(run, sums, counts), counts > 0, questions)


def figures_of_labels(
    orders: Sequence[str], labels: Signs, there: Booleans, questions: Codes
) -> OrderFigures:
    """Return the figures of labels by order. The results page has the labels as arrays already.

    Args:
        orders: The names of the orders.
        labels: (N, 2) the label of the mean within each order.
        there: (N, 2) whether the order has a valid sample.
        questions: (N,) codes of the questions, whose examples are not independent.
    """
    by_order = tuple(
        LabelsByOrder(name, *(int((labels[there[:, c], c] == sign).sum()) for sign in (1, 0, -1)))
        for c, name in enumerate(orders)
    )
    return OrderFigures(
        by_order, conflicts(labels, there, questions), first_position(labels, there, questions)
    )


def signs(run: Run, sums: Floats, counts: Floats) -> Signs:
    """Return the label of each sum of differences; probabilities within the band are a tie."""
    if run.form != Form.CHOICE:
        # The database sums decimals as floats, and a difference of zero must stay a tie.
        return np.sign(np.round(sums, PLACES)).astype(np.int8)
    tied = np.abs(sums) <= 2 * float(run.band) * counts + NEXT_TO_NOTHING
    return np.where(tied, 0, np.sign(sums)).astype(np.int8)


def difference(run: Run) -> Case:
    """Return in SQL what `RecordedSample.pair` says of a sample: score 1 - score 2.

    For a choice, P of response 1 less P of response 2.
    """
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
    """Return P of response 1 less P of response 2, from P of the response shown first."""
    swapped = [part for part in parts if PromptVariant.parse(part).swapped]
    turned = When(
        sample__call__part__in=swapped, p_first__isnull=False, then=1.0 - 2.0 * F("p_first")
    )
    return Case(
        turned, When(p_first__isnull=False, then=2.0 * F("p_first") - 1.0), default=Value(0.0)
    )


def as_float(expression: object) -> Cast:
    return Cast(expression, FloatField())


def bpde_bars(bpde: ArrayLike, n: ArrayLike, selected: ArrayLike) -> tuple[Bar, ...]:
    """Return the histogram of BPDE: 0 alone, then bars of a tenth up to ln 3.

    Args:
        bpde: (V,) values of BPDE.
        n: (V,) how many examples have each.
        selected: (V,) how many of these are selected.
    """
    # Rounded first, as .1 / .1 may be a hair above 1 and fall into the next bar.
    tenths = np.ceil(np.round(np.asarray(bpde, dtype=np.float64) / BIN, PLACES))
    place = np.minimum(tenths, BINS).astype(np.intp)
    heights, within = (
        np.bincount(place, weights=np.asarray(counts, dtype=np.float64), minlength=BINS + 1)
        for counts in (n, selected)
    )
    ends = [0.0, *(round(BIN * i, 1) for i in range(BINS + 1))]
    return tuple(
        Bar(ends[i], ends[i + 1], int(heights[i]), int(within[i])) for i in range(BINS + 1)
    )


def spread_of(run: Run, n: int, beta: Decimal) -> Spread:
    n_selected = cut(n, beta)
    verdicts = Verdict.objects.filter(run=run)
    selected = Count("pk", filter=Q(rank__lte=n_selected))
    # Few values of BPDE occur, so the database sends a row for each value and not for each example.
    rows = verdicts.filter(bpde__isnull=False).order_by().values_list("bpde")
    rows = rows.annotate(n=Count("pk"), within_cut=selected)
    bars = bpde_bars(*np.array(list(rows), dtype=np.float64).reshape(-1, 3).T)
    chosen = verdicts.aggregate(n=selected, at_cut=Max("bpde", filter=Q(rank=n_selected)))
    return Spread(
        bars=bars,
        beta=beta,
        n_selected=n_selected,
        n_ranked=chosen["n"],
        at_cut=chosen["at_cut"],
        disputed=sum(bar.n for bar in bars[1:]),
        disputed_selected=sum(bar.selected for bar in bars[1:]),
    )


def costs_of(run: Run, judged: int) -> JudgeCosts:
    sums = run.calls.aggregate(
        calls=Count("pk"),
        failed=Count("pk", filter=Q(state=Call.State.FAILED)),
        lost=Count("pk", filter=Q(state=Call.State.LOST)),
        estimated=Count("pk", filter=Q(estimated=True)),
        prompt_tokens=Sum("prompt_tokens", default=0),
        cached_tokens=Sum("cached_tokens", default=0),
        written_tokens=Sum("written_tokens", default=0),
        completion_tokens=Sum("completion_tokens", default=0),
    )
    usd = run.spent_usd if run.price is not None else None
    each = usd / judged if usd is not None and judged else None
    return JudgeCosts(**sums, usd=usd, usd_an_example=each)
