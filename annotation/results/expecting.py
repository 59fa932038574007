"""What a review may be expected to reach, before it is paid for, where some labels are known.

Whoever picks a β by looking at the curve needs the band that holds at all of them, and people
who are right as often as the others' majority says, not always.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from annotation.certifying import ALPHA
from annotation.results.figures import Json
from annotation.results.review import BETAS, Review
from annotation.results.sheet import Sheet
from judging.methods.bands import curve_band
from judging.methods.certificate import wrong_allowed
from judging.methods.estimates import Undefined

EPSILONS = (0.05, 0.1, 0.2)
FEWEST_KNOWN = 20


@dataclass(frozen=True)
class Expected:
    """accuracy: the curve at this β; at_least: its simultaneous lower band.

    corrected: labels that become right; usd_each: dollars of people for each of them.
    rests_on: known labels; reviewer: how often a person is right, None where only assumed.
    """

    accuracy: float
    at_least: float
    corrected: float
    usd_each: Decimal | None
    rests_on: int
    reviewer: float | None


def expectation(sheet: Sheet, review: Review | Undefined, rng: np.random.Generator) -> Json:
    """The part of the report that the planner reads; one entry a β."""
    if isinstance(review, Undefined):
        return {"beta": [], "reason": review.reason}
    if len(review.earned) < FEWEST_KNOWN:
        return {"beta": [], "reason": f"{len(review.earned)} known labels are too few to plan by"}
    known = sheet.known
    rows = known.rows if not isinstance(known, Undefined) else np.zeros(0, np.intp)
    agree = sheet.ballots.counts.others_agree()[rows]
    measured = np.isfinite(agree)
    weight = review.weight[measured]
    right = float(np.average(agree[measured], weights=weight)) if measured.any() else None
    band = curve_band(
        review.level,
        review.earned,
        np.array(BETAS, dtype=np.float64),
        rng,
        reviewer=None if right is None else np.where(measured, agree, right),
        weight=review.weight,
        question=review.question,
        stratum=review.stratum,
    )
    if isinstance(band, Undefined):
        return {"beta": [], "reason": band.reason}
    return {
        "beta": list(BETAS),
        "accuracy": band.accuracy.tolist(),
        "lower_band": band.lower_band.tolist(),
        "known": len(review.earned),
        "reviewer": right,
    }


def expected_at(found: Json, beta: float, n: int, usd: Decimal) -> Expected | None:
    """Between two β of the band the lower of both holds."""
    if not found["beta"]:
        return None
    betas = np.array(found["beta"], dtype=np.float64)
    accuracy = float(np.interp(beta, betas, found["accuracy"]))
    lower = np.array(found["lower_band"])
    above = int(np.searchsorted(betas, beta))
    at_least = float(lower[max(0, above - (betas[above] != beta)) : above + 1].min())
    corrected = max(0.0, n * (accuracy - found["accuracy"][0]))
    each = usd / Decimal(corrected) if corrected >= 1 else None
    return Expected(accuracy, at_least, corrected, each, found["known"], found["reviewer"])


def beta_for(found: Json, target: float) -> float | None:
    """The smallest β whose lower band reaches the target."""
    reached = [
        beta
        for beta, low in zip(found["beta"], found.get("lower_band", ()), strict=True)
        if low >= target
    ]
    return reached[0] if reached else None


@dataclass(frozen=True)
class Look:
    """One look at the audit: for each ε how many of its labels may be wrong, or why none may."""

    size: int
    wrong: tuple[int | Undefined, ...]


def may_certify(looks: Sequence[int], epsilons: Sequence[float] = EPSILONS) -> list[Look]:
    """If all audited are in the certified set, and that is large; the looks share the error."""
    alpha = ALPHA / len(looks) if looks else ALPHA
    return [
        Look(size, tuple(wrong_allowed(epsilon, size, alpha) for epsilon in epsilons))
        for size in looks
    ]
