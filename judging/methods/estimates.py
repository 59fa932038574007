"""A number with its interval, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Undefined:
    """A number that cannot be had, and why."""

    reason: str

    def __bool__(self) -> bool:
        return False

    def as_json(self) -> dict[str, object]:
        return {"value": None, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the limits of its interval where it has one, and the examples it rests on."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None
    note: str = ""

    def as_json(self) -> dict[str, object]:
        figure: dict[str, object] = {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
        }
        return figure | ({"note": self.note} if self.note else {})


Figure = Estimate | Undefined


def figures_as_json(figures: Mapping[str, Figure]) -> dict[str, dict[str, object]]:
    return {name: figure.as_json() for name, figure in figures.items()}
