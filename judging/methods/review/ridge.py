"""Logistic regression with a ridge around a prior, many fits at once.

The penalty is (ridge / 2) sum (b - prior)^2 over the coefficients, not over the intercept: with
much of it the fit becomes the prior, and never noise (le Cessie and van Houwelingen 1992,
doi:10.2307/2347628, with the prior's mean in place of zero)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Codes, Floats

STEPS = 60
LONGEST_STEP = 3.0
CONVERGED = 1e-8
# Keeps the intercept finite if a training part holds only errors, or none.
INTERCEPT_RIDGE = 1e-3
# The last one leaves nothing but the prior.
RIDGES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1e6)
FOLDS = 5
REPEATS = 4
# With more rows the folds agree: the ridge hardly matters, and one division is enough.
FEW_ROWS = 200
MOST_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class RidgeFits:
    """B fits of 1 + F coefficients, the intercept first.

    coefficients: (B, 1 + F); covariance: (B, 1 + F, 1 + F), the inverse of the penalised
    information (Laplace)."""

    coefficients: Floats
    covariance: Floats

    def linear(self, features: Floats) -> Floats:
        """Return (B, rows) logits."""
        return np.asarray(self.coefficients[:, :1] + self.slopes @ features.T)

    @property
    def slopes(self) -> Floats:
        return self.coefficients[:, 1:]


def ridge_fits(
    features: Floats, target: Floats, weights: Floats, ridge: Floats, prior: ArrayLike
) -> RidgeFits:
    """Fit B logistic regressions by Newton's method, with steps of a bounded length.

    Args:
        features: (n, F), standardised.
        target: (n,) 0 to 1; 1/2 equals two rows of weight 1/2, one of either kind.
        weights: (B, n), 0 if a fit leaves a row out.
        ridge, prior: (B,) strengths, and (F,) the coefficients that they pull to.
    Returns: the fits."""
    n, width = features.shape
    rows = np.column_stack((np.ones(n), features))
    penalty = np.tile(np.asarray(ridge, dtype=np.float64)[:, None], (1, width + 1))
    penalty[:, 0] = INTERCEPT_RIDGE
    mean = np.concatenate(([0.0], np.asarray(prior, dtype=np.float64)))
    fitted = np.tile(mean, (len(weights), 1))
    information = np.zeros((len(weights), width + 1, width + 1))
    diagonal, left = np.arange(width + 1), np.arange(len(weights))
    for _ in range(STEPS):
        chance = sigmoid(fitted[left] @ rows.T)
        slope = (weights[left] * (target - chance)) @ rows
        slope -= penalty[left] * (fitted[left] - mean)
        spread = weights[left] * chance * (1 - chance)
        curvature = np.matmul(rows.T * spread[:, None, :], rows)
        curvature[:, diagonal, diagonal] += penalty[left]
        information[left] = curvature
        step = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
        longest = np.abs(step).max(axis=1)
        fitted[left] += step * (LONGEST_STEP / np.maximum(longest, LONGEST_STEP))[:, None]
        left = left[longest > CONVERGED]
        if not len(left):
            break
    return RidgeFits(fitted, np.linalg.inv(information))


def log_loss(target: Floats, linear: Floats) -> Floats:
    """Return -[y log p + (1 - y) log(1 - p)] of each row.

    Args: target, linear: outcomes, 0 to 1, and logits.
    Returns: float64 in nats, 0 or more."""
    return np.asarray(np.logaddexp(0.0, linear) - target * linear)


def sigmoid(linear: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)) without overflow.

    Args: linear: logits.
    Returns: float64, 0 to 1."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * linear)))


@dataclass(frozen=True, slots=True)
class CrossValidated:
    """ridge: the one with the smallest log loss on rows left out. rows: those that were used.

    scores: each row's score (without the intercept) by fits that left it out, their mean over the
    repeated divisions."""

    ridge: float
    rows: Codes
    scores: Floats


def cross_validated(
    features: Floats, target: Floats, prior: Floats, rng: np.random.Generator
) -> CrossValidated:
    """Choose the ridge by the log loss on rows left out; more than 1,000 rows are thinned.

    Scores leave the intercept out: a fold that happens to hold more errors is scored by a fit that
    saw fewer, and would fall below the other folds for that alone.

    Args:
        features, target, prior: (n, F), (n,) and (F,) as in `ridge_fits`.
        rng: source of thinning and folds.
    Returns: ridge, rows and their scores."""
    rows = np.arange(len(target))
    if len(rows) > MOST_ROWS:
        rows = np.sort(rng.choice(rows, MOST_ROWS, replace=False))
    x, y = features[rows], target[rows]
    repeats = REPEATS if len(y) <= FEW_ROWS else 1
    folds = np.stack([_folds(y, rng) for _ in range(repeats)])
    left_out = folds[:, None, :] == np.arange(FOLDS)[None, :, None]
    weights = np.tile((~left_out).reshape(-1, len(y)).astype(np.float64), (len(RIDGES), 1))
    ridges = np.repeat(np.array(RIDGES), repeats * FOLDS)
    fits = ridge_fits(x, y, weights, ridges, prior)
    shape = (len(RIDGES), repeats, FOLDS, len(y))
    logits = (fits.linear(x).reshape(shape) * left_out).sum(axis=2)
    scores = ((fits.slopes @ x.T).reshape(shape) * left_out).sum(axis=2)
    # The strongest of equally good ones.
    losses = log_loss(y, logits).sum(axis=(1, 2))
    best = len(losses) - 1 - int(np.argmin(losses[::-1]))
    return CrossValidated(RIDGES[best], rows, scores[best].mean(axis=0))


def _folds(target: Floats, rng: np.random.Generator) -> Codes:
    """A fold for each row, errors and right ones dealt out evenly."""
    order = rng.permutation(len(target))
    order = order[np.argsort(target[order], kind="stable")]
    fold = np.empty(len(target), dtype=np.intp)
    fold[order] = np.arange(len(target)) % FOLDS
    return fold
