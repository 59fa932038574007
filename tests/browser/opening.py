"""A browser and its pages, which later tests use again.

Opening a window costs Chromium as much as loading five pages in it. So a page whose test is over is
emptied and kept for the next test that asks for the same options.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from playwright.sync_api import Browser, Page, Route, sync_playwright

# A window that waits costs memory.
MOST_KEPT = 6
# Served without a login and without a script, in the origin of the other pages.
EMPTY = "/static/img/icon.svg"
# What a page asks for to see whether its requests are intercepted; the site has no such address.
PROBE = "/is-it-intercepted"
# Playwright's own clock can be put into a page, and not taken out again.
IS_AS_NEW = "String(setTimeout).includes('[native code]')"
WINDOW = {"width": 1280, "height": 720}


@contextmanager
def launched(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        arguments = ["--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


class Pages:
    """The pages of one browser: each test takes what it needs, and gives it back."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.browser, self.url = browser, url
        self.kept: list[tuple[dict[str, Any], Page]] = []
        self.kinds: dict[Page, dict[str, Any]] = {}

    def take(self, options: dict[str, Any]) -> Page:
        """A page without cookies and stored values, in a context with these options."""
        fixed = dict(options)
        changing = {name: fixed.pop(name, None) for name in ("viewport", "color_scheme")}
        allowed = fixed.pop("permissions", [])
        page = self._kept_or_new(fixed)
        if page.viewport_size != (size := changing["viewport"] or WINDOW):
            page.set_viewport_size(size)
        scheme = changing["color_scheme"] or "light"
        page.emulate_media(color_scheme=scheme, reduced_motion="no-preference")
        page.context.grant_permissions(allowed)
        return page

    def _kept_or_new(self, fixed: dict[str, Any]) -> Page:
        for place, (kind, page) in enumerate(self.kept):
            if kind == fixed:
                del self.kept[place]
                return page
        context = self.browser.new_context(base_url=self.url, **fixed)
        context.set_default_timeout(60_000)
        page = context.new_page()
        self.kinds[page] = fixed
        return page

    def give_back(self, page: Page) -> None:
        """Keep the page for another test, or close it where it can't be made as good as new."""
        context, kind = page.context, self.kinds[page]
        context.unroute_all(behavior="ignoreErrors")
        context.set_offline(False)
        for other in context.pages:
            if other != page:
                other.close()
        if not page.is_closed() and self._is_emptied(page):
            self.kept.append((kind, page))
            page = self.kept.pop(0)[1] if len(self.kept) > MOST_KEPT else None
        if page is not None:
            del self.kinds[page]
            page.context.close()

    def _is_emptied(self, page: Page) -> bool:
        page.unroute_all(behavior="ignoreErrors")
        page.goto(self.url + EMPTY)
        page.evaluate("localStorage.clear()")
        page.context.clear_cookies()
        page.context.clear_permissions()
        return bool(page.evaluate(IS_AS_NEW))


def intercept(page: Page, pattern: str, handler: Callable[[Route], object], **options: int) -> None:
    """Hand the page's requests to a handler, from now on.

    Chromium answers `route` before its pages hear of it, and a request made at once would pass.
    """
    page.route(pattern, handler, **options)
    probe = f"**{PROBE}"
    page.route(probe, lambda route: route.fulfill(status=200))
    while not page.evaluate(f"fetch('{PROBE}').then((answer) => answer.ok)"):
        pass
    page.unroute(probe)


def in_both_schemes(page: Page) -> Iterator[str]:
    """Show the page in light and in dark colours, without the moment of the change."""
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        yield scheme
