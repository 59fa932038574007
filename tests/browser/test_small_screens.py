"""Every page of a project on a phone and at 200 %: nothing sticks out, nothing heavy comes, and who
can't see it or has no mouse can use it.
"""

import gzip
from decimal import Decimal

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from annotation.models import Item
from annotation.rounds.opening import RoundSettings, open_round
from tests.annotation.results.learning import biased_run
from tests.browser import accessible
from tests.browser.conftest import PHONE
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LONG = "Donaudampfschifffahrtsgesellschaftskapitänsmütze" * 3
CHAPTERS = ("verdict", "trust", "judge", "review", "people", "models", "export")
# A window of 1440 pixels that is zoomed to 200 % is laid out as one of 720.
ZOOMED = {"width": 720, "height": 450}
HEAVIEST = 100_000


@pytest.fixture
def judged(project):
    """Long names without a space, from right to left, and in Chinese."""
    project.name = LONG
    run = make_run(project, name=LONG[:120])
    names = {"model_1": LONG[:100], "model_2": "نموذج-٢", "category": "数学与逻辑推理" * 8}
    for example in make_examples(project, 24, **names):
        make_verdict(run, example, example.number / 24, rank=24 - example.number)
    project.examples.filter(number=0).update(external_id="e" * 180, category="short")
    project.primary_run = run
    project.save()
    open_round(project, None, run, RoundSettings(beta=Decimal(50), audit=12, votes=2, seed=1))
    people = [make_annotator(project, "a" * 120), make_annotator(project, "李雷")]
    for item in Item.objects.select_related("example", "round__protocol"):
        for person in people:
            make_vote(item, person, "lose" if item.example.number % 3 else "win")
    return run


def addresses(project):
    slug = project.slug
    names = "project examples imports plan rounds runs people settings trail"
    yield "/"
    yield from (reverse(name, args=[slug]) for name in names.split())
    yield from (reverse("results_page", args=[slug, name]) for name in CHAPTERS)
    yield from (reverse(name, args=[slug, 1]) for name in ("run", "round", "adjudication"))
    yield reverse("example", args=[slug, project.examples.first().pk]) + "?run=1"


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.long)])
def test_no_page_scrolls_sideways_or_keeps_anybody_out(log_in, owner, project, judged, every):
    page = log_in(owner, "/", **PHONE)
    page.emulate_media(reduced_motion="reduce")
    too_wide, faults = {}, []
    for address in list(addresses(project))[::-every]:
        answer = page.goto(address)
        assert answer.status == 200, address
        found = accessible.faults(page, [PHONE["viewport"]])
        faults += [f"{address}: {kind}: {detail}" for kind, detail in found]
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        for screen in (ZOOMED, PHONE["viewport"]):
            page.set_viewport_size(screen)
            over = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            if over > 0:
                too_wide[address, screen["width"]] = over
    assert too_wide == {}
    assert not faults, "\n".join(faults)


def test_a_long_id_stays_in_its_own_cell_of_the_data_browser(log_in, owner, project, judged):
    page = log_in(owner, f"/p/{project.slug}/examples?run=1", **PHONE)
    expect(page.locator("#rows td.name").first).to_be_visible()
    over = page.evaluate(
        """() => [...document.querySelectorAll("#rows td.name")]
            .filter((cell) => cell.scrollWidth > cell.clientWidth)
            .map((cell) => cell.innerText.slice(0, 20))"""
    )
    assert over == []


def size_of(page, address):
    """In bytes as the site sends it: its own files are compressed, and pages are not.

    Asked for once more, since a busy browser forgets the bodies of what it has shown.
    """
    body = page.request.get(address, max_retries=5).body()
    return len(gzip.compress(body)) if "/static/" in address else len(body)


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
def test_the_first_paint_of_a_results_page_is_light_and_charts_come_when_in_view(
    log_in, owner, project, judged, every
):
    page = log_in(owner, f"/p/{project.slug}/results/export")
    # Without a cache, as somebody comes who was never here.
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    arrived = []
    page.on("response", lambda response: arrived.append(response.url))
    heavy = {}
    # Too low a window for any chart, even for those that are drawn a little ahead.
    page.set_viewport_size({"width": 390, "height": 60})
    for name in CHAPTERS[::every]:
        arrived.clear()
        page.goto(f"/p/{project.slug}/results/{name}", wait_until="networkidle")
        size = sum(size_of(page, address) for address in list(arrived))
        if size > HEAVIEST or any("vega" in address for address in arrived):
            heavy[name] = size
    assert heavy == {}
    page.set_viewport_size({"width": 1200, "height": 900})
    page.goto(f"/p/{project.slug}/results/verdict")
    expect(page.locator("#plot-win-rate svg")).to_be_visible()


def test_an_old_link_opens_what_it_means(log_in, owner, project, judged):
    page = log_in(owner, f"/p/{project.slug}/results/export")
    page.goto(f"/p/{project.slug}/results?run=1#length")
    page.wait_for_url("**/results/judge?run=1#length")
    expect(
        page.get_by_role("heading", name="Does the judge prefer longer responses?")
    ).to_be_visible()


def test_the_sentence_to_cite_is_copied_by_its_button(log_in, owner, project, judged):
    page = log_in(owner, f"/p/{project.slug}/results/verdict")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_text("Cite", exact=True).click()
    page.get_by_role("button", name="Copy the sentence").click()
    expect(page.get_by_role("status").filter(has_text="Copied.")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "95 % confidence interval" in copied
    assert "n = 24" in copied


def test_a_legend_and_the_names_of_methods_are_whole_on_a_phone(log_in, owner, project, tmp_path):
    biased_run(project, tmp_path, n=20)
    project.examples.update(model_1="output 1", model_2="output 2", gold_label="win")
    page = log_in(owner, f"/p/{project.slug}/results/trust", **PHONE)
    page.locator("details.more").evaluate_all("all => all.forEach(one => { one.open = true; })")
    cell = page.locator(".dense td", has_text="MEC+BPC").first
    assert cell.evaluate(LINES) in (["MEC+BPC"], ["MEC+", "BPC"])
    page.goto(f"/p/{project.slug}/results/judge")
    figure = page.locator("#plot-swap")
    figure.scroll_into_view_if_needed()
    legend = figure.locator(".role-legend").first
    expect(legend).to_be_visible()
    ends = "one => one.getBoundingClientRect().right"
    assert legend.evaluate(ends) <= figure.locator("svg").evaluate(ends)


# The text of a cell by the lines on which its letters are.
LINES = """cell => {
  const lines = {}, texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    [...texts.currentNode.data].forEach((letter, at) => {
      const place = document.createRange();
      place.setStart(texts.currentNode, at);
      place.setEnd(texts.currentNode, at + 1);
      const top = Math.round(place.getBoundingClientRect().top);
      lines[top] = (lines[top] ?? "") + letter;
    });
  }
  return Object.values(lines).map((line) => line.trim()).filter(Boolean);
}"""
