"""From a judge's and people's scores to the quantities of Ohi et al.

Notation: LS(t) = log P(output | input, task description), US(t) the judge's score less the
people's on a common scale, RS(t) how far the two agree in sign and size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats
from judging.methods.estimates import Undefined


def expected_score(probabilities: Mapping[int, float]) -> float | Undefined:
    """Equation 7: sum of i Q(i) / sum of Q(j), over the score tokens; any range of scores."""
    mass = sum(probabilities.values())
    if not mass > 0:
        return Undefined("no score has any probability")
    return sum(score * share for score, share in probabilities.items()) / mass


def of_mean_0_and_range_1(scores: Floats) -> Floats:
    """(x - mean) / (max - min) along the last axis; all 0 where there is no range."""
    if not scores.size:
        return scores
    spread = np.ptp(scores, axis=-1, keepdims=True)
    centred = scores - scores.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


def unfairness(model: Floats, human: Floats) -> Floats:
    """(N,) US, equation 2: both brought to the same mean and range."""
    return of_mean_0_and_range_1(model) - of_mean_0_and_range_1(human)


def between_minus_1_and_1(values: Floats) -> Floats:
    """(x - mean) / max |x - mean|: LS* and US* of equation 6."""
    centred = values - values.mean()
    most = np.abs(centred).max(initial=0.0)
    return np.asarray(centred / (most if most else 1.0))


def bias_by_instance(log_likelihood: Floats, model: Floats, human: Floats) -> Floats:
    """(N,) RS = |LS* + US*|, equation 6: large for likely and overrated, or neither."""
    over = between_minus_1_and_1(unfairness(model, human))
    return np.asarray(np.abs(between_minus_1_and_1(log_likelihood) + over))


def total_score(by_criterion: Sequence[ArrayLike]) -> Floats:
    """(N,) mean over the criteria, NaN where one is missing; `total` averages, then compares."""
    columns = [np.asarray(scores, dtype=np.float64) for scores in by_criterion]
    return np.asarray(np.mean(columns, axis=0))
