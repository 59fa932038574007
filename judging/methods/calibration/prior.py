"""Dividing by a prior of the ID tokens: what CC, DC and Pride have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judging.methods.arrays import Floats
from judging.methods.calibration.probabilities import ChoiceProbabilities
from judging.methods.estimates import Undefined

CERTAIN = "the prior gives one of the ID tokens all the probability, so it can't be divided out"


@dataclass(frozen=True, slots=True)
class PriorCalibration:
    """prior: P(t1) that the judge is taken to give without regard to the contents.

    softmax: CC as Zhao et al. (2021) published it, softmax(P / prior); else P / prior,
        normalised, as equation 3 of CalibraEval has it.
    n: the number of examples or inputs that the prior comes from.
    """

    method: str
    prior: float
    n: int
    softmax: bool = False

    def apply(self, probabilities: ChoiceProbabilities) -> ChoiceProbabilities:
        return probabilities.with_p_t1(self.curve(probabilities.p_t1))

    def curve(self, p_t1: Floats) -> Floats:
        first, second = p_t1 / self.prior, (1 - p_t1) / (1 - self.prior)
        if self.softmax:
            return np.asarray(1 / (1 + np.exp(second - first)))
        return np.asarray(first / (first + second))

    def as_json(self) -> dict[str, object]:
        return {
            "method": self.method,
            "prior": self.prior,
            "n": self.n,
            "softmax": self.softmax,
        }


def prior_calibration(
    method: str, prior: float, n: int, *, softmax: bool = False
) -> PriorCalibration | Undefined:
    """A prior within 1e-12 of 0 or 1 leaves nothing to divide."""
    if not 1e-12 < prior < 1 - 1e-12:
        return Undefined(CERTAIN)
    return PriorCalibration(method, prior, n, softmax)
