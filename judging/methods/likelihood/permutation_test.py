"""The two-sided randomised pairwise permutation test of a rank correlation, before and after.

Under the null hypothesis it doesn't matter which of an item's two scores came before.  So each
item's scores change places by a coin, both correlations are computed again, and p is the share of
such draws in which they differ by as much as they did (Noreen 1989).  The raw scores change
places and are normalised again each time, since a swap can move the range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from judging.methods.arrays import Booleans, Floats
from judging.methods.estimates import Undefined
from judging.methods.likelihood.scores import of_mean_0_and_range_1
from judging.methods.likelihood.swaps import Swaps, correlations, correlations_by_sorting

REPEATS = 100_000
# Coins drawn at once.
CHUNK = 40_000_000
SAME = 1e-9
ALIKE = "all items are alike in one of the two, so there is no rank correlation"
TOO_FEW = "fewer than 2 items have both scores"


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """difference: after less before.  exact: all 2^N swaps were gone through."""

    before: float
    after: float
    p: float
    n: int
    repeats: int
    exact: bool

    @property
    def difference(self) -> float:
        return self.after - self.before

    def as_json(self) -> dict[str, object]:
        return {
            "before": self.before,
            "after": self.after,
            "difference": self.difference,
            "p": self.p,
            "n": self.n,
            "repeats": self.repeats,
            "exact": self.exact,
        }


def bias_test(
    log_likelihood: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    human: ArrayLike,
    rng: np.random.Generator,
    *,
    repeats: int = REPEATS,
) -> PermutationTest | Undefined:
    """Of BiasScore; all (N,), NaN where missing."""
    ls, first, second, people = _complete(log_likelihood, before, after, human)
    if len(ls) > 1 and np.ptp(people) == 0:
        return Undefined(ALIKE)
    return _test(Swaps(ls, first, second, of_mean_0_and_range_1(people)), rng, repeats)


def performance_test(
    before: ArrayLike,
    after: ArrayLike,
    human: ArrayLike,
    rng: np.random.Generator,
    *,
    repeats: int = REPEATS,
) -> PermutationTest | Undefined:
    """Of the correlation between the judge's and the people's scores."""
    first, second, people = _complete(before, after, human)
    return _test(Swaps(people, first, second, None), rng, repeats)


def _complete(*columns: ArrayLike) -> list[Floats]:
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    rows = np.isfinite(np.sum(arrays, axis=0))
    return [array[rows] for array in arrays]


def _test(problem: Swaps, rng: np.random.Generator, repeats: int) -> PermutationTest | Undefined:
    n = len(problem.target)
    if n < 2:
        return Undefined(TOO_FEW)
    unswapped = np.zeros((1, n), dtype=bool)
    before, after = (
        float(correlations_by_sorting(problem, side)[0]) for side in (unswapped, ~unswapped)
    )
    if not np.isfinite(before + after):
        return Undefined(ALIKE)
    exact = n < 63 and 2**n <= repeats
    total = 2**n if exact else repeats
    # The vectors are short: handing them to several threads costs more than it saves.
    with threadpool_limits(limits=1, user_api="blas"):
        extreme = _as_extreme(problem, total, None if exact else rng)
    p = extreme / total if exact else (extreme + 1) / (total + 1)
    return PermutationTest(before, after, p, n, total, exact)


def _as_extreme(problem: Swaps, total: int, rng: np.random.Generator | None) -> int:
    """In how many draws the two differ by as much as they did; all 2^N draws without an rng."""
    n = len(problem.target)
    correlate = correlations if rng else correlations_by_sorting

    def difference(swapped: Booleans) -> Floats:
        return np.asarray(np.abs(correlate(problem, swapped) - correlate(problem, ~swapped)))

    # Both sides of the comparison round in the same way.
    least = float(difference(np.zeros((1, n), dtype=bool))[0]) - SAME
    step, extreme = max(1, CHUNK // n), 0
    for start in range(0, total, step):
        many = min(step, total - start)
        swapped = _random_swaps(n, many, rng) if rng else _all_swaps(n, start, many)
        # A draw that leaves one side without any order counts as if it were as extreme.
        extreme += many - int((difference(swapped) < least).sum())
    return extreme


def _all_swaps(n: int, start: int, many: int) -> Booleans:
    codes = np.arange(start, start + many)[:, None]
    return np.asarray((codes >> np.arange(n)) & 1, dtype=bool)


def _random_swaps(n: int, many: int, rng: np.random.Generator) -> Booleans:
    """(many, n) fair coins, a bit each."""
    octets = rng.integers(0, 256, (many, -(-n // 8)), dtype=np.uint8)
    return np.unpackbits(octets, axis=1, count=n).view(bool)
