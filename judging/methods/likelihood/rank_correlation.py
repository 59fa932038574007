"""Spearman's rank correlation of many resamples of a sample at once."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats


def average_ranks(values: ArrayLike) -> Floats:
    return np.asarray(scipy.stats.rankdata(np.asarray(values, dtype=np.float64)), dtype=np.float64)


def spearman_of_counts(counts: Floats, first: Floats, second: Floats) -> Floats:
    """(R,) one for each row of (R, N) counts: how often each of the N pairs occurs in it."""
    x, y = ranks_of_counts(counts, first), ranks_of_counts(counts, second)
    n = counts.sum(axis=1)
    # Ranks, ties averaged, have the mean (n + 1) / 2 whatever the ties.
    x -= (n[:, None] + 1) / 2
    y -= (n[:, None] + 1) / 2
    together = np.einsum("rn,rn,rn->r", counts, x, y)
    spread = np.einsum("rn,rn,rn->r", counts, x, x) * np.einsum("rn,rn,rn->r", counts, y, y)
    undefined = np.full(len(counts), np.nan)
    ratio = np.divide(together, np.sqrt(spread), out=undefined, where=spread > 0)
    return np.asarray(ratio)


def ranks_of_counts(counts: Floats, values: Floats) -> Floats:
    """(R, N) average ranks that the N values have in each of the R resamples."""
    _, code = np.unique(values, return_inverse=True)
    code = code.reshape(-1)
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    in_group = np.add.reduceat(counts[:, order], starts, axis=1)
    rank = np.cumsum(in_group, axis=1) - in_group / 2 + 0.5
    return np.asarray(rank[:, code])


def partial_correlation(xy: Floats, xz: Floats, yz: Floats) -> Floats:
    """Of x and y given z, from the three correlations; NaN where z explains one completely."""
    left = (1 - xz**2) * (1 - yz**2)
    undefined = np.full(np.shape(xy), np.nan)
    root = np.sqrt(np.maximum(left, 0))
    return np.asarray(np.divide(xy - xz * yz, root, out=undefined, where=left > 1e-12))
