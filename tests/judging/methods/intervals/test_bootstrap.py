import numpy as np
import pytest

from judging.methods.intervals.bootstrap import (
    bootstrap_estimate,
    cells,
    interval,
    resampled_counts,
)
from judging.methods.intervals.estimates import Estimate, Undefined, clopper_pearson


def mean(counts, values):
    return counts @ values[:, 0] / counts.sum(axis=1)


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


def test_the_interval_is_that_of_drawing_rows_one_by_one():
    values = np.random.default_rng(2).choice([0, 0.5, 1], 60)
    ours = bootstrap_estimate(mean, (values,), np.random.default_rng(3), repeats=20_000)
    plain = np.random.default_rng(4).choice(values, (20_000, 60)).mean(axis=1)
    low, high = np.quantile(plain, [0.025, 0.975])
    assert ours.value == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=0.006)


def test_the_same_seed_gives_the_same_interval():
    values = np.arange(20.0)
    one, other = (bootstrap_estimate(mean, (values,), np.random.default_rng(5)) for _ in "ab")
    assert one == other


def test_resamples_without_a_value_are_counted():
    low, high, lacking = interval([1.0, 2.0, np.nan])
    assert (low, high, lacking) == (pytest.approx(1.025), pytest.approx(1.975), 1)
    assert interval([np.nan])[2] == 1

    def only_if_both(counts, values):
        return np.where((counts > 0).all(axis=1), mean(counts, values), np.nan)

    estimate = bootstrap_estimate(only_if_both, ([0.0, 1.0],), np.random.default_rng(6))
    assert isinstance(estimate, Estimate)
    assert estimate.note.startswith("undefined in ")
    nothing = bootstrap_estimate(mean, ([],), np.random.default_rng(6), reason="no votes")
    assert nothing == Undefined("no votes")


def test_one_question_tells_nothing_of_another(rng):
    def mean(counts, values):
        return counts @ values[:, 0] / counts.sum(axis=1)

    for found in (
        bootstrap_estimate(mean, [[1.0]], rng),
        bootstrap_estimate(mean, [[1.0, 0.0, 1.0]], rng, question=[4, 4, 4]),
    ):
        assert (found.low, found.high) == (None, None)
        assert "same question" in found.note
    assert bootstrap_estimate(mean, [[1.0, 0.0]], rng).low is not None


def test_values_that_are_all_the_same_do_not_say_that_others_are(rng):
    """Of twelve none was otherwise; with 95 % confidence at most 1 - .025^(1/12) = .2646 are."""
    alike = bootstrap_estimate(mean, (np.full(12, 0.5),), rng)
    assert (alike.value, alike.low, alike.high) == (0.5, None, None)
    assert "resample" in alike.note
    within = bootstrap_estimate(mean, (np.full(12, 0.5),), rng, limits=(0, 1))
    assert (within.low, within.high) == pytest.approx(
        (0.5 - 0.2646 / 2, 0.5 + 0.2646 / 2), abs=1e-4
    )
    right = bootstrap_estimate(mean, (np.ones(12),), rng, limits=(0, 1))
    exact = clopper_pearson(12, 12)
    assert (right.low, right.high) == pytest.approx((exact.low, exact.high))
    # Twelve examples of four questions are four; of two strata the second is the audit.
    question, stratum = np.repeat(np.arange(4), 3), np.repeat([0, 1], 6)
    by_question = bootstrap_estimate(mean, (np.ones(12),), rng, question=question, limits=(0, 1))
    assert by_question.low == pytest.approx(clopper_pearson(4, 4).low)
    audited = bootstrap_estimate(mean, (np.ones(12),), rng, stratum=stratum, limits=(0, 1))
    assert audited.low == pytest.approx(clopper_pearson(6, 6).low)
