"""An annotator's hands and eyes on the screen of a pair."""

import time

from playwright.sync_api import expect

from annotation.models import Vote

LONG = "A sentence that is repeated until it fills more than one window.\n\n" * 60


def token_of(page):
    return page.locator("#item").get_attribute("data-token")


def settled(page):
    """A pair answers keys only after a moment, so that none is meant for the one before."""
    page.evaluate("new Promise(done => setTimeout(done, 320))")


def at_rest(page):
    """Until nothing has scrolled for some pictures in a row."""
    page.evaluate(
        """async () => {
            const places = () => JSON.stringify([scrollY, ...[...document.querySelectorAll("*")]
                .filter((part) => part.scrollTop || part.scrollLeft)
                .map((part) => [part.scrollTop, part.scrollLeft])]);
            const drawn = () => new Promise((done) => requestAnimationFrame(done));
            let before, still = 0;
            while (still < 20) {
                await drawn();
                const now = places();
                still = now === before ? still + 1 : 0;
                before = now;
            }
        }"""
    )


def waited_for(page, condition):
    """Until something that the browser or a handler of its requests is about to do."""
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, f"{page.url} says: {said(page).all_inner_texts()}"
        page.wait_for_timeout(20)


def fetched(route):
    """The server's answer to a request that the browser made. A kept connection may have ended."""
    return route.fetch(max_retries=5)


def stop_the_clock(page):
    """From here on the page's time goes on by `page.clock.run_for` alone."""
    page.clock.install()
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 60"))
    page.reload(wait_until="networkidle")


def vote(page, *keys):
    """Answer by keyboard until the vote is stored and another pair or page is there."""
    before = token_of(page)
    settled(page)
    with page.expect_response(lambda answer: answer.ok and answer.url.endswith(f"{before}/vote")):
        for key in keys:
            page.keyboard.press(key)
    expect(page.locator(f"#item[data-token='{before}']")).to_have_count(0)
    page.wait_for_load_state("networkidle")
    return before


def answer_of(token):
    return Vote.objects.get(item__drafts__token=token).answer


def read_guidelines(page):
    """They open by themselves over the first pair, and are read when they are closed."""
    with page.expect_response("**/read"):
        page.get_by_role("dialog", name="Guidelines").get_by_role("button", name="Start").click()


def said(page):
    return page.locator("#said")
