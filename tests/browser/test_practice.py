"""Training and a qualification on the real screen, by keyboard alone, up to the real round."""

import pytest
from playwright.sync_api import expect

from annotation.models import Draft, PracticeResult, Round, Vote
from annotation.rounds.opening import Practice, RoundSettings, open_round
from annotation.screen.hand import address_of
from tests.factories import make_examples

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HOSTILE = (
    "هذا **صحيح** لأن المصدر مذكور.\n\n<img src=x onerror=\"window.__canary='x'\">"
    "<script>window.__canary='y'</script> [link](javascript:window.__canary='z') " + "W" * 400
)


@pytest.fixture
def rounds(project):
    for check_for, n in (("training", 2), ("qualification", 2)):
        fields = {"is_check": True, "gold_label": "win", "explanation": HOSTILE}
        make_examples(project, n, check_for=check_for, **fields)
    make_examples(project, 1)
    training = open_round(project, None, None, RoundSettings(practice=Practice("training")))
    practice = Practice("qualification", 1, tries=2)
    settings = RoundSettings(practice=practice, after=training)
    qualification = open_round(project, None, None, settings)
    settings = RoundSettings(everything=True, votes=1, after=qualification)
    return training, qualification, open_round(project, None, None, settings)


def press_answer(page, right):
    """Choose by key, once the pair has been there for long enough to be read."""
    page.wait_for_timeout(400)
    draft = Draft.objects.get(token=page.locator("#item").get_attribute("data-token"))
    page.keyboard.press("1" if (draft.left_response == 1) == right else "2")
    page.keyboard.press("Enter")


def test_training_tells_after_each_pair_and_leads_to_the_round(log_in, annotator, rounds):
    _training, qualification, real = rounds
    page = log_in(annotator, address_of(real))
    expect(page.locator("h1")).to_contain_text("A qualification comes first")
    page.goto(address_of(qualification))
    expect(page.locator("h1")).to_contain_text("Training comes first")
    with page.expect_response(lambda answer: answer.url.endswith("/ahead")) as ahead:
        page.get_by_role("link", name="Start").click()
    page.wait_for_load_state("networkidle")
    # Nothing that came before the vote holds the known answer, the pair fetched ahead included.
    assert ahead.value.status == 200
    assert "صحيح" not in ahead.value.text() + page.content()
    first = page.locator("#item").get_attribute("data-token")
    press_answer(page, right=False)
    told = page.locator("[data-told]")
    expect(told).to_contain_text("Not right.")
    expect(told.locator(".explanation")).to_have_attribute("dir", "auto")
    expect(told.locator("img, script, [href^=javascript]")).to_have_count(0)
    assert told.get_attribute("role") == "status"
    expect(page.locator("#item")).to_have_attribute("data-token", first)
    expect(page.get_by_role("button", name="Next pair")).to_be_focused()
    over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(over) <= 0
        expect(page.get_by_role("button", name="Next pair")).to_be_in_viewport()
    page.set_viewport_size({"width": 1440, "height": 800})
    # Keys answer nothing while it is read, and Enter works wherever the focus is.
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator("#item")).not_to_have_attribute("data-token", first)
    expect(page.locator("[data-told]")).to_be_empty()
    press_answer(page, right=True)
    expect(page.locator("[data-told]")).to_contain_text("Right.")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Training is done")
    page.get_by_role("link", name="My votes").click()
    expect(page.locator(".feedback")).to_have_count(2)
    page.go_back()
    page.get_by_role("link", name="Go on").click()
    press_answer(page, right=False)
    expect(page.locator("h1")).to_contain_text("Not passed yet")
    page.get_by_role("link", name="Try again").click()
    press_answer(page, right=True)
    expect(page.locator("h1")).to_contain_text("You passed")
    page.get_by_role("link", name="Go on").click()
    expect(page.locator("#item[data-token]")).to_be_visible()
    assert (
        Round.objects.get(items__drafts__token=page.locator("#item").get_attribute("data-token"))
        == real
    )
    assert list(PracticeResult.objects.order_by("pk").values_list("right", "n", "passed")) == [
        (1, 2, True),
        (0, 1, False),
        (1, 1, True),
    ]
    assert not Vote.objects.exists()


def test_feedback_comes_once_a_vote_that_waited_for_the_network_arrives(log_in, annotator, rounds):
    page = log_in(annotator, address_of(rounds[0]))
    page.wait_for_load_state("networkidle")
    page.context.set_offline(True)
    press_answer(page, right=True)
    expect(page.locator("#said")).to_contain_text("can't be reached")
    assert not Vote.every.exists()
    page.context.set_offline(False)
    expect(page.locator("[data-told]")).to_contain_text("Right.")
    page.keyboard.press("Enter")
    expect(page.locator("[data-told]")).to_be_empty()
    assert Vote.every.count() == 1
