import numpy as np
import pytest

from judging.methods.intervals.bootstrap import (
    cells,
    interval,
    left_out,
    plus_two_mean,
    plus_two_ratio,
    resampled_counts,
)
from judging.methods.intervals.estimates import Undefined, clopper_pearson


def test_equal_rows_are_one_cell():
    code, first = cells([1, 2, 1, 1], [0.5, 0.5, 0.5, 1])
    assert code[0] == code[2]
    assert len(set(code)) == len(first) == 3


def test_each_resample_has_as_many_questions_as_the_sample_in_each_stratum():
    cell = np.array([0, 0, 1, 2, 2, 2])
    stratum = np.array([0, 0, 0, 1, 1, 1])
    counts = resampled_counts(cell, np.random.default_rng(1), stratum=stratum, repeats=50)
    assert (counts[:, :2].sum(axis=1) == 3).all()
    assert (counts[:, 2] == 3).all()


def test_rows_of_one_question_are_drawn_together():
    cell, question = np.array([0, 1, 2, 3]), np.array([7, 7, 9, 9])
    counts = resampled_counts(cell, np.random.default_rng(1), question=question, repeats=50)
    assert (counts[:, 0] == counts[:, 1]).all()
    assert (counts[:, 2] == counts[:, 3]).all()
    assert (counts[:, 0] + counts[:, 2] == 2).all()
    assert len(np.unique(counts[:, 0])) == 3


def test_undefined_resamples_are_counted():
    low, high, lacking = interval([1.0, 2.0, np.nan])
    assert (low, high, lacking) == (pytest.approx(1.025), pytest.approx(1.975), 1)
    assert interval([np.nan])[2] == 1


def test_a_ratio_has_two_more_values_at_its_limits():
    # 10 wins of 20: the mean of 22 values is .5 and of their squares 11/22, so the variance of the
    # mean is (.5 - .25)/20, and t with 19 degrees of freedom is 2.093.
    found = plus_two_ratio(np.repeat([1.0, 0], 10), np.ones(20), (0, 1))
    assert (found.value, found.n) == (0.5, 20)
    assert found.high - 0.5 == pytest.approx(2.0930 * np.sqrt(0.25 / 20), abs=1e-4)
    # Denominators of 2 change nothing but the scale; 4 of them are one question each.
    assert plus_two_ratio(np.repeat([2.0, 0], 10), np.full(20, 2.0), (0, 1)) == found
    clustered = plus_two_ratio(
        np.repeat([1.0, 0], 10), np.ones(20), (0, 1), question=np.arange(20) // 5
    )
    assert clustered.high - clustered.low > 2 * (found.high - found.low)
    assert plus_two_ratio([0.0], [0.0], (0, 1), reason="no votes") == Undefined("no votes")


def test_after_an_audit_only_what_nobody_saw_is_uncertain():
    """10 selected, and 10 audited of 40: the part of the rest is 4/5, and 30/40 of it is unseen."""
    above, weight = np.repeat([1.0, 0.5], 10), np.repeat([1.0, 4.0], 10)
    audited = {"weight": weight, "stratum": weight > 1}
    found = plus_two_ratio(above, np.ones(20), (0, 1), **audited)
    assert found.value == pytest.approx((10 + 40 * 0.5) / 50)
    # Of 12 values ten are .5, one 0 and one 1: variance (10 / 4 + 1)/12 - 1/4 = 1/24.
    half = 2.2622 * 0.8 * np.sqrt(30 / 40 / 24 / 10)
    assert (found.low, found.high) == pytest.approx((0.6 - half, 0.6 + half), abs=1e-4)
    seen = plus_two_ratio(above, np.ones(20), (0, 1), weight=np.ones(20), stratum=weight > 1)
    assert (seen.low, seen.high) == pytest.approx((0.75, 0.75))
    few = plus_two_ratio(
        above[:15], np.ones(15), (0, 1), weight=weight[:15], stratum=weight[:15] > 1
    )
    assert (few.low, few.note) == (None, "10 audited examples are needed")


def test_one_question_tells_nothing_of_another():
    for question in (np.zeros(3), [4, 4, 4]):
        found = plus_two_mean([1.0, 0.0, 1.0], (0, 1), question)
        assert (found.low, found.high) == (None, None)
        assert "same question" in found.note
    assert plus_two_mean([1.0, 0.0], (0, 1)).low is not None


def test_values_that_are_all_the_same_do_not_say_that_others_are():
    alike = plus_two_mean(np.ones(12), (0, 1))
    assert alike.value == alike.high == 1
    assert 0.7 < alike.low < clopper_pearson(12, 12).low + 0.05
    # Twelve examples of four questions are four.
    assert plus_two_mean(np.ones(12), (0, 1), np.repeat(np.arange(4), 3)).low < alike.low - 0.1


def test_a_jackknife_leaves_out_whole_questions():
    columns = np.arange(8.0).reshape(4, 2)
    total, left = left_out(columns, [3, 5, 3, 5])
    assert total.tolist() == [12, 16]
    assert left.tolist() == [[8, 10], [4, 6]]
    assert left_out(columns)[1].tolist() == (total - columns).tolist()
