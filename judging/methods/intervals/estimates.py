"""A number with its interval, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class Undefined:
    """A number that cannot be had, and why."""

    reason: str

    def __bool__(self) -> bool:
        return False

    def as_json(self) -> dict[str, object]:
        return {"value": None, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the limits of its interval where it has one, and the examples it rests on."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None
    note: str = ""

    def as_json(self) -> dict[str, object]:
        figure: dict[str, object] = {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
        }
        return figure | ({"note": self.note} if self.note else {})


Figure = Estimate | Undefined


def figures_as_json(figures: Mapping[str, Figure]) -> dict[str, dict[str, object]]:
    return {name: figure.as_json() for name, figure in figures.items()}


def median(values: ArrayLike, confidence: float = 0.95) -> Figure:
    """The sample median between two order statistics, the binomial interval for it.

    The limits hold for any distribution.  Fewer than six values have none at 95 %: the whole
    range of five holds the median with probability 1 - 2/2^5 only.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    if not n:
        return Undefined("no values")
    below = int(scipy.stats.binom.ppf((1 - confidence) / 2, n, 0.5)) - 1
    while scipy.stats.binom.cdf(below + 1, n, 0.5) <= (1 - confidence) / 2:
        below += 1
    value = float(np.median(ordered))
    if below < 0:
        return Estimate(value, n)
    return Estimate(value, n, float(ordered[below]), float(ordered[n - 1 - below]))
