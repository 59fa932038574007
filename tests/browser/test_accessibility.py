"""What is said to people who can't see a page, and what they can do without a mouse.

`test_every_page.py` walks all pages as they are. Here pages change: forms are sent with errors,
dialogs open, parts renew themselves, votes are stored, and people stay away.
"""

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from annotation.models import Slot
from tests.browser import accessible
from tests.browser.annotating import settled, stop_the_clock
from tests.browser.opening import in_both_schemes
from tests.browser.test_every_page import everybody, pages_of
from tests.test_access_walk import NAMES, addresses, an_eighth

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DESK = {"width": 1280, "height": 720}
# What each live region said, in the order of saying.
LISTEN = """() => {
    const live = "[aria-live], [role=status], [role=alert]";
    window.__said = [];
    const regionOf = ({ target }) =>
        (target.nodeType === 1 ? target : target.parentElement)?.closest(live);
    new MutationObserver((changes) => new Set(changes.map(regionOf)).forEach((region) => {
        if (region?.textContent.trim()) window.__said.push(region.textContent.trim());
    })).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
# What a person can fill in and send without a dialog.
FORMS = """[...document.querySelectorAll("main form[method=post]")].filter((form) =>
    form.querySelector("input:not([type=hidden]), textarea, select")
    && !form.closest("dialog, noscript"))"""
# Sends the form of this number with nothing in its fields, and impossible numbers.
SEND = """(number) => {
    const form = FORMS[number];
    const kept = "[type=hidden], [type=checkbox], [type=radio], [type=file]";
    const emptied = `input:not(${kept}), textarea`;
    form.noValidate = true;
    form.querySelectorAll(emptied).forEach((one) => {
        one.value = one.type === "number" ? "-7" : "";
    });
    const buttons = form.querySelectorAll("button:not([type=button], [hidden])");
    setTimeout(() => form.requestSubmit([...buttons].pop()));
}""".replace("FORMS", FORMS)
FOCUSED = "document.activeElement"


def sent_with_errors(page, path):
    """Give each answer that shows an error after one of the page's forms was sent."""
    number = 0
    while True:
        page.goto(path)
        if number >= page.evaluate(FORMS + ".length"):
            return
        with page.expect_navigation(timeout=20_000) as answer:
            page.evaluate(SEND, number)
        number += 1
        if answer.value.status < 500 and page.locator(".errorlist, [data-errors-of-form]").count():
            yield number


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("arguments", ["errors"], indirect=True)
def test_an_error_is_tied_to_its_field_and_has_the_focus(
    log_in, arguments, annotator, project, whole
):
    arguments["users"] = everybody(project, annotator)
    names = sorted(set(addresses()) & set(NAMES) - {"logout", "healthz", "demo_enter"})
    names = names if whole else an_eighth(names)
    faults, seen = [], set()
    # The screen of a pair sends nothing by itself: its scripts do.
    names = [name for name in names if name not in ("annotate_item", "annotate_round")]
    for name, path, page in pages_of(log_in, arguments, names):
        for number in sent_with_errors(page, path):
            seen.add(name)
            accessible.prepare(page)
            found = accessible.ask(page, "forms")
            is_told = page.evaluate(
                f"{FOCUSED}.matches('[data-errors-of-form], [role=alert], [aria-invalid=true]')"
            )
            if not is_told:
                found.append(
                    (
                        "the focus isn't on the error (3.3.1)",
                        page.evaluate(f"{FOCUSED}.outerHTML")[:80],
                    )
                )
            faults += [f"{name}, form {number}: {kind}: {detail}" for kind, detail in found]
    assert not faults, "\n".join(faults)
    assert len(seen) > (8 if whole else 1), seen


def test_each_dialog_opens_by_a_key_is_named_and_gives_the_focus_back(start):
    page = start(1)
    page.keyboard.press("1")
    for name in ("help", "flag"):
        opener = page.locator(f"[data-opens={name}]")
        opener.focus()
        page.keyboard.press("Enter")
        dialog = page.locator(f"dialog#{name}")
        expect(dialog).to_be_visible()
        inside = f"{FOCUSED}.closest('dialog')?.id"
        assert page.evaluate(inside) == name
        session = page.context.new_cdp_session(page)
        tree = accessible.tree_of(session)
        assert [one for one in tree if accessible.role(one) == "dialog" and accessible.name(one)]
        accessible.prepare(page)
        assert accessible.by_keyboard(page, session) == []
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(opener).to_be_focused()


