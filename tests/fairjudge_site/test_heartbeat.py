import logging
from dataclasses import asdict

import pytest
from django.db import DatabaseError, OperationalError

from fairjudge_site import heartbeat
from fairjudge_site.logs import BrokerAway
from judging.core.models import Worker
from judging.runs.engine import rereading
from judging.runs.engine.rereading import Rereading
from tests.factories import make_project, make_run
from tests.processes import eventually


@pytest.mark.databases
def test_a_failing_sweep_is_logged_and_does_not_end_the_sign_of_life(
    transactional_db, monkeypatch, caplog
):
    swept = []

    def sweep():
        swept.append(Worker.objects.values_list("seen_at", flat=True).get())
        raise DatabaseError("gone for a moment")

    monkeypatch.setattr(heartbeat, "BEAT_EVERY", 0.02)
    monkeypatch.setattr(heartbeat, "SWEEP_EVERY", 0.05)
    monkeypatch.setattr(heartbeat, "SWEPT", (sweep,))
    alive = heartbeat.Heartbeat("runs@here", ["runs"])
    alive.start()
    assert eventually(lambda: len(swept) >= 3)
    assert swept[0] < swept[1] < swept[2]
    assert Worker.objects.get().queues == "runs"
    monkeypatch.undo()
    alive.end()
    assert not alive.is_alive()
    assert not Worker.objects.exists()
    assert "gone for a moment" in caplog.text


def test_a_database_that_is_away_takes_one_line_and_not_one_every_five_seconds(caplog):
    alive = heartbeat.Heartbeat("runs@here", ["runs"])

    def away():
        raise OperationalError("connection refused")

    with caplog.at_level("INFO", logger="fairjudge_site.heartbeat"):
        for _ in range(5):
            alive.attempt(away)
        assert [record.exc_info for record in caplog.records] == [None]
        alive.attempt(lambda: None)
        alive.attempt(lambda: None)
    assert [record.message for record in caplog.records] == [
        "The database is away (connection refused). The worker waits for it.",
        "The database is back.",
    ]


def test_a_worker_takes_up_readings_whose_reader_died(transactional_db, monkeypatch):
    sent = []
    monkeypatch.setattr(rereading, "send", lambda run_id, token: sent.append(run_id))
    monkeypatch.setattr(heartbeat, "BEAT_EVERY", 0.02)
    old = Rereading("t", "reading", total=24, at="2020-01-01T00:00:00+00:00", read=8)
    run = make_run(make_project(), state="done", progress={"rereading": asdict(old)})
    alive = heartbeat.Heartbeat("quick@here", ["quick"])
    alive.start()
    assert eventually(lambda: sent)
    # To its very end: it must not meet the tables when they are emptied.
    alive.ended.set()
    alive.join(60)
    assert not alive.is_alive()
    assert sent == [run.pk]


@pytest.mark.django_db(transaction=True)
def test_what_needs_no_database_does_not_bring_it_back(monkeypatch, caplog):
    """Some of what is swept asks for nothing on a site without mail."""
    alive = heartbeat.Heartbeat("runs@here", ["runs"])
    swept = []

    def away():
        raise OperationalError("connection refused\n\tIs the server running?")

    monkeypatch.setattr(alive, "beat", away)
    monkeypatch.setattr(heartbeat, "BEAT_EVERY", 0.01)
    monkeypatch.setattr(heartbeat, "SWEEP_EVERY", 0.01)
    monkeypatch.setattr(heartbeat, "TIDIED", ())
    monkeypatch.setattr(heartbeat, "SWEPT", (lambda: swept.append(1),))
    alive.start()
    assert eventually(lambda: "The database is away" in caplog.text)
    assert not eventually(lambda: swept, 0.3)
    assert "is back" not in caplog.text
    assert caplog.text.count("The database is away") == 1
    assert "(connection refused Is the server running?)" in caplog.text
    alive.ended.set()
    alive.join()


def test_celery_says_once_that_the_broker_is_away():
    broker = BrokerAway()

    def record(text):
        return logging.LogRecord("celery", logging.ERROR, "", 1, text, ("it",), None)

    first = record("consumer: Cannot connect to %s: refused.\nTrying again in 2 seconds\n")
    assert broker.filter(first)
    assert first.getMessage() == (
        "consumer: Cannot connect to it: refused. The worker tries again until it answers."
    )
    assert not broker.filter(record("consumer: Cannot connect to %s: refused."))
    assert broker.filter(record("Something else of %s"))
