"""Which solved pairs teach, on which sides they are shown, and when a taught judge is better."""

from decimal import Decimal
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.methods.intervals.estimates import Estimate, Undefined, sign_flip
from judging.methods.intervals.looks import Ruling
from judging.methods.review.certificate import stage_prices
from judging.methods.review.teaching import (
    annotators_with,
    balanced_sides,
    choose_pairs,
    draw_annotators,
    shown_better,
    simulated_confidence,
    simulated_likelihood,
)


def test_errors_come_first_the_surest_of_each_category_in_turn_and_no_question_twice():
    wrong = np.array([1, 1, 0, 1, 1, 0, 1], bool)
    unsure = np.array([0.5, 0.1, 0.9, 0.3, 0.2, 0.4, 0.0])
    category = ["code", "code", "code", "prose", "code", "prose", "prose"]
    question = np.array([0, 1, 2, 3, 1, 5, 3])
    # By hand. Code has three errors, by sureness 1, 4, 0; prose has two, 6 and 3. In turn: 1, 6, 4,
    # 3, 0. Of these 4 repeats the question of 1, and 3 that of 6. Then what was right: 2 before 5.
    assert choose_pairs(wrong, unsure, category, question, 9).tolist() == [1, 6, 0, 2, 5]
    assert choose_pairs(wrong, unsure, category, question, 2).tolist() == [1, 6]
    nothing = choose_pairs(wrong[:0], unsure[:0], [], question[:0], 3)
    assert nothing.tolist() == []


@given(st.lists(st.booleans(), max_size=12), st.booleans())
def test_as_many_pairs_show_the_better_response_first_as_second(decided, first):
    sides = balanced_sides(decided, first=first)
    shown = [side for side, one in zip(sides, decided, strict=True) if one]
    assert abs(2 * sum(shown) - len(shown)) <= 1
    # In the prompt of the other order, every pair is the other way round.
    assert balanced_sides(decided, first=not first) == [not side for side in sides]


def test_four_pairs_come_in_the_order_a_b_b_a():
    assert balanced_sides([True] * 4, first=True) == [True, False, False, True]
    assert balanced_sides([True, False, True, False], first=True) == [True, True, False, False]


@pytest.mark.parametrize(("better", "worse"), [(12, 2), (9, 3), (5, 0), (30, 20)])
def test_the_paired_test_is_mcnemars_exact_one(better, worse):
    """P = 2 sum over k >= max(b, c) of C(b + c, k) / 2^(b + c) (McNemar 1947)."""
    n = better + worse
    golden = min(1.0, 2 * sum(comb(n, k) for k in range(better, n + 1)) / 2**n)
    apart = [1.0] * better + [-1.0] * worse + [0.0] * 40
    assert sign_flip(apart, np.random.default_rng(1)) == pytest.approx(golden, abs=1e-12)


def test_a_version_is_better_only_if_the_interval_and_the_exact_test_say_so():
    up = Estimate(0.1, 100, 0.02, 0.18)
    # The first look spends 0.05 / 2 on each side, so a two-sided p of 0.05; the second 0.05 / 6.
    assert shown_better(up, 0.049, 1) is Ruling.PASS
    assert shown_better(up, 0.051, 1) is Ruling.INCONCLUSIVE
    assert shown_better(up, 0.049, 2) is Ruling.INCONCLUSIVE
    assert shown_better(up, 0.016, 2) is Ruling.PASS
    assert shown_better(Estimate(0.1, 100, -0.01, 0.2), 0.01, 1) is Ruling.INCONCLUSIVE
    assert shown_better(Estimate(-0.1, 100, -0.2, -0.01), 0.01, 1) is Ruling.FAIL
    assert shown_better(Estimate(0.1, 100), 0.01, 1) is Ruling.INCONCLUSIVE
    assert shown_better(Undefined("none"), None, 1) is Ruling.INCONCLUSIVE


