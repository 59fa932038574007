"""A protocol may show the reference answer: safe, in every view, and only to whom it is shown."""

import pytest
from django.urls import reverse

from annotation.queue.queue import claim_next
from annotation.rounds.opening import RoundSettings, current_protocol, open_round
from tests.factories import make_annotator, make_examples

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
HOSTILE = "**It** is <img src=x onerror=alert(1)> 4.\n\n\u202e right to left"


@pytest.fixture
def shown(client, project, annotator):
    def shown(view="rendered", path="", **fields):
        make_examples(project, 1, **fields)
        round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
        person = annotator.annotators.first() or make_annotator(project, user=annotator)
        token = claim_next(round_, person).token
        client.force_login(annotator)
        return client.get(f"/annotate/{token}{path}?view={view}").content.decode()

    return shown


@pytest.mark.parametrize("view", ["rendered", "raw", "differences"])
@pytest.mark.parametrize("path", ["", "/texts"])
def test_it_is_shown_in_every_view_and_nothing_in_it_acts(project, shown, view, path):
    project.show_reference = True
    project.save()
    page = shown(view, path, reference=HOSTILE)
    assert page.count('data-part="reference"') == 1
    assert "<img src=x" not in page
    part = page.split('data-part="reference"', 1)[1].split('data-part="left"', 1)[0]
    assert ("<strong>It</strong>" in part) == (view != "raw")


@pytest.mark.parametrize(("asked", "reference"), [(False, "It is 4."), (True, ""), (True, " \n")])
def test_nothing_is_said_of_it_otherwise(project, shown, asked, reference):
    project.show_reference = asked
    project.save()
    page = shown(reference=reference)
    assert "Reference answer" not in page
    assert "It is 4." not in page


def test_it_is_part_of_what_is_asked_and_an_open_round_keeps_it(project, shown):
    before = current_protocol(project)
    page = shown(reference="It is 4.")
    project.show_reference = True
    project.save()
    assert "It is 4." not in page
    after = current_protocol(project)
    assert after.pk != before.pk
    assert after.show_reference
    project.show_reference = False
    project.save()
    assert current_protocol(project).pk == before.pk


def test_the_example_page_shows_it_safely(as_researcher, project):
    (example,) = make_examples(project, 1, reference=HOSTILE)
    url = reverse("example", args=[project.slug, example.pk])
    text = as_researcher.get(url, follow=True).content.decode()
    assert "Reference answer" in text
    assert "<strong>It</strong>" in text
    assert "<img src=x" not in text
