"""The plain mean over permutations turned back to contents: what every calibration has to beat.

Over a balanced set each response stands first, and bears t1, equally often, so that what position
and token add to its logit cancels.  X0, X1 and X2 together are not balanced: response 1 bears t1
twice in three and stands first once; their mean is kept by name for comparison with the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from judging.methods.arrays import Booleans, Floats
from judging.methods.calibration.permutations import (
    THREE,
    balanced_set,
    content_probability,
    is_balanced,
)
from judging.methods.calibration.probabilities import ABSENT, ChoiceProbabilities
from judging.methods.estimates import Undefined


@dataclass(frozen=True, slots=True)
class MeanCalibration:
    """Gives every permutation the mean of `over`, so they agree by construction."""

    method: str
    over: tuple[str, ...]

    @property
    def balanced(self) -> bool:
        return is_balanced(self.over)

    def apply(self, probabilities: ChoiceProbabilities) -> ChoiceProbabilities:
        mean, there = mean_probability(probabilities, self.over)
        names = probabilities.permutations
        turned = np.stack([content_probability(mean, name) for name in names], axis=1)
        present = np.broadcast_to(there[:, None], turned.shape)
        return ChoiceProbabilities(np.where(present, turned, ABSENT), names, present.copy())

    def curve(self, p_t1: Floats) -> None:
        return None

    def as_json(self) -> dict[str, object]:
        return {"method": self.method, "over": list(self.over), "balanced": self.balanced}


@dataclass(frozen=True, slots=True)
class PermutationMean:
    """over: the permutations; the largest balanced set that was asked where None."""

    name: str = "mean"
    over: tuple[str, ...] | None = None

    def fit(self, probabilities: ChoiceProbabilities) -> MeanCalibration | Undefined:
        over = self.over or balanced_set(probabilities.permutations)
        if over is None:
            return Undefined("no balanced set of permutations was asked: X0 and X2, or all four")
        if not probabilities.has(over):
            return Undefined(f"{', '.join(over)} were not all asked")
        return MeanCalibration(self.name, over)


THREE_PERMUTATION_MEAN = PermutationMean("mean_three", THREE)


def mean_probability(
    probabilities: ChoiceProbabilities, over: tuple[str, ...]
) -> tuple[Floats, Booleans]:
    """(K,) mean P of response 1, and which examples have all of `over`."""
    turned = [content_probability(probabilities.column(name), name) for name in over]
    return np.mean(turned, axis=0, dtype=np.float64), probabilities.complete(over)
