"""What the judge's samples say by themselves: position, repetition, score gaps, and BPDE."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from annotation.results.data.figures import (
    LOSE,
    OUTCOME_COLOURS,
    TIE,
    WIN,
    Plot,
    Sentence,
    colour,
    optional,
    plot,
    share,
    tooltip,
    value_of,
    y_axis,
)
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import Sheet
from annotation.results.sections.methods import ADAPTIVE, is_adaptive
from annotation.results.sections.review import label_agreement
from judging.core.formatting import in_sentence, number_of, percent
from judging.methods.arrays import Booleans, Signs
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.verdicts.position import (
    GapBin,
    conflicts,
    order_labels,
    position_effect,
    repetition_stability,
    win_rate_by_position,
)
from judging.methods.verdicts.position import conflict_by_gap as by_gap
from judging.runs.models import Form, Run
from judging.runs.verdicts.judge_figures import bpde_bars, figures_of_labels


@dataclass(frozen=True)
class BpdeBar:
    """Examples with a BPDE above `low`, at most `high`; the first bar is 0 alone."""

    low: float
    high: float
    selected: int
    others: int


def distribution(sheet: Sheet) -> list[BpdeBar]:
    """Return the bars of the BPDE histogram, as on the run's page; none without a BPDE."""
    there = ~np.isnan(sheet.bpde)
    if not there.any():
        return []
    # Each example counts once here. The run's page has the database count equal values.
    bars = bpde_bars(sheet.bpde[there], np.ones(int(there.sum())), sheet.selected[there])
    return [BpdeBar(bar.low, bar.high, bar.selected, bar.n - bar.selected) for bar in bars]


ONE_ORDER = Undefined("this run asked in one order only")
NO_REPETITION = Undefined(
    "the samples of one order have different option IDs, so no prompt is repeated"
)
# Limits of the bins of |CS1 - CS2|, by what the scores can be.
EDGES: dict[str, tuple[float, ...]] = {
    Form.SCORE: (0, 1, 2, 3, 4, 5, 9),
    Form.CRITERIA: (0, 1, 2, 3, 4, 5, 9),
    Form.LIKERT: (0, 1, 2, 3, 4, 5, 6),
}
SHARE_EDGES = (0, 0.2, 0.4, 0.6, 0.8, 1)


@dataclass(frozen=True)
class Position:
    """first, second: where response 1 was shown. The rates compare the two orders, the effect and
    the stability single samples."""

    win_rate_first: Figure
    win_rate_second: Figure
    conflict_rate: Figure
    strict_conflict_rate: Figure
    first_position_rate: Figure
    position_effect: Figure
    repetition_stability: Figure


@dataclass(frozen=True)
class TwoOrders(Position):
    """first_position_p: of a run that asked in both orders; None if no verdict shows a side."""

    first_position_p: float | None


@dataclass(frozen=True, kw_only=True)
class OrderAccuracy:
    """How often one order alone is right. `accuracy_over_all` counts a missing label as wrong.

    labels: how many examples this order labels win, tie and lose.
    """

    accuracy: Figure
    accuracy_over_all: Figure | None = optional()
    labels: dict[str, int] | None = optional()


@dataclass(frozen=True)
class Orders:
    """original: response 1 shown first. consistency: how often both orders say the same."""

    original: OrderAccuracy
    swapped: OrderAccuracy
    consistency: Figure


def two_orders(samples: SampleArrays | Undefined) -> SampleArrays | Undefined:
    if isinstance(samples, SampleArrays) and samples.orders < 2:
        return ONE_ORDER
    return samples


def position(sheet: Sheet, samples: SampleArrays | Undefined, run: Run) -> Position:
    samples = two_orders(samples)
    if isinstance(samples, Undefined):
        return Position(*[samples] * 7)
    labels, there = order_labels(samples.difference, samples.valid, samples.band)
    first, second = win_rate_by_position(labels, there, sheet.question)
    figures = figures_of_labels(run.orders, labels, there, sheet.question)
    outcomes = (samples.signs, samples.valid, sheet.question)
    # If the samples of one order bear different option IDs, none of them repeats another.
    repeats = len(run.counted_parts) <= len(run.orders)
    return TwoOrders(
        win_rate_first=first,
        win_rate_second=second,
        conflict_rate=figures.conflicts.conflict_rate,
        strict_conflict_rate=figures.conflicts.strict_conflict_rate,
        first_position_rate=figures.first.rate,
        position_effect=position_effect(*outcomes) if repeats else NO_REPETITION,
        repetition_stability=repetition_stability(*outcomes) if repeats else NO_REPETITION,
        first_position_p=figures.first.p,
    )


def orders(sheet: Sheet, samples: SampleArrays | Undefined, rng: np.random.Generator) -> Orders:
    """Accuracy of each order's own label, and how often both say the same."""
    samples = two_orders(samples)
    if isinstance(samples, Undefined):
        # The reason takes the place of each figure, so that a page shows why there is none.
        alone = OrderAccuracy(accuracy=samples)
        return Orders(alone, alone, samples)
    labels, there = order_labels(samples.difference, samples.valid, samples.band)
    return Orders(
        _order(sheet, labels[:, 0], there[:, 0], rng),
        _order(sheet, labels[:, 1], there[:, 1], rng),
        conflicts(labels, there, sheet.question).consistency,
    )


def _order(sheet: Sheet, labels: Signs, there: Booleans, rng: np.random.Generator) -> OrderAccuracy:
    agreement = label_agreement(sheet.comparison(labels, there), rng)
    return OrderAccuracy(
        accuracy=agreement.accuracy,
        accuracy_over_all=agreement.accuracy_over_all,
        labels={
            name: int((labels[there] == sign).sum())
            for name, sign in ((WIN, 1), (TIE, 0), (LOSE, -1))
        },
    )


