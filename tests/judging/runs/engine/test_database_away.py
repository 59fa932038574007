"""A database that goes away under a run: what the judge has answered is waited with, and kept."""

from decimal import Decimal

import psycopg
import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from judging.runs.engine import pump, recording
from judging.runs.engine.working import work_on
from judging.runs.models import Run
from tests.judging.runs.judging import (
    every_slot_once,
    loopback,
    make_judged_project,
    started,
    states_of,
)

PRICE = (Decimal(10), Decimal(20))
ADDRESS = ("host", "port", "user", "password", "dbname")
CUT = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(pump, "DATABASE_WAIT", 0.01)


def ends_with_all_that_was_paid_for(run, server):
    """The run went on by itself, and nothing that was answered is asked for again or lost."""
    run.refresh_from_db()
    assert (run.state, run.holder) == (Run.State.QUEUED, "")
    assert states_of(run) == {"done": server.completed}
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now())
    assert recording.sweep() == 1
    assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert server.completed == states_of(run)["done"]


def test_answers_are_written_again_after_their_writing_failed(settings, monkeypatch, sent):
    """At the last moment: in the transaction everything was written, and was rolled back."""
    save, failures = recording.save_samples, [2]

    def failing(pairs):
        save(pairs)
        if failures[0]:
            failures[0] -= 1
            raise OperationalError("the connection was closed")

    with loopback(settings) as server:
        run = started(make_judged_project(12), price=PRICE, budget=Decimal(1))
        with monkeypatch.context() as broken:
            broken.setattr(recording, "save_samples", failing)
            with pytest.raises(OperationalError, match="the connection was closed"):
                work_on(run)
        assert failures == [0]
        ends_with_all_that_was_paid_for(run, server)
    run.refresh_from_db()
    assert run.reserved_usd == 0
    assert run.spent_usd == sum(run.calls.values_list("usd", flat=True))


def test_a_database_that_went_away_leaves_the_run_to_the_sweep(settings, monkeypatch, sent):
    def away(*values):
        raise OperationalError("the connection was closed")

    with loopback(settings):
        run = started(make_judged_project(3))
        with monkeypatch.context() as broken:
            broken.setattr(recording, "record", away)
            broken.setattr(pump, "DATABASE_PATIENCE", 0.0)
            with pytest.raises(OperationalError, match="the connection was closed"):
                work_on(run)
        run.refresh_from_db()
        assert run.state == Run.State.RUNNING
        Run.objects.filter(pk=run.pk).update(lease_until=timezone.now())
        assert recording.sweep() == 1
        assert sent == [run.pk]
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert every_slot_once(run)


def test_connections_that_a_server_cut_cost_no_answer(settings, sent):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no connections to cut")
    cut = []

    def cutting(asked):
        if asked.number == 9:
            with psycopg.connect(**address, autocommit=True) as other:
                cut.append(other.execute(CUT).fetchone()[0])

    known = connection.get_connection_params()
    address = {name: known[name] for name in ADDRESS if name in known}
    with loopback(settings, cutting) as server:
        run = started(make_judged_project(12))
        with pytest.raises(OperationalError):
            work_on(run)
        assert cut[0] > 0
        connection.close()
        ends_with_all_that_was_paid_for(run, server)
