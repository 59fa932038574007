"""A manager's pages in a browser: inviting, following the work, deciding, deleting."""

from decimal import Decimal

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from playwright.sync_api import expect

from annotation.models import Adjudication, Draft, Flag, Item
from annotation.people.annotators import annotator_named
from annotation.people.invitations import Terms, invite, link_of, open_invitation
from annotation.rounds.opening import CheckRule, RoundSettings, open_round
from annotation.screen.hand import address_of
from annotation.votes.voting import choose_first
from judging.projects.models import Preferences, Project
from tests.browser.annotating import settled, token_of, vote
from tests.browser.conftest import PHONE
from tests.browser.opening import in_both_schemes
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HOSTILE = "<img src=x onerror='window.__canary=1'> **text**"


@pytest.fixture
def round_(project):
    make_examples(project, 2, response_1=HOSTILE, question=HOSTILE)
    return open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))


@pytest.fixture
def items(round_):
    return list(round_.items.select_related("example", "round__protocol").order_by("position"))


def serious(page):
    results = Axe().run(page).response
    return [
        (one["id"], one["nodes"][0]["html"])
        for one in results["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def test_the_page_of_a_round_follows_votes_and_leads_to_the_decision(
    log_in, researcher, project, round_, items
):
    page = log_in(researcher, reverse("round", args=[project.slug, round_.number]))
    expect(page.get_by_text("0 of 4 votes")).to_be_visible()
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    make_vote(items[0], ana, "win", comment=HOSTILE)
    make_vote(items[0], ben, "lose")
    expect(page.get_by_text("2 of 4 votes")).to_be_visible()
    page.get_by_text("Need a decision").locator("..").get_by_role("link", name="1").click()
    page.get_by_role("link", name="Decide the first one").click()
    page.get_by_label("Right is better").check()
    page.get_by_role("button", name="Choose and see the votes").click()
    page.get_by_label("Reason").fill("it answers what was asked")
    page.get_by_role("button", name="Decide", exact=False).first.click()
    expect(page.get_by_text("No other item waits for a decision")).to_be_visible()
    assert Item.objects.get(pk=items[0].pk).state == Item.State.COMPLETE


def test_agreement_flags_and_what_is_to_be_decided_follow_the_votes(
    log_in, researcher, project, round_, items
):
    page = log_in(researcher, reverse("round", args=[project.slug, round_.number]))
    page.clock.install()
    page.reload()
    agreement = page.locator("#round-agreement")
    expect(
        agreement.get_by_text("none of these examples has two votes that count").first
    ).to_be_visible()
    expect(page.locator("#flags")).to_be_hidden()
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    make_vote(items[0], ana, "win")
    make_vote(items[0], ben, "lose")
    Flag.objects.create(item=items[0], annotator=ana, reason="The answer is cut off")
    # The page asks again every 20 seconds.
    page.clock.run_for(21_000)
    expect(page.get_by_role("cell", name="The answer is cut off")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("link", name="Decide 1 item")).to_be_visible()
    expect(agreement.get_by_text("none of these examples has two votes that count")).to_have_count(
        0
    )
    expect(agreement.get_by_role("button", name="Chose the left response")).to_be_visible()
    assert serious(page) == []


def test_somebody_joins_by_a_link_on_a_phone_and_finds_the_work(
    browser, live_server, project, owner, round_
):
    link = link_of(invite(project, owner, Terms()))
    context = browser.new_context(base_url=live_server.url, **PHONE)
    page = context.new_page()
    page.goto(reverse("invite", args=[link.rstrip("/").split("/")[-1]]))
    assert serious(page) == []
    page.get_by_label("Username").fill("nina")
    page.get_by_label("Password", exact=True).fill("a long enough one")
    page.get_by_label("Password confirmation").fill("a long enough one")
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("link", name="Start vicuna · round 1")).to_be_visible()
    context.close()


