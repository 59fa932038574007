"""The page parts in a real browser: legible, accessible, and as the scripts promise."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.opening import intercept

pytestmark = pytest.mark.system

PAGES = [
    "parts",
    "overview",
    "run",
    "screen/three",
    "screen/five",
    "nothing",
    "glossary",
    "error/404",
    "error/500",
    "../login/",
]
PHONE = {"width": 390, "height": 844, "has_touch": True, "is_mobile": True}
SIZES = {"desk": {}, "phone": PHONE}


@pytest.mark.parametrize(
    ("scheme", "size"),
    [pytest.param("light", "desk", marks=pytest.mark.long), ("dark", "phone")],
)
def test_every_page_is_accessible_and_fits_its_window(open_page, gallery, scheme, size):
    page = open_page("parts", scheme=scheme, **SIZES[size])
    for name in PAGES:
        page.goto(gallery + name)
        found = Axe().run(page).response["violations"]
        assert [(v["id"], v["nodes"][0]["target"]) for v in found] == [], name
        width, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= window, f"{name} is wider than its window"


def column(page, number):
    return page.locator(f"table[data-sort] tbody tr td:nth-child({number})").all_inner_texts()


def test_a_table_sorts_by_its_heads_and_undefined_comes_last_both_ways(open_page):
    page = open_page("parts")
    head = page.get_by_role("columnheader", name="CS₁")
    head.get_by_role("button").click()
    assert column(page, 6) == ["5.25", "7.00", "8.00", "8.50", "–"]
    assert head.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert column(page, 6) == ["8.50", "8.00", "7.00", "5.25", "–"]
    assert head.get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Sort by BPDE").click()
    assert column(page, 5) == [".0000", ".6365", ".6931", "1.10", "unjudged"]
    assert head.get_attribute("aria-sort") == "none"


def test_a_glossary_word_is_explained_on_hover_on_focus_and_no_longer_after_escape(open_page):
    page = open_page("run")
    note = page.get_by_role("tooltip")
    page.get_by_role("link", name="BPC").hover()
    assert "swapped" in note.inner_text()
    page.mouse.move(5, 800)
    note.wait_for(state="hidden")
    page.get_by_role("button", name="Pause").focus()
    page.keyboard.press("Shift+Tab")
    assert "swapped" in note.inner_text()
    assert page.locator(":focus").get_attribute("aria-describedby") == "term-note"
    page.keyboard.press("Escape")
    assert note.is_hidden()


def test_the_first_tap_on_a_glossary_word_explains_and_the_second_follows_it(open_page):
    page = open_page("run", **PHONE)
    page.get_by_role("link", name="BPC").tap()
    assert "swapped" in page.get_by_role("tooltip").inner_text()
    assert page.url.endswith("/gallery/run")
    box = page.get_by_role("tooltip").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_colours_follow_the_system_until_a_person_chooses(open_page):
    page = open_page("overview", scheme="light")
    light = background(page)
    page.emulate_media(color_scheme="dark")
    dark = background(page)
    assert dark != light
    page.get_by_label("Colours").select_option("light")
    assert background(page) == light
    page.reload()
    assert background(page) == light
    assert page.get_by_label("Colours").input_value() == "light"
    page.get_by_label("Colours").select_option("system")
    assert background(page) == dark


def test_plots_can_read_the_colours_and_hear_when_they_change(open_page):
    page = open_page("overview")
    read = "getComputedStyle(document.documentElement).getPropertyValue('--win')"
    light = page.evaluate(read)
    assert light.startswith("rgb(")
    page.evaluate("document.addEventListener('themechange', () => { window.heard = true; })")
    page.get_by_label("Colours").select_option("dark")
    assert page.evaluate("window.heard")
    assert page.evaluate(read) != light


def test_what_is_destroyed_has_to_be_named_first(open_page):
    page = open_page("parts")
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label("Type Vicuna 80 to confirm")
    field.fill("Vicuna 8")
    dialog.get_by_role("button", name="Delete the project").click()
    assert page.url.endswith("/gallery/parts")
    assert dialog.is_visible()
    field.fill("Vicuna 80")
    assert field.evaluate("field => field.form.checkValidity()")
    dialog.get_by_role("button", name="Cancel").click()
    assert dialog.is_hidden()


def test_times_are_shown_in_the_browsers_zone(open_page):
    page = open_page("parts", timezone_id="Asia/Tokyo", locale="en-GB")
    assert "21:30" in page.locator("time").first.inner_text()


def test_a_server_that_fails_is_said_and_said_no_longer_once_it_answers(open_page, complaints):
    page = open_page("run")
    intercept(page, "**/gallery/gone", lambda route: route.abort())
    send = "htmx.ajax('GET', 'gone', {target: '.live', swap: 'none'}).catch(() => {})"
    page.evaluate(send)
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "What was stored is safe." in alert.inner_text()
    assert any("ERR_FAILED" in complaint for complaint in complaints)
    complaints.clear()
    page.unroute("**/gallery/gone")
    page.evaluate("htmx.ajax('GET', 'run', {target: '.live', swap: 'none'})")
    alert.wait_for(state="detached")


def test_a_refused_form_comes_back_and_a_failed_one_leaves_the_page_as_it_was(
    open_page, complaints
):
    page = open_page("run")
    live = page.locator(".live")
    before = live.inner_text()
    send = "htmx.ajax('GET', 'form', {target: '.live', swap: 'innerHTML'})"
    intercept(page, "**/gallery/form", lambda route: route.fulfill(status=500, body="Traceback"))
    page.evaluate(send)
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert alert.inner_text().startswith("The server failed.")
    assert live.inner_text() == before
    page.unroute("**/gallery/form")
    intercept(
        page, "**/gallery/form", lambda route: route.fulfill(status=422, body="<p>Too large.</p>")
    )
    page.evaluate(send)
    live.get_by_text("Too large.").wait_for()
    assert alert.count() == 0
    complaints.clear()


def test_a_session_that_has_ended_is_said_and_no_login_form_lands_in_the_page(open_page):
    page = open_page("run")
    page.evaluate("htmx.ajax('GET', '../password/', {target: '.live', swap: 'innerHTML'})")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "Log in again" in alert.inner_text()
    assert page.locator("[type=password]").count() == 0
    assert page.get_by_text("312 of 480 samples").is_visible()


GUTTER = "innerWidth - document.documentElement.getBoundingClientRect().width"


@pytest.mark.parametrize(
    ("name", "button"), [("parts", "Delete…"), ("screen/three", "Help"), ("screen/three", "Flag")]
)
def test_a_dialog_stands_in_the_middle(open_page, name, button):
    page = open_page(name)
    page.get_by_role("button", name=button).click()
    box = page.get_by_role("dialog").bounding_box()
    # A page that scrolls keeps room for its scrollbar; the annotator's screen has the whole window.
    gutter = 0 if name.startswith("screen") else page.evaluate(GUTTER)
    assert 0 <= gutter <= 20
    assert box["x"] + box["width"] / 2 == pytest.approx((1440 - gutter) / 2, abs=2)
    assert box["y"] + box["height"] / 2 == pytest.approx(450, abs=2)


def test_a_serif_for_responses_is_a_personal_setting_that_lasts(open_page):
    page = open_page("screen/three")
    font = "getComputedStyle(document.querySelector('#left .response')).fontFamily"
    before = page.evaluate(font)
    page.get_by_role("button", name="Help").click()
    page.get_by_label("Font of the responses").select_option("serif")
    after = page.evaluate(font)
    assert after != before
    page.reload()
    assert page.evaluate(font) == after


def boxes(page):
    """Where everything stands that must not move."""
    return page.evaluate(
        "[...document.querySelectorAll('.question, .sides, .side-body, .choices-bar, .option,"
        " .closing button')].map(e => { const b = e.getBoundingClientRect();"
        " return [b.x, b.y, b.width, b.height]; })"
    )


@pytest.mark.parametrize("scale", [pytest.param("three", marks=pytest.mark.long), "five"])
@pytest.mark.parametrize("size", SIZES)
def test_nothing_moves_on_the_annotators_screen(open_page, scale, size):
    page = open_page(f"screen/{scale}", **SIZES[size])
    before = boxes(page)
    for option in page.get_by_role("radio").all():
        option.check(force=True)
    page.evaluate(
        "document.getElementById('said').textContent = 'Choose which response is better first.';"
        "document.querySelectorAll('.side .response').forEach(r =>"
        " r.insertAdjacentHTML('beforeend', '<p>more </p>'.repeat(300)))"
    )
    page.get_by_label("Comment").fill("A long comment. " * 40)
    assert boxes(page) == before


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", ["three", "five"])
def test_every_choice_and_submit_are_in_view_without_scrolling(open_page, scale, size):
    page = open_page(f"screen/{scale}", **SIZES[size])
    height = page.viewport_size["height"]
    for control in [*page.locator(".option").all(), page.get_by_role("button", name="Submit")]:
        box = control.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= height


def test_a_swipe_turns_from_the_left_response_to_the_right_one(open_page):
    page = open_page("screen/three", **PHONE)
    right = page.locator("#right")
    assert right.bounding_box()["x"] == 390
    page.locator(".sides").evaluate("strip => strip.scrollTo({left: 390, behavior: 'instant'})")
    assert right.bounding_box()["x"] == 0
    assert page.locator(".choices-bar").bounding_box()["x"] == 0


MATH = "<main><div class='response'><math><menclose notation='{}'>"
MATH += "<mspace width='80px' height='48px'></mspace></menclose></math></div></main>"


@pytest.mark.parametrize(
    ("notation", "crossed"),
    [
        ("updiagonalstrike", {"lower left", "upper right"}),
        ("downdiagonalstrike", {"upper left", "lower right"}),
        (
            "updiagonalstrike downdiagonalstrike",
            {"lower left", "upper right", "upper left", "lower right"},
        ),
        ("box", set()),
    ],
)
def test_what_is_cancelled_is_crossed_out_from_corner_to_corner(open_page, notation, crossed):
    page = open_page("parts")
    page.evaluate("html => { document.body.innerHTML = html }", MATH.format(notation))
    box = page.locator("menclose").bounding_box()
    size = {"width": 4, "height": 4}

    def spot(across, down):
        x, y = box["x"] + box["width"] * across, box["y"] + box["height"] * down
        return page.screenshot(clip={"x": round(x) - 2, "y": round(y) - 2, **size})

    blank = page.screenshot(clip={"x": 5, "y": 5, **size})
    near, far = 0.25, 0.75
    corners = {
        "upper left": spot(near, near),
        "upper right": spot(far, near),
        "lower left": spot(near, far),
        "lower right": spot(far, far),
    }
    assert {name for name, seen in corners.items() if seen != blank} == crossed
