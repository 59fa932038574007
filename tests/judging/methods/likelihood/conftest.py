from dataclasses import dataclass

import numpy as np
import pytest


@dataclass(frozen=True)
class Reference:
    """likelihood_n30.csv: LS, people's scores, and the judge's expected ones before and after."""

    log_likelihood: np.ndarray
    human: np.ndarray
    before: np.ndarray
    after: np.ndarray

    @property
    def columns(self):
        return self.log_likelihood, self.before, self.after, self.human

    def first(self, n):
        return tuple(column[:n] for column in self.columns)


@pytest.fixture(scope="session")
def reference(test_data):
    path = test_data / "reference" / "likelihood_n30.csv"
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    return Reference(
        rows[:, 1], rows[:, 2], expected_scores(rows[:, 3:8]), expected_scores(rows[:, 8:13])
    )


def expected_scores(probabilities):
    """Equation 7 for scores 1 to 5. Sums, since a matrix product would break ties by rounding."""
    return (probabilities * np.arange(1, 6)).sum(axis=1) / probabilities.sum(axis=1)


@pytest.fixture(scope="session")
def expected(golden):
    return golden("likelihood_expected.json")


@pytest.fixture
def judged():
    """n items of a judge that adds `bias` times the likelihood to what people say."""

    def make(n, bias, rng, noise=0.3):
        quality = rng.normal(0, 1, n)
        length = rng.integers(5, 60, n).astype(float)
        log_likelihood = -3 * length + rng.normal(0, 15, n)
        pull = (log_likelihood - log_likelihood.mean()) / log_likelihood.std()
        human = np.round(np.clip(50 + 15 * quality + rng.normal(0, 6, n), 0, 100))
        model = np.clip(3 + 0.6 * quality + bias * pull + rng.normal(0, noise, n), 1, 5)
        return log_likelihood, model, human, length

    return make
