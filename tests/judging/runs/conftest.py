"""What the tests of runs share."""

import pytest


@pytest.fixture
def sent(monkeypatch):
    """The runs for which a worker was woken."""
    runs = []
    monkeypatch.setattr("judging.core.waking.wake_on_commit", lambda task, run: runs.append(run))
    return runs
