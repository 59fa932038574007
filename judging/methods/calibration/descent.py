"""Minimising CalibraEval's objective: L-BFGS, and the paper's batch gradient descent beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from judging.methods.calibration.objective import Objective, Points, loss_and_gradient
from judging.methods.calibration.permutations import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """d: (M + 1,) parameters; steps: iterations, or epochs; converged: stopped by itself."""

    d: Floats
    steps: int
    converged: bool


class Optimiser(Protocol):
    def minimise(self, points: Points, strength: float, kind: Objective) -> Minimum: ...


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
        return Minimum(np.asarray(end.x), int(end.nit), end.status == 0)


@dataclass(frozen=True, slots=True)
class BatchDescent:
    """The paper's: batches of 32 examples, gamma = 10, d centred after each, epsilon = 0.001.

    Equation 13 with the gradient of the batch's mean loss; with its sum, steps of gamma = 10 send
    g to a staircase of zeros and ones.  An epoch ends it in which all d together move by less
    than epsilon, which may never happen: with separable data the loss has no minimum at a finite
    d.
    """

    rate: float = 10.0
    batch: int = 32
    threshold: float = 1e-3
    most_epochs: int = 5_000
    seed: int = 0

    def minimise(self, points: Points, strength: float, kind: Objective) -> Minimum:
        rng = np.random.default_rng(self.seed)
        d = points.z - points.z.mean()
        for epoch in range(1, self.most_epochs + 1):
            before = d
            order = rng.permutation(points.examples)
            for start in range(0, len(order), self.batch):
                some = order[start : start + self.batch]
                batch = Points(points.z, points.at[:, some])
                _, gradient = loss_and_gradient(d, batch, strength, kind)
                d = d - self.rate / len(some) * gradient
                d = d - d.mean()
            if np.abs(d - before).sum() < self.threshold:
                return Minimum(d, epoch, True)
        return Minimum(d, self.most_epochs, False)
