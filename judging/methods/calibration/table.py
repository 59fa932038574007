"""The table that compares calibrations: its figures, and how they are resampled together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.calibration.methods import MeanCalibration, mean_probability
from judging.methods.calibration.probabilities import Calibration, ChoiceProbabilities, balanced_set
from judging.methods.intervals.bootstrap import (
    coded,
    estimate_of,
    interval,
    ratio,
    resampled_counts,
)
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, figures_as_json

CLASSES = (1, 0, -1)
REPEATS = 2_000
# With more questions the sums are normal to a precision that no interval shows.
MANY = 4_000
BY_CONSTRUCTION = "the mean is one number per example, so its permutations agree by construction"
ONE_PERMUTATION = "there is only one permutation, so there is nothing to compare it with"
NO_LABELS = "no example here has a label that is not a tie"
NO_RECALL = "one of the two responses is never the better one, so it has no recall"
NO_VARIATION = "all the judge's verdicts here are the same"
NO_SPREAD = "all examples have the same mean probability here"
NO_SET = "no balanced set of permutations was asked"
# With fewer labelled questions no gain is taken for more than chance.
FEWEST = 20
# The plain mean, which the table always needs for comparison.
PLAIN = ""


@dataclass(frozen=True, slots=True)
class Quality:
    """accuracy: 0 to 1, a judge's tie 1/2, without gold ties. rstd: in percent, 0 to 50."""

    accuracy: Figure
    rstd: Figure

    def as_json(self) -> dict[str, dict[str, object]]:
        return figures_as_json({"accuracy": self.accuracy, "rstd": self.rstd})


@dataclass(frozen=True, slots=True)
class CalibrationRow:
    """One method. calibration: fitted on the estimation set, or why it can't be.

    by_permutation: of one permutation alone. average: their mean (CalibraEval, Table 2).
    mean: of the calibrated mean over the balanced set.
    gain: accuracy of that mean less the plain mean's, on the same examples.
    beats_mean: its interval excludes 0, allowing for the number of methods (Bonferroni)."""

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
    """n: judged examples; labelled: with a label that isn't a tie.

    over: the balanced set; split: how fitting and judging were kept apart.
    recommended, because: a method's name, and one sentence."""

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


def signs(p_response_1: Floats, band: float = 0.0) -> Signs:
    """Turn probabilities into verdicts.

    Args:
        p_response_1: P of response 1, any shape.
        band: a probability within this distance of one half is a tie.
    Returns: int8 of the same shape: 1 response 1, 0 tie, -1 response 2."""
    apart = p_response_1 - 0.5
    return np.asarray(np.where(np.abs(apart) <= band, 0, np.sign(apart)), dtype=np.int8)


@dataclass(frozen=True, slots=True)
class Recalls:
    """sums: (..., 4) examples with gold 1, right ones of them, and both for gold -1."""

    sums: Floats

    @staticmethod
    def columns(said: Signs, gold: Signs, present: Booleans) -> Floats:
        """(K, 4).  A tie of the judge is half right; gold ties are left out (gold 0)."""
        credit = np.where(np.equal(said, 0), 0.5, np.equal(said, gold))
        first, second = present & np.equal(gold, 1), present & np.equal(gold, -1)
        return np.column_stack((first, first * credit, second, second * credit))

    def accuracy(self) -> Floats:
        found = self.sums[..., 1] + self.sums[..., 3]
        return ratio(found, self.sums[..., 0] + self.sums[..., 2])

    def rstd(self) -> Floats:
        """In percent, dividing by the number of classes: half the recalls' distance."""
        first = ratio(self.sums[..., 1], self.sums[..., 0])
        return np.asarray(50 * np.abs(first - ratio(self.sums[..., 3], self.sums[..., 2])))