def test_a_project_is_deleted_only_when_its_name_was_typed(log_in, owner, project):
    page = log_in(owner, reverse("settings", args=[project.slug]))
    page.get_by_role("button", name="Delete the project…").click()
    page.get_by_label("Type vicuna to confirm").fill("vicuna")
    page.get_by_role("button", name="Delete everything").click()
    expect(page.get_by_text("The project vicuna and everything in it was deleted")).to_be_visible()
    assert not Project.objects.exists()


@pytest.mark.parametrize(
    "options", [pytest.param({}, marks=pytest.mark.long), PHONE], ids=["desk", "phone"]
)
def test_the_pages_are_accessible_and_fit(log_in, owner, project, round_, items, options):
    for name in ("ana", "ben"):
        label = "win" if name == "ana" else "lose"
        make_vote(items[0], make_annotator(project, name), label, comment="Quite clear. " * 20)
    invite(project, owner, Terms(note="class of May"))
    choose_first(items[0], owner, "left")
    page = log_in(owner, reverse("rounds", args=[project.slug]), **options)
    for name, *more in (
        ("rounds",), ("round", 1), ("adjudication", 1), ("round_item", 1, items[0].pk),
        ("settings",), ("people",), ("trail",),
    ):  # fmt: skip
        page.goto(reverse(name, args=[project.slug, *more]))
        for scheme in in_both_schemes(page):
            assert serious(page) == [], (name, scheme)
        wider = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wider <= 0, name
        if name == "round_item":
            # What people said is read without scrolling sideways, comments and all.
            said = page.get_by_role("region", name="What people said")
            assert said.evaluate("region => region.scrollWidth - region.clientWidth") <= 0


def test_long_names_in_any_script_make_no_page_wider_than_a_phone(log_in, owner, project):
    long, arabic = "Unbreakable" * 10, "مشروع_طويل_" * 10
    Project.objects.filter(pk=project.pk).update(name=arabic[:110])
    examples = make_examples(project, 2, model_1=long, model_2=arabic)
    run = make_run(project, name=long)
    for example in examples:
        make_verdict(run, example, 0.5)
    for name in (long, arabic):
        annotator_named(project, name)
    make_annotator(project, "x" * 150)
    invite(project, owner, Terms(note=arabic))
    settings = RoundSettings(beta=Decimal(50), votes=1, seed=5)
    number = open_round(project, owner, run, settings).number
    page = log_in(owner, reverse("people", args=[project.slug]), **PHONE)
    for name, more in (("people", ()), ("round", (number,)), ("rounds", ()), ("examples", ())):
        page.goto(reverse(name, args=[project.slug, *more]))
        page.wait_for_load_state("networkidle")
        assert page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ), name


def listens(page):
    """Until keys count: a key that is pressed right after a page came up is not for its item."""
    page.wait_for_load_state()
    settled(page)


def test_decisions_by_keyboard_go_from_item_to_item_and_back(
    log_in, researcher, project, round_, items
):
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    for item in items:
        make_vote(item, ana, "win", comment="the votes")
        make_vote(item, ben, "lose")
    page = log_in(researcher, reverse("round_item", args=[project.slug, 1, items[0].pk]))

    def press(key):
        listens(page)
        page.keyboard.press(key)

    expect(page.get_by_text("the votes", exact=True)).to_have_count(0)
    press("b")
    expect(page.get_by_label("Right is better")).to_be_checked()
    press("Enter")
    expect(page.get_by_text("You chose the right response before")).to_be_visible()
    expect(page.get_by_label("Right is better")).to_be_checked()
    press("t")
    press("r")
    page.keyboard.type("both answer")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("1 of 2 decided")).to_be_visible()
    assert page.url.endswith(f"/items/{items[1].pk}")
    decided = Adjudication.objects.get()
    assert (decided.label, decided.reason) == ("tie", "both answer")
    press("Backspace")
    expect(page.get_by_text("Your decision was taken back.")).to_be_visible()
    assert page.url.endswith(f"/items/{items[0].pk}")
    assert not Adjudication.objects.exists()


