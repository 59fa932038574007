"""The annotator's way in a real browser: by keyboard, on a phone, with a bad connection."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from annotation.models import Annotation, Draft, Skip
from annotation.rounds import RoundSettings, open_round
from tests.browser.conftest import PHONE
from tests.factories import make_examples

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def start(project, annotator, log_in):
    """Opens a round of n pairs in the browser, at its first pair."""

    def start(n=4, path="", options=None, **fields):
        make_examples(project, n, **fields)
        open_round(project, None, None, RoundSettings(everything=True, votes=1))
        page = log_in(annotator, **(options or {}))
        page.get_by_role("link", name="Start").click()
        expect(page.locator("#item")).to_be_visible()
        return page

    return start


def ready(page):
    """The next pair is there, and this one has stood long enough for a key to be meant for it."""
    page.wait_for_timeout(350)


def token_of(page):
    return page.locator("#item").get_attribute("data-token")


def vote(page, *keys):
    """Answer by keyboard, and wait until the vote is stored and another pair is there."""
    before = token_of(page)
    ready(page)
    with page.expect_response(lambda r: r.url.endswith(f"{before}/vote")):
        for key in keys:
            page.keyboard.press(key)
    expect(page.locator(f"#item[data-token='{before}']")).to_have_count(0)
    return before


def answer_of(token):
    return Annotation.objects.get(item__drafts__token=token).answer["overall"]


def test_a_round_is_done_by_keyboard_alone(start):
    page = start()
    given = {vote(page, key, "Enter"): value for key, value in
             [("1", "left"), ("0", "tie"), ("b", "right"), ("a", "left")]}
    expect(page.get_by_role("heading", name="You are done")).to_be_visible()
    assert {token: answer_of(token) for token in given} == given
    expect(page.get_by_text("4 of 4 done")).to_be_visible()
