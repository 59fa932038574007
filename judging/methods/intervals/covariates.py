"""Are longer (or likelier, or kindred) responses preferred, and is that a bias?

score ~ logit(alpha + gamma tanh(difference / sd)). The slope gamma of the judge alone is an
association: longer responses may be better. The bias is gamma_judge - gamma_human on the same
examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats
from judging.methods.intervals.bootstrap import alike_limits, cells, estimate_of, resampled_counts
from judging.methods.intervals.estimates import Estimate, Figure, Undefined

REPEATS = 1_000
STEPS = 30
# Steeper slopes than this on a covariate between -1 and 1 mean that the data are separated.
STEEPEST = 15.0
RIDGE = 0.1
NEAR = 0.25
FEW_NEAR = 0.10
# From here on the resamples see the covariate in steps of 0.01, which moves gamma by 1e-4.
MANY = 500
CONSTANT = "all pairs differ by the same amount, so the result for equal responses is unknown"


@dataclass(frozen=True, slots=True)
class CovariateEffect:
    """raw: win rate of response 1. equal: sigma(alpha), its win rate if both were alike.

    slope: gamma. near: share of pairs that differ by less than a quarter of an sd; below 10 % the
    equal win rate is an extrapolation. separated: only a ridge keeps the slope finite."""

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
    rng: np.random.Generator,
    *,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
) -> CovariateEffect | Undefined:
    """Fit preference against a covariate (length, likelihood, family).

    Args:
        difference: (N,) the covariate of response 1 less that of response 2.
        score: (N,) 1, 1/2 or 0 for response 1.
        rng, question, stratum: as in `resampled_counts`.
        weight: (N,) how many examples each represents; None: 1 each.
    Returns: the effect, or Undefined if the pairs don't differ."""
    fits = _fits(difference, [score], rng, weight, question, stratum)
    return fits if isinstance(fits, Undefined) else fits[0][0]


def covariate_bias(
    difference: ArrayLike,
    judge: ArrayLike,
    human: ArrayLike,
    rng: np.random.Generator,
    *,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
) -> CovariateBias | Undefined:
    """Compare the judge's slope with people's on the same examples, by a paired bootstrap.

    Args:
        difference, rng, weight, question, stratum: as in `covariate_effect`.
        judge, human: (N,) scores of the examples that both have labelled.
    Returns: both effects and gamma_judge - gamma_human, or Undefined."""
    fits = _fits(difference, [judge, human], rng, weight, question, stratum)
    if isinstance(fits, Undefined):
        return fits
    (of_judge, judge_slopes), (of_human, human_slopes) = fits
    beyond = judge_slopes - human_slopes
    bias = estimate_of(float(beyond[0]), beyond[1:], len(np.asarray(difference)))
    return CovariateBias(of_judge, of_human, bias)


def _share(found: Estimate, question: ArrayLike | None) -> Estimate:
    """Give a share an interval even if all its values are the same."""
    n = found.n if question is None else len(np.unique(np.asarray(question)))
    if found.low is not None or n < 2:
        return found
    return Estimate(found.value, found.n, *alike_limits(found.value, n, (0, 1)))


def _fits(
    difference: ArrayLike,
    scores: list[ArrayLike],
    rng: np.random.Generator,
    weight: ArrayLike | None,
    question: ArrayLike | None,
    stratum: ArrayLike | None,
) -> list[tuple[CovariateEffect, Floats]] | Undefined:
    """For each score its effect, and the slopes of the sample itself and of the resamples."""
    delta = np.asarray(difference, dtype=np.float64)
    weights = np.ones(len(delta)) if weight is None else np.asarray(weight, dtype=np.float64)
    if len(delta) == 1:
        return Undefined("one pair is too few to show a preference")
    if not delta.any():
        return Undefined("the two responses are equal in this respect in every pair")
    constant = bool((delta == delta[0]).all())
    scale = abs(float(delta[0])) if constant else float(delta.std(ddof=1))
    near = float(weights @ (np.abs(delta) < NEAR * scale) / weights.sum())
    x = np.tanh(delta / scale)
    columns = [np.asarray(score, dtype=np.float64) for score in scores]
    coarse: Floats = np.asarray(np.round(x, 2) if len(x) > MANY else x, dtype=np.float64)
    cell, first = cells(coarse, weights, *columns)
    counts = (
        resampled_counts(cell, rng, question=question, stratum=stratum, repeats=REPEATS)
        * weights[first]
    )
    fits = []
    for y in columns:
        fit = _mirrored_fit if constant else _logit_fit
        point, separated = fit(x, y, weights[None, :])
        resampled, _ = fit(coarse[first], y[first], counts)
        both = np.vstack((point, resampled))
        raw = np.concatenate(([weights @ y / weights.sum()], counts @ y[first] / counts.sum(1)))
        equal = 1 / (1 + np.exp(-both[:, 0]))
        effect = CovariateEffect(
            raw=_share(estimate_of(float(raw[0]), raw[1:], len(x)), question),
            equal=Undefined(CONSTANT)
            if constant
            else estimate_of(float(equal[0]), equal[1:], len(x)),
            slope=estimate_of(float(both[0, 1]), both[1:, 1], len(x)),
            near=near,
            separated=bool(separated[0]),
        )
        fits.append((effect, both[:, 1]))
    return fits


def _mirrored_fit(x: Floats, y: Floats, counts: Floats) -> tuple[Floats, Booleans]:
    """Fit with every pair seen from both sides, which keeps alpha at 0."""
    both = np.concatenate((x, -x)), np.concatenate((y, 1 - y))
    return _logit_fit(*both, np.hstack((counts, counts)) / 2)


def _logit_fit(x: Floats, y: Floats, counts: Floats) -> tuple[Floats, Booleans]:
    """(R, 2) alpha and gamma for each row of counts, and which needed the ridge."""
    fitted, done = _newton(x, y, counts, 0.0)
    separated = ~done | (np.abs(fitted).max(axis=1) > STEEPEST)
    if separated.any():
        fitted[separated], _ = _newton(x, y, counts[separated], RIDGE)
    return fitted, separated


def _newton(x: Floats, y: Floats, counts: Floats, ridge: float) -> tuple[Floats, Booleans]:
    theta = np.zeros((len(counts), 2))
    change = np.full(len(counts), np.inf)
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-(theta[:, :1] + theta[:, 1:] * x)))
        residual = counts * (y - chance)
        spread = counts * chance * (1 - chance)
        gradient = np.stack((residual.sum(axis=1), residual @ x), axis=1) - ridge * theta
        a, b, c = spread.sum(axis=1) + ridge, spread @ x, spread @ x**2 + ridge
        determinant = a * c - b * b + 1e-12
        step = (
            np.stack(
                (c * gradient[:, 0] - b * gradient[:, 1], a * gradient[:, 1] - b * gradient[:, 0]),
                axis=1,
            )
            / determinant[:, None]
        )
        step = np.clip(step, -2, 2)
        theta = np.clip(theta + step, -3 * STEEPEST, 3 * STEEPEST)
        change = np.abs(step).max(axis=1)
        if (change < 1e-7).all():
            break
    return theta, change < 1e-6
