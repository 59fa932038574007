"""The probabilities as the judge gave them."""

from __future__ import annotations

from dataclasses import dataclass

from judging.methods.arrays import Floats
from judging.methods.calibration.probabilities import ChoiceProbabilities


@dataclass(frozen=True, slots=True)
class Uncalibrated:
    """Method and calibration in one: there is nothing to fit."""

    name: str = "uncalibrated"

    @property
    def method(self) -> str:
        return self.name

    def fit(self, probabilities: ChoiceProbabilities) -> Uncalibrated:
        return self

    def apply(self, probabilities: ChoiceProbabilities) -> ChoiceProbabilities:
        return probabilities

    def curve(self, p_t1: Floats) -> Floats:
        return p_t1

    def as_json(self) -> dict[str, object]:
        return {"method": self.method}
