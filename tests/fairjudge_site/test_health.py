import json
import os
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from judging.core.models import Worker
from judging.core.processes import record_of_parts
from judging.projects.tokens import SCOPES, issue_token

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


@pytest.fixture
def full_disk(db):
    """An SQLite file that can't grow, as on a full disk."""
    with connection.cursor() as cursor:
        before = cursor.execute("PRAGMA max_page_count").fetchone()[0]
        cursor.execute("PRAGMA max_page_count = 1")
        yield
        cursor.execute(f"PRAGMA max_page_count = {before}")


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite's file can be bounded")
def test_a_full_disk_is_told_apart_from_a_fault_of_the_site(owner, full_disk):
    client = Client(raise_request_exception=False)
    token = issue_token(owner, "test", list(SCOPES))[1]
    headers = {"Authorization": f"Bearer {token}"}

    def make(number):
        body = json.dumps({"name": f"{number} {'x' * 90}"})
        kind = "application/json"
        return client.post("/api/v1/projects", body, headers=headers, content_type=kind)

    # Some rows still fit into the last pages.
    refused = next(answer for answer in map(make, range(500)) if answer.status_code != 201)
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert refused["Retry-After"] == "10"
    client.force_login(owner)
    pages = (client.post("/", {"name": f"page {number} {'x' * 90}"}) for number in range(500))
    page = next(answer for answer in pages if answer.status_code != 302)
    assert page.status_code == 503
    assert "The database can’t be used at the moment" in page.content.decode()


def test_another_fault_has_the_usual_page(owner, project, monkeypatch):
    monkeypatch.setattr("annotation.results.pages.examples.browse", lambda *_, **__: 1 // 0)
    client = Client(raise_request_exception=False)
    client.force_login(owner)
    page = client.get(f"/p/{project.slug}/examples")
    assert page.status_code == 500
    assert "Something went wrong on the server" in page.content.decode()


def test_a_worker_serves_the_queues_of_its_own_site_by_their_whole_names():
    now = timezone.now()
    Worker.objects.create(name="a", queues="quick.runs,b", started_at=now, seen_at=now)
    workers = Worker.objects.alive()
    assert workers.serve("quick.runs")
    assert workers.serve("b")
    assert not workers.serve("quick")
    assert not workers.serve("runs")
