"""Crowd links: who gets a place, when it is given back, and what the link of a maker needs."""

import threading
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import Http404
from django.utils import timezone

from annotation.models import Annotator, CrowdLink, CrowdSubmission, Draft, Item, Slot, Vote
from annotation.people import crowds
from annotation.people.annotators import assign, assignable, voters_of
from annotation.people.crowds import PanelIds, State
from annotation.people.personal_data import erase_person
from annotation.queue.queue import CROWD_LEASE, claim_next, heartbeat, skip
from annotation.queue.settling import crowd_places
from annotation.rounds.changes import close
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import record_vote
from judging.core.errors import UserError
from judging.projects.access import change_role
from judging.projects.models import AuditEvent, Membership, Role
from tests.annotation.crowd import SECRET, set_up
from tests.factories import make_annotator, make_examples, make_member, make_project

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def round_(project):
    make_examples(project, 4)
    return open_round(project, None, None, RoundSettings(everything=True, votes=2))


@pytest.fixture
def link(round_, owner):
    return set_up(round_, owner)


def came(link, worker="w1", session=SECRET):
    return crowds.begin(link, PanelIds(worker, "study", session), {})


def go_away(submission, minutes=10):
    """Nothing is heard of them for some minutes."""
    then = timezone.now() - timedelta(minutes=minutes)
    CrowdSubmission.objects.filter(pk=submission.pk).update(back_at=then)
    Draft.every.filter(annotator=submission.annotator).update(updated_at=then)
    held = Slot.objects.filter(annotator=submission.annotator, vote=None)
    held.update(lease_until=then + CROWD_LEASE)


def test_a_person_gets_a_login_without_a_password_and_no_membership(link, project):
    user = came(link).annotator.user
    assert not user.has_usable_password()
    assert not Membership.objects.filter(user=user).exists()
    assert "w1" not in user.username
    annotator = crowds.admitted(user, link.round_id)
    assert (annotator.is_crowd, annotator.seats.get().limit) == (True, 2)


def test_ids_of_the_panel_are_in_no_trail_and_no_name(link):
    came(link, "worker-secret", "session-secret-1234567890")
    for table in (AuditEvent, Annotator, User):
        assert "secret" not in str(list(table.objects.values()))


def test_two_workers_are_two_people_and_one_worker_is_one(link):
    assert came(link, "w1").annotator != came(link, "w2").annotator
    with pytest.raises(UserError, match="already"):
        came(link, "w1")
    with pytest.raises(UserError, match="already"):
        crowds.submission_of(link, PanelIds("w1", "study", "another session"))
    assert crowds.submission_of(link, PanelIds("w1", "study", SECRET)) is not None
    assert CrowdSubmission.objects.count() == 2
    assert User.objects.filter(username__startswith="crowd-").count() == 2


def test_only_the_round_of_the_link_lets_them_in(link, project):
    other = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    person = came(link).annotator
    with pytest.raises(Http404):
        crowds.admitted(person.user, other.pk)
    assert not isinstance(claim_next(other, person), Draft)
    assert person.pk not in voters_of(other)[0]
    assert person not in assignable(project)


def test_their_part_ends_with_the_round(link):
    person = came(link).annotator
    close(link.round, None)
    with pytest.raises(crowds.CrowdOver):
        crowds.admitted(person.user, link.round_id)


def test_assigning_members_leaves_the_crowd_its_seats(link, project):
    person, ana = came(link).annotator, make_annotator(project, "ana")
    assign(link.round, None, [ana], 1)
    assert isinstance(claim_next(link.round, person), Draft)
    assert person.seats.get().limit == 2
    assign(link.round, None, [], None)
    assert person.seats.get().limit == 2


def test_places_are_limited_and_stopping_gives_one_back(link):
    people = [came(link, f"w{n}") for n in range(3)]
    with pytest.raises(UserError, match="places"):
        crowds.refuse_if_full(link)
    with pytest.raises(UserError, match="places"):
        came(link, "w4")
    draft = claim_next(link.round, people[0].annotator)
    crowds.end(people[0], State.RETURNED)
    assert Slot.objects.filter(item=draft.item, annotator__isnull=False).count() == 0
    assert crowd_places(link.round_id) == 1
    assert came(link, "w4").state == State.WORKING


