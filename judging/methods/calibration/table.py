"""The table that compares calibrations: its figures and their intervals, by question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.agreement.votes import agreement_interval, category_counts, fleiss_kappa
from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.calibration.methods import MeanCalibration, mean_probability
from judging.methods.calibration.probabilities import Calibration, ChoiceProbabilities, balanced_set
from judging.methods.intervals.bootstrap import (
    ALIKE,
    ONE_QUESTION,
    WIDTH,
    design_effect,
    left_out,
    plus_two,
    plus_two_mean,
    questions_at,
    ratio,
)
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, figures_as_json

CLASSES = (1, 0, -1)
BY_CONSTRUCTION = "the mean is one number per example, so its permutations agree by construction"
ONE_PERMUTATION = "there is only one permutation, so there is nothing to compare it with"
NO_LABELS = "no example here has a label that is not a tie"
NO_RECALL = "one of the two responses is never the better one, so it has no recall"
NO_VARIATION = "all the judge's verdicts here are the same"
NO_SPREAD = "all examples have the same mean probability here"
NO_SET = "no balanced set of permutations was asked"
# With fewer labelled questions no gain is taken for more than chance.
FEWEST = 20
# An ICC that fewer questions carry has no interval that holds (make simulate).
FEWEST_CARRYING = 20
# If permutations alone decide more than this share of the variance, intervals rest on the few
# examples that differ. By simulation, those of ICC(3,k) cover 58 to 92 %, and with few questions
# those of ICC(2,k) less than 90 %.
MOST_DECIDED, FEWEST_IF_DECIDED = 0.8, 200
# With 40 and a token that decides nearly all verdicts, the interval of kappa covers .91.
FEWEST_FOR_KAPPA = 60
FEW_QUESTIONS = "too few questions carry this figure for an interval"
PERMUTATION_DECIDES = "the permutation decides nearly all, so the rest tells too little"
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


def credit(verdict: Signs, gold: Signs, present: Booleans) -> Floats:
    """Return what verdicts earn.

    Args: verdict, gold, present: (K,) signs, the labels' signs, and whether there is a verdict.
    Returns: (K,) 1 right, 1/2 a tie, 0 wrong; NaN without a verdict or with a gold tie."""
    right = np.where(np.equal(verdict, 0), 0.5, np.equal(verdict, gold))
    return np.where(present & (gold != 0), right, np.nan)


def mean_credit(earned: Floats, question: ArrayLike | None, confidence: float = 0.95) -> Figure:
    """Return accuracy: the mean over the columns of each one's mean, with the plus-two interval.

    Args:
        earned: (K, columns) from `credit`.
        question, confidence: as in `plus_two_mean`.
    Returns: 0 to 1, n the examples behind the fullest column, or Undefined."""
    there = np.isfinite(earned)
    n = int(there.sum(axis=0).max())
    if not n:
        return Undefined(NO_LABELS)
    by_example = ratio(np.where(there, earned, 0).sum(axis=1), there.sum(axis=1))
    figure = plus_two_mean(by_example, (0, 1), question, reason=NO_LABELS, confidence=confidence)
    means = ratio(np.where(there, earned, 0).sum(axis=0), there.sum(axis=0))
    return _around(float(np.nanmean(means)), n, figure)


def rstd(earned: Floats, gold: Signs, question: ArrayLike | None) -> Figure:
    """Return RStd in percent: half the distance of the two recalls, a mean over the columns.

    Each recall has two more values, as in `plus_two_mean`. The distance has no sign, so limits of
    the difference that lie on both sides of 0 leave 0 as the lower one (they were never below it in
    resamples). Over several columns the limits are averaged: the columns are of the same examples.

    Args: earned, gold, question: (K, columns) from `credit`, and (K,).
    Returns: 0 to 50, or Undefined if one response is never the better one."""
    n = int(np.isfinite(earned).sum(axis=0).max())
    if not n:
        return Undefined(NO_LABELS)
    distances = [_distance(column, gold, question) for column in earned.T]
    if any(isinstance(distance, Undefined) for distance in distances):
        return Undefined(NO_RECALL)
    value = float(
        np.mean([distance.value for distance in distances if isinstance(distance, Estimate)])
    )
    limits = [
        (distance.low, distance.high) for distance in distances if isinstance(distance, Estimate)
    ]
    if any(None in ends for ends in limits):
        return Estimate(value, n, note=ONE_QUESTION)
    low, high = np.mean(np.array(limits, dtype=np.float64), axis=0).tolist()
    return Estimate(value, n, low, high)


def _distance(column: Floats, gold: Signs, question: ArrayLike | None) -> Figure:
    """Half the distance of the recalls of one set of verdicts, in percent."""
    recall, centre, variance, fewest = [], [], 0.0, len(column)
    for sign in (1, -1):
        rows = np.isfinite(column) & (gold == sign)
        values, asked = column[rows], questions_at(question, rows)
        if not len(values):
            return Undefined(NO_RECALL)
        effect, questions = (1.0, len(values)) if asked is None else design_effect(values, asked)
        middle, own = plus_two(values, (0, 1), effect)
        recall.append(float(values.mean()))
        centre.append(middle)
        # The recalls are of different examples, so their variances add up.
        variance, fewest = variance + own, min(fewest, questions)
    value, n = 50 * abs(recall[0] - recall[1]), int(np.isfinite(column).sum())
    if fewest < 2:
        return Estimate(value, n, note=ONE_QUESTION)
    half = float(scipy.stats.t.ppf(0.975, fewest - 1)) * float(np.sqrt(variance))
    low, high = centre[0] - centre[1] - half, centre[0] - centre[1] + half
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    furthest = min(1.0, max(abs(low), abs(high)))
    return Estimate(value, n, min(50 * nearest, value), max(50 * furthest, value))


def _around(value: float, n: int, figure: Figure) -> Figure:
    """The value with the limits that were found, which hold it."""
    if isinstance(figure, Undefined) or figure.low is None or figure.high is None:
        return replace(figure, value=value, n=n) if isinstance(figure, Estimate) else figure
    return Estimate(value, n, min(figure.low, value), max(figure.high, value))


def icc_columns(p_response_1: Floats, present: Booleans) -> Floats:
    """Return what `icc` needs of each example.

    Args: p_response_1, present: (K, k) probabilities under k permutations, and which exist.
    Returns: (K, 3 + k) count, sum of squares, squared total, each column; 0 if one is missing."""
    # The ICC doesn't depend on where 0 lies, and sums of squares around 1/2 lose fewer digits.
    x = p_response_1 - 0.5
    columns = np.column_stack((np.ones(len(x)), (x**2).sum(axis=1), x.sum(axis=1) ** 2, x))
    return columns * np.asarray(present.all(axis=1))[:, None]


def icc(sums: Floats) -> tuple[Floats, Floats]:
    """Return ICC(2,k) and ICC(3,k); NaN if nothing varies.

    Shrout and Fleiss 1979, doi:10.1037/0033-2909.86.2.420.

    Args: sums: (..., 3 + k) of `icc_columns`.
    Returns: both, (...) each, at most 1."""
    n, squares, totals, columns = sums[..., 0], sums[..., 1], sums[..., 2], sums[..., 3:]
    k = columns.shape[-1]
    middle = ratio(columns.sum(axis=-1) ** 2, n * k)
    examples = totals / k - middle
    raters = ratio((columns**2).sum(axis=-1), n) - middle
    between = ratio(examples, n - 1)
    residual = ratio(squares - middle - examples - raters, (n - 1) * (k - 1))
    # Examples that are all alike leave only rounding to divide by.
    between = np.where(between > 1e-15, between, np.nan)
    shift = ratio(raters / max(k - 1, 1) - residual, n)
    return (
        np.asarray((between - residual) / (between + shift)),
        np.asarray((between - residual) / between),
    )


def icc_figures(columns: Floats, question: ArrayLike | None) -> tuple[Figure, Figure]:
    """Return ICC(2,k) and ICC(3,k) with jackknife intervals of log(1 - ICC), by question.

    The F distribution holds for normal scores only, and percentiles cover too little. t has as many
    degrees of freedom as questions carry the figure, which are few if a bias decides nearly all.

    Args: columns, question: from `icc_columns`, and (K,) or None.
    Returns: both, or Undefined; without limits if few questions carry it."""
    rows = columns[:, 0] > 0
    total, without, n = *left_out(columns[rows], questions_at(question, rows)), int(rows.sum())
    whole, left = icc(total), icc(without)
    agreeing, consistent = (
        _jackknifed(float(figure), moved, n) for figure, moved in zip(whole, left, strict=True)
    )
    if _decided_by_permutation(total) > MOST_DECIDED:
        consistent = _without_limits(consistent, PERMUTATION_DECIDES)
        if len(without) < FEWEST_IF_DECIDED:
            agreeing = _without_limits(agreeing, PERMUTATION_DECIDES)
    return agreeing, consistent


def _without_limits(figure: Figure, note: str) -> Figure:
    return figure if isinstance(figure, Undefined) else Estimate(figure.value, figure.n, note=note)


def _decided_by_permutation(sums: Floats) -> float:
    """The share of the variance that permutations explain, of the sums of `icc_columns`."""
    n, squares, columns = sums[0], sums[1], sums[3:]
    middle = ratio(columns.sum() ** 2, n * len(columns))
    return float(ratio(ratio((columns**2).sum(), n) - middle, squares - middle))


def _jackknifed(value: float, left: Floats, n: int) -> Figure:
    """One ICC. left: (G,) the same without each question."""
    if not np.isfinite(value):
        return Undefined(NO_SPREAD)
    groups = len(left)
    if groups < FEWEST or not np.isfinite(left).all() or value >= 1 - WIDTH:
        return Estimate(value, n, note=FEW_QUESTIONS)
    # 1 - ICC is a ratio of variances, which is skewed; its logarithm is nearly symmetric.
    moved = np.log(np.maximum(1 - left, WIDTH))
    moved = moved - moved.mean()
    error = float(np.sqrt((groups - 1) / groups * (moved @ moved)))
    if error < WIDTH:
        return Estimate(value, n, note=ALIKE)
    carrying = float((moved**2).sum() ** 2 / (moved**4).sum())
    if carrying < FEWEST_CARRYING:
        return Estimate(value, n, note=FEW_QUESTIONS)
    reach = float(scipy.stats.t.ppf(0.975, carrying))
    # The larger 1 - ICC gives the lower limit.
    low, high = (1 - (1 - value) * np.exp(side * reach * error) for side in (1, -1))
    return Estimate(value, n, float(low), float(high))


class ComparisonTable:
    """Add each method's calibrated examples, then read the rows."""

    def __init__(
        self,
        permutations: Sequence[str],
        gold: Signs,
        band: float,
        question: ArrayLike | None,
        rng: np.random.Generator,
    ) -> None:
        self.permutations = tuple(permutations)
        self.over = balanced_set(permutations)
        self._gold, self._band, self._question, self._rng = gold, band, question, rng
        self._calibrated: dict[str, ChoiceProbabilities] = {}
        # By method: (K, permutations) of each alone, and (K, 1) of the mean.
        self._alone: dict[str, Floats] = {}
        self._mean: dict[str, Floats] = {}

    def add(self, method: str, calibrated: ChoiceProbabilities) -> None:
        verdict = signs(calibrated.of_response_1(), self._band)
        self._calibrated[method] = calibrated
        self._alone[method] = np.column_stack(
            [
                credit(column, self._gold, present)
                for column, present in zip(verdict.T, calibrated.present.T, strict=True)
            ]
        )
        if self.over:
            mean, present = mean_probability(calibrated, self.over)
            self._mean[method] = credit(signs(mean, self._band), self._gold, present)[:, None]

    def row(self, method: str, calibration: Calibration | Undefined) -> CalibrationRow:
        if isinstance(calibration, Undefined):
            return self._unfitted(method, calibration)
        gain, beats_mean = self._gain(method)
        if isinstance(calibration, MeanCalibration) and not calibration.balanced:
            # What it gains is its own bias, towards the response that these labels favour.
            beats_mean = False
        kappa, icc_2k, icc_3k = self._consistency(method, calibration)
        alone = self._alone[method]
        return CalibrationRow(
            method=method,
            calibration=calibration,
            kappa=kappa,
            icc_2k=icc_2k,
            icc_3k=icc_3k,
            mean=self._quality(self._mean[method]) if self.over else NO_MEAN,
            average=self._quality(alone),
            gain=gain,
            beats_mean=beats_mean,
            by_permutation={
                name: self._quality(alone[:, place : place + 1])
                for place, name in enumerate(self.permutations)
            },
        )

    def _unfitted(self, method: str, why: Undefined) -> CalibrationRow:
        return CalibrationRow(
            method=method, calibration=why, kappa=why, icc_2k=why, icc_3k=why,
            mean=Quality(why, why), average=Quality(why, why), gain=why, beats_mean=False,
            by_permutation={},
        )  # fmt: skip

    def _consistency(self, method: str, calibration: Calibration) -> tuple[Figure, Figure, Figure]:
        reason = BY_CONSTRUCTION if isinstance(calibration, MeanCalibration) else ""
        if len(self.permutations) < 2:
            reason = ONE_PERMUTATION
        if reason:
            return Undefined(reason), Undefined(reason), Undefined(reason)
        calibrated = self._calibrated[method]
        p, whole = calibrated.of_response_1(), calibrated.present.all(axis=1)
        verdict = signs(p[whole], self._band)
        counts = category_counts(verdict, np.ones_like(verdict), CLASSES)
        asked = questions_at(self._question, whole)
        question = np.arange(len(counts)) if asked is None else asked
        kappa = agreement_interval(fleiss_kappa, counts, question, self._rng)
        if isinstance(kappa, Undefined):
            kappa = Undefined(NO_VARIATION)
        elif len(np.unique(question)) < FEWEST_FOR_KAPPA:
            kappa = _without_limits(kappa, FEW_QUESTIONS)
        return kappa, *icc_figures(icc_columns(p, calibrated.present), self._question)

    def _quality(self, earned: Floats) -> Quality:
        """Return the quality of one set of verdicts, or the mean over several."""
        return Quality(
            mean_credit(earned, self._question), rstd(earned, self._gold, self._question)
        )

    def _gain(self, method: str) -> tuple[Figure, bool]:
        """Return the gain over the plain mean, and whether it is more than chance."""
        if not self.over:
            return Undefined(NO_SET), False
        gain = (self._mean[method] - self._mean[PLAIN])[:, 0]
        rows = np.isfinite(gain)
        asked = questions_at(self._question, rows)
        questions = int(rows.sum()) if asked is None else len(np.unique(asked))
        # Several methods are tried for one recommendation, so they share the 5 %.
        methods = len(self._mean.keys() - {PLAIN})
        at_once, alone = (
            plus_two_mean(gain, (-1, 1), self._question, reason=NO_LABELS, confidence=level)
            for level in (1 - 0.05 / methods, 0.95)
        )
        low = None if isinstance(at_once, Undefined) else at_once.low
        return alone, questions >= FEWEST and low is not None and low > 0


NO_MEAN = Quality(Undefined(NO_SET), Undefined(NO_SET))
