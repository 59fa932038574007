"""Sessions and logins end when they should, though they are found in a way of our own."""

from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from judging.projects.accounts import forget_logins
from tests.factories import make_member

pytestmark = [pytest.mark.databases]


@pytest.fixture
def person(project):
    return make_member(project, name="ana")


@pytest.fixture
def logged_in(person) -> Client:
    client = Client()
    client.post("/login/", {"username": "ana", "password": "pw"})
    assert client.get("/annotate/").status_code == 200
    return client


def is_asked_to_log_in(client: Client) -> bool:
    return client.get("/annotate/").headers.get("Location", "").startswith("/login")


def test_a_session_ends_by_time(logged_in):
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert is_asked_to_log_in(logged_in)


def test_a_session_ends_when_it_is_deleted_elsewhere(logged_in):
    Session.objects.all().delete()
    assert is_asked_to_log_in(logged_in)


def test_a_login_that_was_closed_or_deleted_is_nobody(logged_in, person):
    person.is_active = False
    person.save()
    assert is_asked_to_log_in(logged_in)
    person.is_active = True
    person.save()
    assert not is_asked_to_log_in(logged_in)
    person.delete()
    assert is_asked_to_log_in(logged_in)


def test_a_new_password_ends_the_sessions_of_the_old_one(logged_in, person):
    person.set_password("another")
    person.save()
    assert is_asked_to_log_in(logged_in)


def test_a_made_up_session_is_nobody(client, project):
    client.cookies["sessionid"] = "' OR 1=1 --"
    assert is_asked_to_log_in(client)


def test_sessions_that_are_over_and_addresses_that_lock_nobody_are_forgotten(client, db, settings):
    now = timezone.now()
    old, live = (now + timedelta(days=days) for days in (-1, 1))
    Session.objects.create(session_key="over", session_data="", expire_date=old)
    Session.objects.create(session_key="live", session_data="", expire_date=live)
    for _ in range(2):
        client.post("/login/", {"username": "ana", "password": "no"})
    AccessAttempt.objects.create(username="ben", ip_address="192.0.2.7", failures_since_start=9)
    past = now - settings.AXES_COOLOFF_TIME - timedelta(seconds=1)
    AccessAttempt.objects.filter(username="ben").update(attempt_time=past)
    forget_logins()
    assert [row.session_key for row in Session.objects.all()] == ["live"]
    # What still counts against a guesser stays.
    assert list(AccessAttempt.objects.values_list("username", "failures_since_start")) == [
        ("ana", 2)
    ]
