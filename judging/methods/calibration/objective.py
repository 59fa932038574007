"""CalibraEval's objective and its exact gradient, O(M) an evaluation.

Li et al., equation 10, over K examples with s_j = P(t1 | X_j):

    L(g) = sum [g(s0) + g(s2) - 1]^2 + [g(s0) - g(s1)]^2 - lambda [g(s0) - g(s2)]^2

and equation 12, over the distinct values z_0 = 0 < z_1 < ... < z_M = 1 of all s:

    g(z_k) = sum_{i <= k} exp(d_i) / sum_i exp(d_i)

Equal probabilities are one point, so that g is a function.  With w_k = exp(d_k) / sum_i exp(d_i)
and G_j = dL/dg(z_j),

    dL/dd_k = w_k (sum_{j >= k} G_j - sum_j G_j g(z_j)),

which cumulative sums give at once.  The printed equations 14, 23 and 25 are not this gradient:
-2 lambda (g0 - g2) is missing from dL/dg0, and the sign of lambda in dL/dg2 is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from judging.methods.arrays import Codes, Floats

# both: equation 10.  tokens: L1 of equation 19.  positions: L2 of equation 20.
Objective = Literal["both", "tokens", "positions"]


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """z: (M + 1,) distinct, ascending, from 0 to 1; at: (3, K) the place in z of s0, s1, s2."""

    z: Floats
    at: Codes

    @classmethod
    def of(cls, s: Floats) -> Points:
        """s: (K, 3) P(t1) under X0, X1, X2."""
        z, place = np.unique(np.concatenate(([0.0, 1.0], s.T.reshape(-1))), return_inverse=True)
        return cls(z, place[2:].reshape(3, -1))

    @property
    def examples(self) -> int:
        return len(self.at[0])


def calibrated_values(d: Floats) -> Floats:
    """g(z) by equation 12; ascending, the last one exactly 1."""
    g = np.cumsum(np.exp(d - d.max()))
    return np.asarray(g / g[-1])


def loss_of_values(g0: Floats, g1: Floats, g2: Floats, strength: float, kind: Objective) -> float:
    """The sum over examples, from the calibrated values themselves."""
    tokens, positions, apart = g0 + g2 - 1, g0 - g1, g0 - g2
    if kind == "tokens":
        return float(tokens @ tokens - strength * (apart @ apart))
    if kind == "positions":
        return float(positions @ positions - strength * ((g0 - 0.5) @ (g0 - 0.5)))
    return float(tokens @ tokens + positions @ positions - strength * (apart @ apart))


def loss_and_gradient(
    d: Floats, points: Points, strength: float, kind: Objective = "both"
) -> tuple[float, Floats]:
    """The sum over examples, and (M + 1,) its derivative by d; strength is lambda."""
    w = np.exp(d - d.max())
    g = np.cumsum(w)
    w /= g[-1]
    g /= g[-1]
    g0, g1, g2 = g[points.at]
    loss = loss_of_values(g0, g1, g2, strength, kind)
    by_value = np.bincount(
        points.at.reshape(-1), _slopes(g0, g1, g2, strength, kind), minlength=len(d)
    )
    above = np.cumsum(by_value[::-1])[::-1]
    return loss, np.asarray(w * (above - by_value @ g))


def _slopes(g0: Floats, g1: Floats, g2: Floats, strength: float, kind: Objective) -> Floats:
    """(3K,) derivatives of the loss by g(s0), then by g(s1), then by g(s2)."""
    tokens, positions, apart = g0 + g2 - 1, g0 - g1, g0 - g2
    if kind == "positions":
        regular = strength * (g0 - 0.5)
        return np.concatenate((2 * (positions - regular), -2 * positions, np.zeros_like(g2)))
    if kind == "tokens":
        positions = np.zeros_like(positions)
    regular = strength * apart
    return np.concatenate(
        (2 * (tokens + positions - regular), -2 * positions, 2 * (tokens + regular))
    )
