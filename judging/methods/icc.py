"""Intraclass correlations of a complete table of examples by raters (Shrout and Fleiss 1979)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.estimates import Undefined


@dataclass(frozen=True, slots=True)
class IntraclassCorrelations:
    """Of one rater and of the mean of k, in the names of McGraw and Wong (1996).

    ICC(1): raters differ from example to example.  ICC(A), or ICC(2): absolute agreement.
    ICC(C), or ICC(3): consistency, where a rater's constant shift does not count.
    """

    icc_1_1: float
    icc_a_1: float
    icc_c_1: float
    icc_1_k: float
    icc_a_k: float
    icc_c_k: float


def intraclass_correlations(ratings: ArrayLike) -> IntraclassCorrelations | Undefined:
    """ratings: (N, k), none missing, N >= 2, k >= 2."""
    table = np.asarray(ratings, dtype=np.float64)
    n, k = table.shape
    if n < 2 or k < 2:
        return Undefined("two examples and two raters are needed")
    grand = table.mean()
    rows, columns = table.mean(axis=1), table.mean(axis=0)
    between = k * float(((rows - grand) ** 2).sum()) / (n - 1)
    raters = n * float(((columns - grand) ** 2).sum()) / (k - 1)
    residual = float(((table - rows[:, None] - columns + grand) ** 2).sum()) / ((n - 1) * (k - 1))
    within = float(((table - rows[:, None]) ** 2).sum()) / (n * (k - 1))
    if between == 0:
        return Undefined("all examples have the same mean rating")
    shift = k * (raters - residual) / n
    return IntraclassCorrelations(
        icc_1_1=(between - within) / (between + (k - 1) * within),
        icc_a_1=(between - residual) / (between + (k - 1) * residual + shift),
        icc_c_1=(between - residual) / (between + (k - 1) * residual),
        icc_1_k=(between - within) / between,
        icc_a_k=(between - residual) / (between + shift / k),
        icc_c_k=(between - residual) / between,
    )
