"""What is entered while something is on its way: part of that vote or of none, never of another."""

import pytest
from playwright.sync_api import expect

from annotation.models import Draft, Flag, Vote
from judging.projects.models import Project
from tests.browser.annotating import answer_of, said, settled, stop_the_clock, token_of, waited_for
from tests.browser.conftest import PHONE
from tests.browser.opening import intercept

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def held_back(page, pattern):
    """A server so slow that the test says when each request reaches it."""
    routes = []
    intercept(page, pattern, lambda route: routes.append(route))
    return routes


def let_go(page, routes, pattern):
    waited_for(page, lambda: routes)
    with page.expect_response(pattern):
        routes.pop(0).continue_()


def votes_of(page):
    """The votes that the page sends from now on."""
    sent = []
    page.on("request", lambda request: sent.append(request.url) if "/vote" in request.url else None)
    return sent


def test_nothing_can_be_entered_while_the_last_vote_is_on_its_way(start):
    page = start(1)
    token = token_of(page)
    settled(page)
    page.get_by_label("Comment", exact=True).fill("before")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    routes = held_back(page, "**/vote")
    page.keyboard.press("Enter")
    waited_for(page, lambda: routes)
    expect(said(page)).to_contain_text("Sending your vote as shown")
    for key in ("2", "f", "s", "Backspace", "Enter"):
        page.keyboard.press(key)
    page.locator("#comment").evaluate("box => box.focus()")
    page.keyboard.type(" after")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("input[value=left]")).to_be_checked()
    expect(page.locator("#comment")).to_have_value("before")
    let_go(page, routes, "**/vote")
    expect(page.get_by_role("heading", name="You are done")).to_be_visible()
    assert (answer_of(token), Vote.objects.get().comment) == ({"overall": "left"}, "before")


def test_what_submit_asks_for_stays_when_an_entry_is_stored_meanwhile(start):
    page = start(2, PHONE)
    routes = held_back(page, "**/draft")
    page.locator(".option", has_text="Left is better").tap()
    waited_for(page, lambda: routes)
    page.get_by_role("button", name="Submit").tap()
    expect(said(page)).to_contain_text("Look at the right response first")
    let_go(page, routes, "**/draft")
    # The browser keeps an entry until it has heard that the server has it.
    page.wait_for_function("Object.keys(localStorage).every((key) => !key.includes('-draft:'))")
    expect(said(page)).to_contain_text("Look at the right response first")


def test_a_vote_that_failed_and_is_changed_waits_for_enter_and_says_so(start):
    page = start(1)
    token = token_of(page)
    stop_the_clock(page)
    page.clock.run_for(1000)
    intercept(page, "**/vote", lambda route: route.abort())
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("can't be reached")
    page.get_by_label("Comment", exact=True).fill("half a")
    expect(said(page)).to_contain_text("submit it again")
    page.unroute("**/vote")
    sent = votes_of(page)
    page.evaluate("window.dispatchEvent(new Event('online'))")
    # Longer than a vote that waits is tried again after.
    with page.expect_response("**/draft"):
        page.clock.run_for(6000)
    assert (token_of(page), sent) == (token, [])
    assert not Vote.objects.exists()
    assert Draft.objects.get().comment == "half a"
    expect(said(page)).to_contain_text("submit it again")
    page.get_by_label("Comment", exact=True).fill("half a thought")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="You are done")).to_be_visible()
    assert Vote.objects.get().comment == "half a thought"


def test_a_vote_that_waits_unchanged_is_sent_when_no_flag_is_being_written(start):
    page = start(1)
    settled(page)
    intercept(page, "**/vote", lambda route: route.abort())
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("can't be reached")
    page.keyboard.press("f")
    page.get_by_label("Reason").fill("Cut")
    page.unroute("**/vote")
    sent = votes_of(page)
    page.evaluate("window.dispatchEvent(new Event('online'))")
    # Whatever that sends is sent before this.
    page.evaluate("fetch('/static/img/icon.svg').then((answer) => answer.text())")
    assert sent == []
    expect(page.get_by_label("Reason")).to_have_value("Cut")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("Flagged")
    expect(page.get_by_role("heading", name="You are done")).to_be_visible()
    assert Flag.objects.get().reason == "Cut"
    assert answer_of(Draft.objects.get().token) == {"overall": "left"}


def test_a_flag_asked_for_while_a_skip_is_on_its_way_is_for_neither_pair(start):
    page = start(3)
    first = token_of(page)
    settled(page)
    routes = held_back(page, "**/skip")
    page.keyboard.press("s")
    waited_for(page, lambda: routes)
    page.keyboard.press("f")
    page.keyboard.type("not cut off")
    page.keyboard.press("2")
    expect(page.get_by_role("dialog")).to_have_count(0)
    let_go(page, routes, "**/skip")
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.locator("input:checked").count() == 0
    assert not Flag.objects.exists()


