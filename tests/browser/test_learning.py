"""A round that learns, as an annotator sees it: it goes on, and nothing tells of its stages."""

from decimal import Decimal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from annotation.models import Vote
from annotation.rounds.opening import RoundSettings, open_round
from tests.annotation.results.learning import biased_run, go_on
from tests.browser.annotating import vote

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_next_pairs_come_by_themselves(project, annotator, log_in, tmp_path):
    run = biased_run(project, tmp_path, n=10)
    open_round(project, None, run, RoundSettings(beta=Decimal(40), votes=1, learn=2, seed=1))
    page = log_in(annotator)
    page.get_by_role("link", name="Start").click()
    expect(page.locator("#item")).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(page.get_by_text("0 of 4")).to_be_visible()
    vote(page, "1", "Enter")
    vote(page, "2", "Enter")
    expect(page.get_by_role("heading", name="More pairs are coming")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    assert go_on() == 1
    expect(page.locator("#item[data-token]")).to_be_visible()
    expect(page.get_by_text("2 of 4")).to_be_visible()
    page.wait_for_load_state("networkidle")
    vote(page, "1", "Enter")
    assert Vote.objects.count() == 3