def test_decisions_take_the_keys_that_a_person_moved_or_switched_off(
    log_in, researcher, project, round_, items
):
    for item in items:
        make_vote(item, make_annotator(project), "win")
        make_vote(item, make_annotator(project), "lose")
    moved = {"B": "K", "2": "", "R": "W"}
    own = Preferences.objects.create(user=researcher, keys=moved)
    page = log_in(researcher, reverse("round_item", args=[project.slug, 1, items[0].pk]))
    listens(page)
    page.keyboard.press("b")
    page.keyboard.press("2")
    expect(page.get_by_label("Right is better")).not_to_be_checked()
    page.keyboard.press("k")
    expect(page.get_by_label("Right is better")).to_be_checked()
    page.keyboard.press("Enter")
    expect(page.get_by_text("You chose the right response before")).to_be_visible()
    listens(page)
    page.keyboard.press("r")
    expect(page.get_by_label("Reason")).not_to_be_focused()
    page.keyboard.press("w")
    expect(page.get_by_label("Reason")).to_be_focused()
    own.no_letter_keys = True
    own.save()
    page.reload()
    listens(page)
    page.keyboard.press("t")
    expect(page.get_by_label("Tie")).not_to_be_checked()
    expect(page.locator("form kbd").filter(has_text="T")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Reason")).to_be_focused()


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desk", "phone"])
def test_an_invitation_link_is_shown_in_full_and_copied(log_in, owner, project, options):
    invitation = invite(project, owner, Terms())
    allowed = options | {"permissions": ["clipboard-read", "clipboard-write"]}
    page = log_in(owner, reverse("people", args=[project.slug]), **allowed)
    link = page.get_by_label("Invitation link")
    # A link names the second at which it was signed, so it is opened rather than compared.
    shown = link.input_value()
    assert open_invitation(shown.rstrip("/").split("/")[-1]) == invitation
    assert len(shown) == len(link_of(invitation))
    assert link.evaluate("field => field.scrollHeight - field.clientHeight") <= 0
    assert link.evaluate("field => field.scrollWidth - field.clientWidth") <= 0
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == shown


@pytest.mark.parametrize(
    "options", [{}, pytest.param(PHONE, marks=pytest.mark.long)], ids=["window", "phone"]
)
def test_votes_are_put_aside_and_counted_again_on_the_page_of_a_person(
    log_in, researcher, project, round_, items, options
):
    ana = make_annotator(project, "ana")
    for item in items:
        make_vote(item, ana, "win")
    page = log_in(researcher, reverse("round", args=[project.slug, round_.number]), **options)
    page.get_by_role("link", name="ana").click()
    page.get_by_label("Why do these votes not count?").fill(HOSTILE)
    page.get_by_role("button", name="Put 2 votes aside").click()
    expect(page.get_by_text("2 votes put aside.")).to_be_visible()
    expect(page.get_by_text("This person gets no more pairs of this round.")).to_be_visible()
    for _ in in_both_schemes(page):
        assert serious(page) == []
    page.get_by_role("button", name="Let them label again").click()
    expect(page.get_by_text("They can label in this round again.")).to_be_visible()
    page.get_by_role("button", name="Count the votes again").click()
    expect(page.get_by_text("2 votes count again.")).to_be_visible()
    page.get_by_role("link", name=f"Round {round_.number}").click()
    expect(page.get_by_text("2 of 4 votes")).to_be_visible()


def test_a_warning_is_read_above_the_pair(log_in, project):
    make_examples(project, 1, is_check=True, gold_label="win")
    make_examples(project, 2)
    rules = (CheckRule(1, Decimal(100), "warn"),)
    settings = RoundSettings(everything=True, votes=1, seed=5, check_rules=rules)
    opened = open_round(project, None, None, settings)
    ana = make_annotator(project, "ana")
    page = log_in(ana.user, address_of(opened))
    expect(page.locator("#item")).to_be_visible()
    warning = page.get_by_text("Some of your answers differ from answers that are known")
    while Draft.objects.get(token=token_of(page)).item.selection.kind != "check":
        vote(page, "1", "Enter")
    expect(warning).to_have_count(0)
    vote(page, "2" if Draft.objects.get(token=token_of(page)).left_response == 1 else "1", "Enter")
    expect(warning).to_be_visible()
    for _ in in_both_schemes(page):
        assert serious(page) == []
