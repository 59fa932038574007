from collections import Counter

import numpy as np
import pytest

from judging.methods.agreement.votes import VoteCounts, majority_of, rater_against_majority
from judging.methods.intervals.estimates import Undefined
from judging.methods.verdicts.verdicts import Label

W, T, L = Label.WIN, Label.TIE, Label.LOSE


@pytest.mark.parametrize(
    ("votes", "label"),
    [
        ([], None),
        ([W], W),
        ([W, L], None),
        ([W, W, L], W),
        ([W, T, L], None),
        ([W, W, T, L], None),
        ([T, T, T, W, L], T),
    ],
)
def test_a_majority_is_more_than_half_of_the_votes_received(votes, label):
    assert majority_of(Counter(votes)) is label
    signs = np.array([[{W: 1, T: 0, L: -1}[v] for v in votes] + [0] * (5 - len(votes))])
    present = np.arange(5)[None, :] < len(votes)
    sign, has = VoteCounts.from_votes(signs, present).majority()
    assert bool(has[0]) == (label is not None)
    if label is not None:
        assert sign[0] == {W: 1, T: 0, L: -1}[label]


def test_others_agree_takes_each_vote_in_turn_for_the_truth():
    counts = VoteCounts(np.array([[3, 0, 0], [2, 1, 0], [1, 1, 1], [2, 0, 0], [1, 0, 0]]))
    # 2-1-0: each win sees (win, tie), half; the tie sees two wins, 0: (1/2 + 1/2 + 0)/3
    expected = [1, 1 / 3, 0, 1]
    assert counts.others_agree()[:4] == pytest.approx(expected)
    assert np.isnan(counts.others_agree()[4])


def test_the_variance_of_votes_is_that_of_their_mean():
    counts = VoteCounts(np.array([[2, 1, 0], [3, 0, 0], [1, 0, 0]]))
    variance = np.array([1, 1, 0.5]).var(ddof=1) / 3
    assert counts.score_variance()[:2] == pytest.approx([variance, 0])
    assert np.isnan(counts.score_variance()[2])


def test_a_rater_agrees_more_with_a_majority_that_holds_the_own_vote():
    votes = np.array([[1, 1, -1], [1, -1, -1], [-1, 1, 1], [0, 1, 0]], dtype=np.int8)
    everyone = np.ones_like(votes, dtype=bool)
    with_own = rater_against_majority(votes, everyone, 0, own_vote=True)
    others = rater_against_majority(votes, everyone, 0, own_vote=False)
    assert with_own == pytest.approx(2 / 4)
    # the others agree with each other on examples 2 and 3 only, and never with rater 0
    assert others == 0
    alone = np.array([[True, False, False]])
    assert isinstance(rater_against_majority(votes[:1], alone, 0, own_vote=False), Undefined)
