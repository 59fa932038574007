"""A project whose examples one run has judged and ranked."""

import pytest

from tests.factories import make_examples, make_run, make_verdict


@pytest.fixture
def judged(project):
    run = make_run(project)
    for example in make_examples(project, 10):
        make_verdict(run, example, example.number / 10)
    return run
