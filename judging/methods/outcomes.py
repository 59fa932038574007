"""From what a judge said in one sample to a pair of scores and an outcome.

A pair holds the score of response 1 and of response 2, as exact fractions, already turned back
from the order in which the judge saw them.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

ScorePair = tuple[Fraction, Fraction]
Number = Fraction | Decimal | int

LIKERT_SUM = 8
HALF = Fraction(1, 2)


class Label(StrEnum):
    """Win, tie or lose of response 1: a sample's outcome, a verdict, a vote or a final label."""

    WIN = "win"
    TIE = "tie"
    LOSE = "lose"

    @property
    def turned(self) -> Label:
        """The same judgement from the point of view of response 2."""
        return _TURNED[self]

    @property
    def points(self) -> Fraction:
        """Share of a win for response 1: 1, 1/2 or 0."""
        return _POINTS[self]


_TURNED = {Label.WIN: Label.LOSE, Label.TIE: Label.TIE, Label.LOSE: Label.WIN}
_POINTS = {Label.WIN: Fraction(1), Label.TIE: HALF, Label.LOSE: Fraction(0)}


def score_pair_from_scores(score_1: Number, score_2: Number) -> ScorePair:
    """Form `score`: the two scores of one completion."""
    return Fraction(score_1), Fraction(score_2)


def score_pair_from_outcome(outcome: Label) -> ScorePair:
    """Form `relation`, and imports that hold outcomes only: (1, 0), (1/2, 1/2) or (0, 1)."""
    return outcome.points, 1 - outcome.points


def score_pair_from_rating(rating: Number) -> ScorePair:
    """Form `likert`: rating 1 to 7, turned so that a higher one favours response 1."""
    exact = Fraction(rating)
    if not 1 <= exact <= 7:
        raise ValueError(f"a likert rating lies between 1 and 7, not {rating}")
    return exact, LIKERT_SUM - exact


def score_pair_from_probability(p_1: Number) -> ScorePair:
    """Form `choice`: the probability that the judge prefers response 1."""
    exact = Fraction(p_1)
    if not 0 <= exact <= 1:
        raise ValueError(f"a probability lies between 0 and 1, not {p_1}")
    return exact, 1 - exact


def outcome_of(pair: ScorePair, band: Fraction = Fraction(0)) -> Label:
    """FairEval eq. 3.  `band`: a difference of at most this much is a tie.

    For a probability within b of 1/2 the difference P - (1-P) lies within 2b, so pass 2b.
    """
    difference = pair[0] - pair[1]
    if abs(difference) <= band:
        return Label.TIE
    return Label.WIN if difference > 0 else Label.LOSE
