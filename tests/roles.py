"""The cast: a project with its owner, a researcher, two annotators, and somebody outside."""

import pytest

from judging.projects.models import Role
from tests.factories import make_annotator, make_member, make_project, make_user


@pytest.fixture
def project(db):
    return make_project("vicuna")


@pytest.fixture
def owner(project):
    return make_member(project, Role.OWNER, "olga")


@pytest.fixture
def researcher(project):
    return make_member(project, Role.RESEARCHER, "rosa")


@pytest.fixture
def annotator(project):
    return make_annotator(project, "ana").user


@pytest.fixture
def other_annotator(project):
    return make_annotator(project, "ben").user


@pytest.fixture
def outsider(db):
    return make_user("otto", researcher=True)


@pytest.fixture
def as_owner(client, owner):
    client.force_login(owner)
    return client


@pytest.fixture
def as_researcher(client, researcher):
    client.force_login(researcher)
    return client
