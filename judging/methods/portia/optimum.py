"""The cuts of greatest cumulative similarity, by dynamic programming over pairs of cuts.

The objective is a sum over the k pairs of parts.  So G_j[a, c], the most that j further parts can
bring when text 1 is cut before sentence a and text 2 before sentence c, is

    G_1[a, c] = s(a..n1, c..n2)
    G_j[a, c] = max over b > a, d > c of s(a..b, c..d) + G_j-1[b, d]

which takes O(n1^2 n2^2) a layer, where trying every choice takes C(n1-1, k-1) C(n2-1, k-1) sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from judging.methods.portia.similarity import Similarities, segment_bounds

Values = NDArray[np.float64]
Indices = NDArray[np.intp]

# Sums of a few fractions in floats: equal ones differ by less, others by more.
TOLERANCE = 1e-12
# Similarities held at once: a few megabytes stay in the processor's cache.
BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class BestCuts:
    """Each text is cut before these sentences, counted from 0."""

    cuts_1: tuple[int, ...]
    cuts_2: tuple[int, ...]
    similarity: float


def best_cuts(pairs: Similarities, k: int) -> BestCuts | None:
    """The first maximum in lexicographic order of (cuts_1, cuts_2); None where all is 0.

    Both texts have k sentences or more, and k is at least 2.
    """
    gains = _gains(pairs, k)
    cuts_1, best = _first_cuts_1(pairs, gains)
    if best <= 0:
        return None
    return BestCuts(cuts_1, _first_cuts_2(pairs, cuts_1, best), best)


@lru_cache(maxsize=64)
def _order(n: int) -> tuple[Indices, Indices, Indices]:
    """Where each start's segments begin, segments sorted by stop, where each stop's begin."""
    starts, stops = segment_bounds(n)
    by_stop = np.argsort(stops, kind="stable")
    return (
        np.searchsorted(starts, np.arange(n)),
        by_stop,
        np.searchsorted(stops[by_stop], np.arange(1, n + 1)),
    )


def _gains(pairs: Similarities, k: int) -> list[Values]:
    """G_1 to G_k-1, each (n1 + 1, n2 + 1), -inf where a part to come would be empty."""
    gains = [np.full((pairs.n_1 + 1, pairs.n_2 + 1), -np.inf) for _ in range(1, k)]
    first_2, by_stop_2, first_by_stop_2 = _order(pairs.n_2)
    _, by_stop_1, first_by_stop_1 = _order(pairs.n_1)
    ends = pairs.rows(by_stop_1[first_by_stop_1[-1] :])
    gains[0][:-1, :-1] = ends[:, by_stop_2[first_by_stop_2[-1] :]]
    if k > 2:
        stops_2 = segment_bounds(pairs.n_2)[1]
        for rows, starts, by_start, stops in _blocks(pairs.n_1, len(stops_2)):
            own = pairs.rows(rows)
            for shorter, longer in pairwise(gains):
                value = shorter[stops].take(stops_2, axis=1)
                value += own
                # A long text comes start by start, and there max takes a fifth of the time.
                best = (
                    value.max(axis=0, keepdims=True)
                    if len(by_start) == 1
                    else np.maximum.reduceat(value, by_start, axis=0)
                )
                longer[starts, :-1] = np.maximum.reduceat(best, first_2, axis=1)
    return gains


def _blocks(n: int, n_columns: int) -> Iterator[tuple[slice, slice, Indices, Indices]]:
    """Rows of segments, their starts, where each start's rows begin, and the rows' stops.

    From late starts to early ones, since G_j[a] needs G_j-1[b] for each b > a, and down to 1.
    """
    first = _order(n)[0]
    stops = segment_bounds(n)[1]
    high, end = n, len(stops)
    while high > 1:
        low = high - 1
        while low > 1 and (end - int(first[low - 1])) * n_columns <= BLOCK:
            low -= 1
        begin = int(first[low])
        yield slice(begin, end), slice(low, high), first[low:high] - begin, stops[begin:end]
        high, end = low, begin


def _first_cuts_1(pairs: Similarities, gains: list[Values]) -> tuple[tuple[int, ...], float]:
    """The first cuts of text 1 with which the optimum is reached, whatever the cuts of text 2.

    Step j knows what parts 1 to j bring at most, for each cut of text 2, and G the rest.
    """
    first_1 = _order(pairs.n_1)[0]
    starts_2 = segment_bounds(pairs.n_2)[0]
    _, by_stop, first_by_stop = _order(pairs.n_2)
    so_far = np.full(pairs.n_2 + 1, -np.inf)
    so_far[0] = 0.0
    best = -np.inf
    cuts = [0]
    for gain in reversed(gains):
        begin, start = int(first_1[cuts[-1]]), cuts[-1]
        # All segments from the last cut on, but for the one that takes all that is left.
        value = pairs.rows(slice(begin, begin + pairs.n_1 - start - 1))
        value += so_far[starts_2]
        reached = np.maximum.reduceat(value[:, by_stop], first_by_stop, axis=1)
        total = (reached + gain[start + 1 : -1, 1:]).max(axis=1)
        if start == 0:
            best = float(total.max())
        chosen = int(np.argmax(total >= best - TOLERANCE))
        cuts.append(start + 1 + chosen)
        so_far[0] = -np.inf
        so_far[1:] = reached[chosen]
    return tuple(cuts[1:]), best


def _first_cuts_2(pairs: Similarities, cuts_1: tuple[int, ...], best: float) -> tuple[int, ...]:
    """The first cuts of text 2 that reach the optimum with these of text 1."""
    first_1 = _order(pairs.n_1)[0]
    rows = [int(first_1[a]) + b - a - 1 for a, b in pairwise((0, *cuts_1, pairs.n_1))]
    value = np.full((len(rows), pairs.n_2, pairs.n_2 + 1), -np.inf)
    starts, stops = segment_bounds(pairs.n_2)
    value[:, starts, stops] = pairs.rows(np.array(rows))
    rest = [value[-1, :, pairs.n_2]]
    for part in value[-2:0:-1]:
        rest.append((part[:, :-1] + rest[-1]).max(axis=1))
    cuts = [0]
    reached = 0.0
    for part, gain in zip(value[:-1], reversed(rest), strict=True):
        here = reached + part[cuts[-1], :-1]
        chosen = int(np.argmax(here + gain >= best - TOLERANCE))
        cuts.append(chosen)
        reached = float(here[chosen])
    return tuple(cuts[1:])
