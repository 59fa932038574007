"""The planner in a browser: it answers while you type, and loses nothing."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from annotation.models import Round
from annotation.votes.imports import import_votes
from tests.browser.conftest import PHONE
from tests.browser.opening import in_both_schemes
from tests.factories import make_examples, make_run, make_verdict

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
LONG = "<img src=x onerror='window.__canary=1'> مرحبا " + "Unbreakable" * 10


@pytest.fixture
def judged(project, tmp_path):
    """80 examples; the judge says win, and the first 16 by rank are wrong."""
    run = make_run(project, name=LONG)
    for example in make_examples(project, 80):
        make_verdict(run, example, (80 - example.number) / 100, rank=example.number + 1)
    path = tmp_path / "votes.csv"
    votes = "".join(f"e{n},kim,{'lose' if n < 16 else 'win'}\n" for n in range(80))
    path.write_text("external_id,annotator,label\n" + votes)
    import_votes(project, None, path)
    return run


def test_mistakes_are_marked_while_typing_and_a_reload_keeps_them(log_in, owner, judged):
    page = log_in(owner, "/p/vicuna/plan")
    expect(page.get_by_role("heading", name="16 by rank + 29 audit = 45 of 80")).to_be_visible()
    page.get_by_label("Votes per example").fill("0")
    page.get_by_label("Size of the audit").fill("70")
    expect(page.locator("#errors-votes li")).to_be_visible()
    expect(page.locator("#errors-audit li")).to_be_visible()
    expect(page.locator("#id_votes")).to_have_attribute("aria-invalid", "true")
    # What was typed stays, with the caret in its field.
    expect(page.get_by_label("Size of the audit")).to_be_focused()
    page.reload()
    expect(page.get_by_label("Votes per example")).to_have_value("0")
    expect(page.get_by_label("Size of the audit")).to_have_value("70")
    expect(page.locator("#errors-votes li")).to_be_visible()
    page.get_by_label("Votes per example").fill("1")
    expect(page.locator("#errors-votes li")).to_have_count(0)
    expect(page.locator("#id_votes")).not_to_have_attribute("aria-invalid", "true")


def test_the_recommendation_fills_the_form(log_in, owner, judged):
    page = log_in(owner, "/p/vicuna/plan")
    page.get_by_label("Share of all examples (β), percent", exact=True).fill("50")
    page.get_by_label("Size of the audit").fill("10")
    # Until the answer to the last entry is there, the button may be replaced under the pointer.
    expect(page.get_by_role("heading", name="40 by rank + 10 audit")).to_be_visible()
    page.get_by_role("button", name="Use this").click()
    expect(page.get_by_role("heading", name="16 by rank + 10 audit")).to_be_visible()
    page.get_by_text("Label all 80 instead").or_(page.get_by_label("Everything")).first.click()
    expect(page.get_by_role("heading", name="All 80 examples")).to_be_visible()


@pytest.mark.parametrize(
    "options", [pytest.param({}, marks=pytest.mark.long), PHONE], ids=["desk", "phone"]
)
def test_the_button_is_in_view_and_the_page_fits(log_in, owner, judged, options):
    page = log_in(owner, "/p/vicuna/plan", **options)
    button = page.get_by_role("button", name="Open the round")
    expect(button).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for _ in in_both_schemes(page):
        found = Axe().run(page).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    button.click()
    expect(page.get_by_text("Round 2 is open.")).to_be_visible()
    assert Round.objects.get(number=2).parameters["m"] == 16


def test_without_script_the_plan_is_previewed_and_opened(log_in, owner, judged):
    page = log_in(owner, "/p/vicuna/plan", java_script_enabled=False)
    page.get_by_label("Share of all examples (β), percent", exact=True).fill("50")
    page.get_by_role("button", name="Show what this costs").click()
    expect(page.get_by_role("heading", name="40 by rank + 29 audit")).to_be_visible()
    assert "csrf" not in page.url
    page.get_by_role("button", name="Open the round").click()
    expect(page.get_by_text("Round 2 is open.")).to_be_visible()


@pytest.mark.parametrize(
    "options", [pytest.param({}, marks=pytest.mark.long), PHONE], ids=["desk", "phone"]
)
def test_sizes_go_into_a_plan_that_is_registered_and_compared(log_in, owner, judged, options):
    page = log_in(owner, "/p/vicuna/sizes", **options)
    page.get_by_role("link", name="Put this into a preregistration").click()
    page.get_by_role("textbox", name="Goal").fill(LONG)
    page.get_by_label("Hypotheses").fill(f"{LONG}\nThe first one wins.")
    page.get_by_label("Share to review, %").fill("20")
    page.get_by_role("button", name="Register the plan").click()
    expect(page.get_by_role("heading", name="The plan is registered.")).to_be_visible()
    page.get_by_text("Amend the plan").click()
    expect(page.get_by_label("Share to review, %")).to_have_value("20")
    for path in ("/p/vicuna/preregistration", "/p/vicuna/results/trust"):
        page.goto(path)
        page.locator("details summary").evaluate_all(
            "all => all.forEach(s => s.parentNode.open = true)"
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for _ in in_both_schemes(page):
            found = Axe().run(page).response["violations"]
            assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    # Each word of a part's name stays whole.
    part = page.get_by_role("rowheader", name="Protocol", exact=True)
    assert part.evaluate("cell => cell.getClientRects()[0].width") > 60
