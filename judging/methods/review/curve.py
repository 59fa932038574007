"""The HITLC curve: accuracy when people label the top beta percent.

FairEval (arXiv:2305.17926), §3.3 and Figure 4. A reviewed example counts as right *by
construction*, so the curve rises even if the ranking finds no errors. Three figures show that:
accuracy on the part that nobody reviewed, the errors found against those that a random choice
would find, and the gain over random."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.agreement.votes import TOO_FEW, VoteCounts
from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.intervals.bootstrap import cells, coded, design_effect, resampled_counts
from judging.methods.intervals.estimates import (
    NO_CHANCE,
    Estimate,
    Figure,
    Undefined,
    exact_lower_limit,
    joined,
    unseen_total,
    wilson,
)

# Above any entropy, so that the whole order of review is one number.
INCONSISTENT_BONUS = 1_000.0
REPEATS = 1_000
ROUNDING = 1e-6
# With more distinct levels than this neighbours share one: the curve hardly changes, and the
# resamples fit into memory.
MOST_LEVELS = 500


def routing_level(score: Floats, unjudged: Booleans, inconsistent: Booleans) -> Floats:
    """Return numbers to sort by, largest first: unjudged, inconsistent, then the score.

    Args:
        score: (N,) BPDE or a learned score; NaN comes last.
        unjudged, inconsistent: (N,) bool.
    Returns: (N,) float64."""
    # This comes before the states: an unjudged example has no score either, and is first all the
    # same.
    level = np.where(np.isnan(score), -np.inf, score)
    level = np.where(inconsistent, level + INCONSISTENT_BONUS, level)
    return np.where(unjudged, np.inf, level)


@dataclass(frozen=True, slots=True)
class ReviewCurve:
    """Accuracy after the first m examples in falling order of a level were reviewed.

    Within a group of equal levels it is the expectation over their orders, hence linear.
    reviewed: examples (or weight) reviewed at the end of each group, from 0 to the total.
    judge_right, people_right: what the judge's labels of the reviewed part earned, and what
        people's labels, which replace them, earn.
    right_before: what all the judge's labels earn."""

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


