"""The annotator's way in a real browser: by keyboard, on a phone, with a bad connection."""

import time
from urllib.parse import parse_qs

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from annotation.models import Annotation, Draft, Flag, Skip
from annotation.rounds import RoundSettings, open_round
from judging.models import Preferences
from tests.annotation.rendering.reading import CORPUS
from tests.browser.conftest import PHONE
from tests.factories import make_examples

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LONG = "A sentence that is repeated until it fills more than one window.\n\n" * 60


@pytest.fixture
def start(project, annotator, log_in):
    """Opens a round of n pairs in the browser, at its first pair."""

    def start(n=3, options=None, **fields):
        make_examples(project, n, **fields)
        open_round(project, None, None, RoundSettings(everything=True, votes=1))
        page = log_in(annotator, **(options or {}))
        page.get_by_role("link", name="Start").click()
        expect(page.locator("#item")).to_be_visible()
        page.wait_for_load_state("networkidle")
        return page

    return start


def token_of(page):
    return page.locator("#item").get_attribute("data-token")


def settled(page):
    """A pair answers keys only after a moment, so that none is meant for the one before."""
    page.evaluate("new Promise(done => setTimeout(done, 320))")


def vote(page, *keys):
    """Answer by keyboard until the vote is stored and another pair or page is there."""
    before = token_of(page)
    settled(page)
    with page.expect_response(lambda answer: answer.ok and answer.url.endswith(f"{before}/vote")):
        for key in keys:
            page.keyboard.press(key)
    expect(page.locator(f"#item[data-token='{before}']")).to_have_count(0)
    page.wait_for_load_state("networkidle")
    return before


def answer_of(token):
    return Annotation.objects.get(item__drafts__token=token).answer


def said(page):
    return page.locator("#said")


def test_a_round_is_done_by_keyboard_alone(start):
    begun = time.monotonic()
    page = start(4)
    keys = {"1": "left", "0": "tie", "b": "right", "a": "left"}
    given = {vote(page, key, "Enter"): value for key, value in keys.items()}
    expect(page.get_by_role("heading", name="You are done")).to_be_visible()
    expect(page.get_by_text("4 of 4 done")).to_be_visible()
    assert {token: answer_of(token)["overall"] for token in given} == given
    times = Annotation.objects.values_list("active_seconds", flat=True)
    assert min(times) > 0.2
    assert sum(times) < time.monotonic() - begun


def test_the_next_pair_is_there_before_the_vote_has_arrived(start):
    page = start()
    first = token_of(page)
    settled(page)
    held = []
    page.route("**/vote", lambda route: held.append(route))
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0, timeout=500)
    assert not Annotation.objects.exists()
    assert page.url.endswith(token_of(page))
    with page.expect_response("**/vote"):
        held[0].continue_()
    assert answer_of(first) == {"overall": "left"}


def test_one_key_chooses_and_submits_once_however_long_or_often_it_is_pressed(start):
    page = start()
    page.keyboard.press("?")
    with page.expect_response("**/preferences"):
        page.get_by_label("One key chooses and submits").check()
    page.keyboard.press("Escape")
    assert Preferences.objects.get().one_key_submit
    votes = []
    page.on("request", lambda request: votes.append(request) if "/vote" in request.url else None)
    settled(page)
    with page.expect_response("**/ahead"):
        page.keyboard.down("2")
        page.keyboard.down("2")
    settled(page)
    page.keyboard.down("2")
    page.keyboard.up("2")
    settled(page)
    assert len(votes) == 1
    page.keyboard.press("1")
    # The second press of a double one meets a pair that nobody has read.
    page.keyboard.press("1")
    settled(page)
    assert len(votes) == 2


def test_keys_do_nothing_while_a_comment_is_written(start):
    page = start()
    settled(page)
    comment = page.get_by_label("Comment")
    comment.click()
    page.keyboard.type("12 a Tie? sf b0")
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    expect(comment).to_have_value("12 a Tie? sf b\n")
    assert page.locator("input:checked").count() == 0
    assert page.get_by_role("dialog").count() == 0
    page.keyboard.press("Backspace")
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    expect(page.get_by_role("radio", name="Tie")).to_be_checked()
    vote(page, "Enter")
    assert Annotation.objects.get().comment == "12 a Tie? sf b"


