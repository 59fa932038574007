"""Choice probabilities under CalibraEval's permutations X0 to X3 of ID tokens and positions.

Li et al. (arXiv:2410.15393), equations 5 and 6; the response shown first is written first:

    X0 = [(t1, o1); (t2, o2)]    X1 = [(t2, o2); (t1, o1)]
    X2 = [(t1, o2); (t2, o1)]    X3 = [(t2, o1); (t1, o2)]"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats
from judging.methods.intervals.bootstrap import plus_two_mean
from judging.methods.intervals.estimates import Figure, Undefined

PERMUTATIONS = ("X0", "X1", "X2", "X3")
BALANCED_SETS = (PERMUTATIONS, ("X0", "X2"), ("X1", "X3"))
THREE = ("X0", "X1", "X2")

# Response 1 bears t1 under X0 and X1, and is shown first under X0 and X3.
_BEARS_T1 = frozenset(("X0", "X1"))
SHOWN_FIRST = frozenset(("X0", "X3"))
# Fills the place of a missing probability; never read, since `present` says so.
ABSENT = 0.5


def bears_t1(permutation: str) -> bool:
    """Return whether response 1 bears the first ID token.

    Args: permutation: X0, X1, X2 or X3.
    Returns: True for X0 and X1.
    Raises: ValueError for another name."""
    if permutation not in PERMUTATIONS:
        raise ValueError(f"There is no permutation {permutation!r}; there are X0 to X3.")
    return permutation in _BEARS_T1


def content_probability(p_t1: ArrayLike, permutation: str) -> Floats:
    """Turn P(t1 | X) to P of response 1, or back, since the function is its own inverse.

    Args:
        p_t1: probabilities of any shape.
        permutation: the one under which they were read.
    Returns: float64 of the same shape."""
    p = np.asarray(p_t1, dtype=np.float64)
    return p if bears_t1(permutation) else 1 - p


def is_balanced(permutations: Collection[str]) -> bool:
    """Return whether response 1 is shown first, and bears t1, in exactly half of the permutations.

    Args: permutations: their names.
    Returns: False for an empty set."""
    names = set(permutations)
    first, bearing = len(names & SHOWN_FIRST), len(names & _BEARS_T1)
    return bool(names) and 2 * first == len(names) == 2 * bearing


def balanced_set(permutations: Collection[str]) -> tuple[str, ...] | None:
    """Return the largest balanced set among the permutations.

    Args: permutations: names of those asked.
    Returns: their names, or None."""
    there = set(permutations)
    return next((names for names in BALANCED_SETS if there.issuperset(names)), None)


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceProbabilities:
    """p_t1: (K, P) float64, of the first ID token; present: (K, P) bool, False if there is none.

    permutations: the names of the P columns, out of X0 to X3."""

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
    """Check probabilities and put them together.

    Args:
        p_t1: (K, P) probabilities of the first ID token.
        permutations: names of the P columns.
        present: (K, P) bool; None: a NaN is missing.
    Returns: the checked probabilities.
    Raises: ValueError for wrong shapes or names, or a probability outside 0 to 1."""
    p = np.asarray(p_t1, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != len(permutations) or not permutations:
        raise ValueError("One row per example and one column per permutation are needed.")
    if len(set(permutations)) != len(permutations):
        raise ValueError("A permutation is named twice.")
    for name in permutations:
        content_probability(ABSENT, name)
    there = ~np.isnan(p) if present is None else np.asarray(present, dtype=bool)
    if there.shape != p.shape:
        raise ValueError("The mask needs the shape of the probabilities.")
    # A missing probability gets a harmless value: NaN would spread through sums and sorting.
    filled = np.where(there, p, ABSENT)
    if not ((filled >= 0) & (filled <= 1)).all():
        raise ValueError("A probability lies between 0 and 1.")
    return ChoiceProbabilities(filled, tuple(permutations), there)


class Calibration(Protocol):
    """A fitted calibration; it applies to any examples asked under the same permutations."""

    @property
    def method(self) -> str: ...

    def apply(self, probabilities: ChoiceProbabilities) -> ChoiceProbabilities: ...

    def curve(self, p_t1: Floats) -> Floats | None:
        """Return g of P(t1), for drawing; None if it depends on more than one probability."""
        ...

    def as_json(self) -> dict[str, object]: ...


class CalibrationMethod(Protocol):
    """What can be fitted; `fit` sees no label, and returns Undefined if it can't."""

    @property
    def name(self) -> str: ...

    def fit(self, probabilities: ChoiceProbabilities) -> Calibration | Undefined: ...


# What a position, or an ID token, adds to the chance of the response that has it: two readings of
# the same examples differ in that place alone, and their mean difference is what it is worth.

NO_PAIR = "no example has both readings"
CONFOUNDED = (
    "X0 and X2 change position and ID token together; ask 3 or 4 permutations to tell them apart"
)
# Response 1 keeps its token while its position changes, and its position while its token does.
_APART = {
    "position": ((("X0", "X3"), ("X1", "X2")), (("X0",), ("X1",))),
    "token": ((("X0", "X1"), ("X2", "X3")), (("X1",), ("X2",))),
}


def advantage(
    with_it: ArrayLike, without: ArrayLike, *, question: ArrayLike | None = None
) -> Figure:
    """Return the mean of (with - without): 0 is no advantage, 1 is everything.

    Args:
        with_it, without: (N,) 1, 1/2, 0 or a probability of response 1; NaN: no reading.
        question: (N,) codes, or None.
    Returns: difference of win rates, -1 to 1, or Undefined without a pair of readings."""
    difference = np.asarray(with_it, np.float64) - np.asarray(without, np.float64)
    return plus_two_mean(difference, (-1, 1), question, reason=NO_PAIR)


def advantage_of(
    what: str, probabilities: ChoiceProbabilities, *, question: ArrayLike | None = None
) -> Figure:
    """Return the advantage of a position or an ID token.

    Args:
        what: `position` or `token`.
        probabilities: all four permutations tell best; X0, X1 and X2 tell too.
        question: (N,) codes, or None.
    Returns: as in `advantage`, or Undefined if both change together."""
    of_response_1 = probabilities.of_response_1()
    of_response_1 = np.where(probabilities.present, of_response_1, np.nan)
    for have, lack in _APART[what]:
        if probabilities.has((*have, *lack)):
            first, second = (_mean(probabilities, of_response_1, names) for names in (have, lack))
            return advantage(first, second, question=question)
    return Undefined(CONFOUNDED)


def _mean(probabilities: ChoiceProbabilities, values: Floats, names: tuple[str, ...]) -> Floats:
    """Return (N,) the mean over these permutations; NaN if one is missing."""
    columns = [probabilities.permutations.index(name) for name in names]
    return np.asarray(values[:, columns].mean(axis=1))
