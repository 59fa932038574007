"""Spearman's correlation after each of many swaps of paired scores, fast.

For a given range of the scores the order of all 2N candidate values is fixed, so a draw only picks
N of them, and their ranks are counts along that order: no draw is sorted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.intervals.bootstrap import ratio
from judging.methods.intervals.estimates import Undefined
from judging.methods.likelihood.bias import average_ranks, of_mean_0_and_range_1, with_total

Counts = NDArray[np.integer[Any]]

# Values looked at once, so that they stay in the processor's cache.
BLOCK = 1_000_000
REPEATS = 100_000
# Coins drawn at once.
CHUNK = 40_000_000
SAME = 1e-9
ALIKE = "one of the two is the same for all items, so there is no rank correlation"
TOO_FEW = "fewer than 2 items have both scores"


@dataclass(frozen=True, slots=True, eq=False)
class Swaps:
    """target: (N,) what is correlated with.

    human: (N,) of mean 0 and range 1, taken off the scores once these are so; None where the
        scores count as they are."""

    target: Floats
    before: Floats
    after: Floats
    human: Floats | None


def correlations(problem: Swaps, swapped: Booleans) -> Floats:
    """Return Spearman's correlation after each draw of swaps.

    Args: problem, swapped: N items, and (R, N) bool, which of them take the later score.
    Returns: (R,) float64, NaN if all picked scores are equal."""
    if problem.human is None:
        return _of_one_scale(problem.target, problem.before, problem.after, swapped)
    spread = _spreads(problem, swapped)
    order = np.argsort(spread, kind="stable")
    swapped = swapped[order]
    coefficients = np.empty(len(spread))
    values, starts = np.unique(spread[order], return_index=True)
    for value, start, end in zip(values, starts, [*starts[1:], len(spread)], strict=True):
        scale = value if value else 1.0
        coefficients[order[start:end]] = _of_one_scale(
            problem.target,
            problem.before / scale - problem.human,
            problem.after / scale - problem.human,
            swapped[start:end],
        )
    return coefficients


def correlations_by_sorting(problem: Swaps, swapped: Booleans) -> Floats:
    """Return the same as `correlations` by the definition, sorting each draw: for few items.

    Args: problem, swapped: as in `correlations`.
    Returns: as `correlations`."""
    chosen = np.where(swapped, problem.after, problem.before)
    if problem.human is not None:
        chosen = of_mean_0_and_range_1(chosen) - problem.human
    middle = (len(problem.target) + 1) / 2
    ranks = np.asarray(scipy.stats.rankdata(chosen, axis=1), dtype=np.float64) - middle
    target = average_ranks(problem.target) - middle
    return ratio(ranks @ target, np.sqrt((ranks**2).sum(axis=1) * (target @ target)))


def _spreads(problem: Swaps, swapped: Booleans) -> Floats:
    """(R,) max - min of what each draw picks."""
    step = max(1, BLOCK // swapped.shape[1])
    blocks = [swapped[start : start + step] for start in range(0, len(swapped), step)]
    return np.concatenate(
        [np.ptp(np.where(block, problem.after, problem.before), axis=1) for block in blocks]
    )


def _of_one_scale(target: Floats, first: Floats, second: Floats, swapped: Booleans) -> Floats:
    n = len(target)
    values = np.concatenate((first, second))
    order = np.argsort(values, kind="stable")
    item, later = order % n, (order >= n)[:, None]
    ties = _Ties.of(values[order], item)
    ranks = average_ranks(target)
    centred = ranks - ranks.mean()
    size = float(np.sqrt(centred @ centred))
    if not size:
        return np.full(len(swapped), np.nan)
    step = max(1, BLOCK // (2 * n))
    blocks = []
    for start in range(0, len(swapped), step):
        block = np.ascontiguousarray(swapped[start : start + step].T)
        picked = np.take(block, item, axis=0) == later
        blocks.append(_covariances(picked, centred[item], ties, n) / size)
    return np.concatenate(blocks)


@dataclass(frozen=True, slots=True, eq=False)
class _Ties:
    """Runs of equal values of different items: first and last place of each, and all places."""

    first: Codes
    last: Codes
    places: Codes
    run: Codes

    @classmethod
    def of(cls, ordered: Floats, item: Codes) -> _Ties:
        first = np.flatnonzero(np.diff(ordered, prepend=np.nan) != 0)
        last = np.append(first[1:], len(ordered)) - 1
        # The two values of one item never meet in a draw.
        real = (last - first > 1) | ((last - first == 1) & (item[first] != item[last]))
        first, last = first[real], last[real]
        length = last - first + 1
        run = np.repeat(np.arange(len(first)), length)
        places = np.arange(len(run)) + np.repeat(first - np.cumsum(length) + length, length)
        return cls(first, last, places, run)


def _covariances(picked: Booleans, weight: Floats, ties: _Ties, n: int) -> Floats:
    """(R,) sum of weight x rank over the picked of (2N, R), by the root of the ranks' spread."""
    count = _running_counts(picked)
    total = weight @ (count * picked).astype(np.float64)
    spread = np.full(picked.shape[1], float(n**3 - n))
    if len(ties.first):
        # Equal values share the mean of the ranks that they would have one after another.
        below = count[ties.first] - picked[ties.first]
        tied = (count[ties.last] - below).astype(np.float64)
        shared = below + (tied + 1) / 2
        moved = (shared[ties.run] - count[ties.places]) * picked[ties.places]
        total = total + weight[ties.places] @ moved
        spread -= (tied**3 - tied).sum(axis=0)
    return ratio(total, np.sqrt(spread / 12))


