"""Which response bears which ID token, and where it stands, under CalibraEval's X0 to X3.

Li et al. (CalibraEval), equations 5 and 6, the response shown first written first:

    X0 = [(t1, o1); (t2, o2)]    X1 = [(t2, o2); (t1, o1)]
    X2 = [(t1, o2); (t2, o1)]    X3 = [(t2, o1); (t1, o2)]
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats

PERMUTATIONS = ("X0", "X1", "X2", "X3")
BALANCED_SETS = (PERMUTATIONS, ("X0", "X2"), ("X1", "X3"))
THREE = ("X0", "X1", "X2")

# Response 1 bears t1 under X0 and X1, and is shown first under X0 and X3.
_BEARS_T1 = frozenset(("X0", "X1"))
_SHOWN_FIRST = frozenset(("X0", "X3"))


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
    first, bearing = len(names & _SHOWN_FIRST), len(names & _BEARS_T1)
    return bool(names) and 2 * first == len(names) == 2 * bearing


def balanced_set(permutations: Collection[str]) -> tuple[str, ...] | None:
    """The largest balanced set among those asked for; None where there is none."""
    there = set(permutations)
    return next((names for names in BALANCED_SETS if there.issuperset(names)), None)
