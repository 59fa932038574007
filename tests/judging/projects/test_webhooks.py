"""Webhooks, sent to a real server on loopback that checks their signatures itself."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from judging.core import leases, outbound, waking
from judging.core.caching import report_cache
from judging.core.errors import UserError
from judging.projects import webhooks
from judging.projects.access import tell
from judging.projects.deliveries import ATTEMPTS
from judging.projects.models import AuditEvent, Delivery, Webhook
from judging.projects.webhooks import EVENTS, add_webhook, secret_of, send_due
from tests.factories import make_project
from tests.processes import eventually
from tests.together import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
commits = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    """The messages to workers, which nobody reads here."""
    found = []
    monkeypatch.setattr(waking, "wake", lambda task, *values: found.append((task, *values)) or True)
    return found


@pytest.fixture
def hook(receiver, project):
    return add_webhook(project, None, receiver.url, ["run.done", "import.done"])


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still and is set by hand."""

    class Clock:
        now = timezone.now()

        def pass_by(self, **time):
            self.now += timedelta(**time)

    made = Clock()
    monkeypatch.setattr(timezone, "now", lambda: made.now)
    return made


def happen(project, event="run.done", **data):
    with transaction.atomic():
        tell(project, event, lambda: data or {"run": 1})


def only():
    return Delivery.objects.get()


@commits
def test_an_event_arrives_signed_as_the_standard_says(hook, receiver, project, sent):
    happen(project, run=3)
    assert sent == [(waking.SEND_WEBHOOKS, hook.pk)]
    assert send_due(hook.pk) == 1
    got = receiver.received[0]
    assert got.content["type"] == "run.done"
    assert got.content["data"] == {"project": "vicuna", "run": 3}
    assert got.content["timestamp"].endswith("Z")
    assert abs(int(got.headers["webhook-timestamp"]) - timezone.now().timestamp()) < 60
    assert got.headers["webhook-id"] == only().message
    assert got.headers["content-type"] == "application/json"
    assert got.is_signed_by(secret_of(hook.salt))
    assert not got.is_signed_by(secret_of("another"))
    assert (only().state, only().status, only().attempts) == ("delivered", 204, 1)


def test_the_secret_has_the_form_of_the_standard_and_is_nowhere_in_the_database(hook):
    secret = secret_of(hook.salt)
    assert secret.startswith("whsec_")
    assert len(secret) > 40
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {Webhook._meta.db_table}")
        assert secret.removeprefix("whsec_") not in str(cursor.fetchall())


def test_another_secret_key_makes_another_secret(hook, settings):
    before = secret_of(hook.salt)
    settings.SECRET_KEY = 50 * "x"
    assert secret_of(hook.salt) != before


@commits
def test_a_change_that_is_rolled_back_tells_nobody(hook, project, receiver, sent):
    with suppress(ValueError), transaction.atomic():
        tell(project, "run.done", dict)
        raise ValueError
    assert not Delivery.objects.exists()
    assert not sent
    assert send_due(hook.pk) == 0
    assert not receiver.received


def test_only_chosen_events_of_the_own_project_are_told(hook, project):
    happen(project, "run.failed")
    happen(make_project("other"))
    assert not Delivery.objects.exists()


def test_what_an_event_says_is_asked_only_if_somebody_listens(project):
    tell(project, "run.done", lambda: pytest.fail("nobody listens"))


def test_after_an_error_it_is_tried_again_with_the_same_id(hook, receiver, project, clock):
    receiver.statuses[:] = [500, 500]
    happen(project)
    assert send_due(hook.pk) == 1
    assert (only().state, only().status) == ("waiting", 500)
    assert only().next_at == clock.now + timedelta(seconds=5)
    assert send_due(hook.pk) == 0
    clock.pass_by(seconds=5)
    assert send_due(hook.pk) == 1
    assert only().next_at == only().began_at + timedelta(minutes=1)
    clock.pass_by(minutes=1)
    assert send_due(hook.pk) == 1
    assert (only().state, only().attempts) == ("delivered", 3)
    assert len({got.headers["webhook-id"] for got in receiver.received}) == 1
    assert len({got.headers["webhook-signature"] for got in receiver.received}) == 3


