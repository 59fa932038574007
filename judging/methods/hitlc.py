"""The HITLC curve: accuracy when people label the top beta percent (FairEval §3.3, Figure 4).

A reviewed example counts as right *by construction*, so the curve rises even where the ranking
finds no errors.  What stands beside it shows that: accuracy on the part that nobody reviewed,
the errors found against those that a random choice would find, and the gain over random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats
from judging.methods.estimates import Undefined

# Above any entropy, so that the order of SCIENCE.md §2 is one number.
INCONSISTENT_BONUS = 1_000.0


def routing_level(score: Floats, unjudged: Booleans, inconsistent: Booleans) -> Floats:
    """(N,) numbers to sort by, the largest reviewed first: unjudged, inconsistent, then the score.

    score: (N,) BPDE or a learned score; NaN where there is none, which comes last.
    """
    level = np.where(np.isnan(score), -np.inf, score)
    level = np.where(inconsistent, level + INCONSISTENT_BONUS, level)
    return np.where(unjudged, np.inf, level)


@dataclass(frozen=True, slots=True)
class ReviewCurve:
    """Accuracy after the first m examples in falling order of a level were reviewed.

    Within a group of equal levels it is the expectation over their orders, hence linear.
    reviewed: examples (or weight) reviewed at the end of each group, from 0 to the total.
    judge_right, people_right: what the judge's labels of the reviewed part earned, and what the
        people's labels that replace them earn.
    right_before: what the judge's labels earn altogether.
    """

    reviewed: Floats
    judge_right: Floats
    people_right: Floats
    right_before: float

    @property
    def total(self) -> float:
        return float(self.reviewed[-1])

    @property
    def _right(self) -> Floats:
        return self.right_before - self.judge_right + self.people_right

    def accuracy(self, m: ArrayLike) -> Floats:
        right = np.interp(np.asarray(m, dtype=np.float64), self.reviewed, self._right)
        return np.asarray(right / self.total)

    def unreviewed_accuracy(self, m: ArrayLike) -> Floats:
        """Accuracy of the judge on the part that nobody reviewed; NaN once all are reviewed."""
        reviewed = np.asarray(m, dtype=np.float64)
        left = np.asarray(self.total - reviewed)
        right = self.right_before - np.interp(reviewed, self.reviewed, self.judge_right)
        accuracy = np.full(left.shape, np.nan)
        np.divide(right, left, out=accuracy, where=left > 0)
        return accuracy


def review_curve(
    level: ArrayLike,
    judge: ArrayLike,
    *,
    reviewer: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> ReviewCurve:
    """The curve of examples sorted by falling level.

    judge: (N,) what the judge's label earns, 0 to 1; 0 for an unjudged example.
    reviewer: the same for the people's label; 1 under the paper's convention (None).
    weight: how many examples each stands for.
    """
    levels = np.asarray(level, dtype=np.float64)
    order = np.argsort(-levels)
    ordered = levels[order]
    group_ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)[: len(levels)])
    weights = None if weight is None else np.asarray(weight, dtype=np.float64)[order]

    def running(values: ArrayLike | None) -> Floats:
        """Weighted sums of the values, or of ones, up to the end of each group."""
        if values is None and weights is None:
            return np.concatenate(([0.0], group_ends + 1.0))
        terms = 1.0 if values is None else np.asarray(values, dtype=np.float64)[order]
        sums = np.cumsum(terms if weights is None else terms * weights)
        return np.concatenate(([0.0], sums[group_ends]))

    reviewed, judge_right = running(None), running(judge)
    people_right = reviewed if reviewer is None else running(reviewer)
    return ReviewCurve(reviewed, judge_right, people_right, float(judge_right[-1]))


def oracle_curve(judge: ArrayLike) -> ReviewCurve:
    """People see the judge's errors first: no ranking can do better."""
    earned = np.asarray(judge, dtype=np.float64)
    return review_curve(-earned, earned)


def random_accuracy(m: ArrayLike, total: float, accuracy: float, reviewer: float = 1.0) -> Floats:
    """acc0 + (m/N)(H - acc0): the expectation when the m examples are drawn at random."""
    share = np.asarray(m, dtype=np.float64) / total
    return np.asarray(accuracy + share * (reviewer - accuracy))


@dataclass(frozen=True, slots=True)
class ErrorsFound:
    """Errors among the m first in rank, against a random choice of m.

    p: exact one-sided probability that a random choice finds as many or more.
    """

    m: int
    found: float
    expected: float
    p: float


def errors_found(ranking: ArrayLike, judge: ArrayLike, m: int) -> ErrorsFound | Undefined:
    """ranking: indices, the first to be reviewed first; judge: what its label earns (0, 1/2, 1)."""
    order = np.asarray(ranking, dtype=np.intp)
    halves = np.rint(2 - 2 * np.asarray(judge, dtype=np.float64)[order]).astype(int)
    n = len(halves)
    if not 0 < m <= n:
        return Undefined("nothing is reviewed" if m <= 0 else "more reviewed than ranked")
    found = int(halves[:m].sum())
    whole, half = int((halves == 2).sum()), int((halves == 1).sum())
    expected = m * (2 * whole + half) / (2 * n)
    return ErrorsFound(m, found / 2, expected, _upper_tail(n, whole, half, m, found))


def _upper_tail(n: int, whole: int, half: int, m: int, found: int) -> float:
    """P(2 A + B >= found) when m of n are drawn, of which `whole` count 2 and `half` count 1."""
    if not half:
        return float(scipy.stats.hypergeom.sf(-(-found // 2) - 1, n, whole, m))
    a = np.arange(max(0, m - (n - whole)), min(whole, m) + 1)
    chance = scipy.stats.hypergeom.pmf(a, n, whole, m)
    rest = scipy.stats.hypergeom.sf(found - 2 * a - 1, n - whole, half, m - a)
    return min(1.0, float(chance @ rest))
