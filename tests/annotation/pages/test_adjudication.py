"""Items that votes did not settle: shown with all that was said, and decided for good."""

import pytest
from django.urls import reverse

from annotation.models import Adjudication, FirstChoice, Item
from annotation.queue.drafts import CANT_JUDGE
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.text import HIDDEN_NAME
from judging.projects.models import AuditEvent, Role
from tests.factories import make_annotator, make_examples, make_member, make_vote

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


def test_a_decision_is_blind_until_a_first_choice_and_both_are_on_record(
    as_researcher, researcher, round_, split
):
    item, url = split[0], page_of(round_, split[0])
    page = as_researcher.get(url).text
    assert "<strong>bold</strong>" in page
    assert "<script>alert" not in page
    assert "Second response to" in page
    # Neither whose the responses are, nor what the example is called, nor what others said.
    hidden = ("maple", "birch", f">{item.example.external_id}<", "is right", "no, the second",
              "ana", "ben", "Response 1")  # fmt: skip
    assert [text for text in hidden if text in page] == []
    assert as_researcher.post(url, {"first": "1", "choice": "left"})["Location"] == url
    page = as_researcher.get(url).text
    assert "the &lt;i&gt;first&lt;/i&gt; is right" in page
    assert "no, the second" in page
    assert "You chose <b>the left response</b> before you saw the votes" in page
    first = FirstChoice.objects.get(item=item)
    assert first.label == ("win" if first.left_response == 1 else "lose")
    as_researcher.post(url, {"choice": "right", "reason": "on second thoughts"})
    decided = Adjudication.objects.get()
    assert decided.label == ("lose" if first.left_response == 1 else "win")
    events = AuditEvent.objects.order_by("pk").filter(user=researcher)
    first_event, decision = events.values_list("action", "detail")
    assert first_event == ("first choice", {"label": first.label, "left": first.left_response})
    assert decision[0] == "adjudicated"
    assert decision[1]["first_choice"] == first.label
    assert decision[1]["label"] == decided.label


def test_a_vote_without_a_label_prefers_no_side(as_researcher, project):
    project.cant_judge = True
    project.save()
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=5))
    item = round_.items.select_related("example", "round__protocol").get()
    make_vote(item, make_annotator(project, "ana"), "", answer={"overall": CANT_JUDGE})
    url = page_of(round_, item)
    as_researcher.post(url, {"first": "1", "choice": "left"})
    row = as_researcher.get(url).text.partition(">ana<")[2].partition("</tr>")[0]
    assert "<td>can't judge" in row
    assert "<td>right<" not in row


def test_names_that_annotators_do_not_see_are_hidden_here_too(as_researcher, project):
    project.hide_models = True
    project.save()
    make_examples(project, 1, response_1="I am maple-7b, a large model.")
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))
    item = round_.items.select_related("example", "round__protocol").get()
    for name, label in (("ana", "win"), ("ben", "lose")):
        make_vote(item, make_annotator(project, name), label)
    page = as_researcher.get(page_of(round_, item)).text
    assert "maple-7b" not in page
    assert HIDDEN_NAME in page


def test_a_first_choice_is_never_changed(as_researcher, round_, split):
    url = page_of(round_, split[0])
    for choice in ("left", "right"):
        as_researcher.post(url, {"first": "1", "choice": choice})
    first = FirstChoice.objects.get()
    assert first.label == ("win" if first.left_response == 1 else "lose")
    refused = as_researcher.post(page_of(round_, split[1]), {"first": "1"})
    assert refused.status_code == 422
    assert "Choose which response is better" in refused.text
    assert "is right" not in refused.text


@pytest.mark.system
def test_sides_are_drawn_for_each_person_and_item_and_stay(client, project):
    make_examples(project, 16)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))
    ana, ben = make_annotator(project), make_annotator(project)
    for item in round_.items.select_related("example", "round__protocol"):
        make_vote(item, ana, "win")
        make_vote(item, ben, "lose")
    seen = {}
    for name in ("rosa", "ron"):
        client.force_login(make_member(project, Role.RESEARCHER, name))
        seen[name] = []
        for item in round_.items.order_by("pk"):
            texts = [client.get(page_of(round_, item)).text for _ in range(2)]
            first_is_left = {text.index("First response") < text.index("Second response")
                             for text in texts}  # fmt: skip
            assert len(first_is_left) == 1
            stored = FirstChoice.objects.get(item=item, user__username=name).left_response
            assert first_is_left == {stored == 1}
            seen[name].append(stored)
        assert set(seen[name]) == {1, 2}
    assert seen["rosa"] != seen["ron"]


def test_the_list_hides_votes_and_names_until_a_first_choice(as_researcher, round_, split):
    page = as_researcher.get(list_of(round_)).text
    # Nothing is shown of any item yet, so there are no columns for it.
    assert page.count("hidden until you choose") == 0
    assert f">{split[0].example.external_id}<" not in page
    as_researcher.post(page_of(round_, split[0]), {"first": "1", "choice": "tie"})
    page = as_researcher.get(list_of(round_)).text
    assert page.count("hidden until you choose") == 1
    assert f">{split[0].example.external_id}<" in page


def test_progress_counts_decisions_and_undo_takes_back_ones_own_last(
    as_researcher, client, project, round_, split
):
    url = page_of(round_, split[0])
    as_researcher.post(url, {"label": "win", "reason": "it cites its source"})
    assert "1 of 2 decided" in as_researcher.get(list_of(round_)).text
    decision = Adjudication.objects.get()
    undo = reverse("decision_undo", args=[project.slug, round_.number, decision.pk])
    assert undo in as_researcher.get(page_of(round_, split[1])).text
    assert as_researcher.post(undo)["Location"] == url
    assert not Adjudication.objects.exists()
    assert round_.items.get(pk=split[0].pk).state == Item.State.ADJUDICATE
    event = AuditEvent.objects.get(action="decision withdrawn")
    assert event.detail == {"label": "win", "reason": "it cites its source"}
    # Somebody else's decision is not mine to take back.
    as_researcher.post(url, {"label": "tie", "reason": "so"})
    other = reverse(
        "decision_undo", args=[project.slug, round_.number, Adjudication.objects.get().pk]
    )
    client.force_login(make_member(project, Role.OWNER, "olaf"))
    assert "Only your own last decision" in client.post(other, follow=True).text
    assert Adjudication.objects.count() == 1


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
    changes.close(round_, None)
    refused = as_researcher.post(page, {"label": "win", "reason": "so"})
    assert "still waiting for votes" not in refused.text
    assert "no vote on this item counts" in refused.text
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
