import numpy as np
import pytest

from judging.methods.intervals.estimates import Undefined, unseen_total, wilson
from judging.methods.review.curve import accuracy_after, curve_band, review_curve, unreviewed_part

BETA = np.arange(0, 101, 5)


def examples(random, n, accuracy=0.7):
    wrong = random.random(n) > accuracy
    return np.clip(np.rint(random.normal(1 + wrong, 1, n)), 0, 4), 1 - wrong.astype(float)


def test_the_band_is_around_the_curve_and_lower_than_the_limits(rng):
    level, judge = examples(rng, 200)
    band = curve_band(level, judge, BETA, rng)
    assert band.accuracy == pytest.approx(review_curve(level, judge).accuracy(BETA * 2))
    inner = slice(0, -1)
    limits = np.array([(one.low, one.value, one.high) for one in band.after[inner]])
    assert (np.diff(limits) > 0).all()
    assert (band.lower_band <= band.accuracy).all()
    assert band.lower_band[0] < band.after[0].low + 0.01
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


def test_at_beta_nothing_the_limits_are_those_of_the_judge(rng):
    level, judge = examples(rng, 300)
    band = curve_band(level, judge, [0.0], rng)
    error = (judge.mean() * (1 - judge.mean()) / 300) ** 0.5
    assert band.after[0].high - band.after[0].low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_without_a_label_there_is_no_curve(rng):
    assert isinstance(curve_band([], [], BETA, rng), Undefined)


def test_many_levels_change_the_curve_little(rng):
    level = rng.random(5000)
    judge = (rng.random(5000) < 0.5 + level / 2).astype(float)
    band = curve_band(-level, judge, BETA, rng)
    assert band.lower_band[:-1] == pytest.approx(band.accuracy[:-1], abs=0.03)


def test_a_judge_without_an_error_is_not_sure_to_make_none(rng):
    """At 20 % sixteen of twenty keep the judge's label."""
    band = curve_band(np.arange(20.0), np.ones(20), [0.0, 20.0, 100.0], rng)
    first, fifth, everything = band.after
    assert (first.low, first.value, first.high) == (wilson(20, 20).low, 1, 1)
    assert fifth.low == pytest.approx(1 - 0.8 * (1 - wilson(16, 16).low))
    assert (everything.value, everything.low, everything.high) == (1, None, None)
    assert "by construction" in everything.note
    # The exact limit at 95 %: .05^(1/20).
    assert band.lower_band[0] == pytest.approx(0.05 ** (1 / 20))


def test_after_an_audit_the_curve_has_the_limits_of_what_nobody_saw():
    # Two selected and four of eight others audited, one of them wrong; four are unseen.
    level, earned = [9, 8, 3, 3, 2, 1], [0, 1, 1, 1, 0, 1]
    weight, stratum = [1, 1, 2, 2, 2, 2], [0, 0, 1, 1, 1, 1]
    reached = accuracy_after(level, earned, 2, weight, stratum)
    _, low, high = unseen_total(3, 4, 4)
    assert reached.value == pytest.approx((2 + 3 + 3) / 10)
    assert (reached.low, reached.high) == ((2 + 3 + low) / 10, (2 + 3 + high) / 10)
    left = unreviewed_part(reached, 0.2, "")
    assert left.value == pytest.approx(3 / 4)
    assert left.low == pytest.approx((3 + low) / 8)
    assert unreviewed_part(accuracy_after(level, earned, 10, weight, stratum), 1, "all").reason
