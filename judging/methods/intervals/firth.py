"""Fits of outcomes by log odds, with limits that hold where few labels differ.

An example with linear predictors T_y . theta has outcome y with chance exp(T_y . theta) over the
sum of all outcomes. Logistic regression, Bradley-Terry and Davidson's model are of this kind. The
centre of an interval is Firth's estimate (1993, doi:10.1093/biomet/80.1.27), which is finite if
all labels say the same; its width comes from the residuals by question, with the two
pseudo-observations that win rates have: else ten labels that agree would leave hardly any width."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Codes, Floats
from judging.methods.intervals.bootstrap import WIDTH, all_differ, coded

STEPS = 100
LONGEST_STEP = 1.0
CONVERGED = 1e-9
# Keeps directions finite that no example says anything about.
TINY = 1e-9
# An example that alone decides a parameter has no residual to tell its noise by.
HIGHEST_LEVERAGE = 0.9


@dataclass(frozen=True, slots=True)
class OutcomeFit:
    """theta: (P,). mean: (n, P) expected T. inverse: (P, P), of Fisher's information.

    away: (n, K, P) T_y - mean. chance: (n, K)."""

    theta: Floats
    mean: Floats
    inverse: Floats
    away: Floats
    chance: Floats

    @property
    def leverage(self) -> Floats:
        """(n, K) (T_y - mean) . inverse . (T_y - mean)."""
        return np.asarray(((self.away @ self.inverse) * self.away).sum(axis=2))


def outcome_fit(
    outcomes: ArrayLike, weight: ArrayLike, earned: ArrayLike, *, corrected: bool = True
) -> OutcomeFit:
    """Fit theta by Newton's method.

    Args:
        outcomes: (n, K, P) T of each possible outcome of each kind of example.
        weight, earned: (n,) how many examples each kind has, and (n, P) their mean T.
        corrected: Firth's estimate, the mode under Jeffreys' prior, instead of the largest
            likelihood, which must exist.
    Returns: the fit."""
    return _fitted(outcomes, weight, earned, 1.0 if corrected else 0.0)


def _fitted(outcomes: ArrayLike, weight: ArrayLike, earned: ArrayLike, prior: float) -> OutcomeFit:
    table = np.asarray(outcomes, dtype=np.float64)
    weights, seen = (np.asarray(one, dtype=np.float64) for one in (weight, earned))
    theta = np.zeros(table.shape[2])
    for _ in range(STEPS):
        fit = _at(theta, table, weights)
        score = weights @ (seen - fit.mean)
        if prior:
            expected = (fit.chance * fit.leverage * weights[:, None]).reshape(-1)
            score += prior / 2 * (expected @ fit.away.reshape(-1, len(theta)))
        step = fit.inverse @ score
        longest = float(np.abs(step).max(initial=0.0))
        theta = theta + step * (LONGEST_STEP / max(longest, LONGEST_STEP))
        if longest < CONVERGED:
            break
    return _at(theta, table, weights)


def _at(theta: Floats, table: Floats, weights: Floats) -> OutcomeFit:
    linear = table @ theta
    chance = np.exp(linear - linear.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    mean = (chance[:, :, None] * table).sum(axis=1)
    away = table - mean[:, None, :]
    rows = (away * np.sqrt(weights[:, None] * chance)[:, :, None]).reshape(-1, len(theta))
    information = rows.T @ rows
    inverse = np.linalg.inv(information + TINY * np.eye(len(theta)))
    return OutcomeFit(theta, mean, inverse, away, chance)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels that a fit rests on, one by one.

    kind: (n,) the kind of each example. earned: (n, P) its T. weight: (n,) how many examples it
    represents. question, stratum: (n,) codes; audited and selected examples are strata."""

    kind: Codes
    earned: Floats
    weight: Floats
    question: Codes
    stratum: Codes

    @property
    def questions(self) -> int:
        return int(coded(self.question)[0])


def weighted_fit(outcomes: Floats, labels: Labels) -> OutcomeFit:
    """Return Firth's fit of weighted labels, which are worth no more than their effective number.

    Args: outcomes, labels: as in `outcome_fit`, and the labels.
    Returns: the fit."""
    kinds = len(outcomes)
    weight = np.bincount(labels.kind, labels.weight, kinds).astype(np.float64)
    columns = [np.bincount(labels.kind, labels.weight * one, kinds) for one in labels.earned.T]
    earned = np.stack(columns, axis=1) / np.where(weight > 0, weight, 1.0)[:, None]
    # The penalty counts once against the effective number, so more against the sum of weights.
    prior = float(labels.weight @ labels.weight / labels.weight.sum())
    return _fitted(outcomes, weight, earned, prior)


def influence(fit: OutcomeFit, labels: Labels) -> Floats:
    """Return by how much each label moves theta.

    Each residual is divided by the root of one less its leverage (HC2; MacKinnon and White 1985,
    doi:10.1016/0304-4076(85)90158-7).

    Args: fit, labels: from `weighted_fit`.
    Returns: (n, P)."""
    leverage = (fit.chance * fit.leverage).sum(axis=1)
    own = np.minimum(labels.weight * leverage[labels.kind], HIGHEST_LEVERAGE)
    residual = (labels.earned - fit.mean[labels.kind]) * (labels.weight / np.sqrt(1 - own))[:, None]
    return np.asarray(residual @ fit.inverse)


def pseudo_influence(fit: OutcomeFit, labels: Labels) -> Floats:
    """Return (n, P, P): what one more example of each outcome like this one adds to the variance.

    Args: fit, labels: as in `influence`.
    Returns: the sums of squares and products."""
    moved = fit.away @ fit.inverse
    squares = moved.transpose(0, 2, 1) @ moved
    return np.asarray(squares[labels.kind] * (labels.weight**2)[:, None, None])


def plus_two_covariance(moves: Floats, pseudo: Floats, labels: Labels) -> Floats:
    """Return the covariance of theta by question, with pseudo-observations.

    One more example of each outcome is added to each stratum, as an average one of it; if
    questions repeat, one more question of them.

    Args: moves, pseudo, labels: (n, P) and (n, P, P) as `influence` and `pseudo_influence` give.
    Returns: (P, P)."""
    alone = moves.T @ moves
    together, effect = alone, 1.0
    if not all_differ(labels.question):
        groups, code = coded(labels.question)
        sums = np.stack([np.bincount(code, one, groups) for one in moves.T], axis=1)
        together = np.asarray(sums.T @ sums * (groups / max(groups - 1, 1)), dtype=np.float64)
        before, after = float(np.trace(alone)), float(np.trace(together))
        effect = max(1.0, after / before if before > WIDTH else len(code) / groups)
    more = np.zeros_like(alone)
    for value in np.unique(labels.stratum):
        more += pseudo[labels.stratum == value].mean(axis=0)
    return np.asarray(together + effect**2 * more)


def half_width(variance: float, labels: Labels, parameters: int, confidence: float = 0.95) -> float:
    """Return t standard errors, t with the questions less the parameters as degrees of freedom.

    Args: variance, labels, parameters, confidence: of one value, and what it rests on.
    Returns: half of the interval's width."""
    strata = [labels.question[labels.stratum == one] for one in np.unique(labels.stratum)]
    fewest = min(coded(questions)[0] for questions in strata) if strata else 1
    degrees = max(1, fewest - parameters)
    return float(scipy.stats.t.ppf((1 + confidence) / 2, degrees) * np.sqrt(variance))