def test_what_happens_to_a_vote_is_said_once(start):
    page = start(3)
    page.evaluate(LISTEN)
    settled(page)
    page.keyboard.press("Enter")
    said = "window.__said"
    assert "Choose which response is better" in page.evaluate(said)[-1]
    page.keyboard.press("1")
    page.evaluate("window.__said.length = 0")
    with page.expect_response(lambda answer: answer.ok and answer.url.endswith("/vote")):
        page.keyboard.press("Enter")
    page.wait_for_function("window.__said.some((text) => text.startsWith('Next pair: '))")
    page.wait_for_load_state("networkidle")
    assert len(page.evaluate(said)) == 1
    assert page.evaluate(f"{FOCUSED}.id") == "question-head"


def test_who_is_away_is_warned_before_the_pair_goes_to_others_and_keeps_it_by_one_key(start):
    page = start(1)
    stop_the_clock(page)
    page.evaluate(LISTEN)
    page.clock.run_for(1000)
    for _ in range(12):
        page.clock.run_for(60_000)
    assert [text[:24] for text in page.evaluate("window.__said")] == ["Are you still here? Pres"]
    expect(page.get_by_role("button", name="Keep this pair")).to_be_visible()
    before = Slot.objects.get().lease_until
    with page.expect_response("**/beat"):
        page.keyboard.press("Shift")
    assert Slot.objects.get().lease_until > before
    expect(page.locator("#said")).to_have_text("You keep this pair.")


RENEWED = ("project", "round", "run")
# Asks for each part as it does by itself every few seconds.
RENEW = """async () => {
    for (const { id } of document.querySelectorAll("[hx-trigger*=every][hx-get][id]")) {
        const part = document.getElementById(id);
        await new Promise((done) => {
            document.addEventListener("htmx:afterSettle", done, { once: true });
            htmx.ajax("GET", part.getAttribute("hx-get"), { source: part, target: part,
                swap: part.getAttribute("hx-swap"), select: part.getAttribute("hx-select") });
        });
    }
}"""


@pytest.mark.parametrize("arguments", ["plain"], indirect=True)
def test_a_part_that_renews_itself_keeps_the_focus_and_says_nothing(
    log_in, arguments, annotator, project
):
    arguments["users"] = everybody(project, annotator)
    project.runs.update(state="running")
    page = log_in(arguments["users"]["superuser"])
    lost, n = [], 0
    for name in RENEWED:
        page.goto(reverse(name, kwargs=arguments[name]), wait_until="networkidle")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        accessible.prepare(page)
        page.evaluate(LISTEN)
        inside = "window.__accessible.stops().filter((one) => one.closest('[hx-trigger*=every]'))"
        for place in range(page.evaluate(f"{inside}.length")):
            n += 1
            what = f"({FOCUSED}.outerHTML || '').slice(0, 100)"
            page.evaluate(f"{inside}[{place}]?.focus()")
            before = page.evaluate(what)
            page.evaluate(RENEW)
            if page.evaluate(what) != before:
                lost.append(f"{name}: {before}")
        assert page.evaluate("window.__said") == [], name
    assert n > 3
    assert not lost, "\n".join(lost)


def test_a_password_can_be_pasted_and_is_known_to_password_managers(log_in, annotator, live_server):
    page = log_in(annotator)
    page.context.clear_cookies()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/login/")
    field = page.get_by_label("Password")
    field.focus()
    page.evaluate("navigator.clipboard.writeText('from-a-manager')")
    page.keyboard.press("Control+V")
    expect(field).to_have_value("from-a-manager")
    assert field.get_attribute("autocomplete") == "current-password"
    assert page.get_by_label("Username").get_attribute("autocomplete") == "username"


COLOURS = {
    3: "edge accent win tie lose violet bad",
    4.5: "ink quiet accent bad",
}


def test_colours_can_be_told_from_what_is_behind_them(log_in, annotator):
    """Of edges, charts, labels and the ring of the focus, and of text, in both schemes."""
    page = log_in(annotator)
    accessible.prepare(page)
    faint = []
    for scheme in in_both_schemes(page):
        for least, names in COLOURS.items():
            for name in names.split():
                for paper in ("paper", "raised"):
                    found = page.evaluate(f"window.__accessible.between('{name}', '{paper}')")
                    if found < least:
                        faint.append(f"{scheme}: {name} on {paper}: {found:.2f}")
    assert not faint


def test_with_forced_colours_the_choice_and_the_focus_are_seen(start):
    page = start(1)
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    page.keyboard.press("1")
    outline = "getComputedStyle(document.querySelector('.option:has({})')).outlineStyle"
    assert page.evaluate(outline.format(":checked")) != page.evaluate(
        outline.format("input:not(:checked)")
    )
    accessible.prepare(page)
    session = page.context.new_cdp_session(page)
    assert accessible.by_keyboard(page, session) == []
    page.emulate_media(forced_colors="none")
