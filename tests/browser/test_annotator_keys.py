"""A round done by keyboard: what each key does, and when it does nothing."""

import time

import pytest
from playwright.sync_api import expect

from annotation.models import Flag, Skip, Vote
from judging.projects.models import Preferences
from tests.browser.annotating import (
    LONG,
    answer_of,
    said,
    settled,
    stop_the_clock,
    token_of,
    vote,
)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_round_is_done_by_keyboard_alone(start):
    begun = time.monotonic()
    page = start(4)
    keys = {"1": "left", "0": "tie", "b": "right", "a": "left"}
    given = {vote(page, key, "Enter"): value for key, value in keys.items()}
    expect(page.get_by_role("heading", name="You are done")).to_be_visible()
    expect(page.get_by_text("4 of 4 done")).to_be_visible()
    assert {token: answer_of(token)["overall"] for token in given} == given
    times = Vote.objects.values_list("active_seconds", flat=True)
    assert min(times) > 0.2
    assert sum(times) < time.monotonic() - begun


def test_one_key_chooses_and_submits_once_however_long_or_often_it_is_pressed(start):
    page = start()
    page.keyboard.press("?")
    with page.expect_response("**/preferences"):
        page.get_by_label("Choose and submit with one key").check()
    page.keyboard.press("Escape")
    assert Preferences.objects.get().one_key_submit
    votes = []
    page.on("request", lambda request: votes.append(request) if "/vote" in request.url else None)
    stop_the_clock(page)
    page.clock.run_for(1000)
    with page.expect_response("**/ahead"):
        page.keyboard.down("2")
        page.keyboard.down("2")
    page.clock.run_for(1000)
    page.keyboard.down("2")
    page.keyboard.up("2")
    page.clock.run_for(1000)
    assert len(votes) == 1
    with page.expect_response("**/vote"):
        page.keyboard.press("1")
        # The second press of a double one meets a pair that nobody has read.
        page.keyboard.press("1")
    page.clock.run_for(1000)
    assert len(votes) == 2


def test_keys_do_nothing_while_a_comment_is_written(start):
    page = start()
    settled(page)
    comment = page.get_by_label("Comment", exact=True)
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
    assert Vote.objects.get().comment == "12 a Tie? sf b"


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
    expect(said(page)).to_contain_text("Missing: level of detail")
    page.keyboard.press("3")
    page.keyboard.press("4")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("5")
    token = vote(page, "Enter")
    criteria = {"accuracy": "right_much", "level of detail": "tie"}
    assert answer_of(token) == {"overall": "right", "criteria": criteria}


def ruled(project):
    project.criteria, project.cant_judge = ["accuracy", "tone"], True
    project.overall_from = "lexicographic"
    project.save()


def test_a_derived_overall_answer_is_not_asked(start, project):
    ruled(project)
    page = start(1)
    settled(page)
    assert page.get_by_role("radiogroup").count() == 2
    assert page.locator("[name=overall]:not([value=cant_judge])").count() == 0
    page.keyboard.press("0")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("Missing: tone")
    page.keyboard.press("b")
    token = vote(page, "Enter")
    answer = answer_of(token)
    assert answer["criteria"] == {"accuracy": "tie", "tone": "right"}
    assert (answer["overall"], answer["rule"]["rule"]) == ("right", "lexicographic")


def test_who_cant_judge_says_so_without_an_overall_row(start, project):
    ruled(project)
    page = start(2)
    settled(page)
    box = page.get_by_role("checkbox", name="Can't judge")
    page.keyboard.press("n")
    expect(box).to_be_checked()
    expect(page.get_by_role("textbox", name="Comment")).to_be_focused()
    page.keyboard.press("Escape")
    # Whoever answers a row after all can judge the pair.
    page.keyboard.press("1")
    expect(box).not_to_be_checked()
    page.keyboard.press("n")
    # The question in the empty box stays: an empty line would hide it, and say nothing.
    page.keyboard.press("Enter")
    expect(page.get_by_placeholder("Why can't you judge this pair?")).to_have_value("")
    page.keyboard.type("in Greek")
    page.keyboard.press("Escape")
    token = vote(page, "Enter")
    assert answer_of(token) == {"overall": "cant_judge"}


def test_digits_answer_on_keyboards_that_print_them_above_other_signs(start):
    page = start(1)
    settled(page)
    for code, key, chosen in (
        ("Digit1", "&", "Left"),
        ("Digit2", "é", "Right"),
        ("Digit0", "à", "Tie"),
    ):
        page.evaluate(
            "init => document.body.dispatchEvent(new KeyboardEvent('keydown', init))",
            {"code": code, "key": key, "bubbles": True},
        )
        expect(page.get_by_role("radio", name=chosen)).to_be_checked()


def test_a_key_right_after_a_dialog_has_closed_is_not_typed_into_it(start):
    page = start()
    settled(page)
    # The browser takes the focus away with the next picture that it draws, not at once.
    page.evaluate(
        """() => {
            const dialog = document.getElementById("flag");
            const field = dialog.querySelector("[name=reason]");
            dialog.showModal();
            field.focus();
            dialog.close();
            const pressed = { key: "f", code: "KeyF", bubbles: true };
            field.dispatchEvent(new KeyboardEvent("keydown", pressed));
        }"""
    )
    expect(page.get_by_label("Reason")).to_be_visible()
