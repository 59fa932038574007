"""What the tests of runs share."""

import pytest


@pytest.fixture
def sent(monkeypatch):
    """The runs for which a worker was woken."""
    runs = []
    monkeypatch.setattr("judging.tasks.pump_run.delay_on_commit", runs.append)
    return runs