def conflict_by_gap(samples: SampleArrays | Undefined, run: Run) -> list[GapBin]:
    """Return each bin: `same_samples` as in the paper, `split_samples` without its artefact."""
    samples = ADAPTIVE if is_adaptive(run) else two_orders(samples)
    edges = SHARE_EDGES if run.rule else EDGES.get(run.form, SHARE_EDGES)
    if isinstance(samples, Undefined):
        return [GapBin(low, high, samples, samples) for low, high in pairwise(edges)]
    largest = float(np.abs(samples.difference).max(initial=0)) / samples.scale
    # The last bin takes in whatever is larger, so that no example is left out.
    limits = (*edges[:-1], max(edges[-1], largest))
    return by_gap(samples.difference, samples.valid, limits, samples.scale, samples.band)


EVEN = 0.5


def answer(figures: Position) -> Sentence:
    """Say how often swapping changes the verdict, and which position that favours."""
    conflict, first = figures.conflict_rate, figures.first_position_rate
    if isinstance(conflict, Undefined):
        return Sentence(f"The judge's position bias isn't known: {conflict.reason}.", "position")
    lean = ""
    if (
        isinstance(first, Estimate)
        and first.low is not None
        and not first.low <= EVEN <= first.high
    ):
        # The interval leaves out one half, so one of the two positions won more often than the
        # other.
        favoured = ("first", first.value) if first.value > EVEN else ("second", 1 - first.value)
        lean = (
            f" Position bias: on {number_of(first.n, 'pair')}, the same position won in both "
            f"orders, and in {percent(favoured[1])} of these it was the {favoured[0]}."
        )
    return Sentence(
        f"Swapping the two responses changes the verdict on {share(conflict, 'pairs')}.{lean}",
        "position",
        warns=bool(lean),
    )


def swap_plot(by_order: Orders, names: tuple[str, str] | None) -> Plot:
    """Draw what the judge says in each order. Without a bias, both bars are alike."""
    # An axis has little room, and what comes after the name has to be read too.
    first, second = (in_sentence(name, 20) for name in names or ("response 1", "response 2"))
    words = {WIN: f"{first} wins", TIE: "tie", LOSE: f"{second} wins"}
    orders = {f"{first} shown first": by_order.original, f"{second} shown first": by_order.swapped}
    rows = [
        {
            "order": order,
            "verdict": words[name],
            "label": name,
            "examples": n,
            "share": n / max(sum(labels.values()), 1),
        }
        for order, labels in ((name, figures.labels or {}) for name, figures in orders.items())
        for name, n in labels.items()
    ]
    verdict = colour("verdict", list(words.values()))
    # An outcome has its colour on all pages, whatever it is called here.
    verdict["scale"]["range"] = [OUTCOME_COLOURS[name] for name in words]
    bars = {
        "mark": {"type": "bar", "height": {"band": 0.6}},
        "encoding": {
            "y": {"field": "order", "type": "nominal", "sort": None, "title": None}
            | {"axis": {"labelLimit": 180}},
            "x": {"field": "examples", "type": "quantitative", "stack": "normalize"}
            | {"title": "share of the verdicts", "axis": {"format": "%", "tickCount": 5}},
            "color": verdict,
            "order": {"field": "place", "type": "quantitative"},
            "tooltip": tooltip("order", "verdict", "examples", "share"),
        },
        # No name of a model goes into an expression.
        "transform": [{"calculate": f"indexof({[WIN, TIE, LOSE]}, datum.label)", "as": "place"}],
    }
    caption = "If the position didn't matter, both bars would be the same."
    return plot("swap", "Verdicts in each order", caption, rows, bars)


def distribution_plot(histogram: list[BpdeBar]) -> Plot:
    rows = [
        {
            "bpde": f"{bar.low:.1f}–{bar.high:.1f}" if bar.high else "0",
            "people": words,
            "examples": examples,
        }
        for bar in histogram
        for words, examples in (("selected", bar.selected), ("not selected", bar.others))
    ]
    bars = {
        "mark": "bar",
        "encoding": {
            "x": {"field": "bpde", "type": "ordinal", "sort": None, "title": "BPDE"},
            "y": {"field": "examples", "type": "quantitative", "title": "examples"},
            "color": colour("people", ["selected", "not selected"]),
            "tooltip": tooltip("bpde", "people", "examples"),
        },
    }
    return plot(
        "bpde", "BPDE of selected and other examples",
        "In the first bar (BPDE 0), all samples agree.", rows, bars,
    )  # fmt: skip


def score_gap_plot(gap_bins: list[GapBin]) -> Plot:
    names = {"same_samples": "same samples", "split_samples": "separate samples"}
    bins = {f"{bin_.low:g}–{bin_.high:g}": bin_ for bin_ in gap_bins}
    rows = [
        {"gap": gap, "measured": words} | value_of(getattr(bin_, name))
        for name, words in names.items()
        for gap, bin_ in bins.items()
        if not isinstance(getattr(bin_, name), Undefined)
    ]
    line = {
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "gap", "type": "ordinal", "sort": list(bins), "title": "score gap"},
            "y": y_axis("value", "conflict rate"),
            "color": colour("measured", list(names.values())),
            "tooltip": tooltip("gap", "measured", "value", "low", "high"),
        },
    }
    caption = "With the same samples, part of the drop is an artefact; with separate ones, none is."
    return plot("gap", "Conflict by score gap", caption, rows, line)