def test_who_goes_away_gives_pair_and_place_back_within_minutes(link):
    person = came(link)
    draft = claim_next(link.round, person.annotator)
    slot = Slot.objects.get(annotator=person.annotator)
    assert slot.lease_until - timezone.now() <= timedelta(minutes=3)
    assert crowds.release_absent() == 0
    go_away(person, minutes=10)
    assert crowds.release_absent() == 1
    person.refresh_from_db()
    assert person.state == State.LEFT
    assert not Slot.objects.filter(annotator=person.annotator).exists()
    with pytest.raises(crowds.CrowdOver):
        crowds.admitted(person.annotator.user, link.round_id)
    assert crowds.come_back(person)
    assert isinstance(claim_next(link.round, person.annotator), Draft)
    assert draft.item.drafts.count() == 1


def test_who_reads_for_long_stays(link):
    person = came(link)
    claim_next(link.round, person.annotator)
    go_away(person, minutes=1)
    CrowdSubmission.objects.update(back_at=timezone.now() - timedelta(hours=1))
    assert crowds.release_absent() == 0


def test_who_reads_a_pair_that_came_again_for_long_stays(project, owner):
    make_examples(project, 6)
    settings = RoundSettings(everything=True, votes=2, seed=1, repeat_percent=50, repeat_after=1)
    link = set_up(open_round(project, None, None, settings), owner, max_pairs=6)
    person = came(link)
    while (draft := claim_next(link.round, person.annotator)).repeat_id is None:
        record_vote(draft, {"overall": "left"})
    go_away(person)
    assert heartbeat(draft)
    assert crowds.release_absent() == 0
    go_away(person)
    assert crowds.release_absent() == 1


def test_who_gave_all_votes_and_closed_the_page_has_done_their_part(link):
    person = came(link)
    for _ in range(2):
        record_vote(claim_next(link.round, person.annotator), {"overall": "left"})
    go_away(person)
    assert crowds.release_absent() == 0
    person.refresh_from_db()
    assert person.state == State.COMPLETE
    # Nobody else gets the place that is paid.
    assert crowd_places(link.round_id) == 2


def test_who_comes_back_too_late_finds_no_place(link):
    person = came(link, "w1")
    go_away(person)
    crowds.release_absent()
    for n in range(2, 5):
        came(link, f"w{n}")
    assert not crowds.come_back(person)
    assert person.state != State.COMPLETE


def test_a_person_is_done_at_the_limit_and_not_before(link):
    person = came(link)
    record_vote(claim_next(link.round, person.annotator), {"overall": "left"})
    assert not crowds.finish(person)
    record_vote(claim_next(link.round, person.annotator), {"overall": "left"})
    assert crowds.finish(person)
    assert person.state == State.COMPLETE
    assert crowd_places(link.round_id) == 2
    event = AuditEvent.objects.get(action="crowd person complete")
    assert event.actor == person.annotator.user.username


def test_who_found_no_pair_is_not_complete(link, project):
    person = came(link)
    for ana in (make_annotator(project, "ana"), make_annotator(project, "ben")):
        while isinstance(draft := claim_next(link.round, ana), Draft):
            record_vote(draft, {"overall": "tie"})
    assert crowds.finish(person)
    assert person.state == State.NOTHING
    with pytest.raises(UserError, match="accepts no more people"):
        crowds.refuse_if_full(link)


def test_what_one_person_skipped_waits_for_others_while_the_link_lets_them_in(link, owner):
    person = came(link).annotator
    draft = claim_next(link.round, person)
    skip(draft)
    assert Item.objects.get(pk=draft.item_id).state == Item.State.OPEN
    crowds.withdraw(CrowdLink.objects.get(), owner)
    assert Item.objects.get(pk=draft.item_id).state == Item.State.ADJUDICATE


def test_the_link_works_as_long_as_its_maker_may_invite(link, project, owner):
    keeper = make_member(project, Role.OWNER, "kim")
    token = crowds.link_of(link).split("?")[0].rstrip("/").split("/")[-1]
    assert crowds.open_link(token) == link
    change_role(project.memberships.get(user=owner), keeper, Role.RESEARCHER)
    with pytest.raises(UserError, match="accepts no more people"):
        crowds.open_link(token)
    change_role(project.memberships.get(user=owner), keeper, Role.OWNER)
    with pytest.raises(UserError, match="accepts no more people"):
        crowds.open_link(token)
    with pytest.raises(UserError, match="accepts no more people"):
        came(link)
    again = crowds.set_up(link.round, keeper, {})
    assert crowds.open_link(crowds.link_of(again).split("?")[0].rstrip("/").split("/")[-1])


