"""No choice and no comment is lost, and none counts twice, whatever the connection does."""

import time
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import expect

from annotation.models import Draft, Flag, Skip, Vote
from tests.browser.annotating import (
    answer_of,
    fetched,
    said,
    settled,
    stop_the_clock,
    token_of,
    vote,
    waited_for,
)
from tests.browser.opening import intercept

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_next_pair_is_there_before_the_vote_has_arrived(start):
    page = start()
    first = token_of(page)
    settled(page)
    held = []
    intercept(page, "**/vote", lambda route: held.append(route))
    with page.expect_request("**/vote"):
        page.keyboard.press("1")
        page.keyboard.press("Enter")
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0)
    assert not Vote.objects.exists()
    assert page.url.endswith(token_of(page))
    waited_for(page, lambda: held)
    with page.expect_response("**/vote"):
        held[0].continue_()
    assert answer_of(first) == {"overall": "left"}


def test_a_lost_connection_keeps_choice_and_comment_and_sends_the_vote_once(start):
    page = start()
    first = token_of(page)
    settled(page)
    page.context.set_offline(True)
    page.keyboard.press("1")
    page.get_by_label("Comment", exact=True).fill("on a train")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("can't be reached")
    second = token_of(page)
    settled(page)
    page.keyboard.press("2")
    page.get_by_label("Comment", exact=True).fill("in a tunnel")
    assert not Vote.objects.exists()
    # The next page, not this one, is to send what waits in the browser.
    context = page.context
    page.close()
    context.set_offline(False)
    page = context.new_page()
    page.goto(f"/annotate/{second}")
    expect(page.get_by_text("1 of 3 done")).to_be_visible()
    vote = Vote.objects.get()
    assert (vote.item.drafts.get().token, vote.comment) == (first, "on a train")
    expect(page.get_by_role("radio", name="Right")).to_be_checked()
    expect(page.get_by_label("Comment", exact=True)).to_have_value("in a tunnel")
    page.wait_for_load_state("networkidle")
    assert Draft.objects.get(token=second).comment == "in a tunnel"


def test_a_vote_that_somebody_else_left_in_this_browser_waits_for_them(start):
    page = start(2)
    theirs = """localStorage.setItem("fairjudge-vote:theirs", JSON.stringify({
        at: Date.now(), url: "/annotate/theirs/vote", fields: [["token", "theirs"]]}))"""
    page.evaluate(theirs)
    page.reload(wait_until="networkidle")
    first = vote(page, "1", "Enter")
    settled(page)
    page.keyboard.press("Backspace")
    page.wait_for_url(f"**/{first}")
    assert page.evaluate("localStorage.getItem('fairjudge-vote:theirs')")


def test_a_server_that_fails_loses_nothing(start):
    page = start(1)
    settled(page)
    intercept(page, "**/annotate/*/*", lambda route: route.fulfill(status=500, body="<h1>500</h1>"))
    page.keyboard.press("2")
    page.get_by_label("Comment", exact=True).fill("still here")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("can't be reached")
    expect(page.get_by_role("radio", name="Right")).to_be_checked()
    page.unroute_all()
    vote(page, "Enter")
    assert Vote.objects.get().comment == "still here"


def test_after_logging_in_again_the_vote_is_posted(start, annotator):
    page = start(2)
    first = token_of(page)
    page.context.clear_cookies()
    page.locator(".option", has_text="Tie").click()
    page.get_by_label("Comment", exact=True).fill("before the session ended")
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("link", name="Log in again").click()
    page.get_by_label("Username").fill(annotator.username)
    page.get_by_label("Password").fill("pw")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("1 of 2 done")).to_be_visible()
    assert answer_of(first) == {"overall": "tie"}
    assert Vote.objects.get().comment == "before the session ended"


def test_a_page_from_before_another_login_still_posts(start, annotator):
    page = start(2)
    first = token_of(page)
    other = page.context.new_page()
    other.goto("/annotate/")
    other.get_by_role("button", name="Log out").click()
    other.goto("/login/")
    other.get_by_label("Username").fill(annotator.username)
    other.get_by_label("Password").fill("pw")
    other.get_by_role("button", name="Log in").click()
    other.wait_for_load_state("networkidle")
    page.bring_to_front()
    vote(page, "2", "Enter")
    assert answer_of(first) == {"overall": "right"}


def kept(page, milliseconds):
    """Let the clock run while a draft is sent, and stop until its answer was read.

    A clock that runs while the answer is on its way gives the request up, and its time back.
    """
    with page.expect_request_finished(lambda request: request.url.endswith("/draft")) as sent:
        page.clock.run_for(milliseconds)
    page.evaluate("0")
    return sent.value


def test_time_counts_only_within_a_minute_of_the_last_move(start):
    page = start(1)
    posted, beats = [], []
    page.on("request", lambda request: beats.append(request.url.endswith("/beat")))
    stop_the_clock(page)
    page.clock.run_for(1000)
    page.keyboard.press("1")
    posted.append(kept(page, 1000))
    page.clock.run_for(29_000)
    page.keyboard.press("2")
    posted.append(kept(page, 1000))
    for _ in range(60):
        page.clock.run_for(60_000)
    page.keyboard.press("1")
    posted.append(kept(page, 1000))
    page.clock.run_for(4_000)
    with page.expect_response("**/vote") as vote:
        page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="You are done")).to_be_visible()
    posted.append(vote.value.request)
    fields = [parse_qs(request.post_data) for request in posted]
    seconds = sum(float(each["seconds"][0]) for each in fields)
    # 1 + 30 + 60 + 5, give or take a tick for each of them
    assert 92 <= seconds <= 100
    # Who stays away for long gives the pair back: a heartbeat a minute, then none.
    assert 5 <= sum(beats) <= 12


