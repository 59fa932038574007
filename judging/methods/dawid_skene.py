"""Labels from votes when annotators differ in skill (Dawid and Skene 1979), by EM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.estimates import Undefined

CLASSES = 3
# One pseudo-vote a row of each confusion matrix, spread evenly: an annotator with few votes is
# neither perfect nor hopeless.
SMOOTHING = 1 / CLASSES


@dataclass(frozen=True, slots=True)
class DawidSkene:
    """Classes are win, tie, lose.

    posterior: (N, 3).  prior: (3,).  confusion: (raters, 3, 3), rows the true class.
    """

    posterior: Floats
    prior: Floats
    confusion: Floats
    iterations: int
    converged: bool


def dawid_skene(
    votes: Signs, present: Booleans, *, iterations: int = 500, tolerance: float = 1e-8
) -> DawidSkene | Undefined:
    """votes: (N, raters) of 1, 0, -1, read where present; every example has one vote or more."""
    if not present.any(axis=1).all() or not present.size:
        return Undefined("an example without a vote has no label")
    one_hot = np.stack([(votes == sign) & present for sign in (1, 0, -1)], axis=2).astype(float)
    posterior = one_hot.sum(axis=1) / one_hot.sum(axis=(1, 2))[:, None]
    for step in range(1, iterations + 1):
        prior = (posterior.sum(axis=0) + SMOOTHING) / (len(posterior) + 1)
        counts = np.einsum("nt,nrv->rtv", posterior, one_hot) + SMOOTHING
        confusion = counts / counts.sum(axis=2, keepdims=True)
        log_likelihood = np.log(prior) + np.einsum("nrv,rtv->nt", one_hot, np.log(confusion))
        updated = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        updated /= updated.sum(axis=1, keepdims=True)
        change = float(np.abs(updated - posterior).max())
        posterior = updated
        if change < tolerance:
            return DawidSkene(posterior, prior, confusion, step, True)
    return DawidSkene(posterior, prior, confusion, iterations, False)
