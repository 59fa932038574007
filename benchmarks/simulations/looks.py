"""How often a gate passes wrongly, if somebody looks after every batch of labels, ten times.

The truth is just below the bound, where a wrong pass is most likely, and the first pass ends the
looking. A gate without a plan looks at the usual interval of 95 % each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.simulations.certificates import MOST_FALSE_OF_10_000
from judging.methods.arrays import Floats
from judging.methods.intervals.bootstrap import share
from judging.methods.intervals.estimates import Figure, design_total
from judging.methods.intervals.looks import Ruling, Spending, decide
from judging.methods.intervals.win_rate import AuditedLabels, win_rate

LOOKS = 10
N = 1000
SPENDING = Spending()
# From the labels of the whole set, in a random order, and how many are known, to the figure.
Measure = Callable[[Floats, int, float], Figure]


def by_audit(right: Floats, known: int, confidence: float) -> Figure:
    """Accuracy in a project of N examples, from an audit without replacement."""
    found = design_total(np.zeros(0), right[:known], len(right), confidence)
    return found.scaled(1 / len(right)) if found else found


def by_all(right: Floats, known: int, confidence: float) -> Figure:
    """Accuracy where all labels so far are known: Wilson's limits."""
    return share(right[:known], confidence=confidence)


def by_exact(right: Floats, known: int, confidence: float) -> Figure:
    """The same with Clopper and Pearson's limits, as where a tie earns one half."""
    return share(right[:known], exact=True, confidence=confidence)


def by_win_rate(wins: Floats, known: int, confidence: float) -> Figure:
    """People's win rate, with a judge who knows nothing."""
    judge = np.full(len(wins), 0.5)
    nothing = np.zeros(0)
    return win_rate(
        AuditedLabels(nothing, judge, wins[:known], judge[:known]), confidence=confidence
    )


MEASURES: dict[str, Measure] = {
    "accuracy by an audit": by_audit,
    "accuracy, all known": by_all,
    "accuracy, all known, with ties": by_exact,
    "win rate": by_win_rate,
}


@dataclass(frozen=True, slots=True)
class Case:
    """step: labels between two looks."""

    measure: str
    bound: float
    step: int

    def __str__(self) -> str:
        return f"{self.measure}>={self.bound:g}, {self.step} more labels at each look"


def cases() -> list[Case]:
    return [Case(*each) for each in product(MEASURES, (0.5, 0.85, 0.95), (10, 40))]


@dataclass(frozen=True, slots=True)
class FalsePasses:
    """planned, unplanned: wrong passes in ten looks, with the stored plan and at 95 % each."""

    case: str
    repeats: int
    planned: int
    unplanned: int

    def passes(self) -> bool:
        return self.planned <= MOST_FALSE_OF_10_000 * self.repeats / 10_000


def simulate(case: Case, repeats: int, seed: int) -> FalsePasses:
    """Look ten times at each of so many projects whose truth is just below the bound."""
    rng = np.random.default_rng([seed, int(100 * case.bound), case.step, len(case.measure)])
    measure = MEASURES[case.measure]
    planned = unplanned = 0
    for _ in range(repeats):
        labels = _labels(case, rng)
        planned += any(_verdicts(case, measure, labels, SPENDING.confidence))
        unplanned += any(_verdicts(case, measure, labels, lambda look: 0.95))
    return FalsePasses(str(case), repeats, planned, unplanned)


def _labels(case: Case, rng: np.random.Generator) -> Floats:
    """Of this project, so many that the share is just below the bound; or of all like these."""
    if MEASURES[case.measure] is by_audit:
        right = np.zeros(N)
        right[: int(np.ceil(case.bound * N)) - 1] = 1
        return rng.permutation(right)
    return (rng.random(N) < case.bound - 1e-9).astype(np.float64)


def _verdicts(
    case: Case, measure: Measure, labels: Floats, confidence: Callable[[int], float]
) -> Iterator[bool]:
    for look in range(1, LOOKS + 1):
        found = measure(labels, look * case.step, confidence(look))
        yield decide(found, case.bound, at_least=True) is Ruling.PASS
