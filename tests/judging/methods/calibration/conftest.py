import numpy as np
import pytest

from judging.methods.calibration.probabilities import THREE, choice_probabilities


@pytest.fixture(scope="session")
def table(test_data):
    """Read a reference table as rows of numbers."""

    def read(name):
        path = test_data / "reference" / name
        return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)

    return read


@pytest.fixture
def three():
    """(K, 3) P(t1) under X0, X1, X2."""

    def make(rows):
        return choice_probabilities(np.asarray(rows, dtype=float)[:, :3], THREE)

    return make
