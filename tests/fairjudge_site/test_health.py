from datetime import timedelta

import pytest
from django.utils import timezone

from judging.core.models import Worker

pytestmark = pytest.mark.django_db


def worker_seen(seconds_ago):
    now = timezone.now()
    Worker.objects.create(
        name="runs@here", started_at=now, seen_at=now - timedelta(seconds=seconds_ago)
    )


def test_all_is_well_when_a_worker_was_seen_lately(client):
    worker_seen(4)
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ok"
    # Less than that, and the worker would be missing.
    assert 4 <= answer.json()["worker_seen_seconds_ago"] < 30


def test_a_worker_unseen_for_half_a_minute_is_missing(client):
    worker_seen(31)
    answer = client.get("/healthz")
    assert answer.status_code == 503
    assert (answer.json()["database"], answer.json()["worker"]) == (True, False)


def test_a_worker_never_seen_has_no_age(client):
    assert client.get("/healthz").json()["worker_seen_seconds_ago"] is None


def test_a_broker_that_does_not_answer_is_named(client, monkeypatch, settings):
    from fairjudge_site.celery import app

    worker_seen(4)
    monkeypatch.setattr(app.conf, "broker_write_url", "redis://127.0.0.1:1/0")
    answer = client.get("/healthz")
    assert answer.status_code == 503
    assert (answer.json()["broker"], answer.json()["worker"]) == (False, True)


def test_only_reading_is_allowed(client):
    assert client.post("/healthz").status_code == 405
