"""What fewer samples would have given: MEC(k') as the exact mean over subsets (FairEval Table 4).

Instead of drawing k' of k samples at random, every subset is taken, so the result has no seed.
"""

from __future__ import annotations

from itertools import combinations
from math import lcm

import numpy as np
from numpy.typing import NDArray

from judging.methods.arrays import Booleans, Floats, Integers, Signs
from judging.methods.estimates import Undefined
from judging.methods.kappa import cohen_kappa

CHUNK = 4_000_000


def expected_labels(
    difference: Integers, valid: Booleans, k_prime: int, *, both_orders: bool
) -> Floats:
    """(N, 4): the shares of size-k' subsets that give win, tie, lose and no label.

    difference: (N, orders, k), score 1 - score 2 as integers on one scale; read where valid.
    both_orders: k' samples of each order together, MEC(k') + BPC(k'); else each order alone,
        MEC(k'), and their mean.
    """
    n, orders, k = valid.shape
    if not 1 <= k_prime <= k:
        raise ValueError(f"k' lies between 1 and {k}, not {k_prime}")
    if both_orders and orders != 2:
        raise ValueError("both orders are asked for, and the run has one")
    means, there = _subset_means(np.where(valid, difference, 0), valid, k_prime)
    if not both_orders:
        per_order = [_label_shares(means[:, o], there[:, o]) for o in range(orders)]
        return np.asarray(np.mean(per_order, axis=0))
    subsets = means.shape[2]
    step = max(1, CHUNK // subsets**2)
    parts = []
    for start in range(0, n, step):
        rows = slice(start, start + step)
        total = means[rows, 0, :, None] + means[rows, 1, None, :]
        both = there[rows, 0, :, None] & there[rows, 1, None, :]
        parts.append(_label_shares(total.reshape(len(total), -1), both.reshape(len(both), -1)))
    return np.vstack(parts) if parts else np.zeros((0, 4))


def expected_right(shares: Floats, human: Signs) -> Floats:
    """(N,) the share of the subsets whose label is right; what has no label earns nothing.

    A tie earns 1/2 where no human label is a tie (see `accuracy.credit`).
    """
    right = shares[np.arange(len(human)), 1 - human.astype(int)]
    return np.asarray(right if np.any(human == 0) else right + shares[:, 1] / 2)


def kappa_of_expected_table(shares: Floats, human: Signs, weight: Floats) -> float | Undefined:
    """Kappa of the expected confusion table, which is not the mean of the subsets' kappas."""
    table = np.zeros((3, 3))
    for column, sign in enumerate((1, 0, -1)):
        rows = human == sign
        table[:, column] = weight[rows] @ shares[rows, :3]
    return cohen_kappa(table)


def _subset_means(
    difference: Integers, valid: Booleans, k_prime: int
) -> tuple[NDArray[np.int64], Booleans]:
    """(N, orders, subsets): each subset's mean on a common denominator; whether it has a sample."""
    k = valid.shape[2]
    members = np.zeros((k, len(list(combinations(range(k), k_prime)))), dtype=np.int64)
    for column, subset in enumerate(combinations(range(k), k_prime)):
        members[list(subset), column] = 1
    common = lcm(*range(1, k_prime + 1))
    counts = valid.astype(np.int64) @ members
    factor = common // np.maximum(counts, 1)
    return (difference.astype(np.int64) @ members) * factor, counts > 0


def _label_shares(values: NDArray[np.int64], there: Booleans) -> Floats:
    signs = [(values > 0) & there, (values == 0) & there, (values < 0) & there, ~there]
    return np.stack([sign.mean(axis=1) for sign in signs], axis=1)
