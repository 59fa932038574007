"""Which instances teach the judge: the train/test split, and the most biased as examples.

Ohi et al., section 2.2: the instances with the largest RS of the training part are shown to the
judge with the people's score in place of its own.  Before, as many are drawn at random.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Codes
from judging.methods.likelihood.scores import bias_by_instance

SHOWN = 8
TRAIN_SHARE = 0.8


def train_rows(
    n: int,
    rng: np.random.Generator,
    *,
    group: ArrayLike | None = None,
    share: float = TRAIN_SHARE,
) -> NDArray[np.bool_]:
    """(n,) whether each instance is for training, 4:1; the rest is the test part.

    group: instances of one group (outputs for the same input) are kept together, so that nothing
    that the judge was shown is asked of it.
    """
    groups = np.arange(n) if group is None else np.unique(np.asarray(group), return_inverse=True)[1]
    groups = groups.reshape(-1)
    size = np.bincount(groups, minlength=1)
    order = rng.permutation(len(size))
    # Whole groups, up to the nearest to the share; each part gets one where there are two.
    filled = np.cumsum(size[order])
    take = int(np.argmin(np.abs(filled - share * n))) + 1
    take = min(take, max(len(size) - 1, 1))
    chosen = np.zeros(len(size), dtype=bool)
    chosen[order[:take]] = True
    return np.asarray(chosen[groups])


def most_biased(
    log_likelihood: ArrayLike,
    model: ArrayLike,
    human: ArrayLike,
    *,
    train: ArrayLike | None = None,
    count: int = SHOWN,
) -> Codes:
    """Places of the `count` instances with the largest RS, the largest first; ties by place.

    train: (N,) the part that they are taken from, and that LS and US are normalised over.
    """
    ls, judged, people = (np.asarray(a, np.float64) for a in (log_likelihood, model, human))
    rows = np.isfinite(ls + judged + people)
    if train is not None:
        rows &= np.asarray(train, dtype=bool)
    places = np.flatnonzero(rows)
    if not len(places):
        return places
    strength = bias_by_instance(ls[rows], judged[rows], people[rows])
    return places[np.argsort(-strength, kind="stable")[:count]]


def random_examples(train: ArrayLike, rng: np.random.Generator, *, count: int = SHOWN) -> Codes:
    """Places of as many instances of the training part, drawn without regard to bias."""
    places = np.flatnonzero(np.asarray(train, dtype=bool))
    return np.asarray(rng.permutation(places)[:count])
