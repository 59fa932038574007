"""What a comparison of calibrations says, for pages and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from judging.methods.calibration.interface import Calibration
from judging.methods.estimates import Figure, Undefined, figures_as_json


@dataclass(frozen=True, slots=True)
class Quality:
    """accuracy: a judge's tie scores 1/2, gold ties are left out.  rstd: in percent."""

    accuracy: Figure
    rstd: Figure

    def as_json(self) -> dict[str, dict[str, object]]:
        return figures_as_json({"accuracy": self.accuracy, "rstd": self.rstd})


@dataclass(frozen=True, slots=True)
class CalibrationRow:
    """One method.  calibration: fitted on the estimation set, or why it can't be.

    by_permutation: what using one permutation alone would give.  average: their mean, as the
        paper's Table 2 has it.  mean: of the calibrated mean over the balanced set.
    gain: accuracy of that mean less the plain mean's, on the same examples.
    beats_mean: its interval excludes 0, allowing for the number of methods (Bonferroni).
    """

    method: str
    calibration: Calibration | Undefined
    kappa: Figure
    icc_2k: Figure
    icc_3k: Figure
    mean: Quality
    average: Quality
    gain: Figure
    beats_mean: bool
    by_permutation: Mapping[str, Quality]

    def as_json(self) -> dict[str, object]:
        figures = {"kappa": self.kappa, "icc_2k": self.icc_2k, "icc_3k": self.icc_3k}
        return {
            "method": self.method,
            "calibration": self.calibration.as_json(),
            **figures_as_json({**figures, "gain": self.gain}),
            "beats_mean": self.beats_mean,
            "mean": self.mean.as_json(),
            "average": self.average.as_json(),
            "by_permutation": {name: q.as_json() for name, q in self.by_permutation.items()},
        }


@dataclass(frozen=True, slots=True)
class CalibrationComparison:
    """n: examples that the figures are of; labelled: with a label that is no tie.

    over: the balanced set; split: how fitting and judging were kept apart.
    recommended, because: a method's name, and one sentence.
    """

    rows: tuple[CalibrationRow, ...]
    n: int
    labelled: int
    permutations: tuple[str, ...]
    over: tuple[str, ...] | None
    split: str
    recommended: str
    because: str

    def row(self, method: str) -> CalibrationRow:
        return next(row for row in self.rows if row.method == method)

    def as_json(self) -> dict[str, object]:
        return {
            "rows": [row.as_json() for row in self.rows],
            "n": self.n,
            "labelled": self.labelled,
            "permutations": list(self.permutations),
            "balanced_set": list(self.over) if self.over else None,
            "split": self.split,
            "recommended": self.recommended,
            "because": self.because,
        }
