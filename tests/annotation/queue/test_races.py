"""What people or processes do in one moment comes out as if one came after the other."""

import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from annotation.deletion import delete_project
from annotation.models import Annotator, Draft, Protocol, Round, Skip, Slot, Vote
from annotation.people.annotators import (
    annotator_named,
    annotator_of,
    assign,
    come_back,
    leave_round,
)
from annotation.people.invitations import Terms, accept_invitation, invite, link_of
from annotation.people.personal_data import erase_person
from annotation.queue.queue import NoItem, claim_next, skip
from annotation.queue.settling import count_earlier_votes, count_vote_in, locked_items
from annotation.rounds.changes import raise_votes
from annotation.rounds.opening import RoundSettings, current_protocol, open_round
from annotation.votes.voting import record_vote
from judging.core.errors import UserError
from judging.dataset.models import Import
from judging.dataset.uploads import record_import
from judging.projects.models import Project
from tests.factories import make_annotator, make_examples, make_project, make_user
from tests.together import AT_ONCE, at_once

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]
EVERYTHING = RoundSettings(everything=True, votes=3)


@pytest.fixture
def project(transactional_db):
    return make_project()


def test_of_those_who_join_by_one_name_one_gets_it_and_the_others_are_told(project):
    invitation = invite(project, None, Terms(uses=AT_ONCE))
    url = reverse("invite", args=[link_of(invitation).rstrip("/").rpartition("/")[2]])
    password = "a long enough one"
    fields = {"username": "nina", "password1": password, "password2": password}
    answers = at_once(lambda _: Client().post(url, fields))
    assert sorted(answer.status_code for answer in answers) == [302, *[422] * (AT_ONCE - 1)]
    assert User.objects.filter(username="nina").count() == 1
    invitation.refresh_from_db()
    assert invitation.uses == 1


def test_whoever_accepts_an_invitation_twice_at_once_uses_it_once(project):
    invitation, user = invite(project, None, Terms(uses=AT_ONCE)), make_user()
    members = at_once(lambda _: accept_invitation(invitation, user))
    assert {member.pk for member in members} == {project.memberships.get().pk}
    invitation.refresh_from_db()
    assert invitation.uses == 1


def test_a_vote_that_several_count_at_once_fills_one_slot(project):
    make_examples(project, 1)
    ana = make_annotator(project)
    first = open_round(project, None, None, EVERYTHING)
    second = open_round(project, None, None, EVERYTHING)
    vote = record_vote(claim_next(first, ana), {"overall": "left"})
    Slot.objects.filter(round=second).update(vote=None)
    assert sorted(at_once(lambda _: count_earlier_votes(second))) == [*[0] * (AT_ONCE - 1), 1]
    assert Slot.objects.filter(round=second, vote=vote).count() == 1


def test_numbers_are_given_once(project, tmp_path):
    make_examples(project, 2)
    path = tmp_path / "pairs.csv"
    path.write_text("question,response_1,response_2\nWhich?,An oak,An elm\n")
    imports = Import.objects.count()
    for action, rows, more in (
        (lambda _: open_round(project, None, None, EVERYTHING), Round, AT_ONCE),
        (lambda n: annotator_named(project, f"rater {n}"), Annotator, AT_ONCE),
        (lambda _: record_import(project, None, [path]), Import, AT_ONCE + imports),
    ):
        assert [one for one in at_once(action) if isinstance(one, Exception)] == []
        numbers = rows.objects.order_by("number").values_list("number", flat=True)
        assert list(numbers) == list(range(1, more + 1))


def test_the_same_thing_made_at_once_is_made_once(project):
    user = make_user()
    assert len({one.pk for one in at_once(lambda _: annotator_of(project, user))}) == 1
    assert len({one.pk for one in at_once(lambda _: annotator_named(project, "sam"))}) == 1
    assert len({one.pk for one in at_once(lambda _: current_protocol(project))}) == 1
    assert (Annotator.objects.count(), Protocol.objects.count()) == (2, 1)


def test_whoever_asks_several_times_at_once_gets_no_more_than_their_limit(project):
    make_examples(project, 8)
    ana = make_annotator(project)
    round_ = open_round(project, None, None, EVERYTHING)
    assign(round_, None, [], limit=2)
    handed = at_once(lambda _: claim_next(round_, ana))
    assert [one for one in handed if isinstance(one, Exception)] == []
    assert 1 <= Slot.objects.filter(annotator=ana).count() <= 2


def test_whoever_asks_while_the_round_is_given_to_others_gets_nothing(project):
    # The round was looked at before it was given to Ana, as a request that is under way does.
    make_examples(project, 2)
    ana, ben = make_annotator(project), make_annotator(project)
    looked_at = open_round(project, None, None, EVERYTHING)
    assign(Round.objects.get(pk=looked_at.pk), None, [ana])
    assert claim_next(looked_at, ben) == NoItem("not_assigned")
    assert list(looked_at.seats.values_list("annotator", flat=True)) == [ana.pk]


