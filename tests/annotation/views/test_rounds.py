"""The list of rounds and the page of one: what stands on them, and what its buttons do."""

import pytest
from django.urls import reverse

from annotation.rounds import RoundSettings, open_round
from tests.factories import make_examples

pytestmark = pytest.mark.django_db


@pytest.fixture
def examples(project):
    return make_examples(project, 3)


@pytest.fixture
def round_(project, examples):
    return open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))


@pytest.fixture
def as_researcher(client, researcher):
    client.force_login(researcher)
    return client


def address(round_, name="round", *more):
    return reverse(name, args=[round_.project.slug, round_.number, *more])


def test_the_list_shows_every_round_with_its_counts(as_researcher, round_):
    page = as_researcher.get(reverse("rounds", args=[round_.project.slug]))
    assert page.status_code == 200
    assert address(round_) in page.text
    assert '0 <span class="coverage">of 6</span>' in page.text


def test_the_page_of_a_round_opens(as_researcher, round_):
    for name in ("round", "round_standing", "adjudication"):
        assert as_researcher.get(address(round_, name)).status_code == 200
    item = round_.items.first()
    assert as_researcher.get(address(round_, "round_item", item.pk)).status_code == 200
