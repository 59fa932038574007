"""A run is found by what people type, whatever they type."""

import pytest

from judging.core.errors import UserError
from judging.runs.models import find_run
from tests.factories import make_run

pytestmark = [pytest.mark.databases]


def test_by_number_by_name_and_the_latest(project):
    first, second = make_run(project, name="2024"), make_run(project, name="with mec")
    assert find_run(project, "1") == find_run(project, "2024") == first
    assert find_run(project, "latest") == find_run(project, "with mec") == second


@pytest.mark.parametrize("text", ["0", "9" * 30, "9" * 5000, "\x00", "a\x00b", "²", "-1", ""])
def test_what_names_no_run_is_said_in_a_sentence(project, text):
    make_run(project)
    with pytest.raises(UserError, match="has no run") as said:
        find_run(project, text)
    assert len(str(said.value)) < 300
