"""Tokens: made, shown once, limited, revoked, and never found where they don't belong."""

import io
import json
import logging
import time
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from fairjudge_site.logs import SecretsFormatter
from fairjudge_site.server import has_token
from judging.core.errors import UserError
from judging.projects import tokens
from judging.projects.access import change_role, remove_member
from judging.projects.logins import PROVED
from judging.projects.models import ApiToken, AuditEvent, Membership
from judging.projects.tokens import issue_token, revoke
from tests.factories import make_project
from tests.fairjudge_site.api.conftest import TokenClient

pytestmark = pytest.mark.django_db


def rows_with(text: str) -> list[str]:
    """Every stored value of the tables that know tokens."""
    models = (ApiToken, AuditEvent)
    return [str(row) for model in models for row in model.objects.values() if text in str(row)]


def just_logged_in(user):
    client = Client()
    client.force_login(user)
    session = client.session
    session[PROVED] = time.time()
    session.save()
    return client


def test_a_session_left_open_makes_no_token_before_the_password_and_loses_no_field(owner):
    client = Client()
    client.force_login(owner)
    owner.set_password("pw")
    owner.save()
    client.force_login(owner)
    asked = {"name": "note & book", "scopes": ["read", "write"], "days": "9", "other": "no"}
    assert "You confirm first that it is you" in client.get("/tokens/").content.decode()
    led = client.post("/tokens/", asked)["Location"]
    assert not ApiToken.objects.exists()
    back = client.post(led, {"password": "pw"})["Location"]
    page = client.get(back)
    assert {name: page.context["form"][name].value() for name in ("name", "scopes", "days")} == {
        "name": "note & book",
        "scopes": ["read", "write"],
        "days": "9",
    }
    assert "You confirm first" not in page.content.decode()
    assert client.post("/tokens/", asked).context["made"] == ApiToken.objects.get()


def test_a_token_is_shown_once_and_only_its_hash_is_stored(owner):
    client = just_logged_in(owner)
    shown = client.post(reverse("tokens"), {"name": "notebook", "scopes": ["read"], "days": "9"})
    text = tokens.TOKEN.search(shown.content.decode())[0]
    assert TokenClient(text).get("me").json()["user"] == "olga"
    assert "no-store" in shown["Cache-Control"]
    again = client.get(reverse("tokens")).content.decode()
    assert text not in again
    assert text[:11] in again
    secret = text[12:]
    assert not rows_with(secret)
    event = AuditEvent.objects.get(action="token made")
    assert (event.actor, event.subject, event.detail["scopes"]) == ("olga", text[:11], ["read"])


def test_the_command_prints_a_token_on_standard_output_alone(project, owner):
    out, err = io.StringIO(), io.StringIO()
    call_command(
        "token", "olga", scopes="read,spend", project="vicuna", days=3, stdout=out, stderr=err
    )
    text = out.getvalue().strip()
    assert text not in err.getvalue()
    me = TokenClient(text).get("me").json()
    assert me["token"]["scopes"] == ["read", "spend"]
    assert me["token"]["project"] == "vicuna"
    listing = io.StringIO()
    call_command("token", "olga", list=True, stdout=listing)
    assert text[:11] in listing.getvalue()
    assert text[12:] not in listing.getvalue()
    call_command("token", "olga", revoke=text, stdout=out)
    assert TokenClient(text).get("me").status_code == 401


def test_the_documents_of_the_command_show_a_token_once(owner):
    def document(**options):
        out, err = io.StringIO(), io.StringIO()
        call_command("token", "olga", json=True, stdout=out, stderr=err, **options)
        return json.loads(out.getvalue()), err.getvalue()

    made, shown = document(name="nightly", days=3)
    assert TokenClient(made["token"]).get("me").status_code == 200
    assert made["token"][12:] not in shown
    listed, shown = document(list=True)
    assert [(row["prefix"], row["name"]) for row in listed["tokens"]] == [
        (made["prefix"], "nightly")
    ]
    assert made["token"][12:] not in json.dumps(listed) + shown
    ended, _ = document(revoke=made["prefix"])
    assert ended["revoked"] is not None
    assert TokenClient(made["token"]).get("me").status_code == 401


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scopes": "reed"}, "at least one scope"),
        ({"scopes": ","}, "at least one scope"),
        ({"days": 0}, "days"),
        ({"project": "another"}, "not a member"),
        ({"project": "nowhere"}, "no project"),
        ({"revoke": "fj_aaaaaaaa"}, "no such token"),
    ],
)
def test_the_command_says_what_is_wrong(owner, options, said):
    make_project("another")
    with pytest.raises(CommandError, match=said):
        call_command("token", "olga", **options)
    assert not ApiToken.objects.exists()


