"""Sessions and logins end when they should, though they are found in a way of our own."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

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
