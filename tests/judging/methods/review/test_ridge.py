"""Ridge logistic regression against a general optimiser, and the laws of its penalty."""

import numpy as np
import pytest
from scipy import optimize

from judging.methods.review.ridge import INTERCEPT_RIDGE, log_loss, ridge_fits, sigmoid


def made(n=80, width=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, width))
    y = (rng.random(n) < sigmoid(x @ np.array([1.5, -0.5, 0.0]) - 0.3)).astype(float)
    return x, y


def fit(x, y, ridge, prior, weights=None):
    w = np.ones(len(y)) if weights is None else weights
    return ridge_fits(x, y, w[None, :], np.array([ridge]), prior)


def penalised(x, y, ridge, prior):
    penalty = np.array([INTERCEPT_RIDGE] + [ridge] * x.shape[1])
    centre = np.concatenate(([0.0], prior))

    def loss(b):
        return log_loss(y, b[0] + x @ b[1:]).sum() + 0.5 * penalty @ (b - centre) ** 2

    return loss, centre


def curvature(loss, at, step=1e-3):
    """Central differences in each pair of directions."""
    e = step * np.eye(len(at))

    def second(i, j):
        corners = (loss(at + s * e[i] + t * e[j]) * s * t for s in (1, -1) for t in (1, -1))
        return sum(corners) / (4 * step**2)

    return np.array([[second(i, j) for j in range(len(at))] for i in range(len(at))])


@pytest.mark.parametrize("ridge", [0.25, 4.0, 64.0])
def test_the_fit_minimises_the_penalised_loss(ridge):
    x, y = made()
    y[:7] = 0.5
    prior = np.array([0.5, 0.0, 0.0])
    loss, centre = penalised(x, y, ridge, prior)
    found = optimize.minimize(loss, centre, method="BFGS", options={"gtol": 1e-8}).x
    fitted = fit(x, y, ridge, prior)
    assert fitted.coefficients[0] == pytest.approx(found, abs=1e-5)
    assert np.linalg.inv(fitted.covariance[0]) == pytest.approx(
        curvature(loss, found), rel=1e-3, abs=1e-3
    )


def test_a_half_is_two_rows_of_half_the_weight():
    x, y = made()
    y[:10] = 0.5
    doubled_x = np.vstack((x[:10], x))
    doubled_y = np.concatenate((np.ones(10), np.zeros(10), y[10:]))
    weights = np.concatenate((np.full(20, 0.5), np.ones(len(y) - 10)))
    once = fit(x, y, 1.0, np.zeros(3))
    twice = fit(doubled_x, doubled_y, 1.0, np.zeros(3), weights)
    assert once.coefficients == pytest.approx(twice.coefficients, abs=1e-9)


def test_much_ridge_leaves_the_prior():
    x, y = made()
    prior = np.array([0.5, 0.0, -0.2])
    assert fit(x, y, 1e9, prior).slopes[0] == pytest.approx(prior, abs=1e-6)


def test_many_fits_at_once_are_each_the_fit_alone():
    x, y = made()
    rng = np.random.default_rng(4)
    weights = (rng.random((6, len(y))) < 0.8).astype(float)
    ridges = np.array([0.25, 0.25, 1.0, 8.0, 64.0, 1e6])
    together = ridge_fits(x, y, weights, ridges, np.zeros(3))
    for i in range(6):
        alone = fit(x, y, ridges[i], np.zeros(3), weights[i])
        assert together.coefficients[i] == pytest.approx(alone.coefficients[0], abs=1e-9)
        assert together.covariance[i] == pytest.approx(alone.covariance[0], abs=1e-9)


def test_separated_data_have_a_finite_fit():
    x = np.concatenate((np.full(20, -1.0), np.full(20, 1.0)))[:, None]
    y = np.concatenate((np.zeros(20), np.ones(20)))
    slope = float(fit(x, y, 0.25, np.zeros(1)).slopes[0, 0])
    # at the optimum 40 σ(−b) = 0.25 b
    assert 40 / (1 + np.exp(slope)) == pytest.approx(0.25 * slope, abs=1e-6)


def test_one_kind_of_label_only_keeps_the_intercept_finite():
    x, _ = made()
    found = fit(x, np.zeros(len(x)), 1.0, np.zeros(3))
    assert np.isfinite(found.coefficients).all()
    assert found.coefficients[0, 0] < -3
