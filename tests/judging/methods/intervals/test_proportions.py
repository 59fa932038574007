import numpy as np
import pytest
from scipy import stats

from judging.methods.intervals.estimates import (
    Undefined,
    benjamini_yekutieli,
    clopper_pearson,
    holm,
    mcnemar,
    stratified_share,
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


def test_mcnemar_is_the_exact_binomial_test_of_the_discordant_pairs():
    assert mcnemar(0, 5) == pytest.approx(2 / 2**5)
    assert mcnemar(3, 3) == 1
    assert mcnemar(0, 0) == 1


def test_holm_steps_down_and_never_turns_back():
    # sorted .01 .02 .03 .04: times 4, 3, 2, 1 = .04 .06 .06 .04 -> the last is raised to .06
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.9]) == pytest.approx([1, 1])
    assert holm([]).size == 0


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


def test_strata_are_weighted_and_one_stratum_is_itself():
    joined = stratified_share([(5, 20, 0.2), (20, 20, 0.8)])
    assert joined.value == pytest.approx(0.2 * 0.25 + 0.8)
    assert joined.n == 40
    hard, easy = clopper_pearson(5, 20), clopper_pearson(20, 20)
    below = ((0.2 * (0.25 - hard.low)) ** 2 + (0.8 * (1 - easy.low)) ** 2) ** 0.5
    assert joined.low == pytest.approx(joined.value - below)
    assert joined.high == pytest.approx(joined.value + 0.2 * (hard.high - 0.25))
    alone = stratified_share([(3, 20, 1.0), (0, 0, 0.0)])
    assert (alone.low, alone.high) == pytest.approx(
        (clopper_pearson(3, 20).low, clopper_pearson(3, 20).high)
    )
    assert stratified_share([(3, 20, 0.5), (0, 0, 0.5)]) == Undefined(
        "a part of the examples has no human label"
    )