@dataclass(frozen=True, slots=True)
class PermutationConsistency:
    """sums: (..., 6 + k) of k permutations, over the examples that have them all."""

    sums: Floats
    k: int

    @staticmethod
    def columns(p_response_1: Floats, said: Signs, present: Booleans) -> Floats:
        """(K, 6 + k): count, agreement, votes by class, squares, squared total, each column."""
        k = p_response_1.shape[1]
        votes = np.stack([np.equal(said, value).sum(axis=1) for value in CLASSES], axis=1)
        agreeing = (votes * (votes - 1)).sum(axis=1) / (k * (k - 1)) if k > 1 else 0 * votes[:, 0]
        x = p_response_1 - 0.5
        table = np.column_stack(
            (np.ones(len(x)), agreeing, votes[:, :2] / k, (x**2).sum(axis=1), x.sum(axis=1) ** 2, x)
        )
        whole = np.asarray(present.all(axis=1))
        return np.asarray(table * whole[:, None])

    def fleiss_kappa(self) -> Floats:
        """Return Fleiss' kappa over win, tie, lose; NaN if all verdicts are in one class."""
        n = self.sums[..., 0]
        first, tie = ratio(self.sums[..., 2], n), ratio(self.sums[..., 3], n)
        chance = first**2 + tie**2 + (1 - first - tie) ** 2
        # Rounding leaves 1 - chance at 1e-16 if there is only one class.
        left = np.where(1 - chance > 1e-12, 1 - chance, np.nan)
        return np.asarray((ratio(self.sums[..., 1], n) - chance) / left)

    def icc(self) -> tuple[Floats, Floats]:
        """Return ICC(2,k) and ICC(3,k); NaN if nothing varies.

        Shrout and Fleiss 1979, doi:10.1037/0033-2909.86.2.420."""
        n, squares, totals = self.sums[..., 0], self.sums[..., 4], self.sums[..., 5]
        columns = self.sums[..., 6:]
        middle = ratio(columns.sum(axis=-1) ** 2, n * self.k)
        examples = totals / self.k - middle
        raters = ratio((columns**2).sum(axis=-1), n) - middle
        between = ratio(examples, n - 1)
        residual = ratio(squares - middle - examples - raters, (n - 1) * (self.k - 1))
        between = np.where(between > 1e-15, between, np.nan)
        shift = ratio(raters / max(self.k - 1, 1) - residual, n)
        return (
            np.asarray((between - residual) / (between + shift)),
            np.asarray((between - residual) / between),
        )


def resampled_sums(
    columns: Floats,
    rng: np.random.Generator,
    *,
    question: ArrayLike | Sequence[str] | None = None,
    repeats: int = REPEATS,
) -> Floats:
    """Sum columns over the sample and over resamples by question.

    Beyond MANY questions the sums are drawn from their normal limit.

    Args:
        columns: (K, F), one row per example.
        rng, question: source of the resamples, and (K,) equal values share a question.
        repeats: number of resamples.
    Returns: (1 + repeats, F) float64, the sample's sums first."""
    if question is not None:
        groups, code = coded(np.asarray(question))
        grouped = np.zeros((groups, columns.shape[1]))
        np.add.at(grouped, code, columns)
        columns = grouped
    n, total = len(columns), columns.sum(axis=0)
    if n <= MANY:
        drawn = resampled_counts(np.arange(n), rng, repeats=repeats) @ columns
    else:
        centred = columns - total / n
        values, vectors = np.linalg.eigh(centred.T @ centred)
        scaled = vectors * np.sqrt(np.maximum(values, 0))
        drawn = total + rng.standard_normal((repeats, len(total))) @ scaled.T
    return np.vstack((total, drawn))


