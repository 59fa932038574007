"""Items that votes did not settle: shown with all that was said, and decided for good."""

import pytest
from django.urls import reverse

from annotation.models import Adjudication, Item
from annotation.rounds.opening import RoundSettings, open_round
from judging.projects.models import AuditEvent
from tests.factories import make_annotator, make_examples, make_vote

pytestmark = pytest.mark.django_db


@pytest.fixture
def round_(project):
    """Of three items two are split; the third has no votes yet."""
    make_examples(project, 3, response_1="A **bold** <script>alert(1)</script> text")
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    for item in round_.items.select_related("example", "round__protocol").order_by("position")[:2]:
        make_vote(item, ana, "win", comment="the <i>first</i> is right", left_response=2)
        make_vote(item, ben, "lose", comment="no, the second")
    return round_


@pytest.fixture
def split(round_):
    return list(round_.items.filter(state=Item.State.ADJUDICATE).order_by("position"))


def page_of(round_, item):
    return reverse("round_item", args=[round_.project.slug, round_.number, item.pk])


def list_of(round_):
    return reverse("adjudication", args=[round_.project.slug, round_.number])


def test_the_list_names_what_waits(as_researcher, round_, split):
    page = as_researcher.get(list_of(round_)).text
    assert "2 items need a decision" in page
    assert all(page_of(round_, item) in page for item in split)
    waiting = round_.items.exclude(pk__in=[item.pk for item in split]).get()
    assert page_of(round_, waiting) not in page


def test_votes_comments_and_both_responses_stand_side_by_side(as_researcher, round_, split):
    page = as_researcher.get(page_of(round_, split[0])).text
    assert "the &lt;i&gt;first&lt;/i&gt; is right" in page
    assert "no, the second" in page
    assert "<strong>bold</strong>" in page
    assert "<script>alert" not in page
    assert "Second response to" in page
    # Whose the responses are is not told: the decision is blind, as the votes were.
    assert "maple" not in page
    assert "birch" not in page


def test_decisions_go_from_item_to_item_until_nothing_waits(as_researcher, round_, split):
    first, second = split
    decided = {"label": "win", "reason": "the first cites its source"}
    answer = as_researcher.post(page_of(round_, first), decided)
    assert answer["Location"] == page_of(round_, second)
    answer = as_researcher.post(page_of(round_, second), decided)
    assert answer["Location"] == list_of(round_)
    assert not round_.items.filter(state=Item.State.ADJUDICATE).exists()
    assert Adjudication.objects.first().decider == "rosa"
    event = AuditEvent.objects.filter(action="adjudicated").first()
    assert event.detail == {"label": "win", "reason": "the first cites its source"}


@pytest.mark.parametrize(
    "fields", [{"label": "win"}, {"reason": "so"}, {"label": "x", "reason": "so"}]
)
def test_a_decision_needs_a_label_and_a_reason(as_researcher, round_, split, fields):
    assert as_researcher.post(page_of(round_, split[0]), fields).status_code == 422
    assert not Adjudication.objects.exists()


def test_a_later_decision_replaces_the_first_and_both_stay(as_researcher, round_, split):
    for label in ("win", "tie"):
        as_researcher.post(page_of(round_, split[0]), {"label": label, "reason": f"why {label}"})
    page = as_researcher.get(page_of(round_, split[0])).text
    assert "why win" in page
    assert "why tie" in page
    assert page.index("why tie") < page.index("why win")
    assert "replaced later" in page


def test_what_still_waits_for_votes_cannot_be_decided(as_researcher, round_):
    waiting = round_.items.get(state=Item.State.OPEN)
    page = page_of(round_, waiting)
    assert "Decide" not in as_researcher.get(page).text.split("</header>")[-1]
    refused = as_researcher.post(page, {"label": "win", "reason": "so"})
    assert refused.status_code == 422
    assert "still waiting for votes" in refused.text
    assert not Adjudication.objects.exists()


def test_an_item_of_another_round_is_not_found(as_researcher, round_, project):
    other = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    assert as_researcher.get(page_of(round_, other.items.first())).status_code == 404


def test_the_list_takes_as_many_queries_for_fifty_as_for_one(
    as_researcher, project, django_assert_num_queries
):
    make_examples(project, 50)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))
    ana, ben = make_annotator(project), make_annotator(project)
    items = iter(round_.items.select_related("example", "round__protocol"))
    for n in (1, 49):
        for _ in range(n):
            item = next(items)
            make_vote(item, ana, "win")
            make_vote(item, ben, "lose")
        with django_assert_num_queries(8):
            as_researcher.get(list_of(round_))
