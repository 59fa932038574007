"""How strong the ridge shall be, and what the fit is worth on examples it did not see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judging.methods.arrays import Codes, Floats
from judging.methods.ridge_logistic import log_loss, ridge_fits

# The last one leaves nothing but the prior.
RIDGES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1e6)
FOLDS = 5
REPEATS = 4
# With more rows the folds agree: the ridge hardly matters, and one division is enough.
FEW_ROWS = 200
MOST_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class CrossValidated:
    """ridge: the one with the smallest log loss on rows left out. rows: those that were used;
    scores: each one's score (without the intercept) by fits that left it out, their mean over
    the repeated divisions."""

    ridge: float
    rows: Codes
    scores: Floats


def cross_validated(
    features: Floats, target: Floats, prior: Floats, rng: np.random.Generator
) -> CrossValidated:
    """features: (n, F); target: (n,), 0 to 1; prior: (F,). More than 1,000 rows are thinned.

    Scores leave the intercept out: a fold that happens to hold more errors is scored by a fit that
    saw fewer, and would stand below the other folds for that alone.
    """
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