def _running_counts(picked: Booleans) -> Counts:
    """(2N, R) how many of the values up to each are picked; a row at a time, which is fastest."""
    count: Counts = picked.astype(np.int16 if len(picked) < 2**15 else np.int32)
    for row in range(1, len(count)):
        np.add(count[row], count[row - 1], out=count[row])
    return count


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
            "before": self.before, "after": self.after, "difference": self.difference, "p": self.p,
            "n": self.n, "repeats": self.repeats, "exact": self.exact,
        }  # fmt: skip


def bias_test(
    log_likelihood: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
    human: ArrayLike,
    rng: np.random.Generator,
    *,
    repeats: int = REPEATS,
) -> PermutationTest | Undefined:
    """Test whether BiasScore changed.

    Args:
        log_likelihood: (N,) LS, NaN if missing, as in the other arrays.
        before, after, human: (N,) the judge's scores then and now, and people's.
        rng, repeats: source and number of the draws; all 2^N swaps if there are no more.
    Returns: the test, or Undefined if a correlation is."""
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
    """Test whether the correlation between the judge's and people's scores changed.

    Args: before, after, human, rng, repeats: as in `bias_test`.
    Returns: as `bias_test`."""
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


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """bias: BiasScore; performance: Spearman's correlation with people's scores."""

    bias: PermutationTest | Undefined
    performance: PermutationTest | Undefined

    @property
    def nearer_to_zero(self) -> bool:
        return isinstance(self.bias, PermutationTest) and abs(self.bias.after) < abs(
            self.bias.before
        )

    def as_json(self) -> dict[str, object]:
        return {
            "bias": self.bias.as_json(),
            "performance": self.performance.as_json(),
            "nearer_to_zero": self.nearer_to_zero,
        }


def before_after(
    log_likelihood: ArrayLike,
    before: Mapping[str, ArrayLike],
    after: Mapping[str, ArrayLike],
    human: Mapping[str, ArrayLike],
    rng: np.random.Generator,
    *,
    repeats: int = REPEATS,
) -> dict[str, BeforeAfter]:
    """Test bias and performance for each criterion that all three have, and for `total`.

    Args:
        log_likelihood: (N,) of the test part; an item counts if it has this and all three scores.
        before, after, human: by criterion (N,) scores.
        rng, repeats: as in `bias_test`.
    Returns: by criterion."""
    shared = [name for name in before if name in after and name in human]
    first = with_total({name: (before[name], human[name]) for name in shared})
    second = with_total({name: (after[name], human[name]) for name in shared})
    likelihood = np.asarray(log_likelihood, dtype=np.float64)
    compared = {}
    for name, (earlier, people) in first.items():
        later = second[name][0]
        # The two tests are about the same items.
        gold = np.where(np.isfinite(likelihood), np.asarray(people, dtype=np.float64), np.nan)
        compared[name] = BeforeAfter(
            bias_test(likelihood, earlier, later, gold, rng, repeats=repeats),
            performance_test(earlier, later, gold, rng, repeats=repeats),
        )
    return compared
