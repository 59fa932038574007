import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.methods.intervals.estimates import Undefined
from judging.methods.likelihood.bias import (
    between_minus_1_and_1,
    bias_by_instance,
    expected_score,
    most_biased,
    of_mean_0_and_range_1,
    random_examples,
    total_score,
    train_rows,
    unfairness,
)


def exactly(values):
    return pytest.approx([float(value) for value in values], abs=1e-9)


def test_expected_scores_unfairness_and_rs_are_the_references(reference, expected):
    assert reference.before == exactly(expected["expected_score_before"])
    assert reference.after == exactly(expected["expected_score_after"])
    assert unfairness(reference.before, reference.human) == exactly(expected["US_before"])
    rs = bias_by_instance(reference.log_likelihood, reference.before, reference.human)
    assert rs == exactly(expected["RS_before"]["RS"])
    chosen = most_biased(reference.log_likelihood, reference.before, reference.human)
    assert chosen.tolist() == [int(place) for place in expected["RS_before"]["top8"]]
    star = between_minus_1_and_1(reference.log_likelihood)
    assert star.min() == pytest.approx(float(expected["RS_before"]["LS_star_min"]), abs=1e-9)
    assert star.max() == pytest.approx(float(expected["RS_before"]["LS_star_max"]), abs=1e-9)


def test_an_expected_score_needs_no_normalising_and_any_range_will_do():
    assert expected_score({4: 0.2, 5: 0.2}) == pytest.approx(4.5)
    assert expected_score({0: 0.5, 10: 0.25}) == pytest.approx(10 / 3)
    assert expected_score({7: 1e-300}) == 7
    for nothing in ({}, {1: 0.0}):
        assert expected_score(nothing) == Undefined("no score has any probability")


@given(
    st.lists(st.integers(0, 100), min_size=2, max_size=20),
    st.integers(1, 40),
    st.integers(-50, 50),
)
def test_us_does_not_know_the_scale(scores, factor, shift):
    """The people's 0 to 100 and the judge's 1 to 5 are brought to one mean and range."""
    human = np.array(scores, dtype=float)
    model = human * factor + shift
    assert unfairness(model, human) == pytest.approx(0, abs=1e-9)
    normalised = of_mean_0_and_range_1(model)
    assert normalised.mean() == pytest.approx(0, abs=1e-9)
    assert np.ptp(normalised) in (0, pytest.approx(1))


def test_total_averages_the_criteria_and_needs_them_all():
    total = total_score([[1.0, 2.0, np.nan], [3.0, 5.0, 4.0]])
    assert total[:2].tolist() == [2, 3.5]
    assert np.isnan(total[2])


def test_the_most_biased_come_from_the_training_part_alone(judged, rng):
    ls, model, human, _ = judged(200, 0.6, rng)
    train = train_rows(200, rng)
    chosen = most_biased(ls, model, human, train=train)
    assert len(chosen) == 8
    assert train[chosen].all()
    rs = np.full(200, -1.0)
    rs[train] = bias_by_instance(ls[train], model[train], human[train])
    assert rs[chosen].min() >= np.sort(rs)[-8]
    assert (np.diff(rs[chosen]) <= 0).all()
    model[chosen[0]] = np.nan
    again = most_biased(ls, model, human, train=train)
    assert chosen[0] not in again
    assert most_biased(ls[:0], model[:0], human[:0]).tolist() == []


def test_training_and_test_part_are_4_to_1_seeded_and_share_no_input():
    one = train_rows(1_000, np.random.default_rng(1))
    assert one.sum() == 800
    assert (one == train_rows(1_000, np.random.default_rng(1))).all()
    assert (one != train_rows(1_000, np.random.default_rng(2))).any()
    group = np.repeat(np.arange(50), np.arange(1, 51))
    kept = train_rows(len(group), np.random.default_rng(3), group=group)
    by_group = [set(kept[group == value].tolist()) for value in range(50)]
    assert all(len(sides) == 1 for sides in by_group)
    assert kept.mean() == pytest.approx(0.8, abs=0.02)
    assert train_rows(2, np.random.default_rng(4)).sum() == 1
    assert train_rows(1, np.random.default_rng(5)).tolist() == [True]
    assert train_rows(0, np.random.default_rng(6)).tolist() == []


def test_random_examples_are_drawn_from_the_training_part(rng):
    train = np.arange(100) < 30
    chosen = random_examples(train, rng)
    assert len(set(chosen.tolist())) == 8
    assert (chosen < 30).all()
