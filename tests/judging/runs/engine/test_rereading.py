"""Replies are read again by a worker; the page says how far it is."""

import re
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.urls import reverse
from django.utils import timezone

from judging.core.errors import UserError
from judging.core.leases import TakenOver
from judging.core.models import Worker
from judging.projects.models import AuditEvent
from judging.runs import lifecycle
from judging.runs.engine import rereading
from judging.runs.engine.rereading import begin, rereading_of, resume_readings
from judging.runs.models import Parse, Run
from judging.tasks import reparse_run
from tests.factories import make_examples, make_run
from tests.judging.runs.judging import judged, loopback

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(settings, project):
    """A run of 24 replies that an older parser could not read."""
    make_examples(project, 4)
    with loopback(settings):
        run = judged(project, model="loopback-judge")
    unread = {"status": Parse.Status.UNPARSED, "score_1": None, "score_2": None, "outcome": None}
    Parse.objects.update(version=0, **unread)
    return run


@pytest.fixture
def messages(monkeypatch):
    """What the broker would carry."""
    sent = []
    monkeypatch.setattr(
        "judging.core.waking.wake_on_commit", lambda task, *values: sent.append(values)
    )
    return sent


def now(run):
    run.refresh_from_db()
    return rereading_of(run)


def test_a_worker_reads_them_without_a_call_and_says_how_far(run, messages, monkeypatch):
    monkeypatch.setattr(rereading, "CHUNK", 10)
    seen = []
    note = rereading.note
    monkeypatch.setattr(
        rereading, "note", lambda run, now, *more, **named: seen.append((now.read, now.ranked))
        or note(run, now, *more, **named)
    )  # fmt: skip
    begin(run, None)
    waiting = now(run)
    assert (waiting.state, waiting.read, waiting.total) == ("waiting", 0, 24)
    assert waiting.under_way
    reparse_run(*messages[0])
    done = now(run)
    assert (done.state, done.read, done.changed) == ("done", 24, 24)
    # Half of the ranking is to judge the four examples, the other half to write their verdicts.
    assert seen == [(0, 0), (10, 0), (20, 0), (24, 0), (24, 2), (24, 4), (24, 0)]
    assert Parse.objects.filter(current=True, status="valid").count() == 24
    assert run.verdicts.filter(state="judged").count() == 4
    assert AuditEvent.objects.filter(action="replies read again").count() == 1


def test_a_second_press_and_a_second_message_change_nothing(run, messages):
    begin(run, None)
    begin(run, None)
    assert len(messages) == 1
    reparse_run(*messages[0])
    done = now(run)
    reparse_run(*messages[0])
    assert now(run) == done


class Killed(BaseException):
    """The end of a process, which nothing catches."""


def killed_at(monkeypatch, run, messages, chunk):
    """A reader that is killed at the `chunk`th chunk of ten replies, two minutes ago."""
    chunks = []

    def read_chunk(*values):
        chunks.append(values)
        if len(chunks) == chunk:
            raise Killed
        return read(*values)

    read = rereading.read_chunk
    with monkeypatch.context() as patched:
        patched.setattr(rereading, "CHUNK", 10)
        patched.setattr(rereading, "read_chunk", read_chunk)
        with pytest.raises(Killed):
            reparse_run(*messages[-1])
    run.refresh_from_db()
    long_ago = (timezone.now() - timedelta(minutes=2)).isoformat()
    kept = run.progress["rereading"] | {"at": long_ago}
    Run.objects.filter(pk=run.pk).update(progress={"rereading": kept})
    return now(run)


def test_a_reader_that_died_is_followed_by_another_and_writes_no_more(run, messages, monkeypatch):
    begin(run, None)
    assert resume_readings() == 0
    died = killed_at(monkeypatch, run, messages, chunk=2)
    assert (died.state, died.read, died.silent) == ("reading", 10, True)
    assert (resume_readings(), resume_readings()) == (1, 0)
    assert len(messages) == 2
    assert not now(run).silent
    with pytest.raises(TakenOver):
        rereading.note(run, died)
    reparse_run(*messages[0])
    assert now(run).state == "waiting"
    reparse_run(*messages[1])
    assert (now(run).state, now(run).read, now(run).changed) == ("done", 24, 24)
    assert resume_readings() == 0
    assert Parse.objects.filter(current=True, status="valid").count() == 24
    assert Parse.objects.count() == 48


