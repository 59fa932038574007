"""Logistic regression with a ridge around a prior, many fits at once.

The penalty is (ridge / 2) sum (b - prior)^2 over the coefficients, not over the intercept: with
much of it the fit becomes the prior, and never noise (le Cessie and van Houwelingen 1992, with
the prior's mean in place of zero).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats

STEPS = 60
LONGEST_STEP = 3.0
CONVERGED = 1e-8
# Keeps the intercept finite where a training part holds one kind only.
INTERCEPT_RIDGE = 1e-3


@dataclass(frozen=True, slots=True)
class RidgeFits:
    """B fits of 1 + F coefficients, the intercept first. coefficients: (B, 1 + F); covariance:
    (B, 1 + F, 1 + F), the inverse of the penalised information (Laplace)."""

    coefficients: Floats
    covariance: Floats

    def linear(self, features: Floats) -> Floats:
        """(B, rows): the logits."""
        return np.asarray(self.coefficients[:, :1] + self.slopes @ features.T)

    @property
    def slopes(self) -> Floats:
        return self.coefficients[:, 1:]


def ridge_fits(
    features: Floats, target: Floats, weights: Floats, ridge: Floats, prior: ArrayLike
) -> RidgeFits:
    """features: (n, F), standardised; target: (n,), 0 to 1, where 1/2 is the same as two rows of
    weight 1/2, one of either kind; weights: (B, n), 0 where a fit leaves a row out; ridge: (B,);
    prior: (F,).  Newton's method, with steps of a bounded length.
    """
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
    """-[y log p + (1 - y) log(1 - p)] of each row, from the logit."""
    return np.asarray(np.logaddexp(0.0, linear) - target * linear)


def sigmoid(linear: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * linear)))
