"""A run's page while a worker judges: it moves by itself, and turns into the judge's page."""

from contextlib import contextmanager
from decimal import Decimal
from threading import Event

import pytest
from playwright.sync_api import expect

from judging.runs.engine.working import work_on
from judging.runs.models import Run
from tests.browser.conftest import PHONE
from tests.factories import make_examples
from tests.judging.runs.judging import (
    ENDPOINT,
    in_thread,
    loopback,
    started,
    stop_of_a_pump,
)
from tests.loopback import fixed_judge

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

DESK = {"width": 1440, "height": 900}
HOSTILE = "<img src=x onerror='window.__canary = 1'><script>window.__canary = 1</script> مرحبا"
SCORES = "The score of Assistant 1: 8\nThe score of Assistant 2: 6"


@pytest.fixture
def seen():
    seen = Event()
    yield seen
    seen.set()


@pytest.fixture
def run(project, settings, seen):
    """Four examples in both orders, one call after the other, the last two once `seen` is set."""
    make_examples(project, 4, question=HOSTILE)
    judge = fixed_judge(f"Evaluation evidence: {HOSTILE}\n{SCORES}")
    with loopback(settings, judge=judge, hold=lambda n: n >= 6 and not seen.is_set()):
        yield started(
            project,
            model="loopback-judge",
            name=HOSTILE,
            concurrency=1,
            price=(Decimal(10), Decimal(30)),
        )


@contextmanager
def set_at_last(seen):
    """What waits for it goes on, whatever failed."""
    try:
        yield
    finally:
        seen.set()


@pytest.mark.parametrize(
    "screen", [pytest.param({}, marks=pytest.mark.long), PHONE], ids=["desk", "phone"]
)
def test_the_page_follows_the_run_to_its_end(log_in, researcher, project, run, seen, screen):
    page = log_in(researcher, f"/p/{project.slug}/runs/1", **screen)
    expect(page.get_by_text("0 of 24 samples")).to_be_visible()
    expect(page.get_by_text("No worker is running.")).to_be_visible()
    with in_thread(work_on, run), set_at_last(seen):
        expect(page.locator("#progress blockquote").first).to_contain_text("<script>")
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
        seen.set()
        expect(
            page.get_by_role("heading", name="How often does the judge contradict itself?")
        ).to_be_visible(timeout=60_000)
    expect(page.get_by_role("link", name="Plan a review")).to_be_visible()
    expect(page.get_by_role("link", name="Resume…")).to_have_count(0)
    page.locator("#more > summary").click()
    expect(page.get_by_text("24 of 24 samples")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pausing_from_the_page_stops_and_resuming_is_offered(
    log_in, researcher, project, run, seen, monkeypatch
):
    stopped = stop_of_a_pump(monkeypatch)
    page = log_in(researcher, f"/p/{project.slug}/runs/1")
    with in_thread(work_on, run), set_at_last(seen):
        expect(page.locator("#progress blockquote").first).to_be_visible()
        page.get_by_role("button", name="Pause").click()
        assert stopped.wait(60)
        seen.set()
        expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=60_000)
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED


def test_the_start_form_says_what_it_will_take_as_it_is_filled_in(
    log_in, researcher, project, settings
):
    make_examples(project, 4)
    with loopback(settings) as server:
        page = log_in(researcher, f"/p/{project.slug}/runs/start")
        page.get_by_label("Endpoint").select_option(ENDPOINT)
        expect(page.get_by_text(f"{ENDPOINT} serves loopback-judge.")).to_be_visible()
        expect(page.locator("#estimate")).to_contain_text("8, on 4 examples")
        expect(page.locator("#estimate")).to_contain_text("unknown, because the price is unknown")
        page.get_by_label("Method").select_option("ec")
        expect(page.locator("#estimate")).to_contain_text("4, on 4 examples")
        page.get_by_text("Prices, pace, length and seed").click()
        page.get_by_label("Price of prompts").fill("10")
        page.get_by_label("Price of completions").fill("30")
        page.get_by_label("Budget, USD").fill("2")
        expect(page.locator("#estimate")).to_contain_text("about $")
        page.get_by_role("button", name="Start", exact=True).click()
        expect(page.get_by_role("heading", name="Run 1")).to_be_visible()
        assert server.requests == 0
    run = Run.objects.get()
    assert (run.method, run.k, run.budget_usd) == ("ec", 1, Decimal(2))


def test_the_start_form_cuts_no_choice_short_on_a_desk(log_in, researcher, project):
    make_examples(project, 2)
    page = log_in(researcher, f"/p/{project.slug}/runs/start", viewport=DESK)
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    # A select as wide as its longest choice has room for each.
    cut = page.evaluate(
        """() => [...document.querySelectorAll('#start select')].filter(select => {
            const given = select.offsetWidth;
            select.style.width = 'max-content';
            return select.offsetWidth > given;
        }).map(select => select.name)"""
    )
    assert cut == []