class ComparisonTable:
    """Add each method's calibrated examples, resample once, then read the rows."""

    def __init__(self, permutations: Sequence[str], gold: Signs, band: float) -> None:
        self.permutations = tuple(permutations)
        self.over = balanced_set(permutations)
        self._gold, self._band = gold, band
        self._columns: list[Floats] = []
        self._place: dict[tuple[str, str], slice] = {}
        self._sums: Floats = np.zeros((1, 0))
        self._labelled_questions = 0

    def add(self, method: str, calibrated: ChoiceProbabilities) -> None:
        p = calibrated.of_response_1()
        said = signs(p, self._band)
        self._put(
            method, "consistency", PermutationConsistency.columns(p, said, calibrated.present)
        )
        for place, name in enumerate(self.permutations):
            present = calibrated.present[:, place]
            self._put(method, name, Recalls.columns(said[:, place], self._gold, present))
        if self.over:
            mean, present = mean_probability(calibrated, self.over)
            columns = Recalls.columns(signs(mean, self._band), self._gold, present)
            self._put(method, "mean", columns)

    def _put(self, method: str, what: str, columns: Floats) -> None:
        start = sum(there.shape[1] for there in self._columns)
        self._place[method, what] = slice(start, start + columns.shape[1])
        self._columns.append(columns)

    def resample(self, rng: np.random.Generator, question: ArrayLike | None) -> None:
        labelled = np.flatnonzero(self._gold)
        units = labelled if question is None else np.asarray(question)[labelled]
        self._labelled_questions = len(np.unique(units))
        self._sums = resampled_sums(np.hstack(self._columns), rng, question=question)

    def row(self, method: str, calibration: Calibration | Undefined) -> CalibrationRow:
        if isinstance(calibration, Undefined):
            return self._unfitted(method, calibration)
        alone = {name: self._recalls(method, name) for name in self.permutations}
        gain, beats_mean = self._gain(method)
        if isinstance(calibration, MeanCalibration) and not calibration.balanced:
            # What it gains is its own bias, towards the response that these labels favour.
            beats_mean = False
        kappa, icc_2k, icc_3k = self._consistency(method, calibration)
        return CalibrationRow(
            method=method,
            calibration=calibration,
            kappa=kappa,
            icc_2k=icc_2k,
            icc_3k=icc_3k,
            mean=self._quality([self._recalls(method, "mean")]) if self.over else NO_MEAN,
            average=self._quality(list(alone.values())),
            gain=gain,
            beats_mean=beats_mean,
            by_permutation={name: self._quality([found]) for name, found in alone.items()},
        )

    def _unfitted(self, method: str, why: Undefined) -> CalibrationRow:
        return CalibrationRow(
            method=method,
            calibration=why,
            kappa=why,
            icc_2k=why,
            icc_3k=why,
            mean=Quality(why, why),
            average=Quality(why, why),
            gain=why,
            beats_mean=False,
            by_permutation={},
        )

    def _recalls(self, method: str, what: str) -> Recalls:
        return Recalls(self._sums[:, self._place[method, what]])

    def _consistency(self, method: str, calibration: Calibration) -> tuple[Figure, Figure, Figure]:
        k = len(self.permutations)
        reason = BY_CONSTRUCTION if isinstance(calibration, MeanCalibration) else ""
        if k < 2:
            reason = ONE_PERMUTATION
        if reason:
            return Undefined(reason), Undefined(reason), Undefined(reason)
        found = PermutationConsistency(self._sums[:, self._place[method, "consistency"]], k)
        n = int(found.sums[0, 0])
        icc_2k, icc_3k = found.icc()
        return (
            figure(found.fleiss_kappa(), n, NO_VARIATION),
            figure(icc_2k, n, NO_SPREAD),
            figure(icc_3k, n, NO_SPREAD),
        )

    def _quality(self, recalls: Sequence[Recalls]) -> Quality:
        """Of one set of verdicts, or the mean over several."""
        n = max(int(each.sums[0, 0] + each.sums[0, 2]) for each in recalls)
        if not n:
            return Quality(Undefined(NO_LABELS), Undefined(NO_LABELS))
        accuracy = np.mean([each.accuracy() for each in recalls], axis=0)
        rstd = np.mean([each.rstd() for each in recalls], axis=0)
        return Quality(figure(accuracy, n, NO_LABELS), figure(rstd, n, NO_RECALL))

    def _gains(self, method: str) -> tuple[Floats, int]:
        mine = self._recalls(method, "mean")
        gain = mine.accuracy() - self._recalls(PLAIN, "mean").accuracy()
        return np.asarray(gain), int(mine.sums[0, 0] + mine.sums[0, 2])

    def _gain(self, method: str) -> tuple[Figure, bool]:
        """Over the plain mean, and whether it is beyond chance, as one of all the methods."""
        if not self.over:
            return Undefined(NO_SET), False
        values, n = self._gains(method)
        gain = figure(values, n, NO_LABELS)
        methods = len({name for name, _ in self._place} - {PLAIN})
        low, _, _ = interval(values[1:], 1 - 0.05 / methods)
        enough = self._labelled_questions >= FEWEST
        return gain, isinstance(gain, Estimate) and enough and low > 0


def figure(values: Floats, n: int, reason: str) -> Figure:
    """Make an estimate from the sample's value and the resamples'.

    Args:
        values: (1 + R,), the sample's first; NaN: undefined.
        n, reason: examples behind it, and what to say if the sample has no value.
    Returns: the value with percentile limits, or Undefined."""
    if not np.isfinite(values[0]):
        return Undefined(reason)
    return estimate_of(float(values[0]), values[1:], n)


NO_MEAN = Quality(Undefined(NO_SET), Undefined(NO_SET))
