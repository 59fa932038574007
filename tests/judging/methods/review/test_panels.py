"""A panel of runs: its verdict, its disagreement, its weights, and a cascade of two judges."""

from decimal import Decimal

import numpy as np
import pytest

from judging.methods.review.panels import (
    accuracy_weights,
    cascade,
    equal_weights,
    panel,
)

SIGNS = np.array([[1, 1, 0, -1], [1, -1, 0, 1], [1, -1, 1, 0]], np.int8)
EVERYONE = np.ones(SIGNS.shape, bool)


def test_the_panel_follows_the_mean_of_the_verdicts():
    found = panel(SIGNS, EVERYONE, equal_weights(3))
    assert found.sign.tolist() == [1, -1, 1, 0]
    # unanimous; one against two; two ties and a win; one of each
    two_to_one = -(np.log(1 / 3) / 3 + 2 * np.log(2 / 3) / 3)
    assert found.disagreement == pytest.approx([0, two_to_one, two_to_one, np.log(3)])


def test_who_has_no_verdict_has_no_vote():
    there = EVERYONE.copy()
    there[1:, 1] = False
    there[:, 3] = False
    found = panel(SIGNS, there, equal_weights(3))
    assert found.sign[1] == 1
    assert found.disagreement[1] == 0
    assert found.judged.tolist() == [True, True, True, False]
    assert np.isnan(found.disagreement[3])


def test_scores_of_different_scales_have_the_same_voice():
    one, ten = np.array([0.2, -0.4, 0.4]), np.array([-2.0, 4.0, -4.0])
    signs = np.sign(np.stack((one, ten))).astype(np.int8)
    found = panel(signs, np.ones((2, 3), bool), equal_weights(2), np.stack((one, ten)))
    assert found.sign.tolist() == [0, 0, 0]
    # with scores the sure one outvotes the unsure one
    sure = np.array([[3.0, 0.5], [-0.5, -3.0]])
    found = panel(np.sign(sure).astype(np.int8), np.ones((2, 2), bool), equal_weights(2), sure)
    assert found.sign.tolist() == [1, -1]


def test_exchanging_the_responses_turns_the_panel_over():
    forth, back = (panel(s, EVERYONE, equal_weights(3)) for s in (SIGNS, -SIGNS))
    assert (forth.sign == -back.sign).all()
    assert forth.disagreement == pytest.approx(back.disagreement)


def test_weights_are_the_log_odds_of_being_right():
    right = np.array([[1, 1, 1, 0.5], [1, 1, 0, 0], [0, 0, 0, 1]], float)
    found = accuracy_weights(right, np.ones(4, bool))
    first = np.log(4.5 / 1.5)
    # the second is at even odds, the third below
    assert found == pytest.approx([first / first, 0, 0])


def test_without_a_member_better_than_even_all_weigh_the_same():
    assert accuracy_weights(np.zeros((2, 5)), np.ones(5, bool)) == pytest.approx([0.5, 0.5])


def test_left_out_weights_are_those_without_the_example():
    rng = np.random.default_rng(0)
    right = (rng.random((3, 12)) < 0.7).astype(float)
    labelled = np.arange(12) < 9
    left_out = accuracy_weights(right, labelled, leave_out=True)
    for place in range(12):
        without = labelled & (np.arange(12) != place)
        assert left_out[:, place] == pytest.approx(accuracy_weights(right, without))


def test_a_cascade_asks_the_second_judge_about_the_contested_only():
    ranking = np.array([3, 0, 1, 2])
    first, second = np.array([1.0, 1, 0, 0]), np.array([0.0, 1, 1, 1])
    found = cascade(ranking, first, second, 1, (Decimal("0.40"), Decimal("8.00")))
    assert found.usd == Decimal("2.40")
    assert found.right == 3
    everything = cascade(ranking, first, second, 4, (Decimal("0.40"), Decimal("8.00")))
    assert (everything.usd, everything.right) == (Decimal("8.40"), 3)
    assert cascade(ranking, first, second, 1, (None, Decimal(8))).usd is None