def test_nothing_moves_when_a_key_is_pressed_or_refused(start):
    page = start(1, response_1=LONG, response_2="Short.")
    boxes = """[...document.querySelectorAll('.question, .side-body, .option, .closing button')]
        .map(e => JSON.stringify(e.getBoundingClientRect()))"""
    before = page.evaluate(boxes)
    settled(page)
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("Choose which response is better")
    assert page.evaluate(boxes) == before
    page.keyboard.press("2")
    expect(page.locator("#right")).to_have_attribute("data-chosen", "")
    assert page.evaluate(boxes) == before


def test_back_skip_undo_and_flag_by_keyboard(start):
    page = start()
    first = vote(page, "1", "Enter")
    second = token_of(page)
    expect(page.get_by_role("button", name="Back")).to_be_enabled()
    settled(page)
    page.keyboard.press("s")
    expect(said(page)).to_contain_text("Skipped")
    assert token_of(page) != second
    assert Skip.objects.get().item.drafts.get().token == second
    page.get_by_role("button", name="Undo").click()
    page.wait_for_url(f"**/{second}")
    assert not Skip.objects.exists()
    settled(page)
    page.keyboard.press("f")
    page.get_by_label("Reason").fill("The question is cut off")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("Flagged")
    assert Flag.objects.get().reason == "The question is cut off"
    page.get_by_role("heading", name="Question").click()
    page.keyboard.press("Backspace")
    page.wait_for_url(f"**/{first}")
    expect(page.get_by_text("You voted: Left is better")).to_be_visible()
    settled(page)
    with page.expect_response("**/vote"):
        page.keyboard.press("0")
        page.keyboard.press("Enter")
    page.wait_for_url(f"**/{second}")
    assert answer_of(first) == {"overall": "tie"}


def test_criteria_are_answered_row_by_row(start, project):
    project.scale, project.criteria = "five", ["accuracy", "level of detail"]
    project.save()
    page = start(1)
    settled(page)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("level of detail is missing")
    page.keyboard.press("3")
    page.keyboard.press("4")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("5")
    token = vote(page, "Enter")
    criteria = {"accuracy": "right_much", "level of detail": "tie"}
    assert answer_of(token) == {"overall": "right", "criteria": criteria}


def test_on_a_phone_both_sides_must_have_been_seen(start):
    page = start(2, PHONE)
    page.locator(".option", has_text="Left is better").tap()
    page.get_by_role("button", name="Submit").tap()
    expect(said(page)).to_contain_text("Look at the right response first")
    assert not Annotation.objects.exists()
    page.get_by_role("link", name="Right").tap()
    expect(page.get_by_role("link", name="Right")).to_have_attribute("aria-current", "true")
    expect(page.locator("#right .response")).to_be_in_viewport()
    with page.expect_response("**/vote"):
        page.get_by_role("button", name="Submit").tap()
    assert answer_of(Draft.objects.earliest("pk").token) == {"overall": "left"}


def test_a_lost_connection_keeps_choice_and_comment_and_sends_the_vote_once(start):
    page = start()
    first = token_of(page)
    settled(page)
    page.context.set_offline(True)
    page.keyboard.press("1")
    page.get_by_label("Comment").fill("on a train")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("can't be reached")
    second = token_of(page)
    settled(page)
    page.keyboard.press("2")
    page.get_by_label("Comment").fill("in a tunnel")
    assert not Annotation.objects.exists()
    # The next page, not this one, is to send what waits in the browser.
    context = page.context
    page.close()
    context.set_offline(False)
    page = context.new_page()
    page.goto(f"/annotate/{second}")
    expect(page.get_by_text("1 of 3 done")).to_be_visible()
    vote = Annotation.objects.get()
    assert (vote.item.drafts.get().token, vote.comment) == (first, "on a train")
    expect(page.get_by_role("radio", name="Right")).to_be_checked()
    expect(page.get_by_label("Comment")).to_have_value("in a tunnel")
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
    page.route("**/annotate/*/*", lambda route: route.fulfill(status=500, body="<h1>500</h1>"))
    page.keyboard.press("2")
    page.get_by_label("Comment").fill("still here")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("can't be reached")
    expect(page.get_by_role("radio", name="Right")).to_be_checked()
    page.unroute_all()
    vote(page, "Enter")
    assert Annotation.objects.get().comment == "still here"


