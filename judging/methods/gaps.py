"""Conflict between the orders against the score gap: the paper's plot and an honest one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats, Integers
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.position import ONE_SAMPLE, order_labels
from judging.methods.proportions import wilson


@dataclass(frozen=True, slots=True)
class GapBin:
    """Conflict rate of the examples with low <= gap < high (the last bin includes high)."""

    low: float
    high: float
    same_samples: Figure
    split_samples: Figure


def conflict_by_gap(
    difference: Integers, valid: Booleans, edges: ArrayLike, scale: int = 1
) -> list[GapBin]:
    """Conflict rate against |CS1 - CS2|, as the paper plots it and without its artefact.

    With the same samples in both, a small gap and a conflict are partly the same event: examples
    that are all alike show a falling curve.  With the gap from one half of the slots of each
    order and the conflict from the other half (then the halves exchanged) they do not.
    difference: as in `order_labels`, in units of 1/scale.  edges: ascending limits of the bins.
    """
    limits = np.asarray(edges, dtype=np.float64)
    half = valid.shape[2] // 2
    first, second = slice(0, half), slice(half, None)
    whole = [_gap_and_conflict(difference, valid, slice(None), slice(None), scale)]
    split = [
        _gap_and_conflict(difference, valid, first, second, scale),
        _gap_and_conflict(difference, valid, second, first, scale),
    ]

    def rate(parts: list[tuple[Floats, Booleans]], low: float, high: float, last: bool) -> Figure:
        inside = [
            conflict[(gap >= low) & ((gap < high) | (last & (gap == high)))]
            for gap, conflict in parts
        ]
        n = sum(map(len, inside))
        if not n:
            return Undefined("no example in this bin")
        rate = sum(int(part.sum()) for part in inside) / n
        # The halves of an example are no two examples; one alone may have but one here.
        size = max(n / len(parts), 1.0)
        found = wilson(rate * size, size)
        return replace(found, value=rate, n=ceil(size)) if isinstance(found, Estimate) else found

    pairs = list(pairwise(limits))
    return [
        GapBin(
            float(low),
            float(high),
            rate(whole, low, high, i == len(pairs) - 1),
            rate(split, low, high, i == len(pairs) - 1) if half else Undefined(ONE_SAMPLE),
        )
        for i, (low, high) in enumerate(pairs)
    ]


def _gap_and_conflict(
    difference: Integers, valid: Booleans, of_gap: slice, of_conflict: slice, scale: int
) -> tuple[Floats, Booleans]:
    """Gap and conflict of the examples that have a valid sample of each order in both parts."""
    labels, there = order_labels(difference[:, :, of_conflict], valid[:, :, of_conflict])
    part, present = difference[:, :, of_gap], valid[:, :, of_gap]
    n = present.sum(axis=2)
    rows = there.all(axis=1) & (n > 0).all(axis=1)
    total = np.where(present, part, 0).sum(axis=2)[rows] / (n[rows] * scale)
    return np.abs(total.mean(axis=1)), labels[rows, 0] != labels[rows, 1]
