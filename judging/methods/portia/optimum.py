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
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from judging.methods.portia.similarity import Features

Floats = NDArray[np.floating]
Values = NDArray[np.float64]
Indices = NDArray[np.intp]

# Sums of a few fractions in floats: equal ones differ by less, others by more.
TOLERANCE = 1e-12
# Similarities held at once: a few megabytes stay in the processor's cache.
_BLOCK = 1 << 19


@dataclass(frozen=True, slots=True)
class BestCuts:
    """Each text is cut before these sentences, counted from 0."""

    cuts_1: tuple[int, ...]
    cuts_2: tuple[int, ...]
    similarity: float


def best_cuts(one: Features, two: Features, k: int) -> BestCuts | None:
    """The first maximum in lexicographic order of (cuts_1, cuts_2); None where all is 0.

    Both texts have k sentences or more.
    """
    gains = _gains(one, two, k)
    first = _Segments(two, 0, two.n_sentences)
    cuts_1, best = _first_cuts_1(one, first, gains, k)
    if best <= 0:
        return None
    return BestCuts(cuts_1, _first_cuts_2(one, first, cuts_1, best), best)


class _Segments:
    """The segments of a text between two sentences, in order of their start, then their stop."""

    def __init__(self, features: Features, first: int, last: int) -> None:
        """first: smallest start; last: largest stop."""
        starts, stops = np.triu_indices(last - first)
        self.starts: Indices = starts + first
        self.stops: Indices = stops + first + 1
        self.vectors, self.sizes = features.of(self.starts, self.stops)
        # Where each start's segments begin, and each stop's once they are sorted by it.
        self.by_start: Indices = np.flatnonzero(np.diff(self.starts, prepend=-1))
        self.stop_order: Indices = np.argsort(self.stops, kind="stable")
        self.by_stop: Indices = np.flatnonzero(np.diff(self.stops[self.stop_order], prepend=-1))


def _similarities(rows: tuple[Floats, Floats], columns: tuple[Floats, Floats]) -> Values:
    """(n1, n2) similarities of segments, each given as vectors (n, D) and sizes (n,)."""
    product = np.maximum(rows[0] @ columns[0].T, 0)
    return np.asarray(product / np.maximum(rows[1][:, None], columns[1]), dtype=np.float64)


def _gains(one: Features, two: Features, k: int) -> list[Values]:
    """G_1 to G_k-1, each (n1 + 1, n2 + 1), -inf where the parts to come do not fit."""
    n1, n2 = one.n_sentences, two.n_sentences
    gains = [np.full((n1 + 1, n2 + 1), -np.inf) for _ in range(1, k)]
    a, c = np.arange(1, n1), np.arange(1, n2)
    ends_1, ends_2 = np.full_like(a, n1), np.full_like(c, n2)
    gains[0][1:n1, 1:n2] = _similarities(one.of(a, ends_1), two.of(c, ends_2))
    if k > 2:
        inner = _Segments(two, 1, n2 - 1)
        starts_2 = np.unique(inner.starts)
        for starts, stops in _blocks(n1 - 1, len(inner.starts)):
            rows = _similarities(one.of(starts, stops), (inner.vectors, inner.sizes))
            by_start = np.flatnonzero(np.diff(starts, prepend=-1))
            for shorter, longer in pairwise(gains):
                value = rows + shorter[stops[:, None], inner.stops]
                best = np.maximum.reduceat(value, by_start, axis=0)
                best = np.maximum.reduceat(best, inner.by_start, axis=1)
                longer[np.ix_(starts[by_start], starts_2)] = best
    return gains


def _blocks(last: int, n_columns: int) -> Iterator[tuple[Indices, Indices]]:
    """Segments of text 1 from sentence 1 on, stopping at `last` or before: late starts first.

    Every block holds all segments of its starts, since G_j[a] needs G_j-1[b] for each b > a.
    """
    high = last
    while high > 1:
        low, rows = high - 1, last - high + 1
        while low > 1 and (rows + last - low + 1) * n_columns <= _BLOCK:
            low -= 1
            rows += last - low
        a, b = np.triu_indices(last - low)
        own = a + low < high
        yield a[own] + low, b[own] + low + 1
        high = low


def _first_cuts_1(
    one: Features, two: _Segments, gains: list[Values], k: int
) -> tuple[tuple[int, ...], float]:
    """The first cuts of text 1 with which the optimum is reached, whatever the cuts of text 2.

    Step j knows what parts 1 to j bring at most, for each cut of text 2, and G the rest.
    """
    n1, n2 = one.n_sentences, int(two.stops[-1])
    so_far = np.full(n2 + 1, -np.inf)
    so_far[0] = 0.0
    cuts = [0]
    best = -np.inf
    for gain in reversed(gains):
        stops = np.arange(cuts[-1] + 1, n1)
        starts = np.full_like(stops, cuts[-1])
        value = _similarities(one.of(starts, stops), (two.vectors, two.sizes))
        value = (value + so_far[two.starts])[:, two.stop_order]
        reached = np.full((len(stops), n2 + 1), -np.inf)
        reached[:, 1:] = np.maximum.reduceat(value, two.by_stop, axis=1)
        total = (reached + gain[stops]).max(axis=1)
        if len(cuts) == 1:
            best = float(total.max())
        chosen = int(np.argmax(total >= best - TOLERANCE))
        cuts.append(int(stops[chosen]))
        so_far = reached[chosen]
    return tuple(cuts[1:]), best


def _first_cuts_2(
    one: Features, two: _Segments, cuts_1: tuple[int, ...], best: float
) -> tuple[int, ...]:
    """The first cuts of text 2 that reach the optimum with these of text 1."""
    n2 = int(two.stops[-1])
    edges = np.array((0, *cuts_1, one.n_sentences))
    rows = _similarities(one.of(edges[:-1], edges[1:]), (two.vectors, two.sizes))
    value = np.full((len(rows), n2, n2 + 1), -np.inf)
    value[:, two.starts, two.stops] = rows
    rest = [value[-1, :, n2]]
    for part in value[-2::-1]:
        rest.append((part[:, :n2] + rest[-1]).max(axis=1))
    cuts = [0]
    reached = 0.0
    for part, gain in zip(value[:-1], rest[-2::-1], strict=True):
        here = reached + part[cuts[-1], :n2]
        stop = int(np.argmax(here + gain >= best - TOLERANCE))
        cuts.append(stop)
        reached = float(here[stop])
    return tuple(cuts[1:])
