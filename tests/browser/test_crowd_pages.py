"""A person of a panel in a real browser: from the panel's link to the code, on a phone, in dark."""

import os

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from playwright.sync_api import expect

from annotation.people.background import read_questions, written
from annotation.rounds.opening import RoundSettings, open_round
from tests.annotation.crowd import address, set_up, submission
from tests.browser.annotating import settled
from tests.browser.conftest import PHONE
from tests.factories import make_examples

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

QUESTIONS = (
    "choice: Do you read English every day? | yes | sometimes | no!\n"
    "number: How old are you? | 18 | 99\n"
    "text?: What do you work as?"
)
PICTURES = os.environ.get("CROWD_PICTURES")


@pytest.fixture
def link(project, owner):
    make_examples(project, 4)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2))
    return set_up(round_, owner, questions=written(read_questions(QUESTIONS)))


@pytest.fixture
def looked_at():
    def look(page, name):
        page.wait_for_load_state("networkidle")
        wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window, name
        violations = Axe().run(page).response["violations"]
        assert [(one["id"], one["nodes"][0]["target"]) for one in violations] == [], name
        if PICTURES:
            page.screenshot(path=f"{PICTURES}/{name}.png", full_page=True)

    return look


def agree(page):
    page.get_by_label("I have read this").check()
    page.get_by_label("yes").check()
    page.get_by_label("How old are you?").fill("30")


def label(page):
    page.get_by_role("link", name="Right").tap()
    settled(page)
    page.locator("#item").get_by_label("Left is better").tap()
    page.get_by_role("button", name="Submit").tap()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_from_the_panels_link_to_the_code(pages, live_server, link, looked_at, scheme):
    page = pages.take(PHONE | {"color_scheme": scheme})
    page.goto(address(link))
    looked_at(page, f"enter-{scheme}")
    agree(page)
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#item")).to_be_visible()
    page.wait_for_load_state("networkidle")
    looked_at(page, f"pair-{scheme}")
    label(page)
    expect(page.locator("#own-progress")).to_contain_text("1 of 2 done")
    page.get_by_role("link", name="Finish or stop").click()
    looked_at(page, f"own-{scheme}")
    page.get_by_role("link", name="Go on").click()
    expect(page.locator("#item")).to_be_visible()
    page.wait_for_load_state("networkidle")
    label(page)
    expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    expect(page.get_by_label("Code for the panel")).to_have_value("DONE42")
    looked_at(page, f"end-{scheme}")
    assert submission().state == "complete"
    pages.give_back(page)


def test_the_owners_page_fits_a_phone(log_in, link, owner, looked_at):
    here = reverse("round_crowd", args=[link.round.project.slug, link.round.number])
    page = log_in(owner, here, **PHONE)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    looked_at(page, "owner-empty")
    page.set_viewport_size({"width": 1280, "height": 900})
    # Colours fade from one scheme to the other, and are judged when they are there.
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.reload(wait_until="networkidle")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    looked_at(page, "owner-dark")


def test_on_a_wide_window_there_is_a_way_to_finish(pages, link):
    page = pages.take({"viewport": {"width": 1440, "height": 900}})
    page.goto(address(link))
    agree(page)
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#item")).to_be_visible()
    page.get_by_role("link", name="Finish or stop").click()
    expect(page.get_by_role("heading", name="Your part in this study")).to_be_visible()
    # The colours are at the right, as on every other page.
    menu = page.locator(".who").bounding_box()
    assert menu["x"] > 720
    pages.give_back(page)