def votes_under_way(project):
    """Two rounds that share their examples, and people who vote in both until nothing is left."""
    make_examples(project, 12)
    people = [make_annotator(project) for _ in range(AT_ONCE)]
    rounds = [open_round(project, None, None, replace(EVERYTHING, votes=AT_ONCE)) for _ in range(2)]

    def vote(number):
        person = people[number]
        for turn in range(24):
            draft = claim_next(Round.objects.get(pk=rounds[(turn + number) % 2].pk), person)
            if isinstance(draft, NoItem):
                continue
            if turn % 5 == number:
                skip(draft)
            elif turn % 7 == number:
                leave_round(draft.item.round, person)
                come_back(draft.item.round, person)
            else:
                with suppress(UserError):
                    record_vote(draft, {"overall": "left"})

    return people, rounds, vote


@pytest.mark.system
def test_who_votes_skips_and_leaves_waits_for_nobody_for_ever(project):
    _, _, vote = votes_under_way(project)
    assert at_once(vote) == [None] * AT_ONCE


@pytest.mark.system
def test_a_manager_who_changes_a_round_waits_for_no_vote_for_ever(project):
    people, rounds, vote = votes_under_way(project)

    def act(number):
        if number:
            return vote(number)
        for votes in (AT_ONCE + 1, AT_ONCE + 2):
            for round_ in rounds:
                raise_votes(Round.objects.get(pk=round_.pk), None, votes)
                assign(round_, None, people[2:])
                assign(round_, None, [])
        return None

    assert at_once(act) == [None] * AT_ONCE


def test_a_project_can_be_deleted_while_people_vote_in_it(project):
    make_examples(project, 200)
    people = [make_annotator(project) for _ in range(AT_ONCE)]
    round_ = open_round(project, None, None, replace(EVERYTHING, votes=AT_ONCE))
    over = threading.Event()

    def act(number):
        if not number:
            try:
                return delete_project(project, None)
            finally:
                over.set()
        while not over.is_set():
            # What becomes of an item that is gone is told to a person, and is not looked at here.
            with suppress(ObjectDoesNotExist, UserError, IntegrityError, IndexError, KeyError):
                draft = claim_next(Round.objects.get(pk=round_.pk), people[number])
                if isinstance(draft, Draft):
                    record_vote(draft, {"overall": "left"})
        return None

    assert at_once(act) == [True] + [None] * (AT_ONCE - 1)
    assert not Project.objects.filter(pk=project.pk).exists()


def in_thread(action):
    """Started, and given a moment to come to where it waits."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.extend(at_once(lambda _: action(), times=1)))
    thread.start()
    thread.join(1)
    return thread, outcome


def test_an_erasure_waits_for_no_item_while_it_holds_others(project):
    make_examples(project, 2)
    ana, ben = make_annotator(project), make_annotator(project)
    round_ = open_round(project, None, None, EVERYTHING)
    low, high = round_.items.order_by("pk")
    Skip.objects.create(item=low, annotator=ben)
    Slot.objects.filter(item=high, index=0).update(annotator=ana)
    with transaction.atomic():
        # As whoever settles several items does, from the lowest key on.
        locked_items.all(keys=[low.pk])
        erasing, outcome = in_thread(lambda: erase_person(ana.user, None))
        locked_items.all(keys=[high.pk])
    erasing.join()
    assert outcome == [0]


def uncounted_vote(project):
    """A vote of one round, and a second round that is still to count it."""
    make_examples(project, 1)
    ana = make_annotator(project)
    first = open_round(project, None, None, EVERYTHING)
    vote = record_vote(claim_next(first, ana), {"overall": "left"})
    second = open_round(project, None, None, EVERYTHING)
    Slot.objects.filter(round=second).update(vote=None)
    return ana, vote, second


def test_a_vote_that_is_deleted_while_it_is_about_to_be_counted_is_not(project):
    ana, vote, second = uncounted_vote(project)
    erase_person(ana.user, None, remove_votes=True)
    assert count_vote_in(vote, second) == 0


def test_a_vote_that_is_counted_while_it_is_about_to_be_deleted_goes(project):
    ana, vote, second = uncounted_vote(project)
    with transaction.atomic():
        count_vote_in(vote, second)
        erasing, outcome = in_thread(lambda: erase_person(ana.user, None, remove_votes=True))
    erasing.join()
    assert outcome == [0]
    assert not Vote.objects.exists()
    assert not Slot.objects.exclude(vote=None).exists()
