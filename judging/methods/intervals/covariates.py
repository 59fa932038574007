"""Are longer (or likelier, or kindred) responses preferred, and is that a bias?

score ~ logit(alpha + gamma tanh(difference / sd)). The slope gamma of the judge alone is an
association: longer responses may be better. The bias is gamma_judge - gamma_human on the same
examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Codes, Floats
from judging.methods.intervals.bootstrap import ONE_QUESTION, coded, plus_two_mean
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.intervals.firth import (
    Labels,
    OutcomeFit,
    half_width,
    influence,
    outcome_fit,
    plus_two_covariance,
    pseudo_influence,
    weighted_fit,
)

NEAR = 0.25
FEW_NEAR = 0.10
CONSTANT = "all pairs differ by the same amount, so the result for equal responses is unknown"


@dataclass(frozen=True, slots=True)
class CovariateEffect:
    """raw: win rate of response 1. equal: sigma(alpha), its win rate if both were alike.

    slope: gamma. near: share of pairs that differ by less than a quarter of an sd; below 10 % the
    equal win rate is an extrapolation. separated: the covariate parts the wins from the losses, so
    that the largest likelihood has no finite slope, and Firth's estimate is given."""

    raw: Figure
    equal: Figure
    slope: Figure
    near: float
    separated: bool

    @property
    def few_comparable(self) -> bool:
        return self.near < FEW_NEAR


@dataclass(frozen=True, slots=True)
class CovariateBias:
    """judge and human on the same examples; bias = gamma_judge - gamma_human."""

    judge: CovariateEffect
    human: CovariateEffect
    bias: Figure


def covariate_effect(
    difference: ArrayLike,
    score: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
) -> CovariateEffect | Undefined:
    """Fit preference against a covariate (length, likelihood, family).

    The value of the slope is that of the largest likelihood, its limits lie around Firth's.

    Args:
        difference: (N,) the covariate of response 1 less that of response 2.
        score: (N,) 1, 1/2 or 0 for response 1.
        weight: (N,) how many examples each represents; None: 1 each.
        question, stratum: (N,) codes; None: each example has its own question, and one stratum.
    Returns: the effect, or Undefined if the pairs don't differ."""
    design = _Design.of(difference, weight, question, stratum)
    return design if isinstance(design, Undefined) else design.effect(_Preference.of(design, score))


def covariate_bias(
    difference: ArrayLike,
    judge: ArrayLike,
    human: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
) -> CovariateBias | Undefined:
    """Compare the judge's slope with people's on the same examples.

    The interval is about the difference of the two influences of each example, with one more
    disagreement in each direction: labels that are all alike don't exclude a bias.

    Args:
        difference, weight, question, stratum: as in `covariate_effect`.
        judge, human: (N,) scores of the examples that both have labelled.
    Returns: both effects and gamma_judge - gamma_human, or Undefined."""
    design = _Design.of(difference, weight, question, stratum)
    if isinstance(design, Undefined):
        return design
    both = [_Preference.of(design, score) for score in (judge, human)]
    effects = [design.effect(one) for one in both]
    moves = influence(both[0].fit, both[0].labels) - influence(both[1].fit, both[1].labels)
    pseudo = [_one_more(one.fit, one.labels) for one in both]
    values = [one.slope for one in both]
    bias = design.figure(
        values[0] - values[1],
        both[0].fit.theta[-1] - both[1].fit.theta[-1],
        plus_two_covariance(moves, pseudo[0] + pseudo[1], both[0].labels)[-1, -1],
        both[0].labels,
    )
    return CovariateBias(effects[0], effects[1], bias)


def _one_more(fit: OutcomeFit, labels: Labels) -> Floats:
    """(n, P, P) what a label that turns over at each example would add to the variance."""
    moved = (fit.away[:, 0] - fit.away[:, 1])[labels.kind] @ fit.inverse
    moved *= labels.weight[:, None]
    return np.asarray(moved[:, :, None] * moved[:, None, :])


