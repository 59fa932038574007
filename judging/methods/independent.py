"""The HITLC curve without the reviewers marking their own work.

With two or more votes an example, one vote is the truth and the others decide what a review
would have put in the judge's place; then the next vote is the truth.  The value at beta = 100 %
is how well people agree with each other: a ceiling that no procedure here can pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.estimates import Undefined
from judging.methods.hitlc import ReviewCurve, review_curve
from judging.methods.votes import VoteCounts


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
    """Over the examples with two votes or more.

    level: as in `review_curve`.  judge, judged: the judge's label of each example.
    """
    rows = votes.n_votes >= 2
    if not rows.any():
        return Undefined("no example has two votes")
    agreed = judge_agreement(judge[rows], judged[rows], VoteCounts(votes.counts[rows]))
    people = votes.others_agree()[rows]
    weights = np.ones(len(judge)) if weight is None else np.asarray(weight, dtype=np.float64)
    weights = weights[rows]
    curve = review_curve(
        np.asarray(level, dtype=np.float64)[rows], agreed, reviewer=people, weight=weights
    )
    return IndependentCurve(curve, float(weights @ people / weights.sum()), int(rows.sum()))


def judge_agreement(judge: Signs, judged: Booleans, votes: VoteCounts) -> Floats:
    """Share of an example's votes that the judge's label agrees with; 0 where it has none."""
    same = votes.counts[np.arange(len(judge)), 1 - judge.astype(int)]
    return np.where(judged, same / np.maximum(votes.n_votes, 1), 0.0)
