"""The median of times, which a few forgotten tabs do not move, with exact limits."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.estimates import Estimate, Figure, Undefined


def median(values: ArrayLike, confidence: float = 0.95) -> Figure:
    """The sample median between two order statistics, the binomial interval for it.

    The limits hold for any distribution.  Fewer than six values have none at 95 %: the whole
    range of five holds the median with probability 1 - 2/2^5 only.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    if not n:
        return Undefined("no values")
    below = int(scipy.stats.binom.ppf((1 - confidence) / 2, n, 0.5)) - 1
    while scipy.stats.binom.cdf(below + 1, n, 0.5) <= (1 - confidence) / 2:
        below += 1
    value = float(np.median(ordered))
    if below < 0:
        return Estimate(value, n)
    return Estimate(value, n, float(ordered[below]), float(ordered[n - 1 - below]))
