"""Settings, the audit trail, and deleting a project by its page."""

from decimal import Decimal

import pytest
from django.urls import reverse

from annotation.pages.forms import SettingsForm
from annotation.people.annotators import assign
from annotation.queue.queue import claim_next, flag, skip, unskip
from annotation.rounds.opening import RoundSettings, current_protocol, open_round
from annotation.votes.voting import edit_vote, record_vote
from judging.projects import access
from judging.projects.models import AuditEvent, Project
from tests.factories import make_annotator, make_examples, make_project, make_run

pytestmark = pytest.mark.django_db

FIELDS = {
    "name": "Vicuna 80",
    "description": "",
    "question_asked": "Which answer helps more?",
    "guidelines": "Read **both**.",
    "scale": "five",
    "criteria": "accuracy\n\n relevance \naccuracy",
    "rendering": "plain",
    "no_majority": "tie",
    "wage_usd": "12",
    "minutes_per_vote": "2.5",
    "annotator_advantage": "0.15",
    "cost_basis": "measured",
}
BOTH = "accuracy: 2\nrelevance: 1"


@pytest.fixture
def save(as_owner, project):
    def save(**fields):
        return as_owner.post(reverse("settings", args=[project.slug]), FIELDS | fields)

    return save


def delete(client, project, confirm):
    address = reverse("project_delete", args=[project.slug])
    return client.post(address, {"confirm": confirm}, follow=True)


def test_what_was_not_touched_stays_what_is_asked(save, project):
    # A browser sends other ends of lines than a file has, and the form drops the last one.
    save()
    lines = {"description": "One\nTwo", "guidelines": "Read\nboth.\n", "criteria": ["a", "b"]}
    Project.objects.update(**lines)
    project.refresh_from_db()
    asked = current_protocol(project)
    sent = {"description": "One\r\nTwo", "guidelines": "Read\r\nboth.\r\n", "criteria": "a\r\nb"}
    assert save(wage_usd="13", **sent).status_code == 302
    project.refresh_from_db()
    assert current_protocol(project) == asked
    assert AuditEvent.objects.latest("pk").subject == "wage_usd"


def test_what_is_saved_is_what_the_next_round_asks(save, project):
    before = current_protocol(project)
    assert save().status_code == 302
    project.refresh_from_db()
    asked = current_protocol(project)
    assert asked != before
    assert asked.question_asked == "Which answer helps more?"
    assert asked.criteria == ["accuracy", "relevance"]
    assert (asked.scale, asked.both_bad) == ("five", False)
    event = AuditEvent.objects.get(action="settings changed")
    assert "question_asked" in event.subject
    assert event.detail["question_asked"] == {
        "before": "Which response is better?",
        "now": "Which answer helps more?",
    }
    assert event.detail["criteria"] == {"before": [], "now": ["accuracy", "relevance"]}
    assert event.detail["wage_usd"] == {"before": "7.5", "now": "12"}
    assert set(event.detail) == set(event.subject.split(", "))


def test_a_rule_is_part_of_what_the_next_round_asks(save, project, as_owner):
    made = save(overall_from="weighted", criterion_weights="relevance: 1.50\r\naccuracy: 2")
    assert made.status_code == 302
    project.refresh_from_db()
    asked = current_protocol(project)
    assert asked.criteria_rule == {
        "rule": "weighted",
        "criteria": ["accuracy", "relevance"],
        "weights": ["2", "1.5"],
        "margin": "0",
    }
    assert "weights wins: accuracy 2, relevance 1.5" in str(asked.rule)
    event = AuditEvent.objects.get(action="settings changed")
    assert event.detail["criterion_weights"]["now"] == {"relevance": "1.5", "accuracy": "2"}
    page = as_owner.get(reverse("trail", args=[project.slug])).text
    assert "relevance: 1.5, accuracy: 2" in page or "accuracy: 2, relevance: 1.5" in page
    # An untouched form changes nothing.
    again = save(overall_from="weighted", criterion_weights="accuracy: 2\nrelevance: 1.5")
    assert again.status_code == 302
    assert current_protocol(Project.objects.get()) == asked
    refused = save(overall_from="weighted", criterion_weights="accuracy: 2")
    assert "Give a weight to each criterion. Missing: relevance." in refused.text


def test_saving_what_is_there_already_is_no_change(save):
    save()
    assert save().status_code == 302
    assert AuditEvent.objects.filter(action="settings changed").count() == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"question_asked": ""},
        {"scale": "seven"},
        {"wage_usd": "-1"},
        {"minutes_per_vote": "NaN"},
        {"criteria": "\n".join(f"criterion {n}" for n in range(13))},
        {"criteria": "x" * 61},
        {"overall_from": "lexicographic", "criteria": ""},
        {"overall_from": "lexicographic", "both_bad": "on"},
        {"overall_from": "weighted"},
        {"overall_from": "weighted", "criterion_weights": "accuracy: 1"},
        {"overall_from": "weighted", "criterion_weights": f"{BOTH}\nwit: 1"},
        {"overall_from": "weighted", "criterion_weights": BOTH, "tie_margin": "3"},
        {"overall_from": "weighted", "criterion_weights": "accuracy: 0\nrelevance: 0"},
        {"criterion_weights": "accuracy: -1"},
        {"criterion_weights": "accuracy 1"},
        {"criterion_weights": "accuracy: 1\naccuracy: 2"},
        {"tie_margin": "-1"},
    ],
)
def test_what_cannot_be_meant_changes_nothing(save, project, wrong):
    refused = save(**wrong)
    assert refused.status_code == 422
    assert "vicuna" in refused.text
    assert Project.objects.get().question_asked == "Which response is better?"
    assert not AuditEvent.objects.exists()


