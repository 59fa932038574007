"""How well a score finds the judge's errors: AUROC with an interval.

The area between the HITLC curve and the random line, over that between oracle and random, is
2 AUROC - 1, so this one number says whether a ranking is worth anything on this judge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats
from judging.methods.intervals.bootstrap import ONE_QUESTION, all_differ, coded
from judging.methods.intervals.estimates import Estimate, Figure, Undefined


def auroc(
    score: ArrayLike,
    error: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Figure:
    """Return P(score of an error > score of a right label) + half of P(equal).

    The interval is built on the logit scale. Its variance comes from the placements (DeLong 1988,
    doi:10.2307/2531595), each example's with its weight. If it vanishes, at 0 or 1, Newcombe's
    method 5 (2006, doi:10.1002/sim.2324) is used.

    Args:
        score: (N,) for example BPDE.
        error: (N,) 0 to 1; 1/2 counts as half an error and half a right label.
        weight: (N,) how many examples each represents; None: 1 each.
        question: (N,) equal codes share a question.
        confidence: of the interval.
    Returns: area, 0 to 1, or Undefined without errors or without right labels."""
    wrong = np.asarray(error, dtype=np.float64)
    weights = np.ones(len(wrong)) if weight is None else np.asarray(weight, dtype=np.float64)
    wrong_weight, right_weight = weights * wrong, weights * (1 - wrong)
    n_wrong, n_right = float(wrong_weight.sum()), float(right_weight.sum())
    if not n_wrong:
        return Undefined("the judge made no error here")
    if not n_right:
        return Undefined("the judge was right on no example here")
    area, influence = _area_and_influence(score, wrong_weight, right_weight)
    n = len(wrong)
    groups, apart = n, influence
    if question is not None and not all_differ(question):
        groups, code = coded(question)
        apart = np.asarray(np.bincount(code, influence, minlength=groups), dtype=np.float64)
        if groups < 2:
            return Estimate(area, n, note=ONE_QUESTION)
    variance = float(apart @ apart) * groups / max(groups - 1, 1)
    if variance < 1e-12:
        low, high = _newcombe_limits(area, float(wrong.sum()), float((1 - wrong).sum()), confidence)
    else:
        low, high = _logit_limits(area, float(np.sqrt(variance)), n_wrong * n_right, confidence)
    return Estimate(area, n, low, high)


def no_better_than_chance(area: Figure) -> bool:
    """Return whether the interval's upper limit is at or below 1/2.

    Args: area: from `auroc`.
    Returns: False if there is no interval."""
    return isinstance(area, Estimate) and area.high is not None and area.high <= 0.5


@dataclass(frozen=True, slots=True)
class AurocDifference:
    """AUROC of one score less that of another on the same examples, and its standard error."""

    value: float
    standard_error: float


def auroc_difference(
    first: ArrayLike, second: ArrayLike, error: ArrayLike
) -> AurocDifference | Undefined:
    """Compare two scores on the same examples by their paired placements (DeLong 1988).

    Args: first, second, error: (N,) scores and errors, as in `auroc`.
    Returns: the difference, -1 to 1, or Undefined as `auroc`."""
    wrong = np.asarray(error, dtype=np.float64)
    if not wrong.sum() or not (1 - wrong).sum():
        return Undefined("the judge was never wrong, or never right, here")
    (area_1, influence_1), (area_2, influence_2) = (
        _area_and_influence(score, wrong, 1 - wrong) for score in (first, second)
    )
    apart = influence_1 - influence_2
    variance = float(apart @ apart) * len(wrong) / max(len(wrong) - 1, 1)
    return AurocDifference(area_1 - area_2, float(np.sqrt(variance)))


def _area_and_influence(score: ArrayLike, wrong: Floats, right: Floats) -> tuple[float, Floats]:
    """Return the area, and (N,) by how much each example moves it, from DeLong's placements."""
    _, code = coded(score)

    def placement(weights: Floats) -> Floats:
        """The weighted share of these examples that each example is above; equal scores half."""
        per_level = np.bincount(code, weights)
        share: Floats = (np.cumsum(per_level) - per_level / 2) / per_level.sum()
        return share[code]

    n_wrong, n_right = wrong.sum(), right.sum()
    above_right, above_wrong = placement(right), placement(wrong)
    area = float(wrong @ above_right / n_wrong)
    influence = wrong * (above_right - area) / n_wrong + right * (1 - above_wrong - area) / n_right
    return area, np.asarray(influence, dtype=np.float64)


def _newcombe_limits(
    area: float, n_wrong: float, n_right: float, confidence: float
) -> tuple[float, float]:
    """The areas that differ from the observed one by z standard errors of their own."""
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    mean_n = (n_wrong + n_right) / 2 - 1

    def excess(a: float) -> float:
        spread = a * (1 - a) * (1 + mean_n * ((1 - a) / (2 - a) + a / (1 + a)))
        return (area - a) ** 2 - z * z * spread / (n_wrong * n_right)

    # Next to the observed area the excess is negative, and at the far ends it is positive.
    tiny = 1e-9
    inside = min(max(area, tiny), 1 - tiny)
    low = scipy.optimize.brentq(excess, 0, inside) if area > tiny else 0.0
    high = scipy.optimize.brentq(excess, inside, 1) if area < 1 - tiny else 1.0
    return float(low), float(high)


def _logit_limits(
    area: float, error: float, pairs: float, confidence: float
) -> tuple[float, float]:
    moved = (area * pairs + 0.5) / (pairs + 1)
    half = float(scipy.stats.norm.ppf((1 + confidence) / 2)) * error / (moved * (1 - moved))
    centre = np.log(moved / (1 - moved))
    low, high = 1 / (1 + np.exp(-(centre - half))), 1 / (1 + np.exp(-(centre + half)))
    return min(float(low), area), max(float(high), area)
