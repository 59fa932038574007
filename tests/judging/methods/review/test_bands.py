import numpy as np
import pytest

from judging.methods.intervals.estimates import Undefined, clopper_pearson
from judging.methods.review.curve import curve_band, review_curve

BETA = np.arange(0, 101, 5)


def examples(random, n, accuracy=0.7):
    wrong = random.random(n) > accuracy
    return np.clip(np.rint(random.normal(1 + wrong, 1, n)), 0, 4), 1 - wrong.astype(float)


def test_the_band_is_around_the_curve_and_lower_than_the_limits(rng):
    level, judge = examples(rng, 200)
    band = curve_band(level, judge, BETA, rng)
    assert band.accuracy == pytest.approx(review_curve(level, judge).accuracy(BETA * 2))
    inner = slice(0, -1)
    assert (band.low[inner] < band.accuracy[inner]).all()
    assert (band.accuracy[inner] < band.high[inner]).all()
    assert (band.lower_band <= band.accuracy).all()
    assert band.lower_band[0] < band.low[0] + 0.01
    assert band.lower_band[-1] == band.accuracy[-1] == 1


def test_the_lower_band_holds_at_every_beta_at_once(rng):
    level, judge = examples(rng, 400_000)
    truth = review_curve(level, judge).accuracy(BETA / 100 * len(level))
    held = 0
    for _ in range(100):
        level, judge = examples(rng, 200)
        held += (curve_band(level, judge, BETA, rng).lower_band <= truth + 1e-9).all()
    # 100 repeats of 95 %: three standard errors are 6.5 %
    assert held / 100 >= 0.885


def test_a_resample_at_beta_nothing_is_the_mean_of_the_judge(rng):
    level, judge = examples(rng, 300)
    band = curve_band(level, judge, [0.0], rng)
    error = (judge.mean() * (1 - judge.mean()) / 300) ** 0.5
    assert band.high[0] - band.low[0] == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_without_a_label_there_is_no_curve(rng):
    assert isinstance(curve_band([], [], BETA, rng), Undefined)


def test_many_levels_change_the_curve_little(rng):
    level = rng.random(5000)
    judge = (rng.random(5000) < 0.5 + level / 2).astype(float)
    band = curve_band(-level, judge, BETA, rng)
    middle = (band.low + band.high)[:-1] / 2
    assert middle == pytest.approx(band.accuracy[:-1], abs=0.01)


def test_a_judge_without_an_error_is_not_sure_to_make_none(rng):
    """At 20 % twelve of fifteen keep the judge's label: 1 - .8 (1 - .025^(1/12))."""
    band = curve_band(np.arange(15.0), np.ones(15), [0.0, 20.0, 100.0], rng)
    first, fifth, everything = (band.at(place, 15) for place in range(3))
    assert (first.value, first.high, first.low) == (
        1,
        1,
        pytest.approx(clopper_pearson(15, 15).low),
    )
    assert fifth.low == pytest.approx(1 - 0.8 * (1 - clopper_pearson(12, 12).low))
    assert (everything.value, everything.low, everything.high) == (1, None, None)
    assert "by construction" in everything.note
    # Where all are wrong, so may be few of the others.
    wrong = curve_band(np.arange(15.0), np.zeros(15), [20.0], rng).at(0, 15)
    assert (wrong.low, wrong.value) == pytest.approx((0.2, 0.2))
    assert wrong.high == pytest.approx(0.2 + 0.8 * clopper_pearson(0, 12).high)
