import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judging.methods.agreement.votes import VoteCounts
from judging.methods.intervals.estimates import Undefined
from judging.methods.review.auroc import (
    FEW,
    auroc,
    auroc_difference,
    better_than_chance,
    no_better_than_chance,
)
from judging.methods.review.curve import (
    errors_found,
    independent_curve,
    oracle_curve,
    random_accuracy,
    review_curve,
    routing_level,
)

earned = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=30)


def test_the_curve_starts_at_the_judge_and_counts_reviewed_examples_as_right():
    level, judge = [3, 2, 2, 1], [0, 0, 1, 1]
    curve = review_curve(level, judge)
    # m=2: the wrong one of the tied pair is among the reviewed half of the time
    assert curve.accuracy([0, 1, 2, 3, 4]) == pytest.approx([0.5, 0.75, 0.875, 1, 1])


@given(earned, st.randoms(use_true_random=False))
def test_no_ranking_passes_the_oracle_and_all_end_at_one(judge, random):
    level = [random.randint(0, 3) for _ in judge]
    m = np.arange(len(judge) + 1)
    curve, oracle = review_curve(level, judge).accuracy(m), oracle_curve(judge).accuracy(m)
    assert (curve <= oracle + 1e-12).all()
    assert (np.diff(curve) >= -1e-12).all()
    assert curve[0] == pytest.approx(np.mean(judge))
    assert curve[-1] == pytest.approx(1)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=40))
def test_the_area_over_the_oracles_is_twice_auroc_less_one(rows):
    level = [float(score) for score, _ in rows]
    judge = [float(right) for _, right in rows]
    area = auroc(level, 1 - np.array(judge))
    if isinstance(area, Undefined):
        assert len(set(judge)) == 1
        return
    chance = (np.mean(judge) + 1) / 2
    gain = area_under(review_curve(level, judge)) - chance
    best = area_under(oracle_curve(judge)) - chance
    assert gain / best == pytest.approx(2 * area.value - 1)


def test_weights_stretch_the_curve_as_if_examples_were_repeated():
    level, judge, weight = [2, 1, 1], [0, 1, 0], [1, 3, 2]
    weighted = review_curve(level, judge, weight=weight)
    repeated = review_curve(np.repeat(level, weight), np.repeat(judge, weight))
    m = np.arange(7)
    assert weighted.accuracy(m) == pytest.approx(repeated.accuracy(m))


def test_fallible_reviewers_end_at_their_own_accuracy():
    curve = review_curve([2, 1], [0, 1], reviewer=[0.8, 0.6])
    assert curve.accuracy([0, 1, 2]) == pytest.approx([0.5, 0.9, 0.7])
    assert random_accuracy([0, 1, 2], 2, 0.5, 0.7) == pytest.approx([0.5, 0.6, 0.7])


def test_the_area_knows_that_questions_repeat(rng):
    """Copies change nothing of the area, and its interval is about that of the questions alone."""
    score, wrong = rng.random(30), rng.random(30) < 0.4
    five = [np.tile(one, 5) for one in (score, wrong)]
    once, copied = auroc(score, wrong), auroc(*five, question=np.tile(np.arange(30), 5))
    assert copied.value == pytest.approx(once.value)
    assert copied.high - copied.low == pytest.approx(once.high - once.low, rel=0.02)
    assert auroc(*five).high - auroc(*five).low < 0.6 * (copied.high - copied.low)
    assert auroc([0.0, 1.0], [0, 1], question=[3, 3]).low is None


def test_errors_found_are_tested_against_a_random_choice():
    judge = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1, 1.0])
    result = errors_found(np.arange(10), judge, 3)
    # all three errors among three of ten: 1 / C(10, 3)
    assert (result.found, result.expected) == (3, pytest.approx(0.9))
    assert result.p == pytest.approx(1 / math.comb(10, 3))
    worst = errors_found(np.arange(10)[::-1], judge, 3)
    assert (worst.found, worst.p) == (0, 1)


def test_half_errors_are_tested_exactly_too():
    judge = np.array([0.5, 0, 1, 0.5, 1, 1, 0, 1.0])
    halves = 2 - 2 * judge
    draws = [halves[list(rows)].sum() for rows in combinations(range(8), 3)]
    found = halves[:3].sum()
    result = errors_found(np.arange(8), judge, 3)
    assert result.found == found / 2
    assert result.p == pytest.approx(np.mean(np.array(draws) >= found))
    assert errors_found(np.arange(8), judge, 0) == Undefined("nothing is reviewed")


def test_unjudged_and_inconsistent_examples_are_reviewed_first():
    unjudged, inconsistent = np.array([0, 0, 0, 1], bool), np.array([0, 0, 1, 0], bool)
    score = np.array([np.nan, math.log(3), 0.0, np.nan])
    levels = routing_level(score, unjudged, inconsistent).tolist()
    assert levels == sorted(levels)
    assert len(set(levels)) == 4
    curve = review_curve([*levels[1:], 0.0], [1, 1, 0, 1])
    assert curve.accuracy(1) == 1


def test_auroc_is_the_mann_whitney_share():
    random = np.random.default_rng(8)
    score = random.integers(0, 5, 80)
    error = random.integers(0, 2, 80)
    u = stats.mannwhitneyu(score[error == 1], score[error == 0]).statistic
    expected = u / (error.sum() * (1 - error).sum())
    assert auroc(score, error).value == pytest.approx(expected)