def test_what_others_changed_of_the_project_meanwhile_stays(project):
    project.wage_usd = Decimal(FIELDS["wage_usd"])
    form = SettingsForm(FIELDS | {"name": "Another name"}, instance=project)
    assert form.is_valid()
    Project.objects.filter(pk=project.pk).update(primary_run=make_run(project), wage_usd=9)
    form.save()
    kept = Project.objects.get(pk=project.pk)
    assert (kept.name, kept.wage_usd, kept.primary_run.number) == ("Another name", 9, 1)


def test_a_refused_name_does_not_appear_as_the_projects(save, project):
    page = save(name="Another name", scale="seven")
    assert page.context["project"].name == project.name


def test_the_trail_shows_details_whatever_they_are_called(as_owner, project, owner):
    access.record_event(project, owner, "round opened", "round 1", items=3, keys="k", beta=None)
    page = as_owner.get(reverse("trail", args=[project.slug])).text
    assert "items 3 · keys k" in page
    assert "olga" in page


def test_votes_and_their_changes_are_in_the_trail_single_votes_on_demand(as_owner, project):
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    draft = claim_next(round_, make_annotator(project, "ana"))
    vote = record_vote(draft, {"overall": "tie"})
    edit_vote(vote, {"overall": "left"}, "")
    url = reverse("trail", args=[project.slug])
    page = as_owner.get(url).text
    item = reverse("round_item", args=[project.slug, 1, draft.item_id])
    assert page.count(f'href="{item}"') == 1
    assert f"before tie · now {vote.label}" in page
    assert "<td>voted</td>" not in page
    assert "<td>voted</td>" in as_owner.get(url, {"votes": 1}).text


def test_the_trail_shows_what_a_setting_was_and_is(save, as_owner, project):
    save(guidelines="Look. " * 200, both_bad="on", criteria="")
    page = as_owner.get(reverse("trail", args=[project.slug])).text
    assert "question_asked Which response is better? → Which answer helps more?" in page
    assert "wage_usd 7.5 → 12" in page
    assert "both_bad no → yes" in page
    assert "guidelines (empty) → Look." in page
    assert "Look. " * 60 not in page
    save()
    page = as_owner.get(reverse("trail", args=[project.slug])).text
    assert "criteria (empty) → accuracy, relevance" in page


def test_flags_are_in_the_trail_and_skips_are_on_demand(as_owner, project):
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    draft = claim_next(round_, make_annotator(project, "ana"))
    # Sent twice, as after a lost answer.
    for _ in range(2):
        flag(draft, "The question is cut off")
    flag(draft, "It is empty")
    for _ in range(2):
        skip(draft)
    for _ in range(2):
        unskip(draft)
    trail = reverse("trail", args=[project.slug])
    page = as_owner.get(trail).text
    assert page.count("<td>flagged</td>") == 2
    assert "reason The question is cut off" in page
    assert "<td>skip" not in page
    page = as_owner.get(trail, {"votes": 1}).text
    assert page.count("<td>skipped</td>") == page.count("<td>skip undone</td>") == 1


def test_whom_a_round_was_given_to_is_in_the_trail(as_owner, project):
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    assign(round_, None, [make_annotator(project), make_annotator(project)], limit=3)
    assign(round_, None, [])
    page = as_owner.get(reverse("trail", args=[project.slug])).text
    assert "to annotator-1, annotator-2 · limit 3" in page
    assert "to everybody" in page


def test_the_trail_of_another_project_is_not_shown(as_owner, project):
    access.record_event(make_project(), None, "round opened", "elsewhere")
    assert "elsewhere" not in as_owner.get(reverse("trail", args=[project.slug])).text


def test_the_trail_takes_as_many_queries_for_fifty_as_for_one(
    as_owner, project, owner, django_assert_num_queries
):
    for n in (1, 49):
        for _ in range(n):
            access.record_event(project, owner, "something")
        with django_assert_num_queries(5):
            as_owner.get(reverse("trail", args=[project.slug]))


@pytest.mark.parametrize("typed", ["", "vicun", "VICUNA"])
def test_a_project_is_not_deleted_before_its_name_was_typed(as_owner, project, typed):
    assert "Nothing was deleted" in delete(as_owner, project, typed).text
    assert Project.objects.filter(pk=project.pk).exists()


def test_a_project_is_deleted_when_its_name_was_typed(as_owner, project):
    page = delete(as_owner, project, " vicuna ")
    assert "was deleted" in page.text
    assert not Project.objects.exists()


def test_researchers_see_no_tab_that_leads_nowhere(client, project, researcher, owner):
    rounds, tab = reverse("rounds", args=[project.slug]), reverse("settings", args=[project.slug])
    client.force_login(researcher)
    assert tab not in client.get(rounds).text
    client.force_login(owner)
    assert tab in client.get(rounds).text
