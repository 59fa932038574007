"""How much the judge follows positions instead of contents.

FairEval (arXiv:2305.17926) §2.2, PORTIA (arXiv:2310.01432) §4.2. Outcomes have the shape (N, 2, k):
original and swapped order, signs already turned back to responses 1 and 2. `valid` of the same
shape says which samples count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Counts, Floats, Integers, Signs
from judging.methods.intervals.bootstrap import (
    all_differ,
    effective_size,
    plus_two_mean,
    questions_at,
    share,
)
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, wilson

NO_PAIR = "no example has a verdict in both orders"
# The least and the most that the position effect can be in an example.
LEAST_AND_MOST = (-0.5, 1.0)
ONE_SAMPLE = "no example has two valid samples of one order"
ONE_ORDER = "no example has valid samples in both orders"
TOO_FEW_SAMPLES = "no example has valid samples in both orders, and two of them in one order"


def order_labels(difference: Integers, valid: Booleans, band: int = 0) -> tuple[Signs, Booleans]:
    """Return the label of the mean within each order.

    Args:
        difference: (N, 2, k) score 1 - score 2 as integers on one scale; for outcomes their sign.
        valid: (N, 2, k) bool.
        band: the largest mean difference that is a tie.
    Returns: (N, 2) signs, and (N, 2) whether the order has a valid sample."""
    total = np.where(valid, difference, 0).sum(axis=2, dtype=np.int64)
    # Both sides times the number of samples, so that no mean is rounded.
    tied = np.abs(total) <= band * valid.sum(axis=2)
    signs = np.where(tied, 0, np.sign(total)).astype(np.int8)
    return signs, np.asarray(valid.any(axis=2))


def outcome_counts(outcomes: Signs, valid: Booleans) -> Counts:
    """Count outcomes by order.

    Args: outcomes, valid: (N, orders, k) signs, and which samples count.
    Returns: (N, orders, 3) int64 wins, ties and losses."""
    columns = [((outcomes == sign) & valid).sum(axis=2) for sign in (1, 0, -1)]
    return np.stack(columns, axis=2)


@dataclass(frozen=True, slots=True)
class Conflicts:
    """How often the verdicts of the two orders contradict each other.

    strict_conflict_rate: a win against a lose. consistency: 1 less the conflict rate."""

    conflict_rate: Figure
    strict_conflict_rate: Figure
    consistency: Figure


def conflicts(labels: Signs, there: Booleans, question: ArrayLike | None = None) -> Conflicts:
    """Return how often the orders disagree.

    Args: labels, there, question: (N, 2) from `order_labels`, and (N,) codes or None.
    Returns: shares, 0 to 1, of the examples with both labels."""
    rows = there.all(axis=1)
    both, of = labels[rows], questions_at(question, rows)
    differ, strict = both[:, 0] != both[:, 1], both[:, 0] * both[:, 1] < 0
    figures = (share(values, of, reason=NO_PAIR) for values in (differ, strict, ~differ))
    return Conflicts(*figures)


def win_rate_by_position(
    labels: Signs, there: Booleans, question: ArrayLike | None = None
) -> tuple[Figure, Figure]:
    """Return the win rate of response 1, a tie as 1/2, when shown first and when second.

    Args: labels, there, question: as in `conflicts`.
    Returns: two win rates, 0 to 1."""

    points = np.where(there, (1 + labels.astype(np.float64)) / 2, np.nan)
    reason = "the judge has given no verdict in this order"
    first, second = (plus_two_mean(column, (0, 1), question, reason=reason) for column in points.T)
    return first, second


@dataclass(frozen=True, slots=True)
class FirstPosition:
    """rate: how often the first position won, if one position won in both orders."""

    rate: Figure
    p: float | None


def first_position(
    labels: Signs, there: Booleans, question: ArrayLike | None = None
) -> FirstPosition:
    """Test whether the first position wins more often than the second if one wins in both orders.

    Args: labels, there, question: as in `conflicts`.
    Returns: share and two-sided p against 1/2: exact binomial, or, if questions repeat, Wilson's on
        as many examples as they are worth."""
    first = (labels[:, 0] == 1) & (labels[:, 1] == -1)
    rows = there.all(axis=1) & (first | ((labels[:, 0] == -1) & (labels[:, 1] == 1)))
    won, n = first[rows], int(rows.sum())
    if not n:
        return FirstPosition(Undefined("no position won in both orders of any example"), None)
    of = questions_at(question, rows)
    rate = share(won, of, exact=True)
    if of is None or all_differ(of):
        return FirstPosition(rate, sign_test(int(won.sum()), n))
    # Repeated questions make examples dependent, and the exact test would count each in full.
    size = effective_size(won.astype(np.float64), of)
    if size is None:
        return FirstPosition(rate, None)
    z = abs(float(won.mean()) - 0.5) * 2 * size**0.5
    return FirstPosition(rate, float(2 * scipy.special.ndtr(-z)))


def sign_test(successes: int, n: int) -> float:
    """Return the exact two-sided p of a binomial test against 1/2, as `scipy.stats.binomtest` does.

    Args: successes, n: out of n trials.
    Returns: p, 0 to 1."""
    fewer = min(successes, n - successes)
    # The tail P(X <= fewer) by the incomplete beta function. Where both tails overlap, p is 1.
    half = scipy.special.betainc(n - fewer, fewer + 1, 0.5) if n - 2 * fewer > 1 else 0.5
    return float(2 * half)


def _disagreement(outcomes: Signs, valid: Booleans) -> tuple[Floats, Floats]:
    """Return (N,) P(samples of different orders differ), and the same within an order."""
    counts = outcome_counts(outcomes, valid)
    n = counts.sum(axis=2).astype(np.float64)
    pairs_across = n.prod(axis=1)
    same_across = counts.prod(axis=1).sum(axis=1)
    pairs = n * (n - 1)
    # Ordered pairs of different samples: a sample agrees with itself by definition.
    same_within = (counts * (counts - 1)).sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        across = 1 - same_across / pairs_across
        within_order = np.where(pairs > 0, 1 - same_within / pairs, np.nan)
    # An order with one sample has no pair; the other order alone then tells the noise.
    has = np.isfinite(within_order)
    within = np.where(has, within_order, 0).sum(axis=1) / np.maximum(has.sum(axis=1), 1)
    return np.where(pairs_across > 0, across, np.nan), np.where(has.any(axis=1), within, np.nan)


def position_effect(outcomes: Signs, valid: Booleans, question: ArrayLike | None = None) -> Figure:
    """Return P(samples of different orders disagree) - P(samples of the same order disagree).

    The second part is the judge's own noise, which a plain conflict rate counts as position bias.
    In one example the difference is never below -1/2: two samples that differ, and the same two
    in the other order.

    Args: outcomes, valid, question: (N, 2, k) each, and (N,) codes or None.
    Returns: difference, -1/2 to 1, or Undefined without an example that has samples of both
        orders, and two of them in one order."""
    across, within = _disagreement(outcomes, valid)
    reason = TOO_FEW_SAMPLES
    if np.isnan(across).all():
        reason = ONE_ORDER
    elif np.isnan(within).all():
        reason = ONE_SAMPLE
    return plus_two_mean(across - within, LEAST_AND_MOST, question, reason=reason)


def repetition_stability(
    outcomes: Signs, valid: Booleans, question: ArrayLike | None = None
) -> Figure:
    """Return the share of pairs of samples of one order that agree.

    Args: outcomes, valid, question: as in `position_effect`.
    Returns: share, 0 to 1, or Undefined as there."""
    _, within = _disagreement(outcomes, valid)
    return plus_two_mean(1 - within, (0, 1), question, reason=ONE_SAMPLE)


@dataclass(frozen=True, slots=True)
class GapBin:
    """Conflict rate of the examples with low <= gap < high (the last bin includes high)."""

    low: float
    high: float
    same_samples: Figure
    split_samples: Figure


def conflict_by_gap(
    difference: Integers, valid: Booleans, edges: ArrayLike, scale: int = 1, band: int = 0
) -> list[GapBin]:
    """Return the conflict rate against |CS1 - CS2|, as the paper plots it and without its artefact.

    With the same samples in both, a small gap and a conflict are partly the same event: examples
    that are all alike show a falling curve. With the gap from one half of the samples of each
    order and the conflict from the other half (then the halves exchanged) they don't.

    Args:
        difference, valid: as in `order_labels`, in units of 1/scale.
        edges: ascending limits of the bins.
        scale: units per point.
        band: as in `order_labels`.
    Returns: the bins."""
    limits = np.asarray(edges, dtype=np.float64)
    half = valid.shape[2] // 2
    first, second = slice(0, half), slice(half, None)
    whole = [_gap_and_conflict(difference, valid, slice(None), slice(None), scale, band)]
    split = [
        _gap_and_conflict(difference, valid, first, second, scale, band),
        _gap_and_conflict(difference, valid, second, first, scale, band),
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
        # The halves of an example are not two examples; an example may have only one here.
        size = max(n / len(parts), 1.0)
        interval = wilson(rate * size, size)
        return (
            replace(interval, value=rate, n=ceil(size))
            if isinstance(interval, Estimate)
            else interval
        )

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
    difference: Integers, valid: Booleans, of_gap: slice, of_conflict: slice, scale: int, band: int
) -> tuple[Floats, Booleans]:
    """Gap and conflict of the examples that have a valid sample of each order in both parts."""
    labels, there = order_labels(difference[:, :, of_conflict], valid[:, :, of_conflict], band)
    part, present = difference[:, :, of_gap], valid[:, :, of_gap]
    n = present.sum(axis=2)
    rows = there.all(axis=1) & (n > 0).all(axis=1)
    total = np.where(present, part, 0).sum(axis=2)[rows] / (n[rows] * scale)
    return np.abs(total.mean(axis=1)), labels[rows, 0] != labels[rows, 1]
