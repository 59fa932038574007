"""How well a score finds the judge's errors: AUROC with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats
from judging.methods.intervals.bootstrap import ONE_QUESTION, all_differ, coded
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, unseen_total

# With fewer errors, or fewer right labels, no sentence is built on the interval.
FEWEST_FOR_WORDS = 5
# The place of a single error says too little: limits around it cover .92.
FEWEST_FOR_LIMITS = 2
# With fewer audited errors, the errors that rank found are nearly all that the figure sees.
FEWEST_AUDITED = 3
FEW = f"fewer than {FEWEST_FOR_WORDS} errors or right labels, too few to compare with chance"


def auroc(
    score: ArrayLike,
    error: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Figure:
    """Return P(score of an error > score of a right label) + half of P(equal).

    The interval is Newcombe's method 5 (2006, doi:10.1002/sim.2324): DeLong's and the bootstrap's
    cover .67 to .75 at 5 % errors. After a routed round `_audit_reach` is added to it.

    Args:
        score: (N,) for example BPDE.
        error: (N,) 0 to 1; 1/2 counts as half an error and half a right label.
        weight: (N,) how many examples each represents; None: 1 each. The heaviest are the audit.
        question: (N,) equal codes share a question.
        confidence: of the interval.
    Returns: area, 0 to 1; its note is `FEW` if no claim should be built on it, and it has no limits
        with a single error or right label. Undefined without either, after a routed round below 3
        audited ones of either."""
    wrong = np.asarray(error, dtype=np.float64)
    weights = np.ones(len(wrong)) if weight is None else np.asarray(weight, dtype=np.float64)
    wrong_weight, right_weight = weights * wrong, weights * (1 - wrong)
    n_wrong, n_right = float(wrong_weight.sum()), float(right_weight.sum())
    if not n_wrong:
        return Undefined("the judge made no error here")
    if not n_right:
        return Undefined("the judge was right on no example here")
    routed = np.ptp(weights) > 0
    audited = weights == weights.max()
    fewer = min(float(wrong[audited].sum()), float((1 - wrong[audited]).sum()))
    if routed and fewer < FEWEST_AUDITED:
        return Undefined(
            f"the audit found {wrong[audited].sum():g} errors and {(1 - wrong[audited]).sum():g} "
            f"right labels of the judge; {FEWEST_AUDITED} of each are needed"
        )
    area, influence = _area_and_influence(score, wrong_weight, right_weight)
    fewest = min(float(wrong.sum()), float((1 - wrong).sum()))
    if fewest < FEWEST_FOR_LIMITS:
        return Estimate(area, len(wrong), note=FEW)
    effect = _design_effect(influence, question)
    if not effect:
        return Estimate(area, len(wrong), note=ONE_QUESTION)
    # Weights that are all alike only say how many other examples these represent.
    alike = 1.0 if routed else float(weights[0])
    sizes = (n_wrong / alike / effect, n_right / alike / effect)
    low, high = _newcombe_limits(area, *sizes, confidence)
    if routed:
        below, above = _audit_reach(score, wrong, weights, audited, confidence)
        low = max(0.0, area - float(np.hypot(area - low, effect**0.5 * below)))
        high = min(1.0, area + float(np.hypot(high - area, effect**0.5 * above)))
    return Estimate(area, len(wrong), low, high, FEW if fewest < FEWEST_FOR_WORDS else "")


def no_better_than_chance(area: Figure) -> bool:
    """Return whether the interval's upper limit is at or below 1/2.

    Args: area: from `auroc`.
    Returns: False if there is no interval, or too few errors for a claim."""
    return _may_claim(area) and area.high is not None and area.high <= 0.5


def better_than_chance(area: Figure) -> bool:
    """Return whether the interval's lower limit is above 1/2.

    Args: area: from `auroc`.
    Returns: False if there is no interval, or too few errors for a claim."""
    return _may_claim(area) and area.low is not None and area.low > 0.5


def _may_claim(area: Figure) -> TypeGuard[Estimate]:
    return isinstance(area, Estimate) and area.note != FEW


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


def _placements(score: ArrayLike, wrong: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return (N,) the weighted share of the right labels, and of the errors, below each example."""
    _, code = coded(score)

    def placement(weights: Floats) -> Floats:
        """The weighted share of these examples that each example is above; equal scores half."""
        per_level = np.bincount(code, weights)
        share: Floats = (np.cumsum(per_level) - per_level / 2) / per_level.sum()
        return share[code]

    return placement(right), placement(wrong)


def _area_and_influence(score: ArrayLike, wrong: Floats, right: Floats) -> tuple[float, Floats]:
    """Return the area, and (N,) by how much each example moves it, from DeLong's placements."""
    n_wrong, n_right = wrong.sum(), right.sum()
    above_right, above_wrong = _placements(score, wrong, right)
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


def _design_effect(influence: Floats, question: ArrayLike | None) -> float:
    """How many times the area's variance is that of independent examples; 0 for one question."""
    if question is None or all_differ(question):
        return 1.0
    groups, code = coded(question)
    if groups < 2:
        return 0.0
    apart = np.bincount(code, influence, minlength=groups)
    independent = float(influence @ influence)
    if independent < 1e-12:
        return len(influence) / groups
    return max(1.0, groups / (groups - 1) * float(apart @ apart) / independent)


def _audit_reach(
    score: ArrayLike, wrong: Floats, weights: Floats, audited: Booleans, confidence: float
) -> tuple[float, float]:
    """How far the audit's chance may have moved the area up and down.

    The area is the mean placement of the errors among the right labels, over the selected and the
    rest. Of the rest only the audit is seen: how many errors it holds has exact limits, and their
    mean placement, as that of its right labels, a t interval with one more value at 0 and at 1.
    The distances are added in squares (Zou and Donner 2008, doi:10.1002/sim.3095)."""
    n, rest = int(audited.sum()), round(float(weights[audited].sum()))
    errors = float(wrong[audited].sum())
    held, *limits = unseen_total(errors, n, rest - n, confidence)
    above_right, above_wrong = _placements(score, weights * wrong, weights * (1 - wrong))
    moves = []
    for kind, place, more, sign in (
        (wrong, above_right, held, 1),
        (1 - wrong, above_wrong, rest - n - held, -1),
    ):
        inside, drawn, at = float(kind[~audited].sum()), kind[audited], place[audited]
        count, total = float(drawn.sum()), float(drawn @ at)
        mean, centre = total / count, (total + 1) / (count + 2)
        spread = (float(drawn @ at**2) + 1) / (count + 2) - centre**2
        reach = float(scipy.stats.t.ppf((1 + confidence) / 2, count - 1))
        half = reach * float(np.sqrt((1 - n / rest) * spread / (count + 1)))
        share = (count + more) / (inside + count + more)
        ends = max(centre - half, 0.0), min(centre + half, 1.0)
        moves.append([sign * share * (end - mean) for end in ends])
        if kind is wrong:
            selected = float(kind[~audited] @ place[~audited])
            areas = [
                (selected + (count + rise) * mean) / (inside + count + rise)
                for rise in (held, *limits)
            ]
            moves.append([area - areas[0] for area in areas[1:]])
    below = sum(min(*move, 0.0) ** 2 for move in moves)
    above = sum(max(*move, 0.0) ** 2 for move in moves)
    return float(below**0.5), float(above**0.5)
