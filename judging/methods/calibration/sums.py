"""The sums over examples that all figures of the permutations are made of.

Kappa, ICC, RStd and accuracy are functions of sums over examples.  So a resample is a vector of
sums, and thousands of them are one matrix product; the same functions serve sample and resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.bootstrap import resampled_counts

CLASSES = (1, 0, -1)
REPEATS = 2_000
# With more questions the sums are normal to a precision that no interval shows.
MANY = 4_000


def signs(p_response_1: Floats, band: float = 0.0) -> Signs:
    """1, 0, -1 for response 1, a tie, response 2; a tie within `band` of one half."""
    apart = p_response_1 - 0.5
    return np.asarray(np.where(np.abs(apart) <= band, 0, np.sign(apart)), dtype=np.int8)


@dataclass(frozen=True, slots=True)
class Recalls:
    """(..., 4) sums: examples whose gold is 1, found among them, whose gold is -1, found."""

    sums: Floats

    @staticmethod
    def columns(said: Signs, gold: Signs, present: Booleans) -> Floats:
        """(K, 4).  A tie of the judge is half right; gold ties are left out (gold 0)."""
        credit = np.where(np.equal(said, 0), 0.5, np.equal(said, gold))
        first, second = present & np.equal(gold, 1), present & np.equal(gold, -1)
        return np.column_stack((first, first * credit, second, second * credit))

    def accuracy(self) -> Floats:
        found = self.sums[..., 1] + self.sums[..., 3]
        return ratio(found, self.sums[..., 0] + self.sums[..., 2])

    def rstd(self) -> Floats:
        """In percent, dividing by the number of classes: half the recalls' distance."""
        first = ratio(self.sums[..., 1], self.sums[..., 0])
        return np.asarray(50 * np.abs(first - ratio(self.sums[..., 3], self.sums[..., 2])))


@dataclass(frozen=True, slots=True)
class Consistency:
    """Of k permutations over the examples that have them all: (..., 6 + k) sums."""

    sums: Floats
    k: int

    @staticmethod
    def columns(p_response_1: Floats, said: Signs, present: Booleans) -> Floats:
        """(K, 6 + k): count, agreement, votes by class, squares, squared total, each column."""
        k = p_response_1.shape[1]
        votes = np.stack([np.equal(said, value).sum(axis=1) for value in CLASSES], axis=1)
        agreeing = (votes * (votes - 1)).sum(axis=1) / (k * (k - 1)) if k > 1 else 0 * votes[:, 0]
        x = p_response_1 - 0.5
        table = np.column_stack(
            (np.ones(len(x)), agreeing, votes[:, :2] / k, (x**2).sum(axis=1), x.sum(axis=1) ** 2, x)
        )
        whole = np.asarray(present.all(axis=1))
        return np.asarray(table * whole[:, None])

    def fleiss_kappa(self) -> Floats:
        """Fleiss (1971) over win, tie, lose; NaN where all votes are in one class."""
        n = self.sums[..., 0]
        first, tie = ratio(self.sums[..., 2], n), ratio(self.sums[..., 3], n)
        chance = first**2 + tie**2 + (1 - first - tie) ** 2
        # Rounding leaves 1 - chance at 1e-16 where there is but one class.
        left = np.where(1 - chance > 1e-12, 1 - chance, np.nan)
        return np.asarray((ratio(self.sums[..., 1], n) - chance) / left)

    def icc(self) -> tuple[Floats, Floats]:
        """ICC(2,k) and ICC(3,k) (Shrout and Fleiss 1979); NaN where nothing varies."""
        n, squares, totals = self.sums[..., 0], self.sums[..., 4], self.sums[..., 5]
        columns = self.sums[..., 6:]
        middle = ratio(columns.sum(axis=-1) ** 2, n * self.k)
        examples = totals / self.k - middle
        raters = ratio((columns**2).sum(axis=-1), n) - middle
        between = ratio(examples, n - 1)
        residual = ratio(squares - middle - examples - raters, (n - 1) * (self.k - 1))
        between = np.where(between > 1e-15, between, np.nan)
        shift = ratio(raters / max(self.k - 1, 1) - residual, n)
        return (
            np.asarray((between - residual) / (between + shift)),
            np.asarray((between - residual) / between),
        )


def ratio(above: Floats, below: Floats) -> Floats:
    """NaN where there is nothing to divide by."""
    undefined = np.full(np.broadcast(above, below).shape, np.nan)
    return np.asarray(np.divide(above, below, out=undefined, where=np.asarray(below) > 0))


def resampled_sums(
    columns: Floats,
    rng: np.random.Generator,
    *,
    question: ArrayLike | Sequence[str] | None = None,
    repeats: int = REPEATS,
) -> Floats:
    """(1 + repeats, F) the (K, F) columns' sums: of the sample, then of resamples by question."""
    if question is not None:
        _, code = np.unique(np.asarray(question), return_inverse=True)
        grouped = np.zeros((int(code.max(initial=-1)) + 1, columns.shape[1]))
        np.add.at(grouped, code.reshape(-1), columns)
        columns = grouped
    n, total = len(columns), columns.sum(axis=0)
    if n <= MANY:
        drawn = resampled_counts(np.arange(n), rng, repeats=repeats) @ columns
    else:
        centred = columns - total / n
        values, vectors = np.linalg.eigh(centred.T @ centred)
        scaled = vectors * np.sqrt(np.maximum(values, 0))
        drawn = total + rng.standard_normal((repeats, len(total))) @ scaled.T
    return np.vstack((total, drawn))
