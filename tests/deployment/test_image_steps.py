"""The steps of Dockerfile and compose.yaml, carried out where there is no container engine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_every_step_that_needs_no_engine_works(postgresql_url, redis_url):
    """It installs each dependency by its hash, so it takes some minutes and the network."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.image_steps"],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"FAIRJUDGE_TEST_POSTGRESQL": postgresql_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All steps that need no engine work." in done.stdout
