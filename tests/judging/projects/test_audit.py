import pytest

from judging.projects import access

pytestmark = [pytest.mark.databases]


def test_a_subject_longer_than_its_column_is_cut(project):
    assert len(access.record_event(project, None, "votes imported", "x" * 255).subject) == 200
