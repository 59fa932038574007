"""What every calibration is: a method that is fitted on probabilities, and what fitting gave.

Fitting never sees a label.  A method that can't be fitted on what there is says why.
"""

from __future__ import annotations

from typing import Protocol

from judging.methods.arrays import Floats
from judging.methods.calibration.probabilities import ChoiceProbabilities
from judging.methods.estimates import Undefined


class Calibration(Protocol):
    """Fitted; applies to any examples that were asked under the same permutations."""

    @property
    def method(self) -> str: ...

    def apply(self, probabilities: ChoiceProbabilities) -> ChoiceProbabilities: ...

    def curve(self, p_t1: Floats) -> Floats | None:
        """g of P(t1), for drawing; None where it depends on more than one probability."""
        ...

    def as_json(self) -> dict[str, object]: ...


class Method(Protocol):
    @property
    def name(self) -> str: ...

    def fit(self, probabilities: ChoiceProbabilities) -> Calibration | Undefined: ...
