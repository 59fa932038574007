"""Agreement on marked text: how far the parts overlap that two raters marked in the same texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.intervals.bootstrap import plus_two_mean
from judging.methods.intervals.estimates import Figure, Undefined

NOBODY_MARKED = Undefined("no two people were asked to mark the same example and marked any of it")
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class SpanOverlap:
    """How far two raters mark the same characters.

    f1: mean over the examples of the mean F1 of two raters. by_chance: what it would be if each
    rater had marked as many characters at random. pairs: of raters on an example that it is over.
    unmarked: pairs in which neither marked anything, which are left out."""

    f1: Figure
    by_chance: float | None
    pairs: int
    unmarked: int


def overlap(first: Spans, other: Spans) -> int:
    """Count the characters that are in spans of both.

    Args: first, other: (start, end) in characters, in order, none over another in the same list.
    Returns: number of characters."""
    shared = i = j = 0
    while i < len(first) and j < len(other):
        shared += max(0, min(first[i][1], other[j][1]) - max(first[i][0], other[j][0]))
        # The span that ends first can't meet any later span of the other list.
        if first[i][1] <= other[j][1]:
            i += 1
        else:
            j += 1
    return shared


def span_overlap(
    example: Codes,
    spans: ArrayLike,
    lengths: ArrayLike,
    question: ArrayLike,
    *,
    kept: Booleans | None = None,
    confidence: float = 0.95,
) -> SpanOverlap:
    """Compare what every two raters of an example marked, by characters.

    F1 of two raters is 2 |A and B| / (|A| + |B|), whichever of them is taken for the truth
    (Hripcsak and Rothschild 2005, doi:10.1197/jamia.M1733). It needs no count of what nobody
    marked. Two raters who mark a and b of L characters at random share a b / L of them on average,
    so that chance alone gives about 2 a b / (L (a + b)).

    Args:
        example: (V,) the place of each vote's example.
        spans: (S, 4) vote, response (1 or 2), start and end in characters; those of a vote don't
            overlap. A vote without a span marked nothing.
        lengths: (N, 2) characters of both responses.
        question: (N,) equal codes share a question.
        kept: (N,) the examples to look at; None: all.
        confidence: level of the interval, of `plus_two_mean` over examples.
    Returns: the overlap; f1 is Undefined if no two raters of an example marked anything."""
    sizes, asked = np.asarray(lengths, dtype=np.int64), np.asarray(question)
    marked = _by_vote(np.asarray(spans, dtype=np.int64).reshape(-1, 4), sizes, example)
    votes_on: dict[int, list[int]] = defaultdict(list)
    for vote, place in enumerate(example.tolist()):
        if kept is None or kept[place]:
            votes_on[place].append(vote)
    values: Floats = np.full(len(sizes), np.nan)
    chances: Floats = np.full(len(sizes), np.nan)
    pairs = unmarked = 0
    for place, votes in votes_on.items():
        overlaps = []
        for a, b in combinations(votes, 2):
            size = _size(marked[a]) + _size(marked[b])
            if not size:
                # F1 is 0 / 0 here. That two people mark nothing is counted apart and is no overlap.
                unmarked += 1
                continue
            chance = 2 * _size(marked[a]) * _size(marked[b]) / (size * max(1, sizes[place].sum()))
            overlaps.append((2 * overlap(marked[a], marked[b]) / size, chance))
        if overlaps:
            pairs += len(overlaps)
            # First the mean within an example, so that one with many raters weighs no more than
            # others.
            values[place], chances[place] = np.mean(overlaps, axis=0)
    limits, reason = (0.0, 1.0), NOBODY_MARKED.reason
    f1 = plus_two_mean(values, limits, asked, reason=reason, confidence=confidence)
    by_chance = float(np.nanmean(chances)) if pairs else None
    return SpanOverlap(f1, by_chance, pairs, unmarked)


def _by_vote(spans: Codes, sizes: Codes, example: Codes) -> list[list[tuple[int, int]]]:
    """Each vote's spans in order, those of response 2 after the whole of response 1."""
    by_vote: list[list[tuple[int, int]]] = [[] for _ in example]
    for vote, response, start, end in spans.tolist():
        # One line of characters for both responses: a span of one never meets a span of the other.
        shift = int(sizes[example[vote], 0]) if response == 2 else 0
        by_vote[vote].append((start + shift, end + shift))
    return [sorted(mine) for mine in by_vote]


def _size(spans: Spans) -> int:
    return sum(end - start for start, end in spans)
