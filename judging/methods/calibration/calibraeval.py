"""CalibraEval: a monotone map of probabilities that makes permutations agree, without labels.

Li et al. (arXiv:2410.15393), equation 10, over K examples with s_j = P(t1 | X_j):

    L(g) = sum [g(s0) + g(s2) - 1]^2 + [g(s0) - g(s1)]^2 - lambda [g(s0) - g(s2)]^2

and equation 12, over the distinct values z_0 = 0 < z_1 < ... < z_M = 1 of all s:

    g(z_k) = sum_{i <= k} exp(d_i) / sum_i exp(d_i)

Equal probabilities are one point, so that g is a function. With w_k = exp(d_k) / sum_i exp(d_i)
and G_j = dL/dg(z_j),

    dL/dd_k = w_k (sum_{j >= k} G_j - sum_j G_j g(z_j)),

which cumulative sums give at once, O(M) an evaluation. The printed equations 14, 23 and 25 are
not this gradient: -2 lambda (g0 - g2) is missing from dL/dg0, and dL/dg2 has the wrong sign of
lambda."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from judging.methods.arrays import Codes, Floats
from judging.methods.calibration.probabilities import THREE, ChoiceProbabilities
from judging.methods.intervals.estimates import Undefined

# both: equation 10.  tokens: L1 of equation 19.  positions: L2 of equation 20.
Objective = Literal["both", "tokens", "positions"]
STRENGTH = 0.5
# If all calibrated probabilities are within this of each other, no verdict is left.
FLAT = 1e-3
DRAWN = 501
ONE = "CalibraEval needs at least two examples with a probability under X0, X1 and X2"
ALIKE = "all probabilities are equal, so there is no order to preserve"
COLLAPSED = (
    "the calibrated probabilities all came out alike, so they agree with each other but say "
    "nothing; a larger lambda, or the whole objective, keeps them apart"
)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectivePoints:
    """z: (M + 1,) distinct, ascending, from 0 to 1; at: (3, K) the place in z of s0, s1, s2."""

    z: Floats
    at: Codes

    @classmethod
    def of(cls, s: Floats) -> ObjectivePoints:
        """s: (K, 3) P(t1) under X0, X1, X2."""
        # 0 and 1 are points too, so that g is defined for every probability of later examples.
        z, place = np.unique(np.concatenate(([0.0, 1.0], s.T.reshape(-1))), return_inverse=True)
        return cls(z, place[2:].reshape(3, -1))

    @property
    def examples(self) -> int:
        return len(self.at[0])


def calibrated_values(d: Floats) -> Floats:
    """Return g(z) by equation 12 (CalibraEval, arXiv:2410.15393).

    Args: d: (M + 1,) parameters.
    Returns: (M + 1,) ascending in (0, 1]; the last one is exactly 1."""
    # The maximum cancels in the quotient, and without it exp could overflow.
    g = np.cumsum(np.exp(d - d.max()))
    return np.asarray(g / g[-1])


def loss_of_values(g0: Floats, g1: Floats, g2: Floats, strength: float, kind: Objective) -> float:
    """Return the objective, summed over the examples, from calibrated values.

    Args:
        g0, g1, g2: (K,) g of P(t1) under X0, X1 and X2.
        strength, kind: lambda, and which terms count.
    Returns: the loss; lower is better, and it may be negative."""
    tokens, positions, apart = g0 + g2 - 1, g0 - g1, g0 - g2
    if kind == "tokens":
        return float(tokens @ tokens - strength * (apart @ apart))
    if kind == "positions":
        return float(positions @ positions - strength * ((g0 - 0.5) @ (g0 - 0.5)))
    return float(tokens @ tokens + positions @ positions - strength * (apart @ apart))


def loss_and_gradient(
    d: Floats, points: ObjectivePoints, strength: float, kind: Objective = "both"
) -> tuple[float, Floats]:
    """Return the objective and its exact gradient.

    Args:
        d, points: (M + 1,) parameters, and the distinct probabilities.
        strength, kind: as in `loss_of_values`.
    Returns: the loss summed over the examples, and (M + 1,) its derivative by d."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """d: (M + 1,) parameters; steps: iterations."""

    d: Floats
    steps: int


@dataclass(frozen=True, slots=True)
class Lbfgs:
    """Stops when a step lowers the loss per example by less than `tolerance` of it."""

    tolerance: float = 1e-8
    most_steps: int = 2_000

    def minimise(self, points: ObjectivePoints, strength: float, kind: Objective) -> Minimum:
        def mean_loss(d: Floats) -> tuple[float, Floats]:
            loss, gradient = loss_and_gradient(d, points, strength, kind)
            return loss / points.examples, gradient / points.examples

        # The vectors are short: handing them to several threads costs twenty times the work.
        with threadpool_limits(limits=1, user_api="blas"):
            end = scipy.optimize.minimize(
                mean_loss,
                points.z,
                jac=True,
                method="L-BFGS-B",
                options={
                    "ftol": self.tolerance,
                    # Only the loss decides: each derivative has the factor w_k, which is small with
                    # many points.
                    "gtol": 0.0,
                    "maxiter": self.most_steps,
                    "maxfun": 2 * self.most_steps,
                },
            )
        return Minimum(np.asarray(end.x), int(end.nit))


@dataclass(frozen=True, slots=True, eq=False)
class CurveCalibration:
    """z: ascending from 0 to 1; g: (M + 1,) non-decreasing; between the points it is linear.

    loss, start, uncalibrated: the objective per example at the end, at d = z, and of g(s) = s.
    n: the examples it was fitted on; steps: what the optimiser needed."""

    method: str
    z: Floats
    g: Floats
    loss: float
    start: float
    uncalibrated: float
    n: int
    steps: int

    def apply(self, probabilities: ChoiceProbabilities) -> ChoiceProbabilities:
        return probabilities.with_p_t1(self.curve(probabilities.p_t1))

    def curve(self, p_t1: Floats) -> Floats:
        return np.asarray(np.interp(p_t1, self.z, self.g))

    def as_json(self) -> dict[str, object]:
        # Spread over the probabilities as they are, since judges' crowd at 0 and 1.
        some = np.unique(np.linspace(0, len(self.z) - 1, DRAWN).astype(int))
        return {
            "method": self.method,
            "loss": self.loss,
            "loss_at_start": self.start,
            "loss_uncalibrated": self.uncalibrated,
            "n": self.n,
            "steps": self.steps,
            "z": self.z[some].tolist(),
            "g": self.g[some].tolist(),
        }


@dataclass(frozen=True, slots=True)
class CalibraEval:
    """strength: lambda; objective: `tokens` and `positions` are the ablations L1 and L2."""

    name: str = "calibraeval"
    strength: float = STRENGTH
    objective: Objective = "both"
    optimiser: Lbfgs = field(default_factory=Lbfgs)

    def fit(self, probabilities: ChoiceProbabilities) -> CurveCalibration | Undefined:
        if self.strength < 0:
            raise ValueError("lambda is not negative.")
        needed = {"both": THREE, "tokens": ("X0", "X2"), "positions": ("X0", "X1")}[self.objective]
        if not probabilities.has(needed):
            return Undefined(f"{', '.join(needed)} were not all asked")
        s = self._samples(probabilities, needed)
        if len(s) < 2:
            return Undefined(ONE)
        if np.ptp(s) == 0:
            return Undefined(ALIKE)
        points = ObjectivePoints.of(s)
        end = self.optimiser.minimise(points, self.strength, self.objective)
        g = calibrated_values(end.d)
        # A constant g minimises the first two terms, whatever the judge said.
        if np.ptp(g[self._used(points)]) < FLAT:
            return Undefined(COLLAPSED)
        return CurveCalibration(
            method=self.name,
            z=points.z,
            g=np.asarray(scipy.optimize.isotonic_regression(g).x),
            loss=self._loss(*g[points.at]),
            start=self._loss(*calibrated_values(points.z)[points.at]),
            uncalibrated=self._loss(*s.T),
            n=len(s),
            steps=end.steps,
        )

    def _samples(self, probabilities: ChoiceProbabilities, needed: tuple[str, ...]) -> Floats:
        """(K, 3) s0, s1, s2 of the complete examples; what the objective leaves out repeats s0."""
        whole = probabilities.rows(probabilities.complete(needed))
        return whole.columns([name if name in needed else "X0" for name in THREE])

    def _used(self, points: ObjectivePoints) -> Codes:
        """The places of the probabilities that the objective is about."""
        rows = {"both": [0, 1, 2], "tokens": [0, 2], "positions": [0, 1]}[self.objective]
        return points.at[rows]

    def _loss(self, g0: Floats, g1: Floats, g2: Floats) -> float:
        return loss_of_values(g0, g1, g2, self.strength, self.objective) / len(g0)