def test_a_reading_whose_message_was_lost_is_sent_again(run, messages):
    begin(run, None)
    long_ago = (timezone.now() - timedelta(minutes=2)).isoformat()
    run.refresh_from_db()
    Run.objects.update(progress={"rereading": run.progress["rereading"] | {"at": long_ago}})
    assert resume_readings() == 1
    reparse_run(*messages[1])
    assert now(run).state == "done"


def test_a_reader_that_was_followed_writes_nothing_of_its_chunk(run, messages, monkeypatch):
    """It was slow and not dead: another reader has taken over between two chunks."""
    begin(run, None)
    read = rereading.read_chunk

    def slow(*values):
        newer = read(*values)
        run.refresh_from_db()
        kept = run.progress["rereading"] | {"at": "2020-01-01T00:00:00+00:00"}
        Run.objects.update(progress={"rereading": kept})
        assert resume_readings() == 1
        return newer

    with monkeypatch.context() as patched:
        patched.setattr(rereading, "read_chunk", slow)
        reparse_run(*messages[0])
    assert now(run).state == "waiting"
    assert Parse.objects.count() == 24


def test_a_run_that_goes_on_ends_the_reading(run, messages):
    begin(run, None)
    assert lifecycle.resume(run, background=False)
    reparse_run(*messages[0])
    assert not Parse.objects.filter(status="valid").exists()
    with pytest.raises(UserError, match="still at work"):
        begin(run, None)


def test_an_error_is_told_by_a_reference_and_another_press_tries_again(
    run, messages, monkeypatch, caplog
):
    def broken(*values):
        raise ValueError("the parser broke")

    begin(run, None)
    with monkeypatch.context() as patched:
        patched.setattr(rereading, "read_chunk", broken)
        reparse_run(*messages[0])
    failed = now(run)
    assert failed.state == "failed"
    assert "the parser broke" not in failed.reason
    (reference,) = re.findall(r"\(reference (\w{8})\)", failed.reason)
    assert f"(reference {reference})" in caplog.text
    assert "ValueError: the parser broke" in caplog.text
    assert resume_readings() == 0
    begin(run, None)
    reparse_run(*messages[1])
    assert now(run).state == "done"


def test_a_database_that_goes_away_leaves_the_reading_to_the_sweep(run, messages, monkeypatch):
    def away(*values):
        raise OperationalError("server closed the connection")

    begin(run, None)
    with monkeypatch.context() as patched:
        patched.setattr(rereading, "read_chunk", away)
        with pytest.raises(OperationalError):
            reparse_run(*messages[0])
    assert now(run).state == "reading"


def test_a_recorded_run_holds_no_replies(project):
    with pytest.raises(UserError, match="recorded elsewhere"):
        begin(make_run(project, method="imported"), None)


def test_the_page_begins_it_follows_it_and_says_what_came_of_it(
    run, messages, project, client, researcher
):
    client.force_login(researcher)
    url = reverse("run_reparse", args=[project.slug, run.number])
    page = reverse("run", args=[project.slug, run.number])
    as_part = {"HX-Request": "true"}
    assert "Re-parse<" in client.get(page).content.decode()
    assert client.post(url).url == page
    part = client.get(url, headers=as_part).content.decode()
    assert part.lstrip().startswith('<div id="rereading"')
    assert "0 of 24 replies" in part
    assert "No worker is running." in part
    assert 'hx-trigger="every 1s"' in part
    run.refresh_from_db()
    kept, moment = run.progress["rereading"], timezone.now()
    Worker.objects.create(name="w", queues="quick", started_at=moment, seen_at=moment)
    assert "No worker is running." not in client.get(url, headers=as_part).content.decode()
    silent = kept | {"at": "2020-01-01T00:00:00+00:00"}
    Run.objects.update(progress={"rereading": silent})
    part = client.get(url, headers=as_part).content.decode()
    assert "another worker continues within a minute" in part
    assert 'hx-trigger="every 1s"' in part
    Run.objects.update(progress={"rereading": kept})
    reparse_run(*messages[0])
    assert client.get(url, headers=as_part).headers["HX-Refresh"] == "true"
    assert client.get(url).url == page
    html = client.get(page).content.decode()
    assert "24 replies were re-parsed, 24 with a different result." in html
    assert 'hx-trigger="every 1s"' not in html
    client.post(url)
    reparse_run(*messages[1])
    html = client.get(page).content.decode()
    assert "parser had already read every reply" in html
    assert "0 replies" not in html


