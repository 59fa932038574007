"""Intervals and tests for shares of unweighted 0/1 values, and Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from judging.methods.estimates import Estimate, Figure, Undefined


def wilson(successes: int, n: int, confidence: float = 0.95) -> Figure:
    """Wilson's score interval (1927)."""
    if n == 0:
        return Undefined("no examples")
    z = float(stats.norm.ppf((1 + confidence) / 2))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else float(centre - half)
    high = 1.0 if successes == n else float(centre + half)
    return Estimate(share, n, low, high)


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> Figure:
    """The exact binomial interval."""
    if n == 0:
        return Undefined("no examples")
    limits = stats.binomtest(successes, n).proportion_ci(confidence, method="exact")
    return Estimate(successes / n, n, float(limits.low), float(limits.high))


def mcnemar(only_first_right: int, only_second_right: int) -> float:
    """Exact two-sided p for two judges on the same examples (McNemar 1947, binomial form)."""
    n = only_first_right + only_second_right
    return float(stats.binomtest(only_first_right, n).pvalue) if n else 1.0


def holm(p_values: Sequence[float]) -> NDArray[np.float64]:
    """Adjusted p-values that control the family-wise error (Holm 1979)."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def benjamini_yekutieli(p_values: Sequence[float], q: float) -> NDArray[np.bool_]:
    """Which hypotheses are rejected at false discovery rate q under any dependence (2001)."""
    p = np.asarray(p_values, dtype=np.float64)
    if not len(p):
        return np.zeros(0, dtype=bool)
    rejected: NDArray[np.bool_] = stats.false_discovery_control(p, method="by") <= q
    return rejected
