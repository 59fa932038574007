"""A browser, and a server that shows the gallery of page parts beside the real pages."""

from pathlib import Path

import pytest

from tests.browser.opening import Pages, launched


@pytest.fixture(scope="package")
def browser(chromium):
    with launched(chromium) as browser:
        yield browser


@pytest.fixture(scope="package")
def pages(browser, live_server):
    return Pages(browser, live_server.url)


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
def open_page(pages, gallery, complaints):
    """Opens a page of the gallery; at the end, nothing may have run or been refused on it."""
    taken = []

    def note(said):
        complaints.append(getattr(said, "text", str(said)))

    def open_page(name, width=1440, height=900, scheme="light", **options):
        viewport = {"width": width, "height": height}
        page = pages.take({"viewport": viewport, "color_scheme": scheme, **options})
        taken.append(page)
        for event in ("console", "pageerror"):
            page.on(event, note)
        page.goto(gallery + name)
        return page

    yield open_page
    fired = [page.evaluate("window.fired") for page in taken]
    for page in taken:
        for event in ("console", "pageerror"):
            page.remove_listener(event, note)
        pages.give_back(page)
    assert not any(fired), "a hostile text ran"
    assert complaints == []
