"""A browser on the real site, each page watched for what must never happen on it."""

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from annotation.people.annotators import annotator_of
from annotation.queue.queue import claim_next
from annotation.rounds.changes import close
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import address_of
from annotation.votes.voting import record_vote
from judging.dataset.models import Example
from judging.projects.models import Membership, Project, Role
from tests.browser.opening import Pages, launched
from tests.factories import make_examples
from tests.test_access_walk import arguments_of

# The machine may be busy with other tests.
expect.set_options(timeout=60_000)
LONG_WORD = "Pneumonoultramicroscopicsilicovolcanoconiosis" * 3
HOSTILE = {
    "question": f"{LONG_WORD} مرحبا <b>bold</b> 世界 \u202eevil",
    "response_1": f"# {LONG_WORD}\n\n|a|b|\n|-|-|\n|{LONG_WORD}|x|\n\n```\n{LONG_WORD * 4}\n```",
    "response_2": "",
    "category": LONG_WORD[:190],
    "model_1": "اسم-النموذج-الطويل-جدا" * 6,
    "model_2": LONG_WORD[:190],
}
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


@pytest.fixture
def arguments(request, project, annotator, settings, tmp_path):
    """One of everything, in a project in this state: the arguments of each address."""
    settings.MEDIA_ROOT = tmp_path
    found = arguments_of(project, annotator, tmp_path)
    if request.param == "open":
        Example.objects.filter(project=project).update(**HOSTILE)
        Project.objects.filter(pk=project.pk).update(
            name=LONG_WORD[:190], cant_judge=True, both_bad=True, scale="five"
        )
    if request.param == "finished":
        round_ = project.rounds.get()
        person = annotator_of(project, annotator)
        while not hasattr(draft := claim_next(round_, person), "reason"):
            record_vote(draft, {"overall": "left"}, "", 5.0)
        close(round_, None)
    return found
