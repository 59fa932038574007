"""Annotators of a project, and erasing a person."""

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from annotation.models import Adjudication, Annotator, Flag, Item, Skip, Slot, Vote, VoteRevision
from annotation.people.annotators import (
    annotator_named,
    annotator_of,
)
from annotation.people.personal_data import erase_annotator, erase_person
from annotation.queue.queue import NoItem, claim_next, flag, skip
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import decide, edit_vote, record_vote
from judging.core.errors import UserError
from judging.projects import access
from judging.projects.models import AuditEvent, Membership
from tests.factories import make_annotator, make_examples, make_member, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def worked(project):
    """Ana voted once, changed it, skipped once, flagged once, decided once."""
    make_examples(project, 3)
    ana = make_annotator(project, "ana")
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=1))
    vote = record_vote(claim_next(round_, ana), {"overall": "left"}, "I, Ana, like it")
    edit_vote(vote, {"overall": "right"}, "Ana again")
    skip(claim_next(round_, ana), "Ana cannot")
    flag(claim_next(round_, ana), "Ana says odd")
    Item.objects.filter(pk=vote.item_id).update(state=Item.State.ADJUDICATE)
    decide(Item.objects.get(pk=vote.item_id), ana.user, "win", "Ana knows better")
    AccessAttempt.objects.create(username="ana", ip_address="192.0.2.1", failures_since_start=1)
    access.record_event(project, ana.user, "member added", "ana")
    return ana


def texts():
    """Every text in which a person could be named."""
    found = [str(event.detail) + event.subject + event.actor for event in AuditEvent.objects.all()]
    for model, names in (
        (Vote, ["comment"]),
        (VoteRevision, ["comment"]),
        (Annotator, ["name"]),
        (Skip, ["reason"]),
        (Flag, ["reason"]),
        (Adjudication, ["decider", "reason"]),
        (AccessAttempt, ["username"]),
        (User, ["username"]),
    ):
        found += [" ".join(row) for row in model.objects.values_list(*names)]
    return " ".join(found).lower()


def test_names_and_comments_go_and_votes_stay_under_a_pseudonym(worked):
    assert texts().count("ana") > 8
    assert erase_person(worked.user, None) == 1
    assert "ana" not in texts()
    vote = Vote.objects.get()
    assert vote.annotator.pseudonym == worked.pseudonym
    assert vote.answer == {"overall": "right"}
    assert Adjudication.objects.get().label == "win"


def test_votes_can_go_too_and_their_items_open_again(worked):
    item = Vote.objects.get().item
    Adjudication.objects.all().delete()
    assert erase_person(worked.user, None, remove_votes=True) == 0
    assert not Vote.objects.exists()
    item.refresh_from_db()
    assert item.state == Item.State.OPEN
    assert not item.slots.exclude(annotator=None, vote=None).exists()


@pytest.fixture
def ben(project):
    return make_annotator(project, "ben")


def test_an_item_in_hand_goes_back_to_the_others(ben, worked, project):
    round_ = project.rounds.get()
    erase_person(worked.user, None)
    for _ in range(2):
        record_vote(claim_next(round_, ben), {"overall": "tie"})
    assert claim_next(round_, ben) == NoItem("done")


def test_a_last_owner_is_not_erased(project, owner):
    with pytest.raises(UserError, match="only owner of vicuna"):
        erase_person(owner, None)
    make_member(project, "owner")
    erase_person(owner, None)
    assert not Membership.objects.filter(project=project, user__username="olga").exists()


def test_the_command_asks_before_it_erases(worked):
    with pytest.raises(CommandError, match="--yes"):
        call_command("erase", "ana")
    assert User.objects.filter(username="ana").exists()
    call_command("erase", "ana", "--yes")
    assert not User.objects.filter(username="ana").exists()
    with pytest.raises(CommandError, match="no user “ana”"):
        call_command("erase", "ana", "--yes")


def test_the_command_erases_a_name_that_came_with_imported_votes(project):
    annotator_named(project, "Rater Ruth")
    call_command("erase", "Rater Ruth", "--project", project.slug, "--yes")
    assert "ruth" not in texts()


def test_the_command_does_not_half_erase_somebody_with_a_login(project, worked):
    with pytest.raises(CommandError, match="has a login"):
        call_command("erase", "ana", "--project", project.slug, "--yes")


def test_a_login_called_like_imported_votes_is_another_annotator(project):
    imported = annotator_named(project, "sam")
    sam = annotator_of(project, make_user("sam"))
    assert (sam.number, sam.name) == (imported.number + 1, "sam (login)")
    assert annotator_of(project, sam.user) == sam
    assert annotator_named(project, "sam") == imported


def test_names_stay_apart_however_often_they_are_taken(project):
    first = annotator_named(project, "sam")
    for name in ("sam (login)", f"erased person {first.number}"):
        annotator_named(project, name)
    assert annotator_of(project, make_user("sam")).name == "sam (login 2)"
    erase_annotator(first, None)
    first.refresh_from_db()
    assert first.name == f"erased person {first.number} (erased)"


def test_whoever_is_erased_is_not_waited_for(project):
    """The others' votes take the place of those that were removed, and skips are settled."""
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    make_examples(project, 2)
    first, second = (
        open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=seed))
        for seed in (1, 2)
    )
    record_vote(claim_next(second, ana), {"overall": "tie"})
    voted = Vote.objects.get().example_id
    # Both are full with Ana's vote on it; Ben gives his in a round that asks for two.
    third = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=3))
    while not isinstance(draft := claim_next(third, ben), NoItem):
        if draft.item.example_id == voted:
            record_vote(draft, {"overall": "left"})
        else:
            skip(draft)
    erase_person(ana.user, None, remove_votes=True)
    assert Slot.objects.filter(round__in=[first, second], vote__annotator=ben).count() == 2
    assert third.items.exclude(example=voted).get().state == Item.State.ADJUDICATE
