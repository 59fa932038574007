"""The texts of a pair on every screen: long, wide, hostile, by touch, without the script."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from annotation.models import Draft, Flag, Vote
from judging.core.conversations import dumped, text_of
from judging.projects.models import Preferences
from tests.annotation.rendering.reading import CORPUS
from tests.browser.annotating import (
    LONG,
    answer_of,
    at_rest,
    read_guidelines,
    said,
    settled,
    token_of,
)
from tests.browser.conftest import PHONE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_on_a_phone_both_sides_must_have_been_seen(start):
    page = start(2, PHONE)
    page.locator(".option", has_text="Left is better").tap()
    page.get_by_role("button", name="Submit").tap()
    expect(said(page)).to_contain_text("Look at the right response first")
    assert not Vote.objects.exists()
    page.get_by_role("link", name="Right").tap()
    expect(page.get_by_role("link", name="Right")).to_have_attribute("aria-current", "true")
    expect(page.locator("#right .response")).to_be_in_viewport()
    with page.expect_response("**/vote"):
        page.get_by_role("button", name="Submit").tap()
    assert answer_of(Draft.objects.earliest("pk").token) == {"overall": "left"}


def test_long_responses_fold_at_one_height_and_scroll_together_when_linked(start, annotator):
    Preferences.objects.create(user=annotator, link_scroll=True)
    page = start(1, response_1=LONG, response_2=LONG * 2)
    folds = page.locator(".fold")
    heights = {folds.nth(side).bounding_box()["height"] for side in (0, 1)}
    assert len(heights) == 1
    page.locator("#left [data-unfold]").scroll_into_view_if_needed()
    page.locator("#left [data-unfold]").click()
    assert folds.nth(0).bounding_box()["height"] != folds.nth(1).bounding_box()["height"]
    page.evaluate("document.querySelector('#right .side-body').scrollTo(0, 1e6)")
    expect(page.locator("#left .response p").last).to_be_in_viewport()


def test_a_long_shared_chat_opens_at_its_last_question(start):
    asked = [{"role": "user", "content": LONG}, {"role": "assistant", "content": "Noted."}]
    lists = {
        "question": [*asked, {"role": "user", "content": "And tomorrow?"}],
        "response_1": [{"role": "assistant", "content": "Rain."}],
        "response_2": [{"role": "assistant", "content": "Sun."}],
    }
    texts = {name: text_of(messages, name) for name, messages in lists.items()}
    page = start(1, **texts, conversation=dumped(lists))
    turns = page.locator(".question .turn")
    expect(turns.last).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("button", name="Differences")).to_be_in_viewport()
    page.locator(".question").focus()
    page.keyboard.press("Home")
    expect(turns.first.locator(".speaker")).to_be_in_viewport()
    expect(turns.last).not_to_be_in_viewport()


def test_raw_text_and_differences_are_switches(start):
    page = start(1, response_1="**bold** oak", response_2="**bold** elm")
    left = page.locator("#left .response")
    page.get_by_role("button", name="Raw").click()
    expect(left).to_contain_text("**bold**")
    page.get_by_role("button", name="Differences").click()
    expect(left.locator("mark")).to_have_text(["oak"] if "oak" in left.inner_text() else ["elm"])
    page.get_by_role("button", name="Differences").click()
    expect(left.locator("strong")).to_have_text("bold")
    assert page.get_by_role("button", name="Raw").get_attribute("aria-pressed") == "false"


def test_it_works_without_javascript(start):
    page = start(2, {"java_script_enabled": False}, response_1="**bold** oak")
    first = token_of(page)
    page.get_by_role("radio", name="Tie").check(force=True)
    page.get_by_role("button", name="Raw").click()
    expect(page.locator(".sides")).to_contain_text("**bold** oak")
    expect(page.get_by_role("radio", name="Tie")).to_be_checked()
    page.get_by_label("Reason").fill("Odd")
    page.get_by_role("button", name="Flag", exact=True).click()
    assert Flag.objects.get().reason == "Odd"
    page.get_by_role("button", name="Submit").click()
    assert token_of(page) != first
    assert answer_of(first) == {"overall": "tie"}


@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        pytest.param("light", {"viewport": {"width": 1440, "height": 900}}, marks=pytest.mark.long),
        ("dark", PHONE),
    ],
)
def test_axe_finds_nothing(start, project, scheme, options):
    project.criteria, project.both_bad, project.scale = ["accuracy"], True, "five"
    project.guidelines = "Judge the *answer*.\n\n| a | b |\n|--|--|\n| 1 | 2 |"
    project.save()
    page = start(2, options | {"color_scheme": scheme}, response_1=LONG + "```\ncode\n```")
    found = [*Axe().run(page).response["violations"]]
    read_guidelines(page)
    found += Axe().run(page).response["violations"]
    for button in ("Help", "Guidelines", "Flag"):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        found += Axe().run(page).response["violations"]
        page.keyboard.press("Escape")
    page.goto("/annotate/")
    found += Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["target"]) for one in found] == []


def test_hostile_texts_stay_texts_in_every_place(start, project, live_server):
    """With the security policy switched off, so that nothing but the page itself protects it."""
    texts = [vector["text"].replace("\x00", "") for vector in CORPUS]
    assert len(texts) >= 60
    everything = "\n\n".join(texts)
    project.guidelines = everything
    project.question_asked, project.name = texts[0][:300], texts[7][:200]
    project.criteria = [texts[1], texts[9]]
    project.save()
    page = start(3, {"bypass_csp": True}, question=everything, response_1=everything,
                 response_2=everything[::-1] + everything)  # fmt: skip
    read_guidelines(page)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    comment = "</textarea><script>window.__canary=1</script>" + texts[7] + "\n" + texts[0]
    with page.expect_response("**/draft"):
        page.get_by_label("Comment", exact=True).fill(comment)
    page.reload(wait_until="networkidle")
    expect(page.get_by_label("Comment", exact=True)).to_have_value(comment)
    for button in ("Raw", "Differences"):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("button", name=button)).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Skip").click()
    expect(said(page)).to_contain_text("Skipped")
    page.reload(wait_until="networkidle")
    assert page.evaluate("typeof window.__canary") == "undefined"
    assert page.locator("main form").count() == 3
    assert (
        page.locator("#item .response a, #item .response img, #item .response input").count() == 0
    )
    assert [url for url in asked if not url.startswith(live_server.url)] == []


def test_showing_all_of_a_long_response_stays_on_its_side_of_a_phone(start):
    page = start(1, PHONE, response_1=LONG, response_2=LONG)
    page.get_by_role("link", name="Right").tap()
    expect(page.get_by_role("link", name="Right")).to_have_attribute("aria-current", "true")
    page.locator("#right [data-unfold]").scroll_into_view_if_needed()
    page.locator("#right [data-unfold]").tap()
    at_rest(page)
    expect(page.locator("#right .response")).to_be_in_viewport()
    expect(page.get_by_role("link", name="Right")).to_have_attribute("aria-current", "true")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"viewport": {"width": 1440, "height": 900}}, marks=pytest.mark.long),
        pytest.param(PHONE, marks=pytest.mark.long),
        {"viewport": {"width": 720, "height": 450}},
        PHONE | {"viewport": {"width": 844, "height": 390}},
    ],
    ids=["desk", "phone", "twice as large", "phone on its side"],
)
def test_the_overall_question_and_the_buttons_stay_in_view_with_many_criteria(
    start, project, options
):
    project.criteria = [f"criterion number {n}" for n in range(1, 13)]
    project.scale, project.both_bad = "five", True
    project.save()
    page = start(1, options, response_1=LONG)
    whole = page.viewport_size
    for part in page.locator(".overall .option, .closing button").all():
        box = part.bounding_box()
        assert box["y"] + box["height"] <= whole["height"]
    assert page.locator("#left .side-body").bounding_box()["height"] >= 40
    settled(page)
    for _ in range(12):
        page.keyboard.press("3")
        expect(page.locator(".criterion[data-focused], .overall[data-focused]")).to_be_in_viewport()
    assert page.locator(".criterion input:checked").count() == 12


def test_a_wide_table_keeps_its_words_whole_and_marks_where_it_goes_on(start):
    head = "|".join(f"Column{n}" for n in range(30))
    table = f"|{head}|\n|{'-|' * 30}\n|{'value|' * 30}"
    page = start(1, response_1=table, response_2=table)
    left = page.locator("#left .response table")
    cell = left.locator("th").first
    assert cell.bounding_box()["height"] < 2 * cell.evaluate(
        "e => parseFloat(getComputedStyle(e).lineHeight)"
    )
    assert left.get_attribute("data-more") == "right"
    left.evaluate("table => table.scrollTo({left: 100, behavior: 'instant'})")
    expect(left).to_have_attribute("data-more", "left right")
    left.evaluate("table => table.scrollTo({left: 1e6, behavior: 'instant'})")
    expect(left).to_have_attribute("data-more", "left")
