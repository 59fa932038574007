"""The planner's linked sliders, and the plots of the results and of people, under the CSP."""

import pytest
from playwright.sync_api import expect

from annotation.models import Item
from annotation.rounds.opening import RoundSettings, open_round
from tests.browser.conftest import PHONE
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def voted(project):
    """Forty examples, on all of which two people voted."""
    run = make_run(project)
    for example in make_examples(project, 40):
        make_verdict(run, example, (40 - example.number) / 40, rank=example.number + 1)
    project.primary_run = run
    project.save()
    open_round(project, None, run, RoundSettings(everything=True, votes=2, seed=1))
    people = [make_annotator(project), make_annotator(project)]
    for item in Item.objects.select_related("example"):
        for person in people:
            make_vote(item, person, "lose" if item.example.number < 8 else "win")
    return run


def moved(page, slider, value):
    """As a person drags it."""
    page.locator(f"[data-slides={slider}]").evaluate(
        "(e, value) => { e.value = value; e.dispatchEvent(new Event('input', {bubbles: true})) }",
        value,
    )


def test_beta_and_money_follow_each_other(log_in, researcher, project, voted):
    page = log_in(researcher, f"/p/{project.slug}/plan")
    beta, budget = page.locator("#id_beta"), page.locator("#id_budget")
    page.get_by_label("Audit unreviewed labels").uncheck()
    # The third vote, of 37.5 cents, on each of 8 examples: two are there already.
    expect(budget).to_have_value("3.00")
    moved(page, "id_beta", 50)
    expect(budget).to_have_value("7.50")
    # A budget is sized as if no vote were there: three votes on each of 8 examples.
    moved(page, "id_budget", "9.00")
    expect(beta).to_have_value("20")
    expect(page.get_by_label("A budget")).to_be_checked()
    expect(page.locator("#plan-preview")).to_contain_text("$9.00 pays for β = 20.0 %")
    expect(page.locator("#plan-preview svg").first).to_be_visible()


CHAPTERS = ("verdict", "trust", "judge", "review", "people", "models")


@pytest.mark.parametrize(
    "screen", [pytest.param({}, marks=pytest.mark.long), PHONE], ids=["desk", "phone"]
)
def test_every_plot_is_drawn_and_has_its_table(log_in, researcher, project, voted, screen):
    page = log_in(researcher, f"/p/{project.slug}/results", **screen)
    expect(page.locator("h1")).to_contain_text("maple-7b is better than birch-3b")
    n_drawn = 0
    for name in CHAPTERS:
        page.goto(f"/p/{project.slug}/results/{name}")
        page.evaluate("document.querySelectorAll('details.more').forEach((d) => { d.open = true })")
        figures = page.locator("figure.plot")
        for number in range(figures.count()):
            figures.nth(number).scroll_into_view_if_needed()
            expect(figures.nth(number).locator("svg")).to_be_visible()
            expect(figures.nth(number).locator("details table")).to_have_count(1)
            drawing = figures.nth(number).locator(".drawing")
            assert drawing.evaluate("drawn => drawn.scrollWidth - drawn.clientWidth") <= 0
            n_drawn += 1
    assert n_drawn > 6


def column(table, number):
    return [
        row.locator("th, td").nth(number).inner_text() for row in table.locator("tbody tr").all()
    ]


def test_every_table_of_the_results_sorts_by_its_heads(log_in, researcher, project, voted):
    page = log_in(researcher, f"/p/{project.slug}/results/trust")
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
    unsorted = "tables => tables.filter(t => t.tHead && t.tBodies[0].rows.length > 1"
    unsorted += " && !t.querySelector('th[aria-sort]')).length"
    assert page.locator("table.data").evaluate_all(unsorted) == 0
    methods = page.get_by_role("region", name="Methods, as in FairEval's Table 4").locator("table")
    methods.get_by_role("button", name="Accuracy").click()
    values = [text.split()[0] for text in column(methods, 3) if text[0].isdigit()]
    assert values == sorted(values, key=float)
    assert len(values) > 2
    # Reasons, though they hold numbers, and costs that are only about so much.
    assert column(methods, 3)[-1].startswith("needs")
    methods.get_by_role("button", name="People", exact=True).click()
    methods.get_by_role("button", name="People", exact=True).click()
    costs = [float(text.strip("≈ $")) for text in column(methods, 6)]
    assert costs == sorted(costs, reverse=True)


def test_a_column_of_buttons_is_not_sorted_by(log_in, owner, project, voted):
    page = log_in(owner, f"/p/{project.slug}/people")
    members = page.get_by_role("region", name="Members").locator("thead th")
    assert members.first.get_by_role("button").count() == 1
    assert members.last.inner_text().strip() == "Actions"
    assert members.last.get_by_role("button").count() == 0


def test_the_people_page_draws_their_pace(log_in, owner, project, voted):
    page = log_in(owner, f"/p/{project.slug}/people")
    # A chart is drawn when it comes into view.
    page.locator("#people-pace figure").scroll_into_view_if_needed()
    expect(page.locator("#people-pace figure svg")).to_be_visible()
    expect(page.locator("#people-pace table").first).to_contain_text("annotator-1")


def test_on_a_phone_costs_and_methods_fit_and_wider_tables_show_that_they_go_on(
    log_in, researcher, project, voted
):
    page = log_in(researcher, f"/p/{project.slug}/results/trust", **PHONE)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
    hidden = "table => table.scrollWidth - table.clientWidth"
    assert page.get_by_role("region", name="Costs", exact=True).evaluate(hidden) == 0
    methods = page.get_by_role("region", name="Methods, as in FairEval's Table 4")
    assert methods.evaluate(hidden) == 0
    page.goto(f"/p/{project.slug}/results/review")
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
    wide = page.get_by_role("region", name="Accuracy after a review, by β", exact=True)
    assert wide.evaluate(hidden) > 0

    # Below the table's text, where nothing but a shade is drawn.
    wide.evaluate("table => table.style.paddingBottom = '20px'")

    def edge():
        # Charts above that are drawn by and by may have moved it.
        wide.evaluate("table => table.scrollIntoView({block: 'end', behavior: 'instant'})")
        box = wide.bounding_box()
        right, bottom = box["x"] + box["width"], box["y"] + box["height"]
        clip = {"x": right - 4, "y": bottom - 20, "width": 4, "height": 4}
        return page.screenshot(clip=clip)

    before = edge()
    wide.evaluate("table => table.scrollTo({left: table.scrollWidth, behavior: 'instant'})")
    assert edge() != before
