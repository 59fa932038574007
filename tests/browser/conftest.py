"""A browser on the real site, each page watched for what must never happen on it."""

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import address_of
from judging.projects.models import Membership, Role
from tests.browser.opening import Pages, launched
from tests.factories import make_examples

# The machine may be busy with other tests.
expect.set_options(timeout=60_000)
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="package")
def browser(chromium):
    with launched(chromium) as browser:
        yield browser


@pytest.fixture(scope="package")
def pages(browser, live_server):
    return Pages(browser, live_server.url)


@pytest.fixture
def log_in(pages, live_server):
    """Opens a page as somebody who is logged in; at the end nothing hostile ran."""
    taken = []

    def log_in(user, path="/annotate/", is_blind=False, **options):
        if not is_blind:
            managers = Membership.objects.filter(user=user).exclude(role=Role.ANNOTATOR)
            managers.update(unblinded_at=timezone.now())
        client = Client()
        client.force_login(user)
        session = {"name": settings.SESSION_COOKIE_NAME, "value": client.session.session_key}
        page = pages.take(options)
        taken.append(page)
        page.context.add_cookies([session | {"url": live_server.url}])
        page.goto(path)
        return page

    yield log_in
    opened = [page for first in taken for page in first.context.pages]
    for page in opened:
        page.wait_for_load_state()
    fired = [page.evaluate("window.__canary") for page in opened]
    for page in taken:
        pages.give_back(page)
    assert not any(fired), "a hostile text ran"


@pytest.fixture
def start(project, annotator, log_in):
    """Opens a round of n pairs in the browser, at its first pair."""

    def start(n=3, options=None, **fields):
        make_examples(project, n, **fields)
        round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
        page = log_in(annotator, address_of(round_), **(options or {}))
        expect(page.locator("#item")).to_be_visible()
        page.wait_for_load_state("networkidle")
        return page

    return start
