"""Spearman's correlation after each of many swaps of paired scores, fast.

For a given range of the scores the order of all 2N candidate values is fixed, so a draw only picks
N of them, and their ranks are counts along that order: no draw is sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.likelihood.rank_correlation import average_ranks
from judging.methods.likelihood.scores import of_mean_0_and_range_1

Counts = NDArray[np.integer[Any]]

# Values looked at once, so that they stay in the processor's cache.
BLOCK = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Swaps:
    """target: (N,) what is correlated with.

    human: (N,) of mean 0 and range 1, taken off the scores once these are so; None where the
        scores count as they are.
    """

    target: Floats
    before: Floats
    after: Floats
    human: Floats | None


def correlations(problem: Swaps, swapped: Booleans) -> Floats:
    """(R,) with the later score where (R, N) `swapped` says so, else with the earlier.

    NaN where all that was picked is equal.
    """
    if problem.human is None:
        return _of_one_scale(problem.target, problem.before, problem.after, swapped)
    spread = _spreads(problem, swapped)
    order = np.argsort(spread, kind="stable")
    swapped = swapped[order]
    found = np.empty(len(spread))
    values, starts = np.unique(spread[order], return_index=True)
    for value, start, end in zip(values, starts, [*starts[1:], len(spread)], strict=True):
        scale = value if value else 1.0
        found[order[start:end]] = _of_one_scale(
            problem.target,
            problem.before / scale - problem.human,
            problem.after / scale - problem.human,
            swapped[start:end],
        )
    return found


def correlations_by_sorting(problem: Swaps, swapped: Booleans) -> Floats:
    """The same by the definition, sorting each draw: for few items."""
    chosen = np.where(swapped, problem.after, problem.before)
    if problem.human is not None:
        chosen = of_mean_0_and_range_1(chosen) - problem.human
    middle = (len(problem.target) + 1) / 2
    ranks = np.asarray(scipy.stats.rankdata(chosen, axis=1), dtype=np.float64) - middle
    target = average_ranks(problem.target) - middle
    spread = (ranks**2).sum(axis=1) * (target @ target)
    undefined = np.full(len(swapped), np.nan)
    return np.asarray(np.divide(ranks @ target, np.sqrt(spread), out=undefined, where=spread > 0))


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
    undefined = np.full(picked.shape[1], np.nan)
    ratio = np.divide(total, np.sqrt(spread / 12), out=undefined, where=spread > 0)
    return np.asarray(ratio)


def _running_counts(picked: Booleans) -> Counts:
    """(2N, R) how many of the values up to each are picked; a row at a time, which is fastest."""
    count: Counts = picked.astype(np.int16 if len(picked) < 2**15 else np.int32)
    for row in range(1, len(count)):
        np.add(count[row], count[row - 1], out=count[row])
    return count
