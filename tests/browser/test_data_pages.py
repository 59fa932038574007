"""The data browser and the docs in a real browser: filters on change, arrow keys, axe, any text."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from annotation.rounds.opening import RoundSettings, open_round
from judging.dataset.models import Example
from tests.browser.conftest import PHONE
from tests.browser.opening import in_both_schemes
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote
from tests.judging.runs.verdicts.test_judge_figures import record

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HOSTILE = "<img src=x onerror='window.fired = 1'>"
LONG = "x" * 200
ODD = {
    "question": "سؤال طويل جدا " * 60,
    "response_1": "日本語の回答です。" * 200,
    "response_2": HOSTILE + "w" * 3000,
    "model_1": "m" * 200,
    "model_2": HOSTILE,
    "category": "‮category",
}


@pytest.fixture
def reviewed(project):
    """Four examples, one of them with odd texts; people disagree with the judge about the first."""
    examples = make_examples(project, 3)
    examples += make_examples(project, 1, **ODD)
    Example.objects.filter(pk=examples[-1].pk).update(external_id=LONG)
    run = make_run(project)
    for example in examples:
        make_verdict(run, example, example.number / 10, rank=4 - example.number)
        for part in ("original", "swapped"):
            evidence = f"Assistant 1 is better. {HOSTILE}"
            record(run, example, part, 0, outcome="win", evidence=evidence)
    items = open_round(project, None, run, RoundSettings(everything=True, votes=1, seed=1)).items
    make_vote(items.get(example=examples[0]), make_annotator(project), "lose")
    return run


@pytest.mark.parametrize(
    "screen", [pytest.param({}, marks=pytest.mark.long), PHONE], ids=["desk", "phone"]
)
def test_pages_with_odd_texts_are_accessible_and_fit(log_in, researcher, project, reviewed, screen):
    page = log_in(researcher, f"/p/{project.slug}/examples?run=1", **screen)
    odd = project.examples.get(external_id=LONG).pk
    paths = (
        f"/p/{project.slug}/examples?run=1",
        f"/p/{project.slug}/examples/{odd}?run=1",
        "/docs/",
    )
    base = page.url.split("/p/")[0]
    for path in paths:
        page.goto(base + path)
        for scheme in in_both_schemes(page):
            found = Axe().run(page).response["violations"]
            assert [(v["id"], v["nodes"][0]["target"]) for v in found] == [], (path, scheme)
        width, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= window, path
        assert page.evaluate("window.fired") is None


def test_a_filter_applies_on_change_and_its_address_leads_back(
    log_in, researcher, project, reviewed
):
    page = log_in(researcher, f"/p/{project.slug}/examples?run=1")
    rows = page.locator("#rows tbody tr")
    expect(rows).to_have_count(4)
    page.select_option("#filter-people", "differs")
    expect(rows).to_have_count(1)
    page.reload()
    expect(rows).to_have_count(1)
    page.select_option("#filter-people", "")
    page.locator("#filter-q").press_sequentially("question 2")
    expect(rows).to_have_count(1)
    expect(page.locator("#filter-q")).to_be_focused()
    page.select_option("#filter-run", "")
    expect(page.locator("#filter-people")).to_have_count(0)
    expect(rows).to_have_count(1)


def test_the_arrow_keys_lead_to_the_neighbours_within_the_filter(
    log_in, researcher, project, reviewed
):
    first, *_ = project.examples.order_by("number")
    page = log_in(researcher, f"/p/{project.slug}/examples/{first.pk}?run=1")
    page.keyboard.press("ArrowRight")
    expect(page.locator("h1")).to_contain_text("e1")
    # Its script has come too, and hears the next key.
    page.wait_for_load_state()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("h1")).to_contain_text("e0")
    page.wait_for_load_state()
    page.locator("#run").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("h1")).to_contain_text("e0")
