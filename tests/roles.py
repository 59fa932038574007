"""The cast: a project with its owner, a researcher, two annotators, and somebody outside."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from judging.projects.models import Role
from tests.factories import make_annotator, make_member, make_project, make_user


class LookingClient(Client):
    """Confirms the question that comes before the first judge output, and goes on."""

    def generic(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        response = super().generic(method, path, *args, **kwargs)
        if "asks_to_look" not in (getattr(response, "context", None) or {}):
            return response
        slug = response.context["project"].slug
        super().generic("POST", reverse("look", args=[slug]))
        return super().generic(method, path, *args, **kwargs)


@pytest.fixture
def client():
    return LookingClient()


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