def test_an_expired_or_revoked_token_ends_with_401(token_for, owner):
    one = token_for(owner)
    assert one.get("me").status_code == 200
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    refused = one.get("me")
    assert (refused.status_code, refused.json()["code"]) == (401, "token_unusable")
    assert refused["WWW-Authenticate"].startswith("Bearer")
    other = token_for(owner)
    assert revoke(other.kept, owner)
    assert not revoke(other.kept, owner)
    assert other.get("me").status_code == 401
    assert AuditEvent.objects.filter(action="token revoked").count() == 1


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer fj_aaaaaaaa_" + "x" * 43, "Basic b2xnYTpwYXNz", "Bearer \0é"]
)
def test_what_is_no_token_gets_401_and_a_cookie_never_helps(header, owner):
    client = Client()
    client.force_login(owner)
    refused = client.get("/api/v1/me", headers={"Authorization": header} if header else {})
    assert refused.status_code == 401
    assert refused["Content-Type"] == "application/problem+json"


def test_a_token_opens_no_page_and_is_no_cookie(token_for, owner, project):
    one = token_for(owner)
    client = Client()
    client.cookies["sessionid"] = one.text
    page = client.get(
        f"/p/{project.slug}/settings", headers={"Authorization": f"Bearer {one.text}"}
    )
    assert page.status_code == 302
    assert page["Location"].startswith("/login/")


def test_removing_the_person_or_the_role_ends_what_the_token_may_do(
    token_for, owner, researcher, project
):
    one = token_for(researcher)
    assert one.get("projects/vicuna").status_code == 200
    member = Membership.objects.get(user=researcher)
    change_role(member, owner, "annotator")
    assert one.get("projects/vicuna").json()["role"] == "annotator"
    remove_member(Membership.objects.get(user=researcher), owner)
    assert one.get("projects/vicuna").status_code == 404
    assert one.get("projects").json()["items"] == []
    researcher.is_active = False
    researcher.save()
    assert one.get("me").status_code == 401
    researcher.delete()
    assert not ApiToken.objects.exists()


def test_a_token_of_one_project_opens_no_other(token_for, owner, project):
    another = make_project("another")
    Membership.objects.create(project=another, user=owner, role="owner")
    one = token_for(owner, project=project)
    assert [row["slug"] for row in one.get("projects").json()["items"]] == ["vicuna"]
    assert one.get("projects/another").status_code == 404
    assert one.post("projects", {"name": "new"}).status_code == 403
    project.delete()
    assert one.get("me").status_code == 401


def test_each_scope_is_asked_for(token_for, outsider):
    refused = token_for(outsider, "read").post("projects", {"name": "new"})
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    assert token_for(outsider, "write").get("me").status_code == 403
    assert token_for(outsider, "write").post("projects", {"name": "new"}).status_code == 201


def test_the_log_keeps_the_beginning_alone(token_for, owner):
    text = token_for(owner).text
    record = logging.LogRecord("x", logging.INFO, "", 0, "asked with %s", (text,), None)
    line = SecretsFormatter("%(message)s").format(record)
    assert line == f"asked with {text[:11]}_***"


def test_somebody_elses_token_is_not_there_to_revoke(token_for, owner, researcher):
    one = token_for(owner)
    client = Client()
    client.force_login(researcher)
    assert client.post(reverse("token_revoke", args=[one.kept.pk])).status_code == 404
    client.force_login(owner)
    assert client.post(reverse("token_revoke", args=[one.kept.pk])).status_code == 302
    assert one.get("me").status_code == 401


def test_the_rate_limit_says_when_to_come_again(token_for, owner, settings, monkeypatch):
    settings.FAIRJUDGE_API_RATE = 3
    monkeypatch.setattr(tokens, "_reserved", tokens._Reserved())
    monkeypatch.setattr(tokens.time, "time", lambda: 1_000_000_020.0)
    one, other = token_for(owner), token_for(owner)
    assert [one.get("me").status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = one.get("me")
    assert refused.json()["code"] == "too_many_requests"
    assert 1 <= int(refused["Retry-After"]) <= 61
    assert other.get("me").status_code == 200
    monkeypatch.setattr(tokens.time, "time", lambda: 1_000_000_090.0)
    assert one.get("me").status_code == 200


def test_processes_share_the_limit(token_for, owner, settings, monkeypatch):
    """Each process reserves blocks, and all together grant no more than the limit."""
    settings.FAIRJUDGE_API_RATE = 100
    monkeypatch.setattr(tokens.time, "time", lambda: 1_000_000_020.0)
    kept = token_for(owner).kept
    processes = [tokens._Reserved() for _ in range(4)]
    granted = 0
    for turn in range(200):
        monkeypatch.setattr(tokens, "_reserved", processes[turn % 4])
        granted += tokens.seconds_to_wait(kept) == 0
    assert granted == 100


@pytest.mark.django_db(transaction=True)
def test_the_server_receives_large_bodies_from_tokens_that_work(token_for, owner):
    one = token_for(owner)
    assert has_token(f"Bearer {one.text}")
    assert not has_token(f"Bearer {one.text[:-1]}x")
    revoke(one.kept, owner)
    assert not has_token(f"Bearer {one.text}")


def test_no_token_without_a_name_a_scope_or_an_active_login(owner):
    for name, scopes in [("", ["read"]), ("a" * 101, ["read"]), ("a\0", ["read"]), ("a", [])]:
        with pytest.raises(UserError):
            issue_token(owner, name, scopes)
    owner.is_active = False
    with pytest.raises(UserError):
        issue_token(owner, "a", ["read"])