def test_each_judge_of_a_row_is_paid_for_what_those_before_it_did_not_keep():
    # 100 at 1 cent; 40 are left for the second at 10 cents, 10 for the third at no known price.
    found = stage_prices(100, [60, 30, 5], [Decimal("0.01"), Decimal("0.10"), None])
    assert found == [Decimal("1.00"), Decimal("4.00"), None]


def test_the_confidence_is_the_share_of_simulated_annotators_that_agree():
    win, tie, lose, none = 1, 0, -1, 2
    said = np.array(
        [
            # By hand: 4 of 5 say win in the first order and 3 of 5 in the second, so
            # (4/5 + 3/5) / 2 = .7.
            [[win, win, win, lose, win], [win, win, lose, lose, win]],
            # Two answers are missing: (2/3 + 1) / 2.
            [[lose, tie, lose, none, none], [lose, lose, lose, lose, lose]],
            # One order has no answer.
            [[none] * 5, [win] * 5],
            # Wins and loses balance, so the label is a tie that none of them gave.
            [[win, lose, win, lose, win], [lose, win, lose, win, lose]],
        ]
    )
    label = np.array([win, lose, win, tie])
    found = simulated_confidence(said.astype(np.int8), said != none, label.astype(np.int8))
    assert found[:2] == pytest.approx([0.7, (2 / 3 + 1) / 2])
    assert np.isnan(found[2])
    assert found[3] == 0


def test_with_log_probabilities_it_is_the_mean_probability_of_the_label():
    # The paper's max_y of the mean over annotators, here of (.9, .8, .4) in both orders: .7.
    p = np.array([np.mean([0.9, 0.8, 0.4]), 0.2, 0.52])
    found = simulated_likelihood(p, np.array([1, -1, 0], np.int8))
    assert found == pytest.approx([0.7, 0.8, 0.48])


said_by = st.lists(st.sampled_from([1, -1]), min_size=3, max_size=3)


@given(st.lists(said_by, min_size=2, max_size=2))
def test_without_ties_the_label_has_the_largest_share_whichever_response_is_named_first(orders):
    said = np.array([orders], np.int8)
    total = said.sum()
    label = np.sign([total]).astype(np.int8)
    found = simulated_confidence(said, np.ones(said.shape, bool), label)
    turned = simulated_confidence(-said, np.ones(said.shape, bool), -label)
    assert turned == pytest.approx(found)
    if total:
        assert found[0] == pytest.approx(max(np.mean(said == 1), np.mean(said == -1)))


def test_annotators_and_their_votes_are_drawn_at_random_and_no_question_twice():
    rng = np.random.default_rng(5)
    present = rng.random((60, 6)) < 0.5
    present[10:, 2] = False
    question = np.arange(60) // 2
    assert 2 not in annotators_with(present, question, 9)
    drawn = draw_annotators(present, question, 4, 9, rng)
    assert len({column for column, _ in drawn}) == 4
    for column, rows in drawn:
        assert present[rows, column].all()
        assert len(set(question[rows].tolist())) == 9
    again = draw_annotators(present, question, 4, 9, np.random.default_rng(6))
    assert [rows.tolist() for _, rows in again] != [rows.tolist() for _, rows in drawn]
    with pytest.raises(ValueError, match="5 annotators voted on 9 questions, and 6 are needed"):
        draw_annotators(present, question, 6, 9, rng)


def test_which_votes_are_shown_rests_on_nobodys_label():
    """Every example that an annotator voted on is as likely to be shown."""
    present, question = np.ones((8, 3), bool), np.arange(8)
    rng, counts = np.random.default_rng(1), np.zeros(8)
    for _ in range(2_000):
        for _, rows in draw_annotators(present, question, 2, 3, rng):
            counts[rows] += 1
    # 4,000 draws of 3 of 8: 1,500 expected of each, with a standard deviation of about 31.
    assert np.abs(counts - 1_500).max() < 4 * 31
