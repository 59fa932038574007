import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy

from judging.methods.intervals.estimates import Undefined
from judging.methods.verdicts.position import (
    conflict_by_gap,
    conflicts,
    first_position,
    order_labels,
    position_effect,
    repetition_stability,
    sign_test,
    win_rate_by_position,
)
from judging.methods.verdicts.verdicts import verdict

ROOT = Path(__file__).resolve().parents[4]
EVERY = np.ones((4, 2, 1), bool)


def outcomes(*pairs):
    return np.array(pairs, dtype=np.int8)[:, :, None]


def judge_of(random, n, k, lean):
    """Examples without any difference; a win of the first position has chance 1/2 + lean."""
    first = random.random((n, 2, k)) < 0.5 + lean
    sign = np.where(first, 1, -1)
    sign[:, 1] *= -1
    return sign.astype(np.int8)


def test_a_conflict_is_another_label_and_a_strict_one_a_win_against_a_lose():
    labels, there = order_labels(outcomes((1, 1), (1, -1), (1, 0), (-1, 1)), EVERY)
    result = conflicts(labels, there)
    assert result.conflict_rate.value == 0.75
    assert result.strict_conflict_rate.value == 0.5
    assert result.consistency.value == 0.25


def test_an_example_without_a_verdict_in_one_order_is_not_counted():
    valid = EVERY.copy()
    valid[1, 1] = False
    labels, there = order_labels(outcomes((1, 1), (1, -1), (1, 0), (-1, 1)), valid)
    assert conflicts(labels, there).conflict_rate.n == 3
    nothing = conflicts(labels, np.zeros_like(there))
    assert isinstance(nothing.conflict_rate, Undefined)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 24, 55, 1000, 13_247])
