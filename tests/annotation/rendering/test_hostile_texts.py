"""Nothing that a text contains can run, load, link, or pass for a part of the page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import sync_playwright

from annotation.rendering import differences, render
from annotation.rendering.gate import BLOCKS, MATHEMATICS, TEXT, sanitise
from tests.annotation.rendering.reading import CORPUS, Reading, assert_harmless

corpus = pytest.mark.parametrize("vector", CORPUS, ids=lambda vector: vector["name"])
HOWS = ("markdown", "plain")
pieces = st.lists(
    st.one_of(
        st.sampled_from([vector["text"] for vector in CORPUS]),
        st.sampled_from(
            """< > " ' & ` ``` ~~~ $ $$ \\( \\) \\[ \\] \\text{ } [ ]( ) ![ > - | |-| # * ** _ ~~
            &lt; &#60; javascript: onerror= style= <script> </script> <img <svg <math""".split()
        ),
        st.sampled_from(["\n", "\n\n", "    ", " ", "\x00", "\u202e", "\u2066", "\u2069"]),
        st.text(max_size=8),
    ),
    max_size=12,
).map("".join)


def test_the_corpus_has_many_vectors_that_set_the_canary():
    assert len(CORPUS) >= 100
    assert sum("window.__canary" in vector["text"] for vector in CORPUS) >= 70


@corpus
@pytest.mark.parametrize("how", HOWS)
def test_a_hostile_text_is_harmless(vector, how):
    assert_harmless(render(vector["text"], how))


@corpus
def test_a_hostile_text_is_harmless_as_a_difference(vector):
    text = vector["text"]
    for html in differences(text, f"a{text[::-1]} {text}"):
        assert_harmless(html)


@corpus
def test_the_gate_alone_makes_hostile_html_harmless(vector):
    """As if every step before it had failed to escape anything."""
    assert_harmless(sanitise(vector["text"]))


@corpus
def test_plain_text_shows_every_character(vector):
    shown = Reading(render(vector["text"], "plain")).text
    assert shown.rstrip("\u202c") == vector["text"].replace("\x00", "\ufffd").rstrip("\u202c")


@pytest.mark.system
@given(pieces)
def test_no_mixture_becomes_harmful(text):
    for how in HOWS:
        assert_harmless(render(text, how))


@given(pieces, pieces)
def test_no_difference_becomes_harmful(left, right):
    for html in differences(left, right):
        assert_harmless(html)


@pytest.mark.parametrize(
    "html",
    [
        '<p id="content">x</p>',
        '<div class="notice error">x</div>',
        '<span class="button primary">x</span>',
        '<p dir="auto" style="color:red" hx-get="/">x</p>',
        '<math><mspace width="99999px"></mspace></math>',
        '<math><mi mathvariant="expression(1)">x</mi></math>',
        '<bdi class="target"><a href="https://a.example">x</a></bdi>',
    ],
)
def test_the_gate_drops_what_the_page_uses_itself(html):
    clean = sanitise(html)
    assert_harmless(clean)
    for word in ("id=", "notice", "button", "style", "hx-", "99999", "expression", "href"):
        assert word not in clean


@pytest.mark.browser
def test_the_corpus_stays_still_in_a_browser(chromium):
    """Without a content security policy to help, and with every element that Chromium builds."""
    html = "\n".join(
        str(part)
        for vector in CORPUS
        for part in (
            *(render(vector["text"], how) for how in HOWS),
            sanitise(vector["text"]),
            *differences(vector["text"], "x"),
        )
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        page = browser.new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.set_content(f"<!doctype html><main>{html}</main>", wait_until="load")
        for element in page.locator("main .link, main .image, main .target").all():
            element.dispatch_event("click")
        tags = page.evaluate("[...document.querySelectorAll('main *')].map(e => e.localName)")
        assert page.evaluate("typeof window.__canary") == "undefined"
        assert page.evaluate("document.body.children.length") == 1
        browser.close()
    assert requests == []
    assert set(tags) <= BLOCKS | TEXT | MATHEMATICS