def test_after_a_day_it_is_given_up_and_can_be_sent_again(hook, receiver, project, clock, owner):
    receiver.statuses[:] = 100 * [503]
    happen(project)
    attempts = []
    while only().state == "waiting":
        clock.now = only().next_at
        attempts.append((clock.now - only().began_at).total_seconds())
        assert send_due(hook.pk) == 1
    assert tuple(attempts) == ATTEMPTS
    assert attempts[-1] == DAY.total_seconds()
    assert only().state == "dead"
    assert send_due(hook.pk) == 0
    receiver.statuses.clear()
    webhooks.send_again(only(), owner)
    assert send_due(hook.pk) == 1
    assert (only().state, only().attempts) == ("delivered", len(attempts) + 1)
    assert AuditEvent.objects.get(action="webhook sent again").user == owner


def test_what_waited_while_no_worker_ran_is_still_sent(hook, receiver, project, clock):
    happen(project)
    clock.pass_by(days=3)
    assert send_due(hook.pk) == 1
    assert only().state == "delivered"


def test_a_receiver_that_is_gone_ends_the_webhook(hook, receiver, project):
    receiver.statuses[:] = [410]
    happen(project, run=1)
    happen(project, run=2)
    assert send_due(hook.pk) == 1
    hook.refresh_from_db()
    assert hook.state == "gone"
    assert sorted(Delivery.objects.values_list("state", flat=True)) == ["dead", "waiting"]
    happen(project, run=3)
    assert Delivery.objects.count() == 2
    with pytest.raises(UserError, match="Resume it first"):
        webhooks.send_test(hook, None)
    assert webhooks.resume_webhook(hook, None)
    assert send_due(hook.pk) == 1
    assert receiver.received[-1].content["data"]["run"] == 2


def test_a_redirect_is_a_failed_attempt(hook, receiver, project):
    receiver.statuses[:] = [307]
    receiver.headers["Location"] = receiver.url
    happen(project)
    assert send_due(hook.pk) == 1
    assert (only().state, only().status) == ("waiting", 307)
    assert len(receiver.received) == 1


def test_a_private_address_is_refused_at_each_delivery(hook, receiver, project, settings, clock):
    settings.FAIRJUDGE_WEBHOOK_HOSTS = frozenset()
    happen(project)
    assert send_due(hook.pk) == 1
    assert only().status is None
    assert "private network" in only().said
    assert not receiver.received
    settings.FAIRJUDGE_WEBHOOK_HOSTS = {receiver.host}
    clock.pass_by(minutes=1)
    assert send_due(hook.pk) == 1
    assert only().state == "delivered"


def test_an_address_that_can_not_be_used_adds_nothing(project):
    with pytest.raises(UserError, match="https"):
        add_webhook(project, None, "http://example.org/", ["run.done"])
    with pytest.raises(UserError, match="private network"):
        add_webhook(project, None, "https://10.0.0.1/", ["run.done"])
    with pytest.raises(UserError, match=r"run\.gone isn't an event"):
        add_webhook(project, None, "https://example.org/", ["run.gone"])
    with pytest.raises(UserError, match="at least one event"):
        add_webhook(project, None, "https://example.org/", [])
    assert not Webhook.objects.exists()


def test_a_project_has_a_bounded_number_of_webhooks(project, monkeypatch):
    monkeypatch.setattr(webhooks, "MOST_WEBHOOKS", 2)
    for _ in range(2):
        add_webhook(project, None, "https://example.org/", ["run.done"])
    with pytest.raises(UserError, match="at most 2 webhooks"):
        add_webhook(project, None, "https://example.org/", ["run.done"])


