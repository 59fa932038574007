"""Pride (Zheng et al. 2023): the prior of the ID tokens, from swapping what they stand for.

Under X0 and X2 the tokens keep their places and the contents change theirs.  An example's prior is
the mean of log P(t) over the two, normalised; the judge's prior is the mean over examples.
CalibraEval describes it with the plain mean of the probabilities; that is kept by name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from judging.methods.arrays import Floats
from judging.methods.calibration.prior import PriorCalibration, prior_calibration
from judging.methods.calibration.probabilities import ChoiceProbabilities
from judging.methods.estimates import Undefined

SWAPPED = ("X0", "X2")
# A probability of exactly 0 or 1 has no logarithm.
TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Pride:
    """The prior by the mean of log P; arithmetic: by the plain mean of P, as CalibraEval has it."""

    name: str = "pride"
    arithmetic: bool = False

    def fit(self, probabilities: ChoiceProbabilities) -> PriorCalibration | Undefined:
        if not probabilities.has(SWAPPED):
            return Undefined("X0 and X2 were not both asked")
        both = probabilities.complete(SWAPPED)
        if not both.any():
            return Undefined("no example has a probability under both X0 and X2")
        priors = self._priors(probabilities.columns(SWAPPED)[both])
        return prior_calibration(self.name, float(priors.mean()), len(priors))

    def _priors(self, p_t1: Floats) -> Floats:
        """(n,) each example's prior from its (n, 2) probabilities."""
        if self.arithmetic:
            return np.asarray(p_t1.mean(axis=1))
        return np.asarray(
            scipy.special.expit(scipy.special.logit(np.clip(p_t1, TINY, 1 - TINY)).mean(axis=1))
        )
