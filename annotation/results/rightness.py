"""How often labels are right, and how far that goes beyond chance."""

from dataclasses import dataclass

from annotation.results.figures import Json
from judging.methods.estimates import Figure


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