def test_the_task_goes_to_the_quick_queue(settings):
    from fairjudge_site.celery import app

    assert app.amqp.router.route({}, "judging.tasks.reparse_run")["queue"].name == "quick"
    assert app.amqp.router.route({}, "judging.tasks.pump_run")["queue"].name == "runs"


def test_a_reading_that_is_stopped_leaves_verdicts_that_agree_with_it(run, messages, monkeypatch):
    """Another reading goes on from there."""
    monkeypatch.setattr(rereading, "CHUNK", 10)
    begin(run, None)
    read, chunks = rereading.read_chunk, []

    def stopped_at_the_second(*values):
        chunks.append(values)
        if len(chunks) == 2:
            rereading.stop(run, None)
        return read(*values)

    with monkeypatch.context() as patched:
        patched.setattr(rereading, "read_chunk", stopped_at_the_second)
        reparse_run(*messages[0])
    ended = now(run)
    assert (ended.state, ended.read, ended.under_way) == ("stopped", 10, False)
    assert Parse.objects.filter(current=True, status="valid").count() == 10
    valid = sum(verdict.n_valid for verdict in run.verdicts.all())
    assert valid == 10, "the verdicts agree with what was read"
    # The message of whoever stopped it comes too late.
    reparse_run(*messages[1])
    assert now(run) == ended
    with pytest.raises(UserError, match="Nothing was changed"):
        rereading.stop(run, None)
    begin(run, None)
    assert now(run).total == 14
    reparse_run(*messages[2])
    assert (now(run).state, now(run).read) == ("done", 14)
    assert run.verdicts.filter(state="judged").count() == 4


def test_a_reading_that_updates_the_verdicts_shows_it_and_is_not_stopped_any_more(
    run, messages, monkeypatch, client, owner
):
    client.force_login(owner)
    address = reverse("run_reparse", args=[run.project.slug, run.number])
    begin(run, None)
    rebuild, shown = rereading.rebuild_verdicts, []

    def looked_at(run, advance):
        def told(*far):
            goes_on = advance(*far)
            page = client.get(address, headers={"HX-Request": "true"}).content.decode()
            shown.append(page)
            with pytest.raises(UserError, match="verdicts are being updated"):
                rereading.stop(run, None)
            return goes_on

        rebuild(run, told)

    monkeypatch.setattr(rereading, "rebuild_verdicts", looked_at)
    reparse_run(*messages[0])
    assert "2 of 4 examples ranked" in shown[0]
    assert "Stop re-parsing" not in shown[0]
    assert now(run).state == "done"
    assert run.verdicts.filter(state="judged").count() == 4


def test_a_reading_is_stopped_before_a_worker_is_at_it_and_after_it_died(
    run, messages, monkeypatch
):
    begin(run, None)
    rereading.stop(run, None)
    for message in messages:
        reparse_run(*message)
    assert (now(run).state, now(run).read) == ("stopped", 0)
    begin(run, None)
    killed_at(monkeypatch, run, messages, chunk=2)
    rereading.stop(run, None)
    long_ago = (timezone.now() - timedelta(minutes=2)).isoformat()
    run.refresh_from_db()
    Run.objects.update(progress={"rereading": run.progress["rereading"] | {"at": long_ago}})
    assert resume_readings() == 1
    reparse_run(*messages[-1])
    assert (now(run).state, now(run).read) == ("stopped", 10)


def test_the_page_stops_a_reading(run, messages, client, owner):
    client.force_login(owner)
    begin(run, None)
    address = reverse("run_reparse", args=[run.project.slug, run.number])
    assert "Stop re-parsing" in client.get(address, headers={"HX-Request": "true"}).content.decode()
    client.post(address, {"stop": ""})
    assert now(run).state == "stopping"
    page = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "Re-parsing ends here" in page
    assert "Stop re-parsing" not in page
    reparse_run(*messages[0])
    page = client.get(reverse("run", args=[run.project.slug, run.number])).content.decode()
    assert "stopped after 0 of 24 replies" in page
