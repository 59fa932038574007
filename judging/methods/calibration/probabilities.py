"""Which response bears which ID token, and where it stands, under CalibraEval's X0 to X3.

Li et al. (CalibraEval), equations 5 and 6, the response shown first written first:

    X0 = [(t1, o1); (t2, o2)]    X1 = [(t2, o2); (t1, o1)]
    X2 = [(t1, o2); (t2, o1)]    X3 = [(t2, o1); (t1, o2)]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats
from judging.methods.intervals.estimates import Undefined

PERMUTATIONS = ("X0", "X1", "X2", "X3")
BALANCED_SETS = (PERMUTATIONS, ("X0", "X2"), ("X1", "X3"))
THREE = ("X0", "X1", "X2")

# Response 1 bears t1 under X0 and X1, and is shown first under X0 and X3.
_BEARS_T1 = frozenset(("X0", "X1"))
SHOWN_FIRST = frozenset(("X0", "X3"))


def bears_t1(permutation: str) -> bool:
    """Whether response 1 bears the first ID token."""
    if permutation not in PERMUTATIONS:
        raise ValueError(f"There is no permutation {permutation!r}; there are X0 to X3.")
    return permutation in _BEARS_T1


def content_probability(p_t1: ArrayLike, permutation: str) -> Floats:
    """P of response 1 from P(t1 | X), of any shape; and back, since it is its own inverse."""
    p = np.asarray(p_t1, dtype=np.float64)
    return p if bears_t1(permutation) else 1 - p


def is_balanced(permutations: Collection[str]) -> bool:
    """Whether response 1 is shown first, and bears t1, in exactly half of them."""
    names = set(permutations)
    first, bearing = len(names & SHOWN_FIRST), len(names & _BEARS_T1)
    return bool(names) and 2 * first == len(names) == 2 * bearing


def balanced_set(permutations: Collection[str]) -> tuple[str, ...] | None:
    """The largest balanced set among those asked for; None where there is none."""
    there = set(permutations)
    return next((names for names in BALANCED_SETS if there.issuperset(names)), None)


# Stands where no probability is; never read, since `present` says so.
ABSENT = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceProbabilities:
    """p_t1: (K, P) of the first ID token; present: (K, P), false where there is none.

    permutations: the P names of the columns, out of X0 to X3.
    """

    p_t1: Floats
    permutations: tuple[str, ...]
    present: Booleans

    def __len__(self) -> int:
        return len(self.p_t1)

    def column(self, permutation: str) -> Floats:
        """(K,) P(t1) under one permutation."""
        return self.p_t1[:, self.permutations.index(permutation)]

    def columns(self, permutations: Sequence[str]) -> Floats:
        """(K, len(permutations)) P(t1), in the order asked for."""
        return self.p_t1[:, [self.permutations.index(name) for name in permutations]]

    def has(self, permutations: Collection[str]) -> bool:
        return set(permutations) <= set(self.permutations)

    def complete(self, permutations: Sequence[str]) -> Booleans:
        """(K,) which examples have a probability under each of these."""
        places = [self.permutations.index(name) for name in permutations]
        return np.asarray(self.present[:, places].all(axis=1))

    def of_response_1(self) -> Floats:
        """(K, P) turned back to contents: the probability that response 1 is the better one."""
        turned = [content_probability(self.column(name), name) for name in self.permutations]
        return np.stack(turned, axis=1)

    def rows(self, chosen: ArrayLike) -> ChoiceProbabilities:
        """Some of the examples, by a mask or by their places."""
        at = np.asarray(chosen)
        return replace(self, p_t1=self.p_t1[at], present=self.present[at])

    def with_p_t1(self, p_t1: Floats, present: Booleans | None = None) -> ChoiceProbabilities:
        there = self.present if present is None else self.present & present
        return replace(self, p_t1=np.where(there, p_t1, ABSENT), present=there)


def choice_probabilities(
    p_t1: ArrayLike, permutations: Sequence[str], present: ArrayLike | None = None
) -> ChoiceProbabilities:
    """Checked: shapes, names, and 0 <= p <= 1.  Without `present`, what is NaN is missing."""
    p = np.asarray(p_t1, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != len(permutations) or not permutations:
        raise ValueError("A row an example and a column a permutation are needed.")
    if len(set(permutations)) != len(permutations):
        raise ValueError("A permutation is named twice.")
    for name in permutations:
        content_probability(ABSENT, name)
    there = ~np.isnan(p) if present is None else np.asarray(present, dtype=bool)
    if there.shape != p.shape:
        raise ValueError("The mask needs the shape of the probabilities.")
    filled = np.where(there, p, ABSENT)
    if not ((filled >= 0) & (filled <= 1)).all():
        raise ValueError("A probability lies between 0 and 1.")
    return ChoiceProbabilities(filled, tuple(permutations), there)


class Calibration(Protocol):
    """Fitted; applies to any examples that were asked under the same permutations."""

    @property
    def method(self) -> str: ...

    def apply(self, probabilities: ChoiceProbabilities) -> ChoiceProbabilities: ...

    def curve(self, p_t1: Floats) -> Floats | None:
        """g of P(t1), for drawing; None where it depends on more than one probability."""
        ...

    def as_json(self) -> dict[str, object]: ...


class CalibrationMethod(Protocol):
    @property
    def name(self) -> str: ...

    def fit(self, probabilities: ChoiceProbabilities) -> Calibration | Undefined: ...