def test_after_logging_in_again_the_vote_is_posted(start, annotator):
    page = start(2)
    first = token_of(page)
    page.context.clear_cookies()
    page.locator(".option", has_text="Tie").click()
    page.get_by_label("Comment").fill("before the session ended")
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("link", name="Log in again").click()
    page.get_by_label("Username").fill(annotator.username)
    page.get_by_label("Password").fill("pw")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("1 of 2 done")).to_be_visible()
    assert answer_of(first) == {"overall": "tie"}
    assert Annotation.objects.get().comment == "before the session ended"


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


def test_time_counts_only_within_a_minute_of_the_last_move(start):
    page = start(1)
    posted, beats = [], []
    page.on("request", lambda request: posted.append(request.post_data or ""))
    page.on("request", lambda request: beats.append(request.url.endswith("/beat")))
    page.clock.install()
    page.reload(wait_until="networkidle")
    page.clock.run_for(1000)
    page.keyboard.press("1")
    page.clock.run_for(30_000)
    page.keyboard.press("2")
    page.clock.run_for(3_600_000)
    page.keyboard.press("1")
    page.clock.run_for(5_000)
    with page.expect_response("**/vote"):
        page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="You are done")).to_be_visible()
    fields = [parse_qs(body) for body in posted if body]
    seconds = sum(float(posted["seconds"][0]) for posted in fields if "seconds" in posted)
    # 1 + 30 + 60 + 5, give or take a tick for each of them
    assert 92 <= seconds <= 100
    # Who stays away for long gives the pair back: a heartbeat a minute, then none.
    assert 5 <= sum(beats) <= 12


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


def test_raw_text_and_differences_are_switches(start):
    page = start(1, response_1="**bold** oak", response_2="**bold** elm")
    left = page.locator("#left .response")
    page.get_by_role("button", name="Raw text").click()
    expect(left).to_contain_text("**bold**")
    page.get_by_role("button", name="What differs").click()
    expect(left.locator("mark")).to_have_text(["oak"] if "oak" in left.inner_text() else ["elm"])
    page.get_by_role("button", name="What differs").click()
    expect(left.locator("strong")).to_have_text("bold")
    assert page.get_by_role("button", name="Raw text").get_attribute("aria-pressed") == "false"


def test_it_works_without_javascript(start):
    page = start(2, {"java_script_enabled": False}, response_1="**bold** oak")
    first = token_of(page)
    page.get_by_role("radio", name="Tie").check(force=True)
    page.get_by_role("button", name="Raw text").click()
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
    [("light", {"viewport": {"width": 1440, "height": 900}}), ("dark", PHONE)],
)
def test_axe_finds_nothing(start, project, scheme, options):
    project.criteria, project.both_bad, project.scale = ["accuracy"], True, "five"
    project.guidelines = "Judge the *answer*.\n\n| a | b |\n|--|--|\n| 1 | 2 |"
    project.save()
    page = start(2, options | {"color_scheme": scheme}, response_1=LONG + "```\ncode\n```")
    found = [*Axe().run(page).response["violations"]]
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
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    comment = "</textarea><script>window.__canary=1</script>" + texts[7] + "\n" + texts[0]
    with page.expect_response("**/draft"):
        page.get_by_label("Comment").fill(comment)
    page.reload(wait_until="networkidle")
    expect(page.get_by_label("Comment")).to_have_value(comment)
    for button in ("Raw text", "What differs"):
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