def test_a_receiver_that_does_not_answer_is_asked_seldom(hook, receiver, project, clock, settings):
    Webhook.objects.update(url="http://127.0.0.1:9/")
    hook.refresh_from_db()
    settings.FAIRJUDGE_WEBHOOK_HOSTS = {"127.0.0.1:9", receiver.host}
    for run in range(3):
        happen(project, run=run)
    assert send_due(hook.pk) == 1
    assert send_due(hook.pk) == 0
    clock.pass_by(seconds=14)
    assert send_due(hook.pk) == 0
    clock.pass_by(seconds=1)
    assert send_due(hook.pk) == 1
    clock.pass_by(seconds=29)
    assert send_due(hook.pk) == 0
    Webhook.objects.update(url=receiver.url)
    clock.pass_by(minutes=5)
    assert send_due(hook.pk) == 3
    hook.refresh_from_db()
    assert (hook.failures, hook.rest_until) == (0, None)


def test_a_pause_keeps_what_waits_and_drops_what_comes(hook, receiver, project, owner):
    happen(project, run=1)
    assert webhooks.pause_webhook(hook, owner)
    assert not webhooks.pause_webhook(hook, owner)
    happen(project, run=2)
    assert send_due(hook.pk) == 0
    assert webhooks.resume_webhook(hook, owner)
    assert send_due(hook.pk) == 1
    assert [got.content["data"]["run"] for got in receiver.received] == [1]


def test_both_secrets_sign_for_a_day_after_a_rotation(hook, receiver, project, clock):
    before = secret_of(hook.salt)
    webhooks.rotate_secret(hook, None)
    after = secret_of(hook.salt)
    assert before != after
    happen(project)
    send_due(hook.pk)
    assert receiver.received[-1].is_signed_by(before)
    assert receiver.received[-1].is_signed_by(after)
    clock.pass_by(days=1, seconds=1)
    happen(project)
    send_due(hook.pk)
    assert not receiver.received[-1].is_signed_by(before)
    assert receiver.received[-1].is_signed_by(after)


def test_a_test_event_goes_to_any_webhook(hook, receiver):
    webhooks.send_test(hook, None)
    assert send_due(hook.pk) == 1
    assert receiver.events == ["webhook.test"]


def test_a_deleted_webhook_is_told_nothing(hook, receiver, project):
    happen(project)
    webhooks.remove_webhook(hook, None)
    assert send_due(hook.pk) == 0
    assert not Delivery.objects.exists()


def test_a_deleted_project_tells_nobody(hook, receiver, project):
    happen(project)
    project.deleted_at = timezone.now()
    project.save()
    assert send_due(hook.pk) == 0
    assert not receiver.received


def test_what_people_do_is_in_the_audit_trail_without_the_path(receiver, project, owner):
    hook = add_webhook(project, owner, f"{receiver.url}/secret-path", ["run.done"])
    webhooks.pause_webhook(hook, owner)
    webhooks.resume_webhook(hook, owner)
    webhooks.rotate_secret(hook, owner)
    webhooks.send_test(hook, owner)
    webhooks.remove_webhook(hook, owner)
    events = AuditEvent.objects.filter(project=project).order_by("pk")
    assert [event.action for event in events] == [
        "webhook added", "webhook paused", "webhook resumed", "webhook secret rotated",
        "webhook tested", "webhook deleted",
    ]  # fmt: skip
    assert all(event.user == owner for event in events)
    assert "secret-path" not in str([event.detail for event in events])


@commits
def test_several_senders_at_once_send_each_event_once(hook, receiver, project):
    for run in range(12):
        happen(project, run=run)
    counts = at_once(lambda _: send_due(hook.pk), 4)
    while send_due(hook.pk):
        pass
    assert not [count for count in counts if isinstance(count, Exception)]
    assert sorted(got.content["data"]["run"] for got in receiver.received) == list(range(12))
    assert receiver.most_at_once == 1


