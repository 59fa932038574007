"""Minimise CalibraEval's objective by L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from judging.methods.arrays import Floats
from judging.methods.calibration.objective import Objective, Points, loss_and_gradient


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

    def minimise(self, points: Points, strength: float, kind: Objective) -> Minimum:
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
                    "gtol": 0.0,
                    "maxiter": self.most_steps,
                    "maxfun": 2 * self.most_steps,
                },
            )
        return Minimum(np.asarray(end.x), int(end.nit))