def test_a_dialog_closes_with_its_pair(start):
    page = start(3)
    first = token_of(page)
    settled(page)
    routes = held_back(page, "**/skip")
    page.keyboard.press("s")
    waited_for(page, lambda: routes)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(1)
    let_go(page, routes, "**/skip")
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_slow_flag_belongs_to_the_pair_it_was_written_for(start):
    page = start(3)
    first = token_of(page)
    settled(page)
    routes = held_back(page, "**/flag")
    page.keyboard.press("f")
    page.get_by_label("Reason").fill("First is cut off")
    page.keyboard.press("Enter")
    waited_for(page, lambda: routes)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0)
    second = token_of(page)
    settled(page)
    page.keyboard.press("f")
    expect(page.get_by_label("Reason")).to_have_value("")
    page.get_by_label("Reason").fill("Second has no question")
    let_go(page, routes, "**/flag")
    expect(said(page)).to_contain_text("The previous pair is flagged.")
    expect(page.get_by_label("Reason")).to_have_value("Second has no question")
    page.keyboard.press("Enter")
    let_go(page, routes, "**/flag")
    expect(said(page)).to_contain_text("Flagged. You can still")
    flags = dict(Flag.objects.values_list("item__drafts__token", "reason"))
    assert flags == {first: "First is cut off", second: "Second has no question"}


def test_a_flag_that_failed_after_its_pair_is_told_with_its_reason(start):
    page = start(3)
    first = token_of(page)
    settled(page)
    routes = held_back(page, "**/flag")
    page.keyboard.press("f")
    page.get_by_label("Reason").fill("Cut off")
    page.keyboard.press("Enter")
    waited_for(page, lambda: routes)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0)
    routes.pop().abort()
    expect(said(page)).to_contain_text("previous pair was not sent. Your reason was: Cut off")
    expect(said(page).get_by_role("link")).to_have_attribute("href", f"/annotate/{first}")


@pytest.mark.parametrize("gap", [0, pytest.param(100, marks=pytest.mark.long), 250])
def test_keys_in_a_hurry_never_count_for_a_pair_that_was_not_read(start, gap):
    page = start(4)
    first = token_of(page)
    stop_the_clock(page)
    page.clock.run_for(1000)
    routes = held_back(page, "**/vote")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0)
    page.clock.run_for(gap)
    page.keyboard.press("2")
    page.keyboard.press("f")
    assert page.locator("input:checked").count() == 0
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(said(page)).to_contain_text("not counted")
    let_go(page, routes, "**/vote")
    assert {vote.answer["overall"] for vote in Vote.objects.all()} == {"left"}


@pytest.mark.parametrize(
    "text",
    [
        "comment: too short, but 1 fact is stated 2 times",
        pytest.param("54 5", marks=pytest.mark.long),
    ],
)
def test_a_text_typed_after_enter_is_for_neither_pair(start, project, text):
    """Its letters are keys too: t is a tie, s skips, f opens a flag."""
    project.scale, project.criteria = Project.Scale.FIVE, ["accuracy", "clarity"]
    project.save()
    page = start(3)
    first = token_of(page)
    stop_the_clock(page)
    page.clock.run_for(1000)
    for key in "324":
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0)
    second = token_of(page)
    for letter in text:
        page.clock.run_for(90)
        page.keyboard.press(letter)
    assert token_of(page) == second
    assert page.locator("input:checked").count() == 0
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(said(page)).to_contain_text("not counted")
    # After a pause it is for the pair that is there.
    page.clock.run_for(600)
    page.keyboard.press("4")
    assert page.locator("input:checked").count() == 1


def test_a_click_in_a_hurry_does_not_choose_for_the_pair_that_came_up(start):
    page = start(3)
    first = token_of(page)
    settled(page)
    page.keyboard.press("1")
    box = page.locator(".option").nth(1).bounding_box()
    page.keyboard.press("Enter")
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0)
    assert page.locator("input:checked").count() == 0
    expect(said(page)).to_contain_text("not counted")


def test_going_back_takes_what_was_entered_until_then_and_nothing_after(start):
    page = start(3)
    settled(page)
    first = token_of(page)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    waited_for(page, lambda: token_of(page) != first)
    expect(page.get_by_role("button", name="Back")).to_be_enabled()
    second = token_of(page)
    settled(page)
    page.keyboard.press("2")
    expect(page.locator("input[value=right]")).to_be_checked()
    waited_for(page, lambda: Draft.objects.filter(token=second).exclude(answer={}).exists())
    routes = held_back(page, "**/draft")
    page.keyboard.press("Backspace")
    waited_for(page, lambda: routes)
    page.keyboard.press("1")
    expect(page.locator("input[value=right]")).to_be_checked()
    let_go(page, routes, "**/draft")
    page.wait_for_url(lambda url: not url.endswith(second))
    assert Draft.objects.get(token=second).answer == {"overall": "right"}