def review_curve(
    level: ArrayLike,
    judge: ArrayLike,
    *,
    reviewer: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> ReviewCurve:
    """Return the curve of examples reviewed by falling level (FairEval §3.3).

    Args:
        level: (N,) for example from `routing_level`.
        judge: (N,) what the judge's label earns, 0 to 1; 0 if unjudged.
        reviewer: (N,) the same for people's label; None: 1, the paper's convention.
        weight: (N,) how many examples each represents; None: 1 each.
    Returns: the curve."""
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
    """Return the curve in which people see the judge's errors first: no ranking can do better.

    Args: judge: (N,) as in `review_curve`.
    Returns: the curve."""
    earned = np.asarray(judge, dtype=np.float64)
    # A label that earns less is reviewed earlier, so half errors follow whole ones.
    return review_curve(-earned, earned)


def random_accuracy(m: ArrayLike, total: float, accuracy: float, reviewer: float = 1.0) -> Floats:
    """Return acc0 + (m/N)(H - acc0): the expectation when the m examples are drawn at random.

    Args: m, total, accuracy, reviewer: reviewed, N, and accuracy of judge (acc0) and people (H).
    Returns: float64 of the shape of m, 0 to 1."""
    share = np.asarray(m, dtype=np.float64) / total
    return np.asarray(accuracy + share * (reviewer - accuracy))


@dataclass(frozen=True, slots=True)
class ErrorsFound:
    """Errors among the m first in rank, against a random choice of m.

    p: exact one-sided probability that a random choice finds at least as many."""

    m: int
    found: float
    expected: float
    p: float


def errors_found(ranking: ArrayLike, judge: ArrayLike, m: int) -> ErrorsFound | Undefined:
    """Count the errors among the m first, against a random choice of m.

    Args: ranking, judge, m: (N,) places, the first reviewed first; (N,) earned: 0, 1/2 or 1; m.
    Returns: the count with its exact one-sided p, or Undefined unless 0 < m <= N."""
    order = np.asarray(ranking, dtype=np.intp)
    # What is earned is counted in halves, so that sums are whole numbers and the test is exact.
    halves = np.rint(2 - 2 * np.asarray(judge, dtype=np.float64)[order]).astype(int)
    n = len(halves)
    if not 0 < m <= n:
        return Undefined("nothing is reviewed" if m <= 0 else "more reviewed than ranked")
    n_halves = int(halves[:m].sum())
    whole, half = int((halves == 2).sum()), int((halves == 1).sum())
    expected = m * (2 * whole + half) / (2 * n)
    return ErrorsFound(m, n_halves / 2, expected, _upper_tail(n, whole, half, m, n_halves))


def _upper_tail(n: int, whole: int, half: int, m: int, n_halves: int) -> float:
    """P(2 A + B >= n_halves) when m of n are drawn, of which `whole` count 2 and `half` count 1."""
    if not half:
        return float(scipy.stats.hypergeom.sf(-(-n_halves // 2) - 1, n, whole, m))
    a = np.arange(max(0, m - (n - whole)), min(whole, m) + 1)
    # The first factor is how many whole errors are drawn; given these, the second is how many half
    # errors the other draws hold.
    chance = scipy.stats.hypergeom.pmf(a, n, whole, m)
    rest = scipy.stats.hypergeom.sf(n_halves - 2 * a - 1, n - whole, half, m - a)
    return min(1.0, float(chance @ rest))


@dataclass(frozen=True, slots=True)
class IndependentCurve:
    """curve: expected agreement with one more vote; ceiling: its value when all are reviewed."""

    curve: ReviewCurve
    ceiling: float
    n: int


def independent_curve(
    level: ArrayLike,
    judge: Signs,
    judged: Booleans,
    votes: VoteCounts,
    weight: ArrayLike | None = None,
) -> IndependentCurve | Undefined:
    """Return the curve of agreement with one more vote, over the examples with two votes or more.

    Args:
        level, weight: (N,) as in `review_curve`.
        judge, judged, votes: (N,) the judge's signs, whether each exists, and people's votes.
    Returns: curve and ceiling, or Undefined without such an example."""
    rows = votes.n_votes >= 2
    if not rows.any():
        return Undefined(TOO_FEW)
    agreed = _judge_agreement(judge[rows], judged[rows], VoteCounts(votes.counts[rows]))
    people = votes.others_agree()[rows]
    weights = np.ones(len(judge)) if weight is None else np.asarray(weight, dtype=np.float64)
    weights = weights[rows]
    curve = review_curve(
        np.asarray(level, dtype=np.float64)[rows], agreed, reviewer=people, weight=weights
    )
    return IndependentCurve(curve, float(weights @ people / weights.sum()), int(rows.sum()))


def _judge_agreement(judge: Signs, judged: Booleans, votes: VoteCounts) -> Floats:
    """Return the share of the votes on an example for the judge's label; 0 without a label."""
    same = votes.counts[np.arange(len(judge)), 1 - judge.astype(int)]
    return np.where(judged, same / np.maximum(votes.n_votes, 1), 0.0)


def accuracy_after(
    level: ArrayLike,
    judge: ArrayLike,
    m: float,
    weight: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
    question: ArrayLike | None = None,
) -> Estimate:
    """Return the accuracy after the first m were reviewed, with the interval of all who show it.

    The m are constants. If an audit speaks for the rest, what the unaudited labels hold has exact
    limits (`unseen_total`). If every label is known, the unreviewed part has Wilson's, on as many
    examples as its questions are worth.

    Args:
        level, judge, weight: (N,) as in `review_curve`.
        m: examples (or weight) that are reviewed.
        stratum: (N,) 1 for the audit, 0 for the others; None: every label is known.
        question: (N,) equal codes share a question.
    Returns: the accuracy, 0 to 1, without limits once all are reviewed."""
    earned = np.asarray(judge, dtype=np.float64)
    n = len(earned)
    weights = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    _, group = coded(-np.asarray(level, dtype=np.float64))
    sizes = np.bincount(group, weights)
    before = np.cumsum(sizes) - sizes
    # Within a group of equal levels the order is arbitrary, so each member is reviewed in part: the
    # expectation over all orders.
    kept = 1 - np.clip((m - before) / sizes, 0, 1)[group]
    total = float(weights.sum())
    left = total - m
    if left <= ROUNDING:
        return Estimate(1.0, n, note=NO_CHANCE)
    audit = np.zeros(n, bool) if stratum is None else np.asarray(stratum) > 0
    if audit.any():
        sure = float(m + kept[~audit] @ earned[~audit])
        seen, right = float(kept[audit].sum()), float(kept[audit] @ earned[audit])
        whole = int(seen + ROUNDING)
        unseen = round(total - m - float(kept[~audit].sum()) - seen)
        value = float((m + weights * kept @ earned) / total)
        _, *held = unseen_total(max(0.0, right - seen + whole), whole, unseen)
        low, high = ((sure + right + unseen_right) / total for unseen_right in held)
        return Estimate(value, n, min(low, value), max(high, value))
    size = float(kept.sum())
    if question is not None:
        there = kept > 0
        size /= design_effect(earned[there], np.asarray(question)[there])[0]
    figure = wilson(size * float(kept @ earned / kept.sum()), size)
    assert isinstance(figure, Estimate)
    return joined(m / total, Estimate(1.0, n, 1.0, 1.0), replace(figure, n=0))


def unreviewed_part(reached: Estimate, share: float, reason: str) -> Figure:
    """Return the accuracy of the unreviewed part from that of all after a review.

    Args: reached, share, reason: from `accuracy_after`, how much was reviewed, and what to say if
        nothing is left.
    Returns: the accuracy, 0 to 1, or Undefined."""
    if reached.low is None or reached.high is None:
        return Undefined(reason)
    value, low, high = (
        (limit - share) / (1 - share) for limit in (reached.value, reached.low, reached.high)
    )
    return Estimate(value, reached.n, max(0.0, low), min(1.0, high))


@dataclass(frozen=True, slots=True)
class CurveBand:
    """Accuracy after reviewing the top share of the examples, one entry for each beta in percent.

    after: with limits for one beta chosen beforehand, from `accuracy_after`.
    lower_band: holds at all betas at once."""

    beta: Floats
    after: tuple[Estimate, ...]
    lower_band: Floats

    @property
    def accuracy(self) -> Floats:
        return np.array([figure.value for figure in self.after])


def curve_band(
    level: ArrayLike,
    judge: ArrayLike,
    beta: ArrayLike,
    rng: np.random.Generator,
    *,
    reviewer: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
    confidence: float = 0.95,
) -> CurveBand | Undefined:
    """Return the curve with limits at each beta, and a lower band that holds at all of them.

    For the band each resample is ranked and cut again. Its reach is at least that of one exact
    limit: resamples of 20 labels without an error are all alike, and yet bound nothing above 86 %.

    Args:
        level, judge, reviewer, weight: (N,) as in `review_curve`. With reviewers of their own
            accuracy the entries of `after` have no limits.
        beta: ascending, in percent.
        rng, question, stratum: as in `resampled_counts`.
        confidence: of the band.
    Returns: the band, or Undefined without a labelled example."""
    levels = np.asarray(level, dtype=np.float64)
    if not len(levels):
        return Undefined("no example has a human label")
    earned = np.asarray(judge, dtype=np.float64)
    people = np.ones(len(levels)) if reviewer is None else np.asarray(reviewer, dtype=np.float64)
    weights = np.ones(len(levels)) if weight is None else np.asarray(weight, dtype=np.float64)
    betas = np.asarray(beta, dtype=np.float64)
    curve = review_curve(levels, earned, reviewer=people, weight=weights)
    cuts = betas / 100 * curve.total
    value = curve.accuracy(cuts)
    if reviewer is None:
        after = [accuracy_after(levels, earned, m, weights, stratum, question) for m in cuts]
    else:
        after = [Estimate(float(share), len(levels)) for share in value]

    cell, row = cells(_grouped(levels), earned, people, weights)
    counts = (
        resampled_counts(cell, rng, question=question, stratum=stratum, repeats=REPEATS)
        * weights[row]
    )
    resampled = _curves(counts, _grouped(levels)[row], earned[row], people[row], betas / 100)
    spread = resampled.std(axis=0)
    # The unit is a standard deviation, since one reach serves betas whose figures vary differently.
    scaled = np.divide(
        resampled - value, spread, out=np.zeros_like(resampled), where=spread > 1e-12
    )
    least = float(scipy.stats.norm.ppf(confidence))
    reach = max(least, float(np.quantile(scaled.max(axis=1), confidence)))
    # If few errors are left, no resample shows how few; the exact limit does.
    size = float(weights.sum() ** 2 / (weights @ weights))
    right = np.clip(value * size, 0, size)
    band = exact_lower_limit(right, size, float(scipy.stats.norm.sf(reach)))
    if reviewer is None:
        # Once people have reviewed everything, no error of sampling is left.
        band = np.where(betas < 100, band, value)
    return CurveBand(betas, tuple(after), band)


def _grouped(levels: Floats) -> Floats:
    """The levels in falling order as 0, 1, 2 …, at most MOST_LEVELS of them."""
    distinct, code = coded(-levels)
    # Division rounded up: rounding down would leave more levels than the limit.
    step = max(1, -(-distinct // MOST_LEVELS))
    return (code // step).astype(np.float64)


def _curves(
    weights: Floats, group: Floats, judge: Floats, people: Floats, shares: Floats
) -> Floats:
    """(R, betas) accuracy of each of R resamples of weighted cells, each with its own cut."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))

    def running(values: Floats) -> Floats:
        sums = np.add.reduceat((weights * values)[:, order], starts, axis=1)
        return np.pad(np.cumsum(sums, axis=1), ((0, 0), (1, 0)))

    reviewed, right, replaced = running(np.ones(len(group))), running(judge), running(people)
    curves = [
        (r[-1] + np.interp(shares * n[-1], n, p - r)) / n[-1]
        for n, r, p in zip(reviewed, right, replaced, strict=True)
    ]
    return np.array(curves)
