import pytest

from judging.projects import audit

pytestmark = [pytest.mark.databases]


def test_a_subject_longer_than_its_column_is_cut(project):
    assert len(audit.record(project, None, "votes imported", "x" * 255).subject) == 200
