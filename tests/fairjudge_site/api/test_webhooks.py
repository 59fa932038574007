"""Webhooks by program: one is added, an event arrives, and its secret is told once."""

import pytest
from django.core.management import call_command

from judging.core import waking
from judging.projects import webhooks
from judging.projects.models import Delivery, KeptAnswer, Webhook
from judging.projects.webhooks import EVENTS, send_due
from tests.factories import make_project

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def unheard(monkeypatch):
    monkeypatch.setattr(waking, "wake", lambda *message: True)


@pytest.fixture
def client(token_for, owner):
    return token_for(owner)


def test_from_adding_a_webhook_to_an_event_that_is_sent_again(client, receiver, project):
    made = client.post("projects/vicuna/webhooks", {"url": receiver.url})
    assert made.status_code == 201
    added = made.json()
    assert added["events"] == list(EVENTS)
    assert client.get(made["Location"]).json() == {
        name: value for name, value in added.items() if name != "secret"
    }
    queued = client.post(f"{made['Location']}/test")
    assert (queued.status_code, queued.json()["state"]) == (202, "waiting")
    receiver.statuses[:] = [500]
    assert send_due(Webhook.objects.get().pk) == 1
    (entry,) = client.get(f"{made['Location']}/deliveries").json()["items"]
    assert (entry["state"], entry["status"], entry["attempts"]) == ("waiting", 500, 1)
    again = client.post(f"{made['Location']}/deliveries/{entry['id']}/send")
    assert again.status_code == 202
    assert send_due(Webhook.objects.get().pk) == 1
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == entry["message"]
    assert second.is_signed_by(added["secret"])
    assert second.content == entry["body"]


def test_a_repeat_gets_the_secret_again_and_the_kept_answer_has_none(client, receiver):
    key = {"Idempotency-Key": "k"}
    first = client.post("projects/vicuna/webhooks", {"url": receiver.url}, **key)
    again = client.post("projects/vicuna/webhooks", {"url": receiver.url}, **key)
    assert first.json() == again.json()
    assert again["Idempotency-Replayed"] == "true"
    assert Webhook.objects.count() == 1
    secret = first.json()["secret"]
    assert secret.startswith("whsec_")
    assert secret not in KeptAnswer.objects.get().body
    rotated = client.post("projects/vicuna/webhooks/1/rotate")
    assert rotated.json()["secret"] not in (secret, None)
    assert webhooks.secret_of(Webhook.objects.get().salt) == rotated.json()["secret"]
    for row in Webhook.objects.values():
        assert secret.removeprefix("whsec_") not in str(row)


def test_what_can_not_be_used_is_refused_with_the_sentence_of_the_page(client):
    for body in (
        {"url": "http://example.org/"},
        {"url": "https://10.0.0.1/"},
        {"url": "https://example.org/", "events": ["run.gone"]},
    ):
        refused = client.post("projects/vicuna/webhooks", body)
        assert (refused.status_code, refused.json()["code"]) == (422, "refused")
        assert refused.json()["detail"].endswith(".")
    assert not Webhook.objects.exists()


def test_pausing_resuming_and_deleting(client, receiver):
    client.post("projects/vicuna/webhooks", {"url": receiver.url, "events": ["run.done"]})
    assert client.post("projects/vicuna/webhooks/1/pause").json()["state"] == "paused"
    refused = client.post("projects/vicuna/webhooks/1/test")
    assert (refused.status_code, "Resume it first" in refused.json()["detail"]) == (422, True)
    assert client.post("projects/vicuna/webhooks/1/resume").json()["state"] == "on"
    assert client.post("projects/vicuna/webhooks/1/delete").json()["number"] == 1
    assert client.get("projects/vicuna/webhooks/1").status_code == 404
    assert client.get("projects/vicuna/webhooks").json()["items"] == []


def test_a_delivery_of_another_webhook_is_not_found(client, receiver, project):
    other = webhooks.add_webhook(make_project("other"), None, receiver.url, ["run.done"])
    delivery = webhooks.send_test(other, None)
    client.post("projects/vicuna/webhooks", {"url": receiver.url})
    address = f"projects/vicuna/webhooks/1/deliveries/{delivery.pk}/send"
    assert client.post(address).status_code == 404
    assert Delivery.objects.get().attempts == 0


def test_the_log_costs_as_many_queries_with_many_events_as_with_one(
    client, receiver, django_assert_num_queries, django_assert_max_num_queries
):
    client.post("projects/vicuna/webhooks", {"url": receiver.url})
    hook = Webhook.objects.select_related("project").get()
    webhooks.send_test(hook, None)
    client.get("projects/vicuna/webhooks/1/deliveries")
    with django_assert_max_num_queries(6) as counted:
        client.get("projects/vicuna/webhooks/1/deliveries")
    for _ in range(30):
        webhooks.send_test(hook, None)
    with django_assert_num_queries(len(counted)):
        found = client.get("projects/vicuna/webhooks/1/deliveries?limit=30").json()
    assert len(found["items"]) == 30
    assert found["next_cursor"]


def test_restoring_a_backup_pauses_webhooks(receiver, project, tmp_path, settings):
    settings.MEDIA_ROOT = tmp_path
    from fairjudge_site import backups

    hook = webhooks.add_webhook(project, None, receiver.url, ["run.done"])
    backups._end_links_and_logins()
    hook.refresh_from_db()
    assert hook.state == "paused"
    call_command("check")
