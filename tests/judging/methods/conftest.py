import json
import os
from decimal import Decimal
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def golden():
    """Read a reference file; its decimals stay decimals."""

    def read(name):
        path = Path(os.environ["FAIRJUDGE_TEST_DATA"]) / "reference" / name
        return json.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)

    return read
