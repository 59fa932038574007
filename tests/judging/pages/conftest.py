"""A researcher before the page of a project's first run."""

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse

from tests.factories import make_examples
from tests.judging.runs.judging import loopback
from tests.loopback import BiasedJudge


@pytest.fixture
def examples(project):
    return make_examples(project, 4)


@pytest.fixture
def server(settings):
    with loopback(settings, judge=BiasedJudge(position_bias=2.0)) as server:
        yield server


@pytest.fixture
def page(as_researcher, project) -> Callable[..., str]:
    def page(name: str = "run", **query: Any) -> str:
        response = as_researcher.get(reverse(name, args=[project.slug, 1]), query)
        assert response.status_code == 200
        return response.content.decode()

    return page


@pytest.fixture
def act(as_researcher, project) -> Callable[..., Any]:
    def act(name: str, **data: Any) -> Any:
        return as_researcher.post(reverse(name, args=[project.slug, 1]), data)

    return act