def test_a_link_without_a_maker_or_withdrawn_is_dead_and_a_new_one_is_another(link, owner):
    first = crowds.link_of(link)
    crowds.withdraw(link, owner)
    assert crowd_places(link.round_id) == 0
    link = set_up(link.round, owner)
    assert crowds.link_of(link) != first
    CrowdLink.objects.update(created_by=None)
    assert not crowds.is_usable(link)
    assert AuditEvent.objects.filter(action="crowd link made").count() == 2


def test_a_closed_round_and_imported_votes_have_no_link(round_, owner):
    close(round_, None)
    with pytest.raises(UserError, match="hands out no items"):
        set_up(round_, owner)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({}, "lacks your ID"),
        ({"PROLIFIC_PID": "{{%PROLIFIC_PID%}}"}, "lacks your ID"),
        ({"PROLIFIC_PID": "a b"}, "lacks your ID"),
        ({"PROLIFIC_PID": "x" * 121}, "lacks your ID"),
        ({"workerId": "A1", "assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"}, "preview"),
    ],
)
def test_ids_that_are_missing_or_odd_are_refused(link, sent, said):
    with pytest.raises(UserError, match=said):
        crowds.panel_ids(link, sent)


def test_ids_are_read_by_the_links_names_and_by_those_of_mturk(link):
    mturk = {"workerId": "A1", "hitId": "H1", "assignmentId": "S1"}
    assert crowds.panel_ids(link, mturk) == PanelIds("A1", "H1", "S1")
    link.worker_name, link.session_name = "pid", ""
    assert crowds.panel_ids(link, {"pid": "p", "SESSION_ID": "s"}) == PanelIds("p")


def test_erasing_a_person_empties_the_panels_ids(link):
    person = crowds.begin(link, PanelIds("w1", "study", SECRET), {"Age?": "30"})
    record_vote(claim_next(link.round, person.annotator), {"overall": "left"})
    erase_person(person.annotator.user, None)
    person.refresh_from_db()
    assert (person.worker_id, person.study_id, person.session_id) == ("", "", "")
    assert person.answers == {}
    assert Vote.objects.count() == 1


def test_an_address_begins_so_many_times_an_hour(link):
    for _ in range(crowds.LOGINS_AN_HOUR):
        crowds.count_new_login("192.0.2.7")
    with pytest.raises(UserError, match="your network"):
        crowds.count_new_login("192.0.2.7")
    crowds.count_new_login("192.0.2.8")


def test_a_household_is_one_network_whatever_address_it_takes(link, monkeypatch):
    monkeypatch.setattr(crowds, "LOGINS_AN_HOUR", 1)
    crowds.count_new_login("2001:db8:1:2::1")
    with pytest.raises(UserError, match="your network"):
        crowds.count_new_login("2001:db8:1:2:ffff::9")
    crowds.count_new_login("2001:db8:1:3::1")
    crowds.count_new_login("unknown")


@pytest.mark.django_db(transaction=True)
def test_the_last_place_and_one_worker_are_given_once_even_to_many_at_once(owner, project):
    make_examples(project, 4)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2))
    link = set_up(round_, owner, max_people=2)
    barrier, said = threading.Barrier(6), []

    def come(worker):
        try:
            barrier.wait()
            came(CrowdLink.objects.select_related("round__project").get(), worker)
            said.append("in")
        except UserError as error:
            said.append(str(error))
        finally:
            connection.close()

    threads = [
        threading.Thread(target=come, args=(name,)) for name in ("a", "a", "b", "b", "c", "c")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said.count("in") == 2
    workers = link.submissions.values_list("worker_id", flat=True)
    assert len(set(workers)) == len(workers) == 2
    assert User.objects.filter(username__startswith="crowd-").count() == 2


def test_a_link_of_another_project_is_another_persons(link):
    other = make_project("other")
    owner = make_member(other, Role.OWNER, "oda")
    make_examples(other, 2)
    there = set_up(open_round(other, None, None, RoundSettings(everything=True, votes=1)), owner)
    assert came(link, "w1").annotator.user != came(there, "w1").annotator.user
