"""Verdicts of a million examples at once, equal to `verdicts.verdict` to the last bit.

Scores are integers in units of 1/scale, so that sums and comparisons are exact; the entropy of
each distinct set of shares is computed once, by the exact function."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from judging.methods.arrays import Booleans, Counts, Floats, Integers
from judging.methods.verdicts.verdicts import entropy

# Up to here a float holds every whole number.
EXACT_FLOAT = 2**53
LARGEST_TABLE = 2**22
_TALLIES = 5


@dataclass(frozen=True, slots=True)
class VerdictArrays:
    """(N,) arrays; scores and BPDE (in nats, 0 to ln 3) are NaN if `judged` is False.

    sign: meaningless if `judged` is False. n_valid: valid samples.
    outcomes: (N, orders, k) signs, meaningless if the sample is not valid."""

    judged: Booleans
    sign: NDArray[np.int8]
    cs_1: Floats
    cs_2: Floats
    gap: Floats
    bpde: Floats
    n_valid: NDArray[np.int64]
    outcomes: NDArray[np.int8]


def verdict_arrays(scores: Integers, valid: Booleans, scale: int = 1) -> VerdictArrays:
    """Return CS, label and BPDE of N examples, equal to those of `verdict` to the last bit.

    Args:
        scores: (N, orders, k, 2) integers in units of 1/scale, of responses 1 and 2.
        valid: (N, orders, k) bool, which samples count; one order or two.
        scale: units per point.
    Returns: the arrays.
    Raises: ValueError for other orders, or scores so large that floats could be rounded twice."""
    n, orders, k = valid.shape
    if orders not in (1, 2):
        raise ValueError(f"a method asks for one order or two, not {orders}")
    largest = max(int(scores.max(initial=0)), -int(scores.min(initial=0)))
    if 4 * k * k * max(largest, scale) >= EXACT_FLOAT:
        raise ValueError(f"scores up to {largest} in units of 1/{scale} are too large to be exact")

    # Slot by slot: NumPy reduces an axis of length k or 2 several times more slowly.
    outcomes = np.empty((n, orders, k), dtype=np.int8)
    tallies = np.zeros((orders, _TALLIES, n), dtype=np.int64)
    for order, slot in np.ndindex(orders, k):
        there = valid[:, order, slot]
        first, second = (scores[:, order, slot, r].astype(np.int64) * there for r in (0, 1))
        sign = np.sign(first - second)
        outcomes[:, order, slot] = sign
        for tally, value in zip(
            tallies[order], (there, first, second, sign > 0, sign < 0), strict=True
        ):
            tally += value

    counts = tallies[:, 0]
    judged: Booleans = np.asarray((counts > 0).all(axis=0))
    # Multiplying each order's sums by the other order's count puts both on one denominator.
    safe = np.where(judged, counts, 1)
    partner = (safe[::-1] if orders == 2 else np.ones_like(safe)) * judged
    denominator = safe.prod(axis=0) * orders
    total_1, total_2, wins, losses = np.einsum("otn,on->tn", tallies[:, 1:], partner)
    difference = total_1 - total_2

    def as_score(numerator: NDArray[np.int64]) -> Floats:
        return np.where(judged, numerator / (denominator * scale), np.nan)

    return VerdictArrays(
        judged=judged,
        sign=np.sign(difference).astype(np.int8),
        cs_1=as_score(total_1),
        cs_2=as_score(total_2),
        gap=as_score(np.abs(difference)),
        bpde=np.where(judged, _entropies(wins, losses, denominator), np.nan),
        n_valid=counts.sum(axis=0),
        outcomes=outcomes,
    )


def _entropies(wins: Counts, losses: Counts, total: Counts) -> Floats:
    """Return the entropies of the shares of wins, ties and losses; 0 if not judged."""
    base = int(total.max(initial=0)) + 1
    # One number for each set of shares; losses and wins are below the base.
    keys = (total * base + wins) * base + losses
    # Counting into a table avoids sorting all examples, as long as the table fits into memory.
    if base**3 <= LARGEST_TABLE:
        distinct = np.flatnonzero(np.bincount(keys, minlength=base**3))
        table = np.zeros(base**3)
        table[distinct] = [_entropy_of_key(int(key), base) for key in distinct]
        return np.asarray(table[keys])
    distinct, inverse = np.unique(keys, return_inverse=True)
    return np.array([_entropy_of_key(int(key), base) for key in distinct])[inverse]


def _entropy_of_key(key: int, base: int) -> float:
    total, wins, losses = key // (base * base), key // base % base, key % base
    return entropy(Fraction(part, total) for part in (wins, total - wins - losses, losses))
