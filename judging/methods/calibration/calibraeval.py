"""CalibraEval's NOA: the order-preserving g that makes a judge agree with itself, without labels.

Li et al., section 3.3 and Algorithm 1.  The objective is not convex; the descent starts where the
paper's does, at d = z, which makes g the rank transform of all probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy

from judging.methods.arrays import Codes, Floats
from judging.methods.calibration.descent import Lbfgs
from judging.methods.calibration.objective import (
    Objective,
    Points,
    calibrated_values,
    loss_of_values,
)
from judging.methods.calibration.permutations import THREE
from judging.methods.calibration.probabilities import ChoiceProbabilities
from judging.methods.estimates import Undefined

STRENGTH = 0.5
# Where all calibrated probabilities are within this of each other, no verdict is left.
FLAT = 1e-3
DRAWN = 501

ONE = "CalibraEval needs at least two examples with a probability under X0, X1 and X2"
ALIKE = "all probabilities are equal, so there is no order to preserve"
COLLAPSED = (
    "the calibrated probabilities all came out alike: that agrees with itself and says nothing; "
    "a larger lambda, or the whole objective, keeps them apart"
)


@dataclass(frozen=True, slots=True, eq=False)
class CurveCalibration:
    """z: ascending from 0 to 1; g: (M + 1,) non-decreasing; between the points it is linear.

    loss, start, uncalibrated: the objective per example at the end, at d = z, and of g(s) = s.
    n: the examples it was fitted on; steps: what the optimiser needed.
    """

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
        points = Points.of(s)
        end = self.optimiser.minimise(points, self.strength, self.objective)
        g = calibrated_values(end.d)
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

    def _used(self, points: Points) -> Codes:
        """The places of the probabilities that the objective is about."""
        rows = {"both": [0, 1, 2], "tokens": [0, 2], "positions": [0, 1]}[self.objective]
        return points.at[rows]

    def _loss(self, g0: Floats, g1: Floats, g2: Floats) -> float:
        return loss_of_values(g0, g1, g2, self.strength, self.objective) / len(g0)
