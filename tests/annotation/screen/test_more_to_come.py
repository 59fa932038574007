"""While a round that learns puts its next pairs together, nobody is told to be done."""

from decimal import Decimal

import pytest

from annotation.models import Item, Round
from annotation.queue.queue import NoItem, claim_next
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import address_of
from tests.annotation.results.learning import biased_run, go_on, label_all

HTMX = {"HX-Request": "true"}


@pytest.fixture
def waiting(project, annotator, tmp_path, client):
    """A round whose learning sample is labelled, and whose second stage is not open yet."""
    run = biased_run(project, tmp_path, n=12)
    round_ = open_round(
        project, None, run, RoundSettings(beta=Decimal(50), votes=1, audit=2, learn=3, seed=1)
    )
    label_all(round_, [annotator.annotators.get()])
    client.force_login(annotator)
    return round_


def test_the_page_says_that_more_comes_and_looks_by_itself(waiting, client):
    page = client.get(address_of(waiting)).content.decode()
    assert "More pairs are coming" in page
    assert "You are done" not in page
    assert f'hx-get="{address_of(waiting)}"' in page
    # how much there will be is shown from the start: 6 selected and an audit of 2
    assert "3 of 8" in " ".join(page.split())


def test_nothing_happens_on_the_waiting_page_until_there_is_a_pair(waiting, client):
    answer = client.get(address_of(waiting), headers=HTMX)
    assert (answer.status_code, answer.content) == (204, b"")
    assert "HX-Redirect" not in answer
    go_on()
    answer = client.get(address_of(waiting), headers=HTMX)
    assert answer["HX-Redirect"].startswith("/annotate/")
    assert client.get(answer["HX-Redirect"]).status_code == 200


def test_the_waiting_page_is_drawn_anew_when_the_round_is_closed_meanwhile(waiting, client):
    Round.objects.filter(pk=waiting.pk).update(state=Round.State.CLOSED)
    answer = client.get(address_of(waiting), headers=HTMX)
    assert answer["HX-Refresh"] == "true"


def test_after_the_second_stage_the_round_can_be_done(waiting, annotator):
    person = annotator.annotators.get()
    assert claim_next(waiting, person) == NoItem("more_to_come")
    go_on()
    waiting.refresh_from_db()
    label_all(waiting, [person])
    assert Item.objects.filter(round=waiting).count() == 8
    assert claim_next(waiting, person) == NoItem("done")
