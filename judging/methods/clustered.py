"""A share of examples some of which are about the same question, with limits that know it.

Examples of one question are right or wrong together more often than others, so that n of them say
less than n questions would. The limits are those of the share's effective number of examples: what
as many independent ones would have for the same variance (Korn and Graubard 1998).
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.bootstrap import ONE_QUESTION, WIDTH
from judging.methods.distinct import all_differ, coded
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.proportions import clopper_pearson, wilson

NOTHING = "no examples"


def share(
    values: ArrayLike,
    question: ArrayLike | None = None,
    *,
    exact: bool = False,
    reason: str = NOTHING,
    confidence: float = 0.95,
) -> Figure:
    """Mean of values from 0 to 1, halves counted, by Wilson's limits; `exact` by Clopper-Pearson's.

    question: equal codes are of one question; each example has its own where None.
    """
    rows = np.asarray(values, dtype=np.float64)
    n = len(rows)
    if not n:
        return Undefined(reason)
    limits = clopper_pearson if exact else wilson
    if question is None or all_differ(question):
        return limits(float(rows.sum()), n, confidence)
    mean, size = float(rows.mean()), effective_size(rows, question, confidence)
    if size is None:
        return Estimate(mean, n, note=ONE_QUESTION)
    found = _limits(limits(mean * size, size, confidence))
    return Estimate(mean, n, *found)


def effective_size(
    values: NDArray[np.float64], question: ArrayLike, confidence: float = 0.95
) -> float | None:
    """n p(1-p)/n over the variance of the mean by question, at most n; with t of G-1 degrees of
    freedom in z's place. Where all values are equal it is the number of questions G. None for one.
    """
    groups, code = coded(question)
    if groups < 2:
        return None
    n, mean = len(values), values.mean()
    apart = np.bincount(code, values - mean, minlength=groups)
    variance = groups / (groups - 1) * float(apart @ apart) / n**2
    independent = float(mean * (1 - mean)) / n
    alike = variance <= 1e-12 or independent <= 1e-12
    size = float(groups) if alike else min(float(n), n * independent / variance)
    tail = (1 + confidence) / 2
    ratio = scipy.stats.norm.ppf(tail) / scipy.stats.t.ppf(tail, groups - 1)
    return float(size if alike else size * ratio**2)


def design_effect(values: ArrayLike, question: ArrayLike) -> tuple[float, int]:
    """How many times the variance of a mean is that of independent examples, at least once; and
    the number of questions. Where all values are equal, each question is taken for one example."""
    rows = np.asarray(values, dtype=np.float64)
    if all_differ(question):
        return 1.0, len(rows)
    groups, code = coded(question)
    apart = np.bincount(code, rows - rows.mean(), minlength=groups)
    independent = len(rows) * float(rows.var())
    if independent < WIDTH or groups < 2:
        return len(rows) / groups, groups
    return max(1.0, groups / (groups - 1) * float(apart @ apart) / independent), groups


def _limits(found: Figure) -> tuple[float | None, float | None]:
    return (None, None) if isinstance(found, Undefined) else (found.low, found.high)
