import json
import os
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from judging.core.models import Worker
from judging.core.processes import record_of_parts

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


@pytest.mark.parametrize(("state", "status"), [("restarting", 200), ("given up", 503)])
def test_a_part_that_is_down_is_named_there_and_on_the_overview(
    client, settings, tmp_path, owner, project, state, status
):
    settings.FAIRJUDGE_DATA = tmp_path
    worker_seen(4)
    record = record_of_parts(tmp_path)
    record.write_text(json.dumps({"quick": state}))
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()["parts"]) == (status, {"quick": state})
    client.force_login(owner)
    assert "The part quick" in client.get(f"/p/{project.slug}/").content.decode()
    # The `runall` that wrote it was killed long ago.
    os.utime(record, (time.time() - 60,) * 2)
    assert client.get("/healthz").json()["parts"] == {}


def test_only_reading_is_allowed(client):
    assert client.post("/healthz").status_code == 405
