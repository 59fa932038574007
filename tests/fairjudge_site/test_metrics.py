"""What a monitor reads, who may read it, and what stands in the log."""

import json
import logging
import os
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from annotation.models import Job
from fairjudge_site import metrics
from fairjudge_site.logs import JsonFormatter
from judging.core.caching import report_cache
from judging.core.incidents import logged_as
from judging.core.models import Worker
from judging.projects.access import record_event
from judging.projects.models import AuditEvent
from judging.projects.webhooks import add_webhook, send_test
from judging.runs.models import Call, Run
from tests.factories import make_examples, make_run

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
TOKEN = "a-token-of-the-operator"


@pytest.fixture
def opened(settings, tmp_path, monkeypatch):
    """`/metrics` opened to a token, with a folder and counts of its own."""
    settings.FAIRJUDGE_METRICS_TOKEN = TOKEN
    settings.FAIRJUDGE_DATA = tmp_path
    monkeypatch.setattr(metrics, "times", metrics.PageTimes())
    report_cache.delete("metrics")
    yield tmp_path
    report_cache.delete("metrics")


def read(client, **headers):
    """The figures by name and by the values of their labels, which stand in alphabetical order."""
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}", **headers})
    assert answer.status_code == 200, answer.content
    families = text_string_to_metric_families(answer.content.decode())
    return {
        (sample.name.removeprefix("fairjudge_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_it_is_closed_until_the_operator_opens_it(client, settings):
    assert client.get("/metrics").status_code == 404
    settings.FAIRJUDGE_METRICS_TOKEN = TOKEN
    assert client.get("/metrics").status_code == 403
    wrong = {"Authorization": f"Bearer {TOKEN}x"}
    assert client.get("/metrics", headers=wrong).status_code == 403
    settings.FAIRJUDGE_METRICS_TOKEN = ""
    settings.FAIRJUDGE_METRICS_ADDRESSES = [ip_network("10.1.0.0/16")]
    assert client.get("/metrics", REMOTE_ADDR="10.2.0.1").status_code == 403
    # A header that the sender wrote itself opens nothing.
    forged = {"X-Forwarded-For": "10.1.0.1"}
    assert client.get("/metrics", REMOTE_ADDR="10.2.0.1", headers=forged).status_code == 403
    assert client.get("/metrics", REMOTE_ADDR="10.1.2.3").status_code == 200


def test_the_work_is_counted(client, opened, project):
    first, second, third = make_examples(project, 3)
    run = make_run(project, state="running", spent_usd="0.5", ranked_at=None)
    make_run(project, state="queued", ranked_at=None)
    now = timezone.now()
    for seq, (example, ms) in enumerate(((first, 1000), (second, 2000), (third, 3000))):
        fields = {"state": "done", "duration_ms": ms, "requests": 1 + seq, "claimed_at": now}
        Call.objects.create(run=run, example=example, part="original", seq=seq, **fields)
    Worker.objects.create(name="a", queues="quick,runs", started_at=now, seen_at=now)
    silent = now - timedelta(minutes=2)
    Worker.objects.create(name="b", queues="runs", started_at=silent, seen_at=silent)
    send_test(add_webhook(project, None, "https://example.org/hook", ["run.done"]), None)
    found = read(client)
    slug = project.slug
    assert (found["deliveries", "waiting"], found["deliveries", "dead"]) == (1, 0)
    assert found["runs", "running"] == found["runs", "queued"] == 1
    assert found["runs", "done"] == 0
    assert (found["workers", "runs"], found["workers", "quick"]) == (1, 1)
    assert found["run_calls", slug, "1", "done"] == 3
    assert found["run_usd", "spent", slug, "1"] == 0.5
    assert found["call_seconds", slug, "0.5", "1"] == 2.0
    assert found["call_seconds", slug, "0.99", "1"] == 3.0
    assert found["call_retries", slug, "1"] == 1.0
    # Nobody holds the run, though it is at work.
    assert found["leases_expired", "run"] == 1
    assert 0 <= found["queue_age_seconds",] < 60
    assert found["disk_total_bytes",] >= found["disk_free_bytes",] > 0


def test_a_run_that_was_resumed_waits_since_then(client, opened, project):
    old = timezone.now() - timedelta(days=7)
    run = make_run(project, state="paused", ranked_at=None)
    Run.objects.update(created_at=old)
    # The endpoint is none of today's, so that the change alone is made.
    Run.objects.update(state="queued")
    assert read(client)["queue_age_seconds",] > 7 * 86400 - 60
    record_event(project, None, "run resumed", run.name)
    report_cache.delete("metrics")
    assert read(client)["queue_age_seconds",] < 60
    # And so is one whose worker died in the middle of its calls.
    AuditEvent.objects.update(at=old)
    (example,) = make_examples(project, 1)
    claimed = {"claimed_at": timezone.now() - timedelta(minutes=5), "state": "lost"}
    Call.objects.create(run=run, example=example, part="original", seq=0, **claimed)
    report_cache.delete("metrics")
    assert 290 < read(client)["queue_age_seconds",] < 360


def test_work_of_the_other_queue_is_counted_too(client, opened, project):
    found = read(client)
    assert found["work_age_seconds", "job"] == found["work_age_seconds", "round"] == 0
    assert found["leases_expired", "job"] == found["leases_expired", "deletion"] == 0
    job = Job.objects.create(project=project, kind="report", asked={"run": 1, "kind": "zip"})
    Job.objects.update(created_at=timezone.now() - timedelta(minutes=9))
    report_cache.delete("metrics")
    found = read(client)
    assert 530 < found["work_age_seconds", "job"] < 600
    assert found["leases_expired", "job"] == 0, "nobody has taken it yet"
    Job.objects.filter(pk=job.pk).update(holder="elsewhere:1:1:a", lease_until=job.created_at)
    report_cache.delete("metrics")
    found = read(client)
    assert (found["work_age_seconds", "job"], found["leases_expired", "job"]) == (0, 1)


def test_every_figure_is_in_the_operators_page(opened):
    page = (Path(__file__).parents[2] / "docs/operators.md").read_text(encoding="utf-8")
    names = {"fairjudge_page_seconds", *(f"fairjudge_{name}" for name in metrics.work())}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_pages_of_all_processes_are_timed_and_those_that_ended_are_forgotten(client, opened):
    client.get("/healthz")
    client.get("/nothing-here")
    client.get("/login/")
    row = [0.0] * (len(metrics.SECONDS) + 2)
    row[0], row[-1] = 4, 0.01
    other, dead = opened / "pages-elsewhere-77-1.json", metrics._file_of(2**22 - 1)
    for path in (other, dead):
        path.write_text(json.dumps({"login 2xx": row}))
    found = read(client)
    pages = {key[1:]: n for key, n in found.items() if key[0] == "page_seconds_count"}
    own = metrics._file_of(os.getpid()).stem.removeprefix("pages-")
    assert pages == {
        ("none", own, "4xx"): 1,
        ("healthz", own, "5xx"): 1,
        ("login", own, "2xx"): 1,
        ("login", "elsewhere-77-1", "2xx"): 4,
    }
    # The first answer was written at once; the others would follow.
    assert {path.name for path in opened.glob("pages-*")} == {other.name, f"pages-{own}.json"}


def test_nothing_is_timed_or_written_while_it_is_closed(client, opened, settings):
    settings.FAIRJUDGE_METRICS_TOKEN = ""
    client.get("/login/")
    assert metrics.times.counts == {}
    assert not list(opened.glob("pages-*"))


def test_a_full_disk_leaves_pages_as_they_are(client, opened, settings):
    settings.FAIRJUDGE_DATA = opened / "gone"
    assert client.get("/login/").status_code == 200


def record(message, *arguments, error=None):
    return logging.LogRecord("judging", logging.ERROR, "x.py", 1, message, arguments, error)


def test_a_line_of_json_names_the_request_and_no_secret(settings, client):
    settings.FAIRJUDGE_METRICS_TOKEN = TOKEN
    with logged_as(request="abc"), logged_as(run="vicuna/3"):
        text = JsonFormatter().format(record("sent %s\nand %s", TOKEN, "/join/secret-link"))
    assert "\n" not in text
    said = json.loads(text)
    assert (said["request"], said["run"], said["level"]) == ("abc", "vicuna/3", "ERROR")
    assert said["message"] == "sent ***\nand /join/***"
    assert "request" not in json.loads(JsonFormatter().format(record("later")))


def test_each_answer_names_its_request_and_keeps_a_proxys_name(client):
    assert client.get("/login/", headers={"X-Request-Id": "edge-7"})["X-Request-Id"] == "edge-7"
    forged = client.get("/login/", headers={"X-Request-Id": "a b"})["X-Request-Id"]
    assert len(forged) == 16
    assert forged != client.get("/login/")["X-Request-Id"]
