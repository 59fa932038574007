"""A person's own keys, guidelines that open by themselves, "can't judge", and own votes."""

import pytest
from playwright.sync_api import expect

from annotation.models import Reading, Skip, Vote
from judging.projects.models import Preferences
from tests.browser.annotating import LONG, answer_of, said, settled, token_of, vote
from tests.browser.conftest import PHONE

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def press(page, key):
    settled(page)
    page.keyboard.press(key)


def test_every_action_has_a_key(start, project):
    project.guidelines = "Be *fair*."
    project.save()
    page = start(3, response_1=LONG)
    page.keyboard.press("Escape")
    press(page, "g")
    expect(page.get_by_role("dialog", name="Guidelines")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".sides[data-folded]")).to_have_count(1)
    press(page, "e")
    expect(page.locator(".sides[data-folded]")).to_have_count(0)
    press(page, "r")
    expect(page.locator("[data-view=raw]")).to_have_attribute("aria-pressed", "true")
    press(page, "d")
    expect(page.locator("[data-view=differences]")).to_have_attribute("aria-pressed", "true")
    press(page, "c")
    page.keyboard.type("sss")
    expect(page.locator("#comment")).to_have_value("sss")
    page.keyboard.press("Escape")
    press(page, "l")
    expect(page.get_by_role("heading", name="My votes")).to_be_visible()
    assert not Skip.objects.exists()


def test_a_moved_key_holds_at_once_and_on_the_next_page(start):
    page = start(4)
    page.keyboard.press("?")
    page.get_by_text("Change the keys").click()
    field = page.locator("[data-moves=S]")
    field.focus()
    page.keyboard.press("a")
    expect(page.locator("[data-settings-said]")).to_have_text(
        "A is in use already. Move that action first."
    )
    with page.expect_response("**/preferences"):
        page.keyboard.press("k")
    page.keyboard.press("Escape")
    assert Preferences.objects.get().keys == {"S": "K"}
    press(page, "s")
    first = token_of(page)
    with page.expect_response("**/skip"):
        press(page, "k")
    expect(page.locator(f"#item[data-token='{first}']")).to_have_count(0)
    page.reload(wait_until="networkidle")
    expect(page.locator("[value=skip]")).to_have_attribute("aria-keyshortcuts", "K")
    with page.expect_response("**/skip"):
        press(page, "k")
    assert Skip.objects.count() == 2


def test_keys_of_one_character_can_be_switched_off_without_a_connection(start):
    page = start(3)
    page.context.set_offline(True)
    page.keyboard.press("?")
    page.get_by_label("Switch off keys of a single letter").check()
    expect(page.locator("[data-settings-said]")).to_contain_text("sent later")
    page.keyboard.press("Escape")
    press(page, "1")
    press(page, "s")
    expect(page.locator("[name=overall]:checked")).to_have_count(0)
    with page.expect_response("**/preferences"):
        page.context.set_offline(False)
    assert Preferences.objects.get().no_letter_keys
    page.reload(wait_until="networkidle")
    press(page, "1")
    expect(page.locator("[name=overall]:checked")).to_have_count(0)
    expect(page.locator("[value=left]")).not_to_have_attribute("aria-keyshortcuts", "1 A")


def test_a_cyrillic_keyboard_presses_the_moved_key(start, annotator):
    page = start(3)
    Preferences.objects.create(user=annotator, keys={"N": "", "1": "W"})
    page.reload(wait_until="networkidle")
    settled(page)
    page.evaluate(
        "document.body.dispatchEvent(new KeyboardEvent('keydown',"
        "{key: 'ц', code: 'KeyW', bubbles: true, cancelable: true}))"
    )
    expect(page.locator("[name=overall][value=left]")).to_be_checked()


def test_guidelines_open_once_for_each_protocol(start, project):
    project.guidelines = "Be *fair*."
    project.save()
    page = start(3)
    dialog = page.get_by_role("dialog", name="Guidelines")
    expect(dialog).to_be_visible()
    with page.expect_response("**/read"):
        dialog.get_by_role("button", name="Start").click()
    page.reload(wait_until="networkidle")
    expect(dialog).to_be_hidden()
    vote(page, "1", "Enter")
    expect(dialog).to_be_hidden()
    assert Reading.objects.count() == 1
    # Another screen of the same person: they have seen them.
    Reading.objects.all().delete()
    page.reload(wait_until="networkidle")
    expect(dialog).to_be_hidden()


def test_a_pair_that_cant_be_judged_needs_a_reason(start, project):
    project.cant_judge = True
    project.criteria = ["accuracy"]
    project.save()
    page = start(3)
    press(page, "n")
    page.keyboard.press("Escape")
    press(page, "Enter")
    expect(said(page)).to_contain_text("why you can't judge")
    page.keyboard.type("Not in my language")
    page.keyboard.press("Escape")
    before = vote(page, "Enter")
    assert answer_of(before) == {"overall": "cant_judge"}
    assert Vote.objects.get().comment == "Not in my language"
    page.locator("[data-own]").click()
    expect(page.get_by_text("Can't judge")).to_be_visible()


def test_votes_and_skips_are_listed_and_can_be_reached_again(start):
    page = start(3)
    first = vote(page, "1", "Enter")
    skipped = token_of(page)
    press(page, "s")
    expect(said(page)).to_contain_text("Nobody else is left")
    page.locator("[data-own]").click()
    page.get_by_role("button", name="Take it up").click()
    expect(page.locator(f"#item[data-token='{skipped}']")).to_be_visible()
    page.locator("[data-own]").click()
    page.locator(f"a[href$='{first}']").click()
    expect(page.get_by_text("You voted: Left is better")).to_be_visible()


def test_a_phone_offers_to_finish_later(start):
    page = start(3, options=PHONE)
    expect(page.get_by_role("button", name="Log out")).to_be_hidden()
    page.get_by_role("link", name="Finish later").click()
    expect(page.get_by_role("heading", name="My open work")).to_be_visible()


def test_the_rest_of_the_work_is_told_by_the_own_pace(start):
    page = start(3)
    vote(page, "1", "Enter")
    expect(page.locator("#own-progress")).to_contain_text("min left")
