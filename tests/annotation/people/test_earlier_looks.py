"""Who once saw judge output in a project stays unblinded there, whatever becomes of their role."""

from importlib import import_module

import pytest
from django.apps import apps
from django.utils import timezone

from annotation.models import Vote
from annotation.people.annotators import annotator_of, leave_project
from annotation.people.invitations import Terms, accept_invitation, invite
from annotation.people.personal_data import erase_person
from annotation.queue.queue import claim_next
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import record_vote
from judging.projects.access import adopt_projects, project_for
from judging.projects.models import EarlierLook, Export, Membership, Role
from tests.factories import make_examples, make_member, make_project, make_run, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


def look(user, project):
    project_for(user, project.slug, shows_judge=True, is_told=True)


def vote_of(user, project):
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=1))
    return record_vote(claim_next(round_, annotator_of(project, user)), {"overall": "left"})


def join(project, user, by):
    return accept_invitation(invite(project, by, Terms()), user)


@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("removed", [True, False])
def test_who_looked_leaves_and_comes_back_is_still_unblinded(project, owner, looked, removed):
    user = make_member(project, Role.RESEARCHER, "rita")
    if looked:
        look(user, project)
    first = Membership.objects.get(user=user).unblinded_at
    for _ in range(2):
        leave_project(Membership.objects.get(user=user), owner if removed else user)
        assert join(project, user, owner).unblinded_at == first
    assert (first is not None) is looked
    assert vote_of(user, project).unblinded is looked


@pytest.mark.parametrize("looked", [True, False])
def test_who_looked_as_a_superuser_joins_unblinded(project, owner, looked):
    user = make_user("sue", is_superuser=True)
    if looked:
        look(user, project)
        look(user, project)
        assert EarlierLook.objects.count() == 1
    user.is_superuser = False
    user.save()
    join(project, user, owner)
    assert vote_of(user, project).unblinded is looked


def test_a_superuser_who_adopts_a_project_after_a_look_is_unblinded(db):
    project, user = make_project("orphan"), make_user("sue", is_superuser=True)
    look(user, project)
    adopt_projects(user)
    assert vote_of(user, project).unblinded


def test_a_look_in_another_project_unblinds_nobody_here(project, owner):
    other, user = make_project("other"), make_user("sue", is_superuser=True)
    look(user, other)
    look(make_user("tom", is_superuser=True), project)
    assert join(project, user, owner).unblinded_at is None


def test_a_look_while_the_membership_ends_is_kept(project, owner, monkeypatch):
    user = make_member(project, Role.RESEARCHER, "rita")
    member = Membership.objects.get(user=user)
    monkeypatch.setattr("judging.projects.access._memberships.first", lambda **_: member)
    leave_project(Membership.objects.get(user=user), owner)
    look(user, project)
    assert EarlierLook.objects.get().user == user


def test_erasing_a_person_removes_the_mark(project, owner):
    user = make_member(project, Role.RESEARCHER, "rita")
    look(user, project)
    leave_project(Membership.objects.get(user=user), owner)
    assert EarlierLook.objects.filter(user=user).exists()
    erase_person(user, None)
    assert not EarlierLook.objects.exists()


def test_marks_that_were_lost_before_are_found_in_votes_and_exports(project, owner):
    run = make_run(project)
    back, gone, blind = (make_member(project, name=name) for name in ("back", "gone", "blind"))
    voted = vote_of(back, project)
    Vote.objects.update(unblinded=True)
    for user, what in ((gone, "labels"), (blind, "votes")):
        Export.objects.create(project=project, run=run, what=what, format="csv", created_by=user)
    Membership.objects.filter(user=gone).delete()
    now = timezone.now()
    import_module("annotation.migrations.0009_earlier_looks").looks_before(apps, None)
    assert Membership.objects.get(user=back).unblinded_at == voted.submitted_at
    assert EarlierLook.objects.get().user == gone
    assert EarlierLook.objects.get().at <= now
    assert Membership.objects.get(user=blind).unblinded_at is None
