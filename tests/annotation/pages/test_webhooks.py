"""The pages of webhooks: adding one, its log, and what an owner can do about it."""

import pytest
from django.urls import reverse

from judging.core import waking
from judging.projects import webhooks
from judging.projects.models import Delivery, Webhook
from judging.projects.webhooks import EVENTS, secret_of, send_due

pytestmark = pytest.mark.django_db
LIST = "/p/vicuna/settings/webhooks"


@pytest.fixture(autouse=True)
def unheard(monkeypatch):
    monkeypatch.setattr(waking, "wake", lambda *message: True)


@pytest.fixture
def hook(receiver, project):
    return webhooks.add_webhook(project, None, receiver.url, list(EVENTS))


def test_without_a_webhook_the_page_says_what_one_is_for(as_owner, project):
    page = as_owner.get(LIST).text
    assert "This project has no webhooks yet." in page
    assert all(name in page for name in EVENTS)
    assert reverse("webhooks", args=["vicuna"]) in as_owner.get("/p/vicuna/settings").text


def test_the_secret_is_shown_once_and_kept_by_no_cache(as_owner, receiver, project):
    page = as_owner.post(LIST, {"url": receiver.url, "events": ["run.done", "gate.decided"]})
    hook = Webhook.objects.get()
    assert hook.events == ["run.done", "gate.decided"]
    secret = secret_of(hook.salt)
    assert secret in page.text
    assert "no-store" in page["Cache-Control"]
    assert secret not in as_owner.get(f"{LIST}/1").text
    assert receiver.url in as_owner.get(LIST).text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "http://example.org", "events": ["run.done"]}, "Only https is possible"),
        ({"url": "https://10.1.2.3", "events": ["run.done"]}, "FAIRJUDGE_WEBHOOK_HOSTS"),
        ({"url": "https://example.org"}, "This field is required"),
        ({"url": "https://example.org", "events": ["run.gone"]}, "Select a valid choice"),
    ],
)
def test_a_refused_form_says_why_and_keeps_what_was_typed(as_owner, project, fields, said):
    page = as_owner.post(LIST, fields)
    assert page.status_code == 422
    assert said in page.text
    assert fields["url"] in page.text
    assert not Webhook.objects.exists()


def test_a_test_event_its_answer_and_sending_it_again(as_owner, hook, receiver):
    assert "Nothing has been sent yet." in as_owner.get(f"{LIST}/1").text
    receiver.statuses[:] = [500]
    receiver.body = b"<script>alert(1)</script>"
    said = as_owner.post(f"{LIST}/1", {"test": ""}, follow=True).text
    assert "A test event is queued." in said
    send_due(hook.pk)
    page = as_owner.get(f"{LIST}/1").text
    assert "500 &lt;script&gt;" in page
    assert "<script>alert" not in page
    assert "next attempt" in page
    receiver.body = b""
    as_owner.post(f"{LIST}/1/deliveries/{Delivery.objects.get().pk}/send")
    send_due(hook.pk)
    assert receiver.events == ["webhook.test", "webhook.test"]
    assert "delivered" in as_owner.get(f"{LIST}/1").text


def test_pausing_resuming_a_new_secret_and_deleting(as_owner, hook):
    before = secret_of(hook.salt)
    assert "is paused" in as_owner.post(f"{LIST}/1", {"pause": ""}, follow=True).text
    assert "is on again" in as_owner.post(f"{LIST}/1", {"resume": ""}, follow=True).text
    page = as_owner.post(f"{LIST}/1", {"rotate": ""})
    hook.refresh_from_db()
    assert secret_of(hook.salt) in page.text
    assert before not in page.text
    assert "Earlier secret" in as_owner.get(f"{LIST}/1").text
    assert "is deleted" in as_owner.post(f"{LIST}/1", {"delete": ""}, follow=True).text
    assert not Webhook.objects.exists()


def test_what_a_receiver_ended_is_said_and_can_be_resumed(as_owner, hook, receiver, project):
    receiver.statuses[:] = [410]
    webhooks.send_test(hook, None)
    send_due(hook.pk)
    assert "The receiver ended this webhook." in as_owner.get(f"{LIST}/1").text
    as_owner.post(f"{LIST}/1", {"resume": ""})
    assert Webhook.objects.get().state == "on"


def test_a_paused_webhook_sends_no_test(as_owner, hook):
    webhooks.pause_webhook(hook, None)
    as_owner.post(f"{LIST}/1", {"test": ""})
    assert not Delivery.objects.exists()


def test_pages_cost_as_many_queries_with_many_rows_as_with_one(
    as_owner, hook, receiver, project, django_assert_num_queries, django_assert_max_num_queries
):
    webhooks.send_test(hook, None)
    for address in (LIST, f"{LIST}/1"):
        as_owner.get(address)
        with django_assert_max_num_queries(10) as counted:
            as_owner.get(address)
        for _ in range(9):
            webhooks.send_test(hook, None)
            webhooks.add_webhook(project, None, receiver.url, ["run.done"])
        with django_assert_num_queries(len(counted)):
            as_owner.get(address)
