"""What a person says last counts, also where it arrives before what they said first."""

import pytest
from playwright.sync_api import expect

from annotation.models import Draft
from tests.browser.annotating import answer_of, said, settled, token_of
from tests.browser.opening import intercept

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def on_another_device(page, annotator, log_in):
    """The pair that is on the screen, in another browser of the same person."""
    other = log_in(annotator, f"/annotate/{token_of(page)}")
    expect(other.locator("#item")).to_have_attribute("data-token", token_of(page))
    settled(other)
    return other


def as_of_a_minute_ago(page):
    """What this browser keeps was entered long before what comes now, however slow the test is."""
    kept = page.evaluate(
        """() => Object.keys(localStorage).filter((key) => key.startsWith("fairjudge-")).filter(
            (key) => {
                const value = JSON.parse(localStorage.getItem(key));
                if (value?.at === undefined) return false;
                localStorage.setItem(key, JSON.stringify({ ...value, at: value.at - 60000 }));
                return true;
            }
        )"""
    )
    assert len(kept) == 1


def test_a_vote_that_waited_does_not_undo_what_was_said_later_on_another_device(
    start, annotator, log_in
):
    page = start(1)
    first = token_of(page)
    settled(page)
    page.context.set_offline(True)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("can't be reached")
    as_of_a_minute_ago(page)
    other = on_another_device(page, annotator, log_in)
    other.keyboard.press("2")
    other.keyboard.press("Enter")
    expect(other.get_by_role("heading", name="You are done")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_role("heading", name="You are done")).to_be_visible()
    assert answer_of(first) == {"overall": "right"}


def test_what_a_browser_kept_does_not_undo_what_was_entered_later_on_another_device(
    start, annotator, log_in
):
    page = start(1)
    first, context = token_of(page), page.context
    intercept(page, "**/draft", lambda route: route.abort())
    page.get_by_label("Comment", exact=True).fill("from the phone")
    expect(said(page)).to_contain_text("can't be reached")
    as_of_a_minute_ago(page)
    other = on_another_device(page, annotator, log_in)
    page.close()
    with other.expect_response("**/draft"):
        other.get_by_label("Comment", exact=True).fill("from the laptop")
    again = context.new_page()
    again.goto(f"/annotate/{first}")
    expect(again.get_by_label("Comment", exact=True)).to_have_value("from the laptop")
    again.wait_for_load_state("networkidle")
    assert Draft.objects.get(token=first).comment == "from the laptop"
