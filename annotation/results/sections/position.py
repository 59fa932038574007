"""How BPDE is distributed over the judged examples, and which of them people were asked about."""

from itertools import pairwise
from typing import Any

import numpy as np

from annotation.results.data.figures import Json, lacking
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import Sheet
from annotation.results.sections.methods import ADAPTIVE, is_adaptive
from annotation.results.sections.review import label_agreement
from judging.methods.arrays import Booleans, Signs
from judging.methods.intervals.estimates import Undefined
from judging.methods.verdicts.position import conflict_by_gap as by_gap
from judging.methods.verdicts.position import (
    conflicts,
    first_position,
    order_labels,
    position_effect,
    repetition_stability,
    win_rate_by_position,
)
from judging.runs.models import Form, Run

STEP, BINS = 0.1, 11


def distribution(sheet: Sheet) -> list[Json]:
    """Bars of a tenth each up to ln 3, the largest entropy of three outcomes."""
    there = ~np.isnan(sheet.bpde)
    edges = np.arange(BINS + 1) * STEP
    bars = []
    place = np.clip((sheet.bpde[there] / STEP).astype(int), 0, BINS - 1)
    selected = np.bincount(place[sheet.selected[there]], minlength=BINS)
    total = np.bincount(place, minlength=BINS)
    for n in range(BINS if there.any() else 0):
        low, high = round(float(edges[n]), 1), round(float(edges[n + 1]), 1)
        counts = {"selected": int(selected[n]), "others": int(total[n] - selected[n])}
        bars.append({"low": low, "high": high} | counts)
    return bars


ONE_ORDER = Undefined("this run asked in one order only")
NO_REPETITION = Undefined(
    "the samples of one order bear different option IDs, so they repeat nothing"
)
NAMES = (
    "win_rate_first",
    "win_rate_second",
    "conflict_rate",
    "strict_conflict_rate",
    "first_position_rate",
    "position_effect",
    "repetition_stability",
)
# Limits of the bins of |CS1 - CS2|, by what the scores can be.
EDGES: dict[str, tuple[float, ...]] = {
    Form.SCORE: (0, 1, 2, 3, 4, 5, 9),
    Form.LIKERT: (0, 1, 2, 3, 4, 5, 6),
}
SHARE_EDGES = (0, 0.2, 0.4, 0.6, 0.8, 1)


def two_orders(samples: SampleArrays | Undefined) -> SampleArrays | Undefined:
    if isinstance(samples, SampleArrays) and samples.orders < 2:
        return ONE_ORDER
    return samples


def position(
    sheet: Sheet, samples: SampleArrays | Undefined, rng: np.random.Generator, run: Run
) -> Json:
    samples = two_orders(samples)
    if isinstance(samples, Undefined):
        return lacking(samples, *NAMES)
    labels, there = order_labels(samples.difference, samples.valid)
    first, second = win_rate_by_position(labels, there, rng, sheet.question)
    found = conflicts(labels, there, sheet.question)
    preferred = first_position(labels, there, sheet.question)
    given = (samples.signs, samples.valid, rng, sheet.question)
    return {
        "win_rate_first": first.as_json(),
        "win_rate_second": second.as_json(),
        "conflict_rate": found.conflict_rate.as_json(),
        "strict_conflict_rate": found.strict_conflict_rate.as_json(),
        "first_position_rate": preferred.rate.as_json(),
        "first_position_p": preferred.p,
        **repeated(run, given),
    }


def repeated(run: Run, given: tuple[Any, ...]) -> Json:
    """What compares the samples of one order with each other."""
    if len(run.counted_parts) > len(run.orders):
        return lacking(NO_REPETITION, "position_effect", "repetition_stability")
    return {
        "position_effect": position_effect(*given).as_json(),
        "repetition_stability": repetition_stability(*given).as_json(),
    }


def orders(sheet: Sheet, samples: SampleArrays | Undefined, rng: np.random.Generator) -> Json:
    """Accuracy of each order's own label, and how often both say the same."""
    samples = two_orders(samples)
    if isinstance(samples, Undefined):
        reason = samples.as_json()
        alone = {"accuracy": reason}
        return {"original": alone, "swapped": alone, "consistency": reason}
    labels, there = order_labels(samples.difference, samples.valid)
    return {
        "original": _order(sheet, labels[:, 0], there[:, 0], rng),
        "swapped": _order(sheet, labels[:, 1], there[:, 1], rng),
        "consistency": conflicts(labels, there, sheet.question).consistency.as_json(),
    }


def _order(sheet: Sheet, labels: Signs, there: Booleans, rng: np.random.Generator) -> Json:
    found = label_agreement(sheet.comparison(labels, there), rng)
    return {
        "accuracy": found.accuracy.as_json(),
        "accuracy_over_all": found.over_all.as_json(),
    }


def conflict_by_gap(samples: SampleArrays | Undefined, run: Run) -> list[Json]:
    """One entry a bin: `same_samples` as in the paper, `split_samples` without its artefact."""
    samples = ADAPTIVE if is_adaptive(run) else two_orders(samples)
    edges = EDGES.get(run.form, SHARE_EDGES)
    if isinstance(samples, Undefined):
        return [
            {"low": low, "high": high} | lacking(samples, "same_samples", "split_samples")
            for low, high in pairwise(edges)
        ]
    largest = float(np.abs(samples.difference).max(initial=0)) / samples.scale
    limits = (*edges[:-1], max(edges[-1], largest))
    return [
        {
            "low": one.low,
            "high": one.high,
            "same_samples": one.same_samples.as_json(),
            "split_samples": one.split_samples.as_json(),
        }
        for one in by_gap(samples.difference, samples.valid, limits, samples.scale)
    ]
