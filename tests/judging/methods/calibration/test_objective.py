import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging.methods.calibration.calibraeval import (
    ObjectivePoints,
    calibrated_values,
    loss_and_gradient,
    loss_of_values,
)

OBJECTIVES = ("both", "tokens", "positions")
probability = st.floats(0, 1).map(lambda p: round(p, 3))
samples = st.lists(st.tuples(probability, probability, probability), min_size=1, max_size=12)


def decimals(values):
    return np.array([float(value) for value in values])


def test_objective_and_gradient_are_the_references(table, golden):
    s = table("calibraeval_K12.csv")
    expected = golden("calibraeval_expected.json")["K12"]
    points = ObjectivePoints.of(s)
    assert points.z == pytest.approx(decimals(expected["z"]), abs=1e-15)
    assert calibrated_values(points.z) == pytest.approx(decimals(expected["g_init"]), abs=1e-12)
    loss, gradient = loss_and_gradient(points.z, points, 0.5)
    assert loss == pytest.approx(float(expected["loss_init"]), abs=1e-9)
    assert gradient == pytest.approx(decimals(expected["grad_init"]), abs=1e-9)
    raw = loss_of_values(*s.T, 0.5, "both")
    assert raw == pytest.approx(float(expected["loss_raw_identity"]), abs=1e-9)


def test_a_step_of_the_papers_rate_is_the_references(table, golden):
    expected = golden("calibraeval_expected.json")["K12"]
    points = ObjectivePoints.of(table("calibraeval_K12.csv"))
    _, gradient = loss_and_gradient(points.z, points, 0.5)
    step = points.z - 10 * gradient
    wanted = decimals(expected["one_full_batch_step_gamma10"])
    assert step - step.mean() == pytest.approx(wanted, abs=1e-9)
    loss, _ = loss_and_gradient(step, points, 0.5)
    assert loss == pytest.approx(float(expected["loss_after_one_step"]), abs=1e-9)


@settings(max_examples=40)
@given(samples, st.sampled_from(OBJECTIVES), st.floats(0, 2), st.integers(0, 2**32 - 1))
def test_the_gradient_is_what_finite_differences_give(rows, kind, strength, seed):
    points = ObjectivePoints.of(np.array(rows))
    d = points.z + np.random.default_rng(seed).normal(0, 1, len(points.z))
    _, gradient = loss_and_gradient(d, points, strength, kind)
    h = 1e-5
    for place in range(len(d)):
        beside = np.zeros(len(d))
        beside[place] = h
        above, _ = loss_and_gradient(d + beside, points, strength, kind)
        below, _ = loss_and_gradient(d - beside, points, strength, kind)
        # The third derivative over 6, times h squared, and 1e-16 / h of rounding.
        assert gradient[place] == pytest.approx((above - below) / (2 * h), abs=1e-8)


@settings(max_examples=40)
@given(samples, st.floats(-50, 50))
def test_a_shift_of_all_d_changes_nothing(rows, shift):
    points = ObjectivePoints.of(np.array(rows))
    loss, gradient = loss_and_gradient(points.z, points, 0.5)
    shifted, also = loss_and_gradient(points.z + shift, points, 0.5)
    assert shifted == pytest.approx(loss, abs=1e-9)
    assert also == pytest.approx(gradient, abs=1e-9)
    assert gradient.sum() == pytest.approx(0, abs=1e-9)


@given(samples)
def test_equal_probabilities_are_one_point(rows):
    s = np.array(rows)
    points = ObjectivePoints.of(s)
    assert (np.diff(points.z) > 0).all()
    assert points.z[0] == 0
    assert points.z[-1] == 1
    assert points.z[points.at] == pytest.approx(s.T)


def test_huge_parameters_do_not_overflow():
    points = ObjectivePoints.of(np.array([[0.2, 0.4, 0.9]]))
    d = np.array([800.0, -800, 0, 800, -800])
    loss, gradient = loss_and_gradient(d, points, 0.5)
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()
