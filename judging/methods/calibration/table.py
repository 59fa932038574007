"""The figures of several calibrations from the same resamples, so that they can be compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats, Signs
from judging.methods.bootstrap import estimate_of, interval
from judging.methods.calibration.interface import Calibration
from judging.methods.calibration.permutation_mean import MeanCalibration, mean_probability
from judging.methods.calibration.permutations import balanced_set
from judging.methods.calibration.probabilities import ChoiceProbabilities
from judging.methods.calibration.rows import CalibrationRow, Quality
from judging.methods.calibration.sums import Consistency, Recalls, resampled_sums, signs
from judging.methods.estimates import Estimate, Figure, Undefined

BY_CONSTRUCTION = "the mean is one number an example, so its permutations agree by construction"
ONE_PERMUTATION = "one permutation has nothing to agree with"
NO_LABELS = "no example here has a label that is not a tie"
NO_RECALL = "one of the two responses is never the better one, so it has no recall"
NO_VARIATION = "all the judge's verdicts here are one and the same"
NO_SPREAD = "all examples have the same mean probability here"
NO_SET = "no balanced set of permutations was asked"


# With fewer labelled questions no gain is taken for more than chance.
FEWEST = 20
# The plain mean, which stands in the table whether or not it is asked for.
PLAIN = ""


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
        self._put(method, "consistency", Consistency.columns(p, said, calibrated.present))
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
        found = Consistency(self._sums[:, self._place[method, "consistency"]], k)
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
    """The first value is the sample's, the rest are the resamples'."""
    if not np.isfinite(values[0]):
        return Undefined(reason)
    return estimate_of(float(values[0]), values[1:], n)


NO_MEAN = Quality(Undefined(NO_SET), Undefined(NO_SET))