@dataclass(frozen=True, slots=True)
class _Design:
    """What the pairs differ by. columns: (N, P), without the constant if all differ alike."""

    columns: Floats
    weight: Floats
    question: Codes
    stratum: Codes
    near: float

    @classmethod
    def of(
        cls,
        difference: ArrayLike,
        weight: ArrayLike | None,
        question: ArrayLike | None,
        stratum: ArrayLike | None,
    ) -> _Design | Undefined:
        delta = np.asarray(difference, dtype=np.float64)
        n = len(delta)
        weights = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        if n == 1:
            return Undefined("one pair is too few to show a preference")
        if not delta.any():
            return Undefined("the two responses are equal in this respect in every pair")
        constant = bool((delta == delta[0]).all())
        scale = abs(float(delta[0])) if constant else float(delta.std(ddof=1))
        near = float(weights @ (np.abs(delta) < NEAR * scale) / weights.sum())
        x = np.tanh(delta / scale)
        columns = x[:, None] if constant else np.column_stack((np.ones(n), x))
        asked = np.arange(n) if question is None else coded(question)[1]
        strata = np.zeros(n, np.intp) if stratum is None else coded(stratum)[1]
        return cls(columns, weights, asked, strata, near)

    @property
    def constant(self) -> bool:
        return bool(self.columns.shape[1] == 1)

    def effect(self, preference: _Preference) -> CovariateEffect:
        fit, labels, best = preference.fit, preference.labels, preference.best
        moves, pseudo = influence(fit, labels), pseudo_influence(fit, labels)
        covariance = plus_two_covariance(moves, pseudo, labels)
        score = preference.score
        raw = float(self.weight @ score / self.weight.sum())
        slope = self.figure(best[-1], fit.theta[-1], covariance[-1, -1], labels)
        equal: Figure = Undefined(CONSTANT)
        if not self.constant:
            equal = self.figure(best[0], fit.theta[0], covariance[0, 0], labels)
            if isinstance(equal, Estimate):
                equal = _as_share(equal)
        return CovariateEffect(
            raw=plus_two_mean(score, (0, 1), self.question)
            if np.ptp(self.weight) == 0
            else Estimate(raw, len(score)),
            equal=equal,
            slope=slope,
            near=self.near,
            separated=preference.separated,
        )

    def figure(self, value: float, centre: float, variance: float, labels: Labels) -> Figure:
        n = len(self.columns)
        if labels.questions < 2:
            return Estimate(float(value), n, note=ONE_QUESTION)
        half = half_width(float(variance), labels, self.columns.shape[1])
        low, high = min(centre - half, value), max(centre + half, value)
        return Estimate(float(value), n, float(low), float(high))


@dataclass(frozen=True, slots=True)
class _Preference:
    """Someone's labels. fit: Firth's; best: of the largest likelihood, if that is finite."""

    score: Floats
    labels: Labels
    fit: OutcomeFit
    best: Floats
    separated: bool

    @classmethod
    def of(cls, design: _Design, score: ArrayLike) -> _Preference:
        y = np.asarray(score, dtype=np.float64)
        outcomes = np.stack((design.columns, np.zeros_like(design.columns)), axis=1)
        earned = design.columns * y[:, None]
        kind = np.arange(len(y))
        labels = Labels(kind, earned, design.weight, design.question, design.stratum)
        fit = weighted_fit(outcomes, labels)
        separated = _separated(design.columns[:, -1], y, constant=design.constant)
        if separated:
            return cls(y, labels, fit, fit.theta, separated)
        best = outcome_fit(outcomes, design.weight, earned, corrected=False)
        return cls(y, labels, fit, best.theta, separated)

    @property
    def slope(self) -> float:
        return float(self.best[-1])


def _separated(x: Floats, y: Floats, *, constant: bool) -> bool:
    """Whether a threshold of the covariate parts the wins from the losses; a tie is both."""
    won, lost = x[y > 0], x[y < 1]
    if not len(won) or not len(lost):
        return True
    return not constant and bool(won.min() >= lost.max() or lost.min() >= won.max())


def _as_share(log_odds: Estimate) -> Estimate:
    value, low, high = (
        None if one is None else float(1 / (1 + np.exp(-one)))
        for one in (log_odds.value, log_odds.low, log_odds.high)
    )
    assert value is not None
    return Estimate(value, log_odds.n, low, high, log_odds.note)
