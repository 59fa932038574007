"""What is posted after the login ended or from a page older than it, without the script."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from annotation.models import Draft, Skip, Vote
from annotation.people.annotators import leave_project
from annotation.queue.drafts import MAX_COMMENT
from tests.annotation.screen.posting import first_item, post, text_of

pytestmark = [pytest.mark.django_db]
ENTERED = {"overall": "left", "comment": "Left cites its source."}


@pytest.fixture
def token(ana, round_):
    return first_item(ana, round_)


def log_in_at(client, answer, name):
    """By the page to which an answer leads; what is shown afterwards."""
    page = client.get(answer.url)
    fields = {"username": name, "password": "pw", "next": page.context["next"]}
    return page, client.post(reverse("login"), fields, follow=True)


@pytest.mark.databases
@pytest.mark.parametrize("what", ["vote", "draft", "skip", "back"])
def test_what_was_entered_is_there_after_logging_in_again(ana, token, annotator, what):
    ana.logout()
    page, after = log_in_at(ana, post(ana, token, what, **ENTERED), annotator.username)
    assert "What you entered is kept" in text_of(page)
    assert after.redirect_chain[-1][0].startswith(f"/annotate/{token}")
    shown = text_of(after)
    assert 'value="left" checked' in shown
    assert "Left cites its source." in shown
    assert "not submitted yet" in shown
    assert not Vote.objects.exists()
    assert not Skip.objects.exists()
    for _ in range(2):
        post(ana, token, **ENTERED)
    assert Vote.objects.get().comment == "Left cites its source."


def test_somebody_else_who_logs_in_sees_nothing_of_it(ana, token, other_annotator):
    ana.logout()
    page, after = log_in_at(ana, post(ana, token, **ENTERED), other_annotator.username)
    assert after.status_code == 404
    assert "cites" not in text_of(page) + text_of(after)
    assert Draft.objects.get(token=token).comment == "Left cites its source."


def test_nobody_who_does_not_know_a_token_has_anything_stored(ana, token):
    ana.logout()
    before = list(Draft.objects.values())
    answer = post(ana, "x" * 32, **ENTERED)
    assert answer.status_code == 302
    assert "is kept" not in text_of(ana.get(answer.url))
    # Another item's address than the form's own.
    ana.post(f"/annotate/{token}/vote", {"token": "x" * 32} | ENTERED)
    assert list(Draft.objects.values()) == before


def test_an_empty_form_takes_nothing_away_and_time_stands_still(ana, token):
    post(ana, token, "draft", **ENTERED)
    kept = Draft.objects.get(token=token)
    ana.logout()
    post(ana, token, overall="north", comment=" ", seconds="500")
    post(ana, token, "draft", **ENTERED, seconds="500")
    now = Draft.objects.get(token=token)
    assert (now.answer, now.comment) == (kept.answer, kept.comment)
    assert (now.active_seconds, now.updated_at) == (kept.active_seconds, kept.updated_at)


def test_no_more_is_kept_than_of_somebody_who_is_logged_in(ana, token):
    ana.logout()
    post(ana, token, overall="tie", comment="be\x00" + "y" * 20_000)
    assert Draft.objects.get(token=token).comment == "be" + "y" * (MAX_COMMENT - 2)


def test_nothing_is_kept_of_somebody_who_left_the_project(ana, token, annotator):
    leave_project(annotator.memberships.get(), annotator)
    ana.logout()
    assert "is kept" not in text_of(ana.get(post(ana, token, **ENTERED).url))
    assert Draft.objects.get(token=token).answer == {}


def test_a_vote_that_was_given_stays_as_it_is_until_it_is_saved(ana, token, annotator):
    post(ana, token, overall="right", comment="First thought.")
    ana.logout()
    _, after = log_in_at(ana, post(ana, token, edit="1", **ENTERED), annotator.username)
    assert 'value="left" checked' in text_of(after)
    vote = Vote.objects.get()
    assert (vote.answer["overall"], vote.comment) == ("right", "First thought.")


def test_the_script_is_led_to_the_login_as_before(ana, token):
    ana.logout()
    answer = post(ana, token, "draft", script=True, **ENTERED)
    assert answer.url.startswith(reverse("login"))
    assert "You were logged out" not in text_of(ana.get(answer.url))


# --- pages older than the login, whose forms carry a stale CSRF token


@pytest.fixture
def strict(token, annotator):
    """A browser whose posts are checked, and the CSRF token of the item's page in it."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(annotator)
    page = text_of(client.get(f"/annotate/{token}"))
    return client, re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[1]


def send(client, token, stale, what="vote", **fields):
    fields = {"token": token, "csrfmiddlewaretoken": stale} | fields
    return client.post(f"/annotate/{token}/{what}", fields)


def test_a_page_from_before_the_last_login_loses_nothing(strict, token):
    client, stale = strict
    client.cookies["csrftoken"] = "n" * 32
    answer = send(client, token, stale, **ENTERED)
    shown = text_of(client.get(answer.url))
    assert answer.status_code == 302
    assert 'value="left" checked' in shown
    assert "not submitted yet" in shown
    assert not Vote.objects.exists()


def test_without_any_cookie_it_is_there_after_logging_in(strict, token, annotator):
    client, stale = strict
    client.cookies.clear()
    answer = send(client, token, stale, **ENTERED)
    again = client.get(answer.url)
    assert again.url.startswith(reverse("login"))
    client.force_login(annotator)
    assert "Left cites its source." in text_of(client.get(answer.url))


def test_forms_of_other_pages_are_refused_as_before(strict, token):
    client, stale = strict
    client.cookies["csrftoken"] = "n" * 32
    fields = {"csrfmiddlewaretoken": stale, "one_key_submit": "on", "token": token}
    refused = client.post(reverse("annotate_preferences"), fields)
    assert refused.status_code == 403
    assert "This form has expired" in text_of(refused)


def test_the_script_is_told_by_403_and_sends_again(strict, token):
    client, stale = strict
    client.cookies["csrftoken"] = "n" * 32
    fields = {"token": token, "csrfmiddlewaretoken": stale} | ENTERED
    answer = client.post(f"/annotate/{token}/vote", fields, headers={"X-Annotate": "1"})
    assert answer.status_code == 403
