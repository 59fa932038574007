import json
from decimal import Decimal

import numpy as np
import pytest


@pytest.fixture(scope="session")
def golden(test_data):
    """Read a reference file; its decimals stay decimals."""

    def read(name):
        text = (test_data / "reference" / name).read_text(encoding="utf-8")
        return json.loads(text, parse_float=Decimal)

    return read


@pytest.fixture
def rng():
    return np.random.default_rng(20230529)
