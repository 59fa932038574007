"""How sure the HITLC curve is: limits at each beta, and a lower band that holds at all of them.

Each resample is ranked and cut anew.  Whoever picks a beta by looking at the curve needs the
simultaneous band: the lowest of many pointwise limits is wrong more often than one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats
from judging.methods.bootstrap import WIDTH, alike_limits, cells, resampled_counts
from judging.methods.estimates import Estimate, Undefined
from judging.methods.hitlc import review_curve
from judging.methods.proportions import NO_CHANCE

REPEATS = 1_000
# With more distinct levels than this neighbours share one: the curve hardly changes, and the
# resamples fit into memory.
MOST_LEVELS = 500


@dataclass(frozen=True, slots=True)
class CurveBand:
    """Accuracy after reviewing the top share of the examples, one entry a beta in percent.

    low, high: limits for one beta chosen beforehand, NaN at 100 %, which is right by construction.
    lower_band: holds at all betas at once.
    """

    beta: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    lower_band: Floats

    def at(self, place: int, n: int) -> Estimate:
        """Accuracy at one of the betas; n: the examples it rests on."""
        value, low, high = (float(one[place]) for one in (self.accuracy, self.low, self.high))
        if np.isnan(low):
            return Estimate(value, n, note=NO_CHANCE)
        return Estimate(value, n, low, high)


def curve_band(
    level: ArrayLike,
    judge: ArrayLike,
    beta: ArrayLike,
    rng: np.random.Generator,
    *,
    reviewer: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
    confidence: float = 0.95,
) -> CurveBand | Undefined:
    """level, judge, reviewer, weight: as in `hitlc.review_curve`; beta: ascending, in percent."""
    levels = np.asarray(level, dtype=np.float64)
    if not len(levels):
        return Undefined("no example has a human label")
    earned = np.asarray(judge, dtype=np.float64)
    people = np.ones(len(levels)) if reviewer is None else np.asarray(reviewer, dtype=np.float64)
    weights = np.ones(len(levels)) if weight is None else np.asarray(weight, dtype=np.float64)
    betas = np.asarray(beta, dtype=np.float64)
    curve = review_curve(levels, earned, reviewer=people, weight=weights)
    value = curve.accuracy(betas / 100 * curve.total)

    cell, row = cells(_grouped(levels), earned, people, weights)
    counts = (
        resampled_counts(cell, rng, question=question, stratum=stratum, repeats=REPEATS)
        * weights[row]
    )
    resampled = _curves(counts, _grouped(levels)[row], earned[row], people[row], betas / 100)
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], axis=0)
    size = float(weights.sum() ** 2 / (weights @ weights))
    if reviewer is None:
        low, high = _never_bare(value, low, high, betas / 100, size)
    spread = resampled.std(axis=0)
    scaled = np.divide(
        resampled - value, spread, out=np.zeros_like(resampled), where=spread > 1e-12
    )
    reach = float(np.quantile(scaled.max(axis=1), confidence))
    band = _exact_lower(value, size, float(scipy.stats.norm.sf(reach)))
    if reviewer is None:
        band = np.where(betas < 100, band, value)
    return CurveBand(betas, value, low, high, band)


def _never_bare(
    value: Floats, low: Floats, high: Floats, reviewed: Floats, size: float
) -> tuple[Floats, Floats]:
    """The limits, and where every resample agrees those of an unreviewed part that is all alike.

    Nothing is by chance once all is reviewed: then there are none.
    """
    low, high = low.copy(), high.copy()
    for at in np.flatnonzero(high - low < WIDTH):
        left = 1 - reviewed[at]
        if left <= 0:
            low[at] = high[at] = np.nan
            continue
        alone = float(np.clip((value[at] - reviewed[at]) / left, 0, 1))
        ends = alike_limits(alone, max(left * size, 1.0), (0, 1))
        low[at], high[at] = (reviewed[at] + left * end for end in ends)
    return low, high


def _exact_lower(share: Floats, n: float, alpha: float) -> Floats:
    """Clopper and Pearson's lower limit: where few errors are left, no resample shows how few."""
    right = np.clip(share * n, 0, n)
    return np.where(
        right > 0, scipy.stats.beta.ppf(alpha, np.maximum(right, 1e-9), n - right + 1), 0.0
    )


def _grouped(levels: Floats) -> Floats:
    """The levels in falling order as 0, 1, 2 …, at most MOST_LEVELS of them."""
    distinct, code = np.unique(-levels, return_inverse=True)
    step = max(1, -(-len(distinct) // MOST_LEVELS))
    return (code.reshape(-1) // step).astype(np.float64)


def _curves(
    weights: Floats, group: Floats, judge: Floats, people: Floats, shares: Floats
) -> Floats:
    """(R, betas) accuracy of each of R resamples of weighted cells, each with its own cut."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))

    def running(values: Floats) -> Floats:
        sums = np.add.reduceat((weights * values)[:, order], starts, axis=1)
        return np.pad(np.cumsum(sums, axis=1), ((0, 0), (1, 0)))

    reviewed, right, replaced = running(np.ones(len(group))), running(judge), running(people)
    curves = [
        (r[-1] + np.interp(shares * n[-1], n, p - r)) / n[-1]
        for n, r, p in zip(reviewed, right, replaced, strict=True)
    ]
    return np.array(curves)
