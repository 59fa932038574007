"""A browser on the real site, each page watched for what must never happen on it."""

import pytest
from django.utils import timezone
from playwright.sync_api import expect, sync_playwright

from annotation.rounds.opening import RoundSettings, open_round
from judging.projects.models import Membership, Role
from tests.factories import make_examples

# The machine may be busy with other tests.
expect.set_options(timeout=20_000)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture
def log_in(browser, live_server):
    """Opens a page as somebody who came in by the login form; at the end nothing hostile ran."""
    contexts = []

    def log_in(user, path="/annotate/", is_blind=False, **options):
        if not is_blind:
            managers = Membership.objects.filter(user=user).exclude(role=Role.ANNOTATOR)
            managers.update(unblinded_at=timezone.now())
        context = browser.new_context(base_url=live_server.url, **options)
        context.set_default_timeout(30_000)
        contexts.append(context)
        page = context.new_page()
        page.goto(f"/login/?next={path}")
        page.get_by_label("Username").fill(user.username)
        page.get_by_label("Password").fill("pw")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_load_state()
        return page

    yield log_in
    pages = [page for context in contexts for page in context.pages]
    for page in pages:
        page.wait_for_load_state()
    fired = [page.evaluate("window.__canary") for page in pages]
    for context in contexts:
        context.close()
    assert not any(fired), "a hostile text ran"


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