@commits
def test_an_event_that_is_queued_while_a_sender_works_is_not_left(hook, receiver, project, sent):
    """The sender's last look found nothing, and the woken worker found the sender at work."""
    happen(project)
    receiver.hold = lambda got: happen_elsewhere(project) if len(receiver.received) == 1 else None
    assert send_due(hook.pk) == 2
    assert len(receiver.received) == 2


def happen_elsewhere(project):
    thread = threading.Thread(target=lambda: (happen(project, run=9), connection.close()))
    thread.start()
    thread.join()


KILLED = """
import os, signal, sys
import django
django.setup()
from judging.core import outbound
from judging.projects.webhooks import send_due
from django.db import connections
connections["default"].settings_dict["NAME"] = sys.argv[2]
outbound.post = lambda *of: os.kill(os.getpid(), signal.SIGKILL)
send_due(int(sys.argv[1]))
"""


@pytest.mark.system
@commits
def test_what_a_killed_sender_had_in_hand_is_sent_by_another(hook, receiver, project, sent):
    happen(project)
    name = str(connection.settings_dict["NAME"])
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(hook.pk), name], env=environment, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    hook.refresh_from_db()
    assert leases.is_dead(hook.holder)
    assert only().state == "waiting"
    sent.clear()
    report_cache.delete(f"webhook:{hook.pk}")
    webhooks.COURIER.wake()
    assert sent == [(waking.SEND_WEBHOOKS, hook.pk)]
    assert send_due(hook.pk) == 1
    assert only().state == "delivered"


@commits
def test_a_sender_that_was_taken_over_writes_nothing(hook, receiver, project):
    happen(project)
    receiver.hold = lambda got: Webhook.objects.update(holder="another")
    hold = receiver.hold

    def elsewhere(got):
        thread = threading.Thread(target=lambda: (hold(got), connection.close()))
        thread.start()
        thread.join()

    receiver.hold = elsewhere
    send_due(hook.pk)
    assert (only().state, only().attempts) == ("waiting", 0)


def test_the_sweep_wakes_for_what_is_due_alone(hook, project, sent, clock):
    report_cache.delete(f"webhook:{hook.pk}")
    webhooks.COURIER.wake()
    happen(project)
    sent.clear()
    Delivery.objects.update(next_at=clock.now + timedelta(seconds=5))
    webhooks.COURIER.wake()
    assert not sent
    clock.pass_by(seconds=5)
    webhooks.COURIER.wake()
    assert sent == [(waking.SEND_WEBHOOKS, hook.pk)]


def test_the_log_is_kept_for_a_month(hook, receiver, project, clock):
    happen(project)
    send_due(hook.pk)
    receiver.statuses[:] = [500]
    happen(project)
    send_due(hook.pk)
    clock.pass_by(days=29)
    webhooks.COURIER.forget_old()
    assert Delivery.objects.count() == 2
    clock.pass_by(days=2)
    webhooks.COURIER.forget_old()
    assert only().state == "waiting"


def test_one_query_asks_if_anybody_listens(project, django_assert_num_queries):
    with django_assert_num_queries(1):
        tell(project, "run.done", dict)


def test_every_event_has_a_name_that_fits_and_a_sentence():
    longest = Delivery._meta.get_field("event").max_length
    assert all(len(name) <= longest and said.endswith(".") for name, said in EVENTS.items())


def test_no_address_and_no_secret_reach_the_log(hook, receiver, project, caplog):
    receiver.statuses[:] = [500]
    caplog.set_level("INFO")
    happen(project)
    send_due(hook.pk)
    assert receiver.url not in caplog.text
    assert secret_of(hook.salt) not in caplog.text


def test_a_slow_receiver_is_left_after_the_time_for_an_answer(hook, receiver, project, monkeypatch):
    monkeypatch.setattr(outbound, "SECONDS", 0.3)
    done = threading.Event()
    receiver.hold = lambda got: done.wait(10)
    happen(project)
    assert send_due(hook.pk) == 1
    done.set()
    assert only().status is None
    assert "No answer came within" in only().said
    assert eventually(lambda: not receiver.under_way)
