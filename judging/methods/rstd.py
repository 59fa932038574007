"""RStd: the spread of the recalls of the classes, a sign of token or position bias."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.estimates import Undefined


def recalls(predicted: ArrayLike, gold: ArrayLike, classes: ArrayLike) -> NDArray[np.float64]:
    """Share of each gold class that was predicted as such; NaN for a class without examples."""
    said, truth = np.asarray(predicted), np.asarray(gold)
    shares = [
        (said[truth == value] == value).mean() if (truth == value).any() else np.nan
        for value in np.asarray(classes)
    ]
    return np.array(shares, dtype=np.float64)


def rstd(
    predicted: ArrayLike, gold: ArrayLike, classes: ArrayLike, *, sample: bool = False
) -> float | Undefined:
    """Standard deviation of the recalls in percent; gold ties are left out beforehand.

    Divides by the number of classes, as published code does; sample=True divides by one less,
    as CalibraEval's formula has it.
    """
    shares = recalls(predicted, gold, classes)
    if not np.isfinite(shares).all():
        return Undefined("a class has no example, so it has no recall")
    return float(100 * shares.std(ddof=1 if sample else 0))
