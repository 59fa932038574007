"""Files of a large project: a worker writes them; the page lists, cancels and sends them."""

import io
import threading
import zipfile
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from annotation.models import Job
from annotation.results.delivery import jobs, package
from annotation.results.tables import exports
from judging.core import waking
from judging.core.models import Worker
from judging.projects.models import AuditEvent, Role
from tests.factories import make_examples, make_member, make_run, make_verdict

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]
PAGE = ["vicuna", "export"]


@pytest.fixture
def ranked(project, settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path
    run = make_run(project, ranked_at=timezone.now())
    for example in make_examples(project, 6):
        make_verdict(run, example, 0.5)
    project.primary_run = run
    project.save()
    return run


@pytest.fixture
def large(monkeypatch, ranked):
    """A project that is large, with a worker that never gets a message."""
    monkeypatch.setattr(jobs, "MOST_AT_ONCE", 5)
    monkeypatch.setattr(jobs, "MOST_STREAMED", 5)
    monkeypatch.setattr(waking, "wake", lambda *message: True)
    now = timezone.now()
    return Worker.objects.create(name="w", queues="quick", started_at=now, seen_at=now)


def listed(client):
    return client.get(reverse("results_page", args=PAGE)).content.decode()


@contextmanager
def worked_on_meanwhile(job, let_go_on):
    """Have a worker do the job in a thread of its own, which at the end may go on and ends."""

    def work():
        jobs.work_on(job.pk)
        connection.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        let_go_on.set()
        worker.join()


def table(client, **asked):
    return client.post(reverse("export", args=["vicuna"]), {"what": "labels"} | asked)


def test_a_report_is_written_by_a_worker_and_kept_on_the_page(client, owner, large):
    client.force_login(owner)
    asked = client.post(reverse("report_file", args=["vicuna", "zip"]))
    assert asked["Location"].endswith("/results/export#files")
    assert "waits for a worker" in (page := listed(client))
    # It loads this list alone, until the file is there.
    assert 'hx-select="#files"' in page
    # A second press asks for nothing more.
    client.post(reverse("report_file", args=["vicuna", "zip"]))
    job = Job.objects.get()
    early = client.get(reverse("made_file", args=["vicuna", job.pk]), follow=True)
    assert "has no file yet" in early.content.decode()
    jobs.work_on(job.pk)
    page = listed(client)
    assert "report, zip, run 1" in page
    assert "hx-select" not in page
    sent = client.get(reverse("made_file", args=["vicuna", job.pk]))
    assert "vicuna-run1-report.zip" in sent["Content-Disposition"]
    content = io.BytesIO(b"".join(sent.streaming_content))
    assert "labels.csv" in zipfile.ZipFile(content).namelist()


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_a_table_is_left_to_a_worker_if_it_is_large_and_there_is_one(
    client, owner, large, monkeypatch, kind
):
    client.force_login(owner)
    assert table(client, format=kind).status_code == 302
    job = Job.objects.get()
    jobs.work_on(job.pk)
    sent = client.get(reverse("made_file", args=["vicuna", job.pk]))
    by_worker = b"".join(sent.streaming_content)
    with monkeypatch.context() as small:
        small.setattr(jobs, "MOST_AT_ONCE", 6)
        small.setattr(jobs, "MOST_STREAMED", 6)
        at_once = b"".join(table(client, format=kind).streaming_content)
    assert (by_worker == at_once) or kind == "xlsx"
    # A machine that is busy is a minute late. Nobody waits for that.
    Worker.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    assert table(client, format=kind).status_code == 302
    Worker.objects.all().delete()
    assert b"".join(table(client, format=kind).streaming_content)


def test_a_report_that_somebody_cancels_is_given_up_before_its_tables_are_written(
    client, owner, large, monkeypatch, tmp_path
):
    monkeypatch.setattr(jobs, "_RENEW_FILE_SECONDS", 0.02)
    real, halfway, cancelled, begun = package.report, *(threading.Event() for _ in range(2)), []

    def slow(analysis):
        halfway.set()
        assert cancelled.wait(20)
        # The keeper of the lease looks once in a while.
        threading.Event().wait(0.5)
        return real(analysis)

    monkeypatch.setattr(package, "report", slow)
    monkeypatch.setattr(package, "pack", lambda analysis: begun.append(analysis))
    client.force_login(owner)
    client.post(reverse("report_file", args=["vicuna", "zip"]))
    job = Job.objects.get()

    with worked_on_meanwhile(job, cancelled):
        assert halfway.wait(20)
        client.post(reverse("cancel_made_file", args=["vicuna", job.pk]))
    job.refresh_from_db()
    assert (job.state, job.result, job.holder) == ("stopped", None, "")
    assert not begun, "the worker went on for nobody"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_a_file_that_somebody_cancels_is_broken_off_and_leaves_nothing(
    client, owner, large, monkeypatch, tmp_path, kind
):
    monkeypatch.setattr(exports, "_ROWS_A_PIECE", 1)
    monkeypatch.setattr(jobs, "_RENEW_FILE_SECONDS", 0.02)
    real, halfway, cancelled, seen = exports._table, *(threading.Event() for _ in range(2)), []

    def slow(*args):
        columns, rows, more = real(*args)

        def told():
            for place, row in enumerate(rows):
                if place == 2:
                    halfway.set()
                    assert cancelled.wait(20)
                    # The keeper of the lease looks once in a while.
                    threading.Event().wait(0.5)
                seen.append(place)
                yield row

        return columns, told(), more

    monkeypatch.setattr(exports, "_table", slow)
    client.force_login(owner)
    table(client, format=kind)
    job = Job.objects.get()

    with worked_on_meanwhile(job, cancelled):
        assert halfway.wait(20)
        for _ in range(100):
            if "2 rows written" in (page := listed(client)):
                break
            threading.Event().wait(0.1)
        assert "2 rows written" in page
        client.post(reverse("cancel_made_file", args=["vicuna", job.pk]))
    assert "cancelled" in listed(client)
    job.refresh_from_db()
    assert (job.state, job.result, job.holder) == ("stopped", None, "")
    assert len(seen) < 5, "the worker went on for nobody"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    broken_off = AuditEvent.objects.filter(action="export broken off")
    assert broken_off.exists() == (kind == "csv"), "of a workbook, nothing was written yet"
    assert not AuditEvent.objects.filter(action="exported").exists()
    # What is cancelled stays so, and can be asked for again.
    again = client.post(reverse("cancel_made_file", args=["vicuna", job.pk]), follow=True)
    assert "Nothing was changed" in again.content.decode()
    assert table(client, format=kind).status_code == 302
    assert Job.objects.count() == 2


def test_a_worker_that_has_to_stop_leaves_the_file_to_the_next_one(
    client, owner, large, monkeypatch
):
    monkeypatch.setattr(exports, "_ROWS_A_PIECE", 1)
    client.force_login(owner)
    table(client, format="xlsx")
    job = Job.objects.get()
    with monkeypatch.context() as stopping:
        stopped = threading.Event()
        stopped.set()
        stopping.setattr(jobs, "stop_requested", stopped)
        jobs.work_on(job.pk)
    job.refresh_from_db()
    assert (job.state, job.holder) == ("waiting", "")
    jobs.work_on(job.pk)
    job.refresh_from_db()
    assert job.state == "done"


def test_observers_see_no_names_and_cancel_only_what_they_asked_for(client, owner, project, large):
    client.force_login(owner)
    table(client, what="votes", format="xlsx", names="on")
    table(client, what="votes", format="xlsx")
    named, votes = Job.objects.order_by("pk")
    client.force_login(make_member(project, Role.OBSERVER, "oona"))
    page = listed(client)
    assert reverse("cancel_made_file", args=["vicuna", votes.pk]) not in page
    assert page.count("waits for a worker") == 1
    client.post(reverse("cancel_made_file", args=["vicuna", votes.pk]))
    assert client.get(reverse("made_file", args=["vicuna", named.pk])).status_code == 403
    assert set(Job.objects.values_list("state", flat=True)) == {"waiting"}
    table(client, what="people", format="xlsx")
    mine = Job.objects.latest("pk")
    client.post(reverse("cancel_made_file", args=["vicuna", mine.pk]))
    mine.refresh_from_db()
    assert mine.state == "stopped"
