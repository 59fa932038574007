"""A browser, and a server that shows the gallery of page parts beside the real pages."""

from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture
def gallery(settings, live_server):
    """The address of the server that has the gallery's pages."""
    settings.ROOT_URLCONF = "tests.ui.gallery.pages"
    settings.MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
    templates = dict(settings.TEMPLATES[0])
    templates["DIRS"] = [*templates["DIRS"], Path(__file__).parent / "gallery" / "templates"]
    settings.TEMPLATES = [templates]
    return live_server.url + "/gallery/"


@pytest.fixture
def complaints():
    """What the browser's console said; must be empty at the end."""
    return []


@pytest.fixture
def open_page(browser, gallery, complaints):
    """Opens a page of the gallery; at the end, nothing may have run or been refused on it."""
    contexts = []

    def open_page(name, width=1440, height=900, scheme="light", **options):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(gallery + name)
        return page

    yield open_page
    fired = [page.evaluate("window.fired") for context in contexts for page in context.pages]
    for context in contexts:
        context.close()
    assert not any(fired), "a hostile text ran"
    assert complaints == []
