"""How often labels are right, and how far that goes beyond chance."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from annotation.results.figures import Json
from judging.methods.accuracy import Ties, accuracy
from judging.methods.comparison import Comparison
from judging.methods.estimates import Figure, Undefined
from judging.methods.kappa import kappa


@dataclass(frozen=True)
class Agreement:
    """Labels against the people's. `over_all` counts an example without a label as not right."""

    accuracy: Figure
    over_all: Figure
    kappa: Figure

    def as_json(self) -> Json:
        return {
            "accuracy": self.accuracy.as_json(),
            "accuracy_over_all": self.over_all.as_json(),
            "kappa": self.kappa.as_json(),
        }


def agreement(
    compared: Comparison | Undefined, rng: np.random.Generator, ties: Ties = Ties.HALF
) -> Agreement:
    """Each figure by the draws of the generator as it comes, so that the same labels have the same
    intervals wherever they stand, whatever was drawn before."""
    if isinstance(compared, Undefined):
        return Agreement(compared, compared, compared)
    return Agreement(
        accuracy(compared, deepcopy(rng), ties=ties),
        accuracy(compared, deepcopy(rng), ties=ties, unjudged_wrong=True),
        kappa(compared, deepcopy(rng)),
    )
