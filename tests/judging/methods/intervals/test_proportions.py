import math

import numpy as np
import pytest
from scipy import stats

from judging.methods.intervals.estimates import (
    Undefined,
    benjamini_yekutieli,
    clopper_pearson,
    holm,
    holm_of_tested,
    sign_flip,
    unseen_total,
    wilson,
)


def test_wilson_gives_the_textbook_interval():
    # Newcombe (1998), table I: 81 of 263, 0.2553 to 0.3662
    estimate = wilson(81, 263)
    assert (estimate.low, estimate.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    by_scipy = stats.binomtest(3, 20).proportion_ci(method="wilson")
    ours = wilson(3, 20)
    assert (ours.low, ours.high) == pytest.approx((by_scipy.low, by_scipy.high))


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
def test_the_ends_stay_within_bounds_and_nothing_is_undefined(interval):
    none, all_of_them = interval(0, 10), interval(10, 10)
    assert none.low == 0 < none.high < 0.5
    assert all_of_them.high == 1 > all_of_them.low > 0.5
    assert interval(0, 0) == Undefined("no examples")


def test_flipping_signs_of_whole_differences_is_mcnemars_exact_test(rng):
    assert sign_flip([-1] * 5 + [0], rng) == pytest.approx(2 / 2**5)
    assert sign_flip([1, 1, 1, -1, -1, -1], rng) == 1
    assert sign_flip([], rng) == 1
    by_scipy = stats.binomtest(9, 12).pvalue
    assert sign_flip([1] * 9 + [-1] * 3, rng) == pytest.approx(by_scipy)


def test_halves_and_weights_are_flipped_too(rng):
    # Of the 16 signs of 1, 1/2, 1/2 and 1/2 two give +-5/2, six +-3/2, and eight +-1/2.
    assert sign_flip([1, 0.5, 0.5, -0.5], rng) == pytest.approx(8 / 16)
    weighted = sign_flip([1.3, 1.3, 1.3, 1.3, 1.3], rng)
    assert weighted == pytest.approx(2 / 2**5, abs=0.01)


def test_two_equal_judges_with_ties_are_seldom_told_apart(rng):
    apart = rng.choice([-1, -0.5, 0, 0.5, 1], (400, 30), p=[0.05, 0.1, 0.7, 0.1, 0.05])
    false = sum(sign_flip(row, rng) <= 0.05 for row in apart)
    # 400 repeats of 5 %: three standard errors are 3.3 %
    assert false <= 33


def test_holm_steps_down_and_never_turns_back():
    # sorted .01 .02 .03 .04: times 4, 3, 2, 1 = .04 .06 .06 .04 -> the last is raised to .06
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.9]) == pytest.approx([1, 1])
    assert holm([]).size == 0


def test_what_could_not_be_tested_is_no_part_of_the_family():
    assert holm_of_tested([None, 0.01, None, 0.03]) == [None, 0.02, None, 0.03]
    assert holm_of_tested([None, None]) == [None, None]
    assert holm_of_tested([]) == []


def test_benjamini_yekutieli_divides_by_the_harmonic_sum():
    # three p of .01: .01 * (1 + 1/2 + 1/3) = .0183
    p = [0.01, 0.01, 0.01]
    assert benjamini_yekutieli(p, 0.0184).all()
    assert not benjamini_yekutieli(p, 0.0183).any()
    assert np.array_equal(benjamini_yekutieli([], 0.05), [])


def test_the_exact_interval_is_scipys():
    by_scipy = stats.binomtest(3, 20).proportion_ci(method="exact")
    ours = clopper_pearson(3, 20)
    assert (ours.low, ours.high) == pytest.approx((by_scipy.low, by_scipy.high))


def test_what_nobody_saw_has_hypergeometric_limits():
    # 20 of 50 seen without an error: the largest D of the 30 with P(0 of D among 20) > .025.
    value, low, high = unseen_total(20, 20, 30)
    worst = max(d for d in range(31) if math.comb(50 - d, 20) / math.comb(50, 20) > 0.025)
    assert (value, low, high) == (30, 30 - worst, 30)
    assert unseen_total(1.5, 4, 8)[0] == pytest.approx(3)
    assert unseen_total(0, 0, 8) == (4, 0, 8)
    assert unseen_total(3, 4, 0) == (0, 0, 0)


@pytest.mark.parametrize(("rest", "n"), [(64, 20), (320, 60), (800, 100)])
def test_these_limits_hold_whatever_the_rest_contains(rest, n):
    """Every sample of every rest, counted and not drawn: make simulate needs no repeats here."""
    right, seen = np.arange(rest + 1)[:, None], np.arange(n + 1)
    low, high = np.array([unseen_total(one, n, rest - n)[1:] for one in seen]).T
    held = (low <= right - seen) & (right - seen <= high)
    covered = (stats.hypergeom.pmf(seen, rest, right, n) * held).sum(axis=1)
    assert 0.95 <= covered.min() < 0.96