def test_aurocs_interval_covers_the_truth():
    random = np.random.default_rng(9)
    truth = stats.norm.cdf(1 / math.sqrt(2))
    covered = 0
    for _ in range(400):
        error = random.random(100) < 0.25
        figure = auroc(random.normal(size=100) + error, error)
        covered += figure.low <= truth <= figure.high
    # 400 repeats of 95 %: three standard errors are 3.3 %
    assert 0.917 <= covered / 400 <= 0.983


def test_the_difference_of_two_aurocs_is_paired():
    random = np.random.default_rng(5)
    error = random.choice([0, 0.5, 1], 150, p=[0.6, 0.1, 0.3])
    shared = random.normal(size=150)
    first, second = shared + 0.8 * error, shared + 0.3 * error
    found = auroc_difference(first, second, error)
    value = auroc(first, error).value - auroc(second, error).value
    assert found.value == pytest.approx(value, abs=1e-12)
    again = [random.integers(0, 150, 150) for _ in range(600)]
    spread = np.std([auroc_difference(first[i], second[i], error[i]).value for i in again])
    # a standard deviation of 600 resamples is known to about 3 %
    assert found.standard_error == pytest.approx(spread, rel=0.15)
    assert auroc_difference(first, first, error).standard_error == pytest.approx(0, abs=1e-12)
    assert "never wrong" in auroc_difference(first, second, np.zeros(150)).reason


def test_aurocs_interval_is_newcombes_fifth():
    # By hand: (area - a)^2 = 1.96^2 a (1 - a) (1 + (m - 1) ((1 - a)/(2 - a) + a/(1 + a)))/(3 * 5)
    # with m the mean of 3 errors and 5 right labels, at both limits.
    score, error = [5, 4, 2, 3, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]
    found = auroc(score, error)
    assert found.value == pytest.approx(14 / 15)
    assert found.note == FEW
    for a in (found.low, found.high):
        spread = a * (1 - a) * (1 + 3 * ((1 - a) / (2 - a) + a / (1 + a))) / 15
        assert (found.value - a) ** 2 == pytest.approx(1.959964**2 * spread, rel=1e-5)


def test_no_claim_is_built_on_fewer_than_five_errors():
    score = np.arange(40)
    few, enough = auroc(score, score >= 36), auroc(score, score >= 35)
    assert few.low > 0.5
    assert not better_than_chance(few)
    assert better_than_chance(enough)
    assert not no_better_than_chance(auroc(score, score < 4))


def test_a_routed_round_needs_audited_errors_for_its_auroc():
    # 20 of 100 selected, 40 of the others audited: each of these stands for two.
    score, weight = np.arange(60) % 20, np.repeat([1.0, 2.0], [20, 40])
    error = np.zeros(60)
    error[[3, 7, 11, 25, 31]] = 1
    assert "the audit found 2 errors" in auroc(score, error, weight=weight).reason
    error[44] = 1
    found, whole = auroc(score, error, weight=weight), auroc(score, error)
    assert found.high - found.low > whole.high - whole.low
    # If only an audit is labelled, the weight that all share says nothing.
    # Sums of other weights may differ in their last digit.
    alike = auroc(score, error, weight=np.full(60, 5.0))
    assert [alike.value, alike.low, alike.high] == pytest.approx(
        [whole.value, whole.low, whole.high]
    )


def test_auroc_without_both_kinds_is_undefined():
    assert "no error" in auroc([1, 2], [0, 0]).reason
    assert "right on no example" in auroc([1, 2], [1, 1]).reason
    perfect = auroc([3, 4, 1, 2], [1, 1, 0, 0])
    assert perfect.value == perfect.high == 1
    assert 0.2 < perfect.low < 0.8


def test_a_ranking_that_is_worse_than_chance_is_called_so():
    score = np.arange(200.0)
    assert no_better_than_chance(auroc(score, score < 60))
    assert not no_better_than_chance(auroc(score, score > 140))
    assert not no_better_than_chance(Undefined("no error"))


def test_half_errors_count_on_both_sides():
    # the half at 2: half an error and half a right one, tied with itself
    above, tied = 0.5 * 1, 0.5 * 0.5
    assert auroc([1, 2], [0, 0.5]).value == pytest.approx((above + tied / 2) / (0.5 * 1.5))


def test_the_independent_curve_ends_at_how_well_people_agree():
    votes = VoteCounts(np.array([[3, 0, 0], [2, 1, 0], [0, 0, 2], [1, 0, 0]]))
    judge = np.array([1, -1, -1, 1], dtype=np.int8)
    result = independent_curve([3, 2, 1, 0], judge, np.ones(4, bool), votes)
    assert result.n == 3
    assert result.ceiling == pytest.approx((1 + 1 / 3 + 1) / 3)
    # before any review the judge agrees with all votes of the 1st and 3rd and none of the 2nd
    assert result.curve.accuracy([0, 3]) == pytest.approx([2 / 3, result.ceiling])
    assert result.curve.accuracy(2) == pytest.approx(result.ceiling)
    assert independent_curve([0], judge[3:], np.ones(1, bool), VoteCounts(votes.counts[3:])) == (
        Undefined("none of these examples has two votes that count")
    )


def area_under(curve):
    """Over beta from 0 to 1."""
    return np.trapezoid(curve.accuracy(curve.reviewed), curve.reviewed / curve.total)
