"""The same figures within each category."""

import numpy as np

from annotation.results.figures import Json, undefined
from annotation.results.rightness import agreement
from annotation.results.samples_array import Samples
from annotation.results.sheet import Sheet
from annotation.results.win_rates import of_labels
from judging.methods.arrays import Booleans
from judging.methods.comparison import Comparison
from judging.methods.estimates import Undefined
from judging.methods.position import conflicts, order_labels

# The rest has too few examples each to say anything.
MOST = 50


def by_category(sheet: Sheet, samples: Samples | Undefined, rng: np.random.Generator) -> list[Json]:
    """The largest categories first; examples without one are `(none)`."""
    names, code, sizes = np.unique(sheet.category, return_inverse=True, return_counts=True)
    compared = sheet.comparison(sheet.judge, sheet.judged)
    largest = np.argsort(-sizes, kind="stable")[:MOST]
    return [
        {"category": str(names[c]) or "(none)", "n": int(sizes[c])}
        | _category(sheet, samples, compared, code == c, rng)
        for c in largest
    ]


def _category(
    sheet: Sheet,
    samples: Samples | Undefined,
    compared: Comparison | Undefined,
    inside: Booleans,
    rng: np.random.Generator,
) -> Json:
    part = compared if isinstance(compared, Undefined) else _within(sheet, compared, inside)
    found = agreement(part, rng)
    return {
        "accuracy": found.accuracy.as_json(),
        "kappa": found.kappa.as_json(),
        "conflict_rate": _conflict_rate(sheet, samples, inside),
        "judge_win_rate": of_labels(sheet, sheet.judge, inside & sheet.judged).as_json(),
    }


def _within(sheet: Sheet, compared: Comparison, inside: Booleans) -> Comparison | Undefined:
    known = sheet.known
    rows = inside[known.rows] if not isinstance(known, Undefined) else np.zeros(0, bool)
    if not rows.any():
        return Undefined("no known label in this category")
    return compared.at(rows)


def _conflict_rate(sheet: Sheet, samples: Samples | Undefined, inside: Booleans) -> Json:
    if isinstance(samples, Undefined):
        return samples.as_json()
    if samples.orders < 2:
        return undefined("this run asked in one order only")
    labels, there = order_labels(samples.difference[inside], samples.valid[inside])
    return conflicts(labels, there, sheet.question[inside]).conflict_rate.as_json()
