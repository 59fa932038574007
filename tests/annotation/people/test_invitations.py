"""Invitation links: what they give, how often, for how long, and what is left when they end."""

import threading
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from annotation.models import Annotator, Invitation
from annotation.people.invitations import (
    MAX_USES,
    Terms,
    accept_invitation,
    invite,
    link_of,
    open_invitation,
    revoke_invitation,
)
from judging.core.errors import UserError
from judging.projects.models import AuditEvent, Membership, Role
from tests.factories import make_project, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def invitation(project, owner):
    return invite(project, owner, Terms(uses=2, note="the class of May"))


def token_of(invitation):
    return link_of(invitation).rstrip("/").split("/")[-1]


@pytest.fixture
def join(client, invitation):
    """Post the page of the link, as whoever the client is logged in as."""
    address = reverse("invite", args=[token_of(invitation)])

    def join(**fields):
        return client.post(address, fields)

    return join


def test_a_link_opens_its_invitation_and_is_on_record(invitation, settings):
    assert link_of(invitation).startswith(settings.FAIRJUDGE_URL)
    assert open_invitation(token_of(invitation)) == invitation
    event = AuditEvent.objects.get(action="invited")
    assert (event.subject, event.detail["uses"]) == ("the class of May", 2)


@pytest.mark.parametrize("change", ["cut", "other number", "other salt"])
def test_a_link_cannot_be_made_up(invitation, change):
    from django.core import signing

    token = {
        "cut": token_of(invitation)[:-1],
        "other number": signing.dumps(invitation.pk + 1, salt="fairjudge.invitation")[:5]
        + token_of(invitation)[5:],
        "other salt": signing.dumps(invitation.pk, salt="something.else"),
    }[change]
    with pytest.raises(UserError, match="incomplete"):
        open_invitation(token)


def test_a_link_that_expired_is_refused(invitation):
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(UserError, match="expired"):
        open_invitation(token_of(invitation))
    with pytest.raises(UserError):
        accept_invitation(invitation, make_user())


def test_a_withdrawn_link_is_refused_and_who_joined_by_it_stays(project, owner, invitation):
    ada = make_user()
    accept_invitation(invitation, ada)
    revoke_invitation(invitation, owner)
    with pytest.raises(UserError, match="withdrawn"):
        open_invitation(token_of(invitation))
    with pytest.raises(UserError):
        accept_invitation(invitation, make_user())
    assert Membership.objects.filter(project=project, user=ada).exists()


def test_each_person_uses_a_link_once_and_it_is_used_up(project, invitation):
    ada, bob, cleo = make_user(), make_user(), make_user()
    for user in (ada, ada, bob):
        assert accept_invitation(invitation, user).role == Role.ANNOTATOR
    invitation.refresh_from_db()
    assert invitation.uses == 2
    with pytest.raises(UserError, match="used up"):
        accept_invitation(invitation, cleo)
    assert not Membership.objects.filter(user=cleo).exists()
    assert set(Annotator.objects.values_list("user", flat=True)) == {ada.pk, bob.pk}


def test_a_link_does_not_change_the_role_of_a_member(project, owner, invitation):
    assert accept_invitation(invitation, owner).role == Role.OWNER
    invitation.refresh_from_db()
    assert invitation.uses == 0


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        (Terms(role="king"), "reviewer, observer or annotator"),
        (Terms(uses=0), "between 1 and 1000"),
        (Terms(uses=MAX_USES + 1), "between 1 and 1000"),
        (Terms(days=0), "between 1 and 365"),
    ],
)
def test_terms_out_of_range_are_refused(project, owner, terms, said):
    with pytest.raises(UserError, match=said):
        invite(project, owner, terms)
    assert not Invitation.objects.exists()


@pytest.mark.databases
@pytest.mark.django_db(transaction=True)
def test_the_last_use_is_given_once_however_many_ask_at_the_same_time():
    project = make_project()
    invitation = invite(project, None, Terms(uses=1))
    people = [make_user() for _ in range(6)]
    together, joined = threading.Barrier(len(people)), []

    def ask(user):
        try:
            together.wait()
            joined.append(accept_invitation(invitation, user).user)
        except UserError:
            pass
        finally:
            connection.close()

    threads = [threading.Thread(target=ask, args=[user]) for user in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(joined) == 1
    assert [member.user for member in project.memberships.all()] == joined
    invitation.refresh_from_db()
    assert invitation.uses == 1


def test_somebody_new_makes_a_login_on_the_way_in(client, project, join):
    password = "a long enough one"
    answer = join(username="nina", password1=password, password2=password)
    assert answer["Location"] == reverse("annotate")
    nina = User.objects.get(username="nina")
    assert client.get(reverse("annotate")).context["user"] == nina
    assert Membership.objects.get(user=nina).role == Role.ANNOTATOR


def test_a_name_that_is_taken_is_told_and_uses_nothing_up(join, owner, invitation):
    answer = join(username="OLGA", password1="a long enough one", password2="a long enough one")
    assert answer.status_code == 422
    assert "taken" in answer.text
    invitation.refresh_from_db()
    assert invitation.uses == 0


def test_somebody_with_a_login_joins_as_who_they_are(client, project, outsider, join):
    client.force_login(outsider)
    assert join().status_code == 302
    assert Membership.objects.get(project=project, user=outsider).role == Role.ANNOTATOR


def test_an_owner_comes_to_the_project(client, project, owner, outsider):
    client.force_login(outsider)
    link = invite(project, owner, Terms(role=Role.OWNER))
    answer = client.post(reverse("invite", args=[token_of(link)]))
    assert answer["Location"] == reverse("project", args=[project.slug])


def test_whoever_comes_too_late_leaves_no_login_behind(client, join, invitation, monkeypatch):
    # The last uses go to others after the page found the link good.
    from annotation.pages import people

    def found(token, user):
        Invitation.objects.update(uses=2)
        return invitation

    monkeypatch.setattr(people, "open_invitation", found)
    password = "a long enough one"
    answer = join(username="nina", password1=password, password2=password)
    assert answer.status_code == 410
    assert "used up just now" in answer.text
    assert not User.objects.filter(username="nina").exists()


def test_a_dead_link_says_so_without_naming_the_project(client, project, owner, invitation):
    revoke_invitation(invitation, owner)
    answer = client.get(reverse("invite", args=[token_of(invitation)]))
    assert answer.status_code == 410
    assert "withdrawn" in answer.text
    assert project.slug not in answer.text