def test_a_choice_changed_after_an_answer_was_lost_is_the_one_that_counts(start):
    page = start(1)

    def lose(route):
        fetched(route)
        route.abort()

    settled(page)
    intercept(page, "**/vote", lose)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("can't be reached")
    assert Vote.objects.get().answer == {"overall": "left"}
    page.keyboard.press("2")
    page.unroute("**/vote")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="You are done")).to_be_visible()
    assert Vote.objects.get().answer == {"overall": "right"}


@pytest.mark.parametrize("gap", [pytest.param(0.02, marks=pytest.mark.long), 0.15])
def test_the_second_of_two_clicks_is_not_for_the_pair_that_came_up(start, gap):
    page = start(4)
    stop_the_clock(page)
    page.clock.run_for(1000)
    button = page.get_by_role("button", name="Skip").bounding_box()
    place = button["x"] + 5, button["y"] + 5
    with page.expect_response("**/skip"):
        page.mouse.click(*place)
        time.sleep(gap)
        page.mouse.click(*place)
    expect(said(page)).to_contain_text("Skipped")
    page.clock.run_for(1000)
    page.wait_for_timeout(500)
    assert Skip.objects.count() == 1


def test_a_vote_that_arrives_while_the_next_page_is_on_its_way_counts_on_it(start):
    """The server, which did not have the vote yet, hands the same pair out again."""
    page = start(4)
    first = token_of(page)
    votes, pages, answered = [], [], []
    page.on("requestfinished", lambda request: answered.append(request.url.endswith("/vote")))
    settled(page)
    intercept(page, "**/vote", lambda route: route.continue_() if votes else votes.append(route))
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0)
    settled(page)
    held = "**/annotate/r/*/"
    intercept(page, held, lambda route: pages.append((route, fetched(route))), times=1)
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    waited_for(page, lambda: pages)
    assert Vote.objects.count() == 1
    votes[0].fulfill(response=fetched(votes[0]))
    waited_for(page, lambda: any(answered))
    page.wait_for_timeout(300)
    route, response = pages[0]
    assert first in response.url
    route.fulfill(response=response)
    expect(page.get_by_text("2 of 4 done")).to_be_visible()
    assert token_of(page) != first
    assert Vote.objects.count() == 2


def test_votes_that_wait_are_also_sent_from_the_list_of_open_work(start):
    page = start(3)
    settled(page)
    intercept(page, "**/vote", lambda route: route.abort())
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("can't be reached")
    page.unroute("**/vote")
    page.goto("/annotate/")
    expect(page.get_by_text("1 of 3 done")).to_be_visible()
    assert Vote.objects.get().answer == {"overall": "left"}


def test_going_back_without_a_connection_stays_and_keeps_everything(start):
    page = start(3)
    vote(page, "1", "Enter")
    second = token_of(page)
    settled(page)
    page.get_by_label("Comment", exact=True).fill("half a thought")
    page.keyboard.press("Escape")
    page.context.set_offline(True)
    page.keyboard.press("Backspace")
    expect(said(page)).to_contain_text("can't be reached")
    assert token_of(page) == second
    expect(page.get_by_label("Comment", exact=True)).to_have_value("half a thought")
    page.context.set_offline(False)
    expect(said(page)).to_contain_text("What you entered is stored.")
    assert Draft.objects.get(token=second).comment == "half a thought"


def test_a_flag_that_could_not_be_sent_says_so_and_keeps_its_reason(start):
    page = start(1)
    settled(page)
    page.context.set_offline(True)
    page.keyboard.press("f")
    page.get_by_label("Reason").fill("Cut off")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("The flag was not sent")
    page.context.set_offline(False)
    page.keyboard.press("f")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("Flagged")
    assert Flag.objects.get().reason == "Cut off"


def test_a_connection_that_hangs_is_taken_for_lost_and_the_vote_is_sent_again(start):
    page = start()
    page.clock.install()
    page.reload(wait_until="networkidle")
    page.clock.run_for(1000)
    intercept(page, "**/vote", lambda route: None)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.clock.run_for(32_000)
    expect(said(page)).to_contain_text("can't be reached")
    page.unroute("**/vote")
    page.clock.run_for(6_000)
    expect(said(page)).to_contain_text("The waiting vote is now stored.")
    assert Vote.objects.get().answer == {"overall": "left"}


def test_what_is_said_of_one_pair_is_not_said_of_the_next(start):
    page = start(2)
    page.goto(f"/annotate/{token_of(page)}?kept=1")
    page.wait_for_load_state("networkidle")
    notice = page.get_by_text("This was not submitted yet")
    expect(notice).to_be_visible()
    vote(page, "1", "Enter")
    expect(notice).to_have_count(0)
