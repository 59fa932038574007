"""Draws the pictures of the docs from a running demo: `make demo`, then `make screenshots`."""

import os
import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
ADDRESS = os.environ.get("FAIRJUDGE_URL", "http://127.0.0.1:8000").rstrip("/")
PAGES = {
    "overview": "/p/demo-study/",
    "run": "/p/demo-live/runs/1",
    "plan": "/p/demo-study/plan",
    "results": "/p/demo-study/results/verdict",
}


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Chromium is needed to draw the pictures.")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--disable-background-networking"]
        )
        try:
            owner(browser.new_page(viewport={"width": 1280, "height": 800}))
            annotator(browser.new_page(viewport={"width": 1280, "height": 800}))
        finally:
            browser.close()


def owner(page: Page) -> None:
    enter(page, "owner")
    for name, path in PAGES.items():
        page.goto(ADDRESS + path)
        look = page.get_by_role("button", name=re.compile("^Show me"))
        if look.count():
            look.click()
        page.wait_for_timeout(1000)
        page.screenshot(path=IMAGES / f"{name}.png")


def annotator(page: Page) -> None:
    enter(page, "annotator")
    work = page.locator("a.button.primary")
    if work.count():
        work.first.click()
        page.wait_for_timeout(1000)
        # Guidelines open by themselves before the first pair.
        page.keyboard.press("Escape")
        page.wait_for_timeout(300)
        page.screenshot(path=IMAGES / "annotate.png")


def enter(page: Page, role: str) -> None:
    page.goto(f"{ADDRESS}/login/")
    page.click(f"button[value={role}]")


if __name__ == "__main__":
    main()