def test_the_sign_test_is_scipys(n):
    for successes in {0, 1, n // 3, n // 2, (n + 1) // 2, n}:
        assert sign_test(successes, n) == scipy.stats.binomtest(successes, n).pvalue


FIGURES = """
import sys
import numpy as np
from judging.methods.verdicts.position import conflicts, first_position
labels, there = np.array([[1, -1], [1, 1], [-1, 1], [1, -1]]), np.ones((4, 2), bool)
for questions in (None, [0, 1, 2, 3], [0, 0, 1, 1]):
    print(conflicts(labels, there, questions), first_position(labels, there, questions))
sys.exit("scipy.stats" in sys.modules)
"""


def test_the_figures_of_every_run_do_without_the_half_second_that_scipys_statistics_take():
    subprocess.run([sys.executable, "-c", FIGURES], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_the_first_position_is_preferred_where_both_orders_choose_it():
    # original win and swapped lose: the response shown first won both times
    labels, there = order_labels(outcomes((1, -1), (1, -1), (-1, 1), (1, 1)), EVERY)
    result = first_position(labels, there)
    assert result.rate.value == pytest.approx(2 / 3)
    assert result.rate.n == 3
    assert result.p == 1
    assert first_position(labels[3:], there[3:]).p is None


def test_five_copies_of_a_question_are_not_five_conflicts():
    labels, there = order_labels(outcomes((1, 1), (1, -1), (1, -1), (-1, 1)), EVERY)
    alone, once = conflicts(labels, there), first_position(labels, there)
    five, many, question = (np.repeat(one, 5, axis=0) for one in (labels, there, np.arange(4)))
    found, preferred = conflicts(five, many, question), first_position(five, many, question)
    assert (found.conflict_rate.value, found.conflict_rate.n) == (0.75, 20)
    assert found.conflict_rate.low < alone.conflict_rate.low
    assert conflicts(five, many).conflict_rate.low > alone.conflict_rate.low
    assert preferred.rate.value == once.rate.value
    assert preferred.rate.low < once.rate.low
    assert preferred.p > 0.5 > first_position(five, many).p


def test_a_judge_of_ties_has_an_interval_of_some_width():
    """Twelve equal values v and one more at each limit: centre (12 v + sum of limits)/14.

    Its variance is the mean square less the centre's, over 12; t has 11 degrees of freedom."""
    ties, valid = np.zeros((12, 2, 3), np.int8), np.ones((12, 2, 3), bool)
    labels, there = order_labels(ties, valid)
    first, _ = win_rate_by_position(labels, there)
    effect, stable = position_effect(ties, valid), repetition_stability(ties, valid)
    t = scipy.stats.t.ppf(0.975, 11)
    half = t * np.sqrt(((12 / 4 + 1) / 14 - 1 / 4) / 12)
    assert (first.low, first.high) == pytest.approx((0.5 - half, 0.5 + half))
    centre = 0.5 / 14
    half = t * np.sqrt((1.25 / 14 - centre**2) / 12)
    assert effect.value == 0
    assert (effect.low, effect.high) == pytest.approx((centre - half, centre + half))
    centre = 13 / 14
    half = t * np.sqrt((13 / 14 - centre**2) / 12)
    assert (stable.low, stable.high) == pytest.approx((centre - half, 1))


def test_the_win_rate_of_model_1_when_first_and_when_second():
    labels, there = order_labels(outcomes((1, -1), (1, -1), (0, 1), (-1, -1)), EVERY)
    first, second = win_rate_by_position(labels, there)
    assert first.value == pytest.approx(2.5 / 4)
    assert second.value == pytest.approx(1 / 4)


def test_the_position_effect_leaves_the_judges_noise_out(rng):
    valid = np.ones((3000, 2, 3), bool)
    noisy = position_effect(judge_of(rng, 3000, 3, lean=0), valid)
    assert noisy.low <= 0 <= noisy.high
    # lean .3: P(differ across) = .8*.8 + .2*.2 = .68, within = 2*.8*.2 = .32
    biased = position_effect(judge_of(rng, 3000, 3, lean=0.3), valid)
    assert biased.low <= 0.36 <= biased.high
    stability = repetition_stability(judge_of(rng, 3000, 3, lean=0.3), valid)
    assert stability.low <= 0.68 <= stability.high


def test_effects_of_one_example_by_hand():
    sample = np.array([[[1, 1, -1], [1, -1, -1]]], dtype=np.int8)
    valid = np.ones((1, 2, 3), bool)
    # across: of nine pairs 1-1: 2*1, -1--1: 1*2 agree, 5 differ; within: 2 of 3 pairs differ
    assert position_effect(sample, valid).value == pytest.approx(5 / 9 - 2 / 3)
    assert repetition_stability(sample, valid).value == pytest.approx(1 / 3)


def test_one_sample_an_order_says_nothing_of_repetition():
    sample = outcomes((1, 1), (1, -1), (1, 0), (-1, 1))
    assert isinstance(repetition_stability(sample, EVERY), Undefined)
    assert isinstance(position_effect(sample, EVERY), Undefined)


@pytest.mark.parametrize(
    ("valid", "reason"),
    [
        ([[[1, 1], [0, 0]], [[0, 0], [1, 1]]], "no example has valid samples in both orders"),
        ([[[1, 0], [1, 0]], [[0, 1], [1, 0]]], "no example has two valid samples of one order"),
        ([[[1, 1], [0, 0]], [[0, 1], [1, 0]]], "both orders, and two of them in one order"),
    ],
)
def test_the_reason_without_an_effect_is_true(valid, reason):
    present = np.array(valid, bool)
    effect = position_effect(np.ones(present.shape, np.int8), present)
    assert isinstance(effect, Undefined)
    assert reason in effect.reason


def test_conflict_falls_with_the_gap_even_for_identical_examples_unless_samples_are_split(rng):
    difference = rng.integers(-3, 4, (20_000, 2, 4))
    valid = np.ones(difference.shape, bool)
    bins = conflict_by_gap(difference, valid, [0, 0.25, 0.75, 1.5, 3])
    same = [row.same_samples.value for row in bins]
    split = [row.split_samples.value for row in bins]
    assert same[0] > 0.9
    assert same[-1] < 0.35
    assert max(split) - min(split) < 0.06


def test_a_gap_on_the_last_edge_belongs_to_the_last_bin():
    difference = np.array([[[2, 2], [2, 2]], [[0, 0], [-2, 0]]])
    valid = np.ones(difference.shape, bool)
    low, high = conflict_by_gap(difference, valid, [0, 1, 2])
    assert (low.same_samples.n, high.same_samples.n) == (1, 1)
    assert (low.same_samples.value, high.same_samples.value) == (1, 0)
    (empty,) = conflict_by_gap(difference, valid, [5, 6])
    # By halves one example has two gaps, 0 and 4, each with the other half's conflict.
    halves = np.array([[[0, 4], [0, 4]]])
    near, far = conflict_by_gap(halves, np.ones((1, 2, 2), bool), [0, 1, 4])
    for one in (near.split_samples, far.split_samples):
        assert (one.n, one.value) == (1, 0)
        assert one.low <= one.value <= one.high
    against = np.array([[[1, 1], [1, -1]]])
    (mixed,) = conflict_by_gap(against, np.ones((1, 2, 2), bool), [0, 4])
    assert (mixed.split_samples.n, mixed.split_samples.value) == (1, 0.5)
    assert mixed.split_samples.low < 0.5 < mixed.split_samples.high
    assert empty.same_samples == Undefined("no example in this bin")


def test_a_band_is_of_the_mean_as_in_the_verdicts():
    """.53, .53, .56 with a band of .05 around 1/2: the last sample is a win, and the mean a tie."""
    scores = np.array([[[53, 53, 56], [53, 56, 60]]])
    difference, valid = 2 * scores - 100, np.ones((1, 2, 3), bool)
    labels, _ = order_labels(difference, valid, band=10)
    for order, sign in zip(scores[0], labels[0], strict=True):
        pairs = tuple((Fraction(int(p), 100), 1 - Fraction(int(p), 100)) for p in order)
        label = verdict(pairs, band=Fraction(1, 10)).label
        assert {"win": 1, "tie": 0, "lose": -1}[label] == sign
    assert labels.tolist() == [[0, 1]]
    assert order_labels(difference, valid)[0].tolist() == [[1, 1]]
