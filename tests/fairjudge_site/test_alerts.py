"""What the operator is told, by mail and by webhook, once for each change."""

import json
import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from fairjudge_site import alerts
from judging.core.models import Alert, Worker
from judging.projects.models import AuditEvent
from judging.runs.models import Run
from tests.factories import make_run
from tests.loopback.receiver import Receiver

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def told(post_office, settings):
    settings.FAIRJUDGE_ALERT_MAIL = ["ops@example.org", "night@example.org"]
    return post_office


@pytest.fixture
def hook(settings):
    with Receiver() as made:
        settings.FAIRJUDGE_ALERT_URL = f"http://{made.host}/secret"
        yield made


@pytest.fixture(autouse=True)
def workers(settings):
    now = timezone.now()
    return Worker.objects.create(name="w", queues="quick,runs", started_at=now, seen_at=now)


def look():
    alerts.look(alerts.findings(), alerts.whole_site())


def test_a_run_that_stops_is_told_once_and_so_is_its_end(told, project, settings):
    look()
    run = make_run(project, state=Run.State.PAUSED, reason="The endpoint\u202e refuses the key.")
    mine = make_run(project, state=Run.State.PAUSED, reason="")
    look()
    look()
    assert sorted(mail.to for mail in told.mails) == [["night@example.org"], ["ops@example.org"]]
    subject, text = told.mails[0].message["Subject"], told.mails[0].part("plain")
    assert subject.endswith(": 1 problem")
    assert f"Run {run.number} of vicuna paused: The endpoint\ufffd refuses the key." in text
    assert f"{settings.FAIRJUDGE_URL}/p/vicuna/runs/{run.number}" in text
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, reason="")
    look()
    look()
    assert len(told.mails) == 4
    assert told.mails[2].message["Subject"].endswith(": resolved")
    assert "resolved: Run" in told.mails[2].part("plain")
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED, reason="Again.")
    look()
    assert len(told.mails) == 6
    assert not Alert.objects.filter(key=f"run:{mine.pk}").exists()


def test_runs_that_had_failed_before_are_not_told(told, project):
    make_run(project, state=Run.State.FAILED, reason="Long ago.")
    look()
    assert told.mails == []


def test_a_worker_is_missed_after_two_minutes(told, workers):
    look()
    Worker.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    look()
    assert told.mails == [], "it may be starting again"
    Alert.objects.filter(key__startswith="worker:").update(
        began_at=timezone.now() - alerts.WORKER_MISSING
    )
    look()
    assert told.mails[0].message["Subject"].endswith(": 2 problems")
    assert "No worker serves the queue quick." in told.mails[0].part("plain")
    Worker.objects.update(seen_at=timezone.now())
    look()
    assert len(told.mails) == 4


def test_a_restart_is_told_to_nobody(told, workers):
    look()
    Worker.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    look()
    Worker.objects.update(seen_at=timezone.now())
    look()
    assert told.mails == []


def test_a_backup_gets_too_old(told, settings):
    look()
    assert told.mails == []
    settings.FAIRJUDGE_BACKUP_DAYS = 2
    look()
    assert "The last backup was never made: older than 2 days." in told.mails[0].part("plain")
    event = AuditEvent.objects.create(action=alerts.BACKED_UP, subject="a.zip", detail={})
    look()
    assert "resolved: The last backup" in told.mails[-1].part("plain")
    AuditEvent.objects.filter(pk=event.pk).update(at=timezone.now() - timedelta(days=3))
    look()
    assert len(told.mails) == 6


def test_a_disk_is_nearly_full_until_it_is_well_again(hook, monkeypatch):
    for free, n in ((0.06, 0), (0.04, 1), (0.06, 1), (0.08, 2), (0.06, 2)):
        monkeypatch.setattr(alerts, "free_share", lambda free=free: free)
        alerts.look(alerts.disk(), alerts.Q(key__startswith="disk:"))
        assert len(hook.received) == n, free
    began, over = (json.loads(one.body) for one in hook.received)
    assert began["text"].splitlines()[1].startswith("4.0% of the disk")
    assert [began["alerts"][0]["state"], over["alerts"][0]["state"]] == ["firing", "resolved"]
    assert over["alerts"][0]["ended_at"]


def test_what_did_not_leave_is_sent_by_a_later_look(told, hook, project, caplog):
    look()
    make_run(project, state=Run.State.FAILED, reason="Broken.")
    told.answers = {"MAIL": ["451 later", "451 later"]}
    hook.statuses = [500]
    look()
    assert (told.mails, len(hook.received)) == ([], 1)
    assert "could not be mailed" in caplog.text
    look()
    look()
    assert (len(told.mails), len(hook.received)) == (2, 2)


@pytest.mark.django_db(transaction=True)
def test_of_processes_that_look_at_once_one_tells(hook, project):
    look()
    make_run(project, state=Run.State.FAILED, reason="Broken.")

    def one():
        look()
        connection.close()

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hook.received) == 1
