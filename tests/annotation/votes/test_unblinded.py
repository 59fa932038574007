"""Votes given after a look at what the judge says: marked, and left out where a project does."""

import pytest
from django.urls import reverse
from django.utils import timezone

from annotation.models import Draft, Item, Vote
from annotation.pages.forms import SettingsForm
from annotation.queue.queue import claim_next
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.agreement import RoundAgreement
from annotation.votes.imports import import_votes
from annotation.votes.voting import decide, edit_vote, record_vote
from judging.core.errors import UserError
from judging.projects.models import AuditEvent, Membership
from tests.factories import make_annotator, make_examples, make_vote

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def people(project):
    return [make_annotator(project, name) for name in ("ana", "ben", "cleo")]


@pytest.fixture
def set_to(as_owner, project):
    """Save the settings page with the box ticked or not."""

    def set_to(leave_out):
        project.refresh_from_db()
        form = SettingsForm(instance=project)
        fields = {name: form.get_initial_for_field(form[name].field, name) for name in form.fields}
        fields["leave_out_unblinded"] = leave_out
        sent = {name: value for name, value in fields.items() if value is not False}
        assert as_owner.post(reverse("settings", args=[project.slug]), sent).status_code == 302
        project.refresh_from_db()
        assert project.leave_out_unblinded == leave_out

    return set_to


def voted_on(project, people, votes, **fields):
    """The only item of a round, with these votes; a `!` marks one as unblinded."""
    project.refresh_from_db()
    type(project).objects.filter(pk=project.pk).update(**fields)
    project.refresh_from_db()
    make_examples(project, 1)
    settings = RoundSettings(everything=True, votes=len(votes), seed=1)
    item = open_round(project, None, None, settings).items.get()
    for person, label in zip(people, votes, strict=False):
        make_vote(item, person, label.strip("!"), unblinded=label.endswith("!"))
    return item


def state_of(item):
    return Item.objects.get(pk=item.pk).state


@pytest.mark.parametrize(
    ("votes", "policy", "state"),
    [
        (["win", "win!", "lose"], "adjudicate", "adjudicate"),
        (["win", "win!", "win"], "adjudicate", "complete"),
        (["win", "win!", "lose"], "tie", "complete"),
        (["win", "win!", "lose"], "judge", "complete"),
        (["win!", "win!", "win!"], "adjudicate", "adjudicate"),
        (["win!", "win!", "win!"], "tie", "adjudicate"),
        (["win!", "win!", "win!"], "judge", "adjudicate"),
    ],
)
def test_an_item_stands_as_its_other_votes_say_and_back_again(
    project, people, set_to, votes, policy, state
):
    item = voted_on(project, people, votes, no_majority=policy)
    assert state_of(item) == "complete"
    set_to(True)
    assert state_of(item) == state
    set_to(False)
    assert state_of(item) == "complete"


def test_a_vote_that_comes_while_the_setting_is_on_is_not_counted(project, people, set_to):
    set_to(True)
    assert state_of(voted_on(project, people, ["win", "lose", "lose!"])) == "adjudicate"


def test_whoever_votes_next_finds_the_same_free_places(project, people, set_to):
    item = voted_on(project, people[:1], ["win!", "lose"])
    set_to(True)
    assert state_of(item) == "open"
    assert item.slots.filter(vote=None).count() == 1


def test_what_is_left_without_a_majority_is_decided_and_stays_decided(
    project, owner, people, set_to
):
    item = voted_on(project, people, ["win", "win!", "lose"])
    with pytest.raises(UserError, match="settled"):
        decide(item, owner, "tie", "")
    set_to(True)
    decide(Item.objects.get(pk=item.pk), owner, "lose", "Clearly.")
    set_to(False)
    assert state_of(item) == "complete"
    assert item.adjudications.get().label == "lose"


def test_the_trail_shows_who_left_votes_out(set_to, as_owner, owner, project):
    set_to(True)
    event = AuditEvent.objects.get(action="settings changed")
    assert event.user == owner
    assert event.detail == {"leave_out_unblinded": {"before": False, "now": True}}
    page = as_owner.get(reverse("trail", args=[project.slug])).content.decode()
    assert "no → yes" in page


def test_agreement_in_a_round_is_of_the_votes_that_count(project, people, set_to):
    item = voted_on(project, people, ["win", "win", "lose!"])
    assert RoundAgreement(item.round).percent.value == pytest.approx(1 / 3)
    set_to(True)
    assert RoundAgreement(item.round).percent.value == 1


def test_the_page_of_decisions_counts_the_votes_that_count(project, people, set_to, as_owner):
    item = voted_on(project, people, ["win", "win!", "lose"])
    where = [project.slug, item.round.number]
    assert ", excluded" not in as_owner.get(reverse("round_item", args=[*where, item.pk])).text
    set_to(True)
    # Now the item waits for a decision, so its votes are hidden until a first choice.
    as_owner.post(reverse("round_item", args=[*where, item.pk]), {"first": "1", "choice": "tie"})
    assert ", excluded" in as_owner.get(reverse("round_item", args=[*where, item.pk])).text
    (listed,) = as_owner.get(reverse("adjudication", args=where)).context["items"]
    assert listed[1] == {"win": 1, "tie": 0, "lose": 1}


@pytest.mark.parametrize(("answer", "marked"), [("left", False), ("right", True)])
def test_a_vote_that_is_changed_after_a_look_at_the_judge_is_marked(
    project, people, answer, marked
):
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=1))
    draft = claim_next(round_, people[0])
    assert isinstance(draft, Draft)
    vote = record_vote(draft, {"overall": "left"})
    Membership.objects.filter(user=people[0].user).update(unblinded_at=timezone.now())
    edit_vote(vote, {"overall": answer}, "")
    assert Vote.objects.get().unblinded is marked


@pytest.mark.parametrize(("leave_out", "state"), [(False, "complete"), (True, "adjudicate")])
def test_imported_votes_bring_their_mark(project, tmp_path, set_to, leave_out, state):
    make_examples(project, 1)
    if leave_out:
        set_to(True)
    path = tmp_path / "votes.csv"
    rows = "e0,ana,win,\ne0,ben,lose,false\ne0,cleo,win,true\n"
    path.write_text(f"external_id,annotator,label,unblinded\n{rows}")
    import_votes(project, None, path)
    found = Vote.objects.order_by("pk").values_list("unblinded", flat=True)
    assert list(found) == [False, False, True]
    assert Item.objects.get().state == state


def test_a_mark_that_says_neither_is_refused(project, tmp_path):
    make_examples(project, 1)
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label,unblinded\ne0,ana,win,maybe\n")
    with pytest.raises(UserError, match="unblinded should be true, false or nothing"):
        import_votes(project, None, path)
