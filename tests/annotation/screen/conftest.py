"""A round of three pairs, and a client of somebody who labels in it."""

import pytest

from annotation.rounds.opening import open_round
from tests.annotation.screen.posting import ALL
from tests.factories import make_examples


@pytest.fixture
def round_(project):
    make_examples(project, 3)
    return open_round(project, None, None, ALL)


@pytest.fixture
def ana(client, annotator):
    """The client, logged in as an annotator of the project."""
    client.force_login(annotator)
    return client
