"""Stopping a run whose calls lie in a batch: the endpoint is told, whoever holds the run."""

import pytest
from django.utils import timezone

from judging.runs import lifecycle
from judging.runs.engine import batches, recording
from judging.runs.engine.working import work_on
from judging.runs.models import Batch, Run
from tests.judging.runs.engine.test_batches import PRICE, wait_for
from tests.judging.runs.judging import (
    every_slot_once,
    in_thread,
    loopback,
    make_judged_project,
    started,
    states_of,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(batches, "POLL_SECONDS", 0.02)


def test_a_cancelled_run_cancels_its_batch_and_owes_nothing_for_it(settings):
    with loopback(settings) as server:
        server.batches.polls = 1_000_000
        run = started(make_judged_project(3), price=PRICE, batch=True)
        with in_thread(work_on, run):
            wait_for(lambda: Batch.objects.exclude(remote_id="").exists())
            assert lifecycle.cancel(run)
        run.refresh_from_db()
    assert run.state == Run.State.CANCELLED
    (batch,) = server.batches.batches.values()
    assert batch["status"] == "cancelled"
    assert states_of(run) == {"done": 1}
    assert run.reserved_usd == 0
    assert run.verdicts.filter(state="pending").count() == 3


def paused_with_a_batch(settings_server):
    """A run that was paused while the endpoint has its batch."""
    settings_server.batches.polls = 1_000_000
    run = started(make_judged_project(3), price=PRICE, batch=True)
    with in_thread(work_on, run):
        wait_for(lambda: Batch.objects.exclude(remote_id="").exists())
        assert lifecycle.pause(run)
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED
    return run


def test_stopping_a_paused_run_has_a_worker_cancel_its_batch(settings, monkeypatch):
    sent = []
    monkeypatch.setattr(lifecycle, "send", sent.append)
    with loopback(settings) as server:
        run = paused_with_a_batch(server)
        assert lifecycle.cancel(run)
        run.refresh_from_db()
        assert (run.state, sent) == (Run.State.CANCELLING, [run.pk])
        # The message is lost: a sweep sends another one, and not at every look.
        assert recording.sweep() == 0
        Run.objects.filter(pk=run.pk).update(lease_until=timezone.now())
        assert (recording.sweep(), recording.sweep()) == (1, 0)
        assert sent == [run.pk] * 2
        asked = server.requests
        assert work_on(Run.objects.get())
        run.refresh_from_db()
        assert (run.state, run.reason, server.requests) == (Run.State.CANCELLED, "", asked)
        assert not work_on(run)
    (batch,) = server.batches.batches.values()
    assert batch["status"] == "cancelled"
    assert states_of(run) == {"done": 1}
    assert run.reserved_usd == 0


def cancelled_in_vain(server, monkeypatch):
    """A cancelled run whose endpoint does not cancel its batch."""
    monkeypatch.setattr(batches, "CANCEL_SECONDS", 0.1)
    run = paused_with_a_batch(server)
    server.batches.refuses_cancel = True
    assert lifecycle.cancel(run)
    assert work_on(Run.objects.get())
    return run


def test_a_batch_that_can_not_be_cancelled_is_named_and_collected_by_a_resume(
    settings, monkeypatch
):
    with loopback(settings) as server:
        run = cancelled_in_vain(server, monkeypatch)
        run.refresh_from_db()
        assert run.state == Run.State.CANCELLED
        assert "has not ended 1 of the run's batches: Not now." in run.reason
        assert states_of(run) == {"done": 1, "claimed": 5}
        server.batches.polls = 1
        assert lifecycle.resume(run, background=False)
        assert work_on(Run.objects.get())
    run.refresh_from_db()
    assert (run.state, run.reason, run.reserved_usd) == (Run.State.DONE, "", 0)
    assert every_slot_once(run)
    assert (server.requests, len(server.batches.batches)) == (6, 1)


@pytest.mark.parametrize("arrived", [True, False])
def test_a_batch_whose_receipt_was_lost_is_found_and_cancelled(settings, arrived):
    with loopback(settings) as server:
        run = paused_with_a_batch(server)
        Batch.objects.update(remote_id="", submitted_at=None)
        if not arrived:
            server.batches.batches.clear()
        assert lifecycle.cancel(run)
        assert work_on(Run.objects.get())
    run.refresh_from_db()
    assert (run.state, states_of(run), run.reserved_usd) == ("cancelled", {"done": 1}, 0)
    assert [b["status"] for b in server.batches.batches.values()] == ["cancelled"] * arrived
    assert not Batch.objects.filter(collected_at=None).exists()


def test_a_failed_run_is_stopped_and_its_batch_cancelled(settings, monkeypatch):
    sent = []
    monkeypatch.setattr(lifecycle, "send", sent.append)
    with loopback(settings) as server:
        run = paused_with_a_batch(server)
        Run.objects.update(state=Run.State.FAILED, reason="Stopped by an error.")
        assert lifecycle.cancel(run)
        assert (Run.objects.get().state, sent) == (Run.State.CANCELLING, [run.pk])
        assert work_on(Run.objects.get())
    run.refresh_from_db()
    assert (run.state, run.reason, run.reserved_usd) == (Run.State.CANCELLED, "", 0)
    (batch,) = server.batches.batches.values()
    assert batch["status"] == "cancelled"
    assert not lifecycle.cancel(run)


def test_a_batch_that_was_not_cancelled_can_be_cancelled_once_more(settings, monkeypatch):
    with loopback(settings) as server:
        run = cancelled_in_vain(server, monkeypatch)
        server.batches.refuses_cancel = False
        assert lifecycle.cancel(run)
        assert work_on(Run.objects.get())
    run.refresh_from_db()
    assert (run.state, run.reason) == (Run.State.CANCELLED, "")
    assert [b["status"] for b in server.batches.batches.values()] == ["cancelled"]


def test_a_failed_run_with_nothing_at_the_endpoint_has_nothing_to_stop(settings):
    with loopback(settings):
        run = started(make_judged_project(1), batch=True)
    Run.objects.update(state=Run.State.FAILED, reason="Stopped by an error.")
    assert not lifecycle.cancel(run)
    run.refresh_from_db()
    assert (run.state, run.reason) == (Run.State.FAILED, "Stopped by an error.")


def test_a_run_that_its_holder_is_stopping_is_not_taken_over(settings):
    with loopback(settings) as server:
        run = paused_with_a_batch(server)
        until = lifecycle.LEASE.end()
        Run.objects.update(state=Run.State.CANCELLING, holder="elsewhere:1:2:a", lease_until=until)
        run.refresh_from_db()
        assert not lifecycle.take(run, "another")
        Run.objects.update(lease_until=timezone.now())
        assert lifecycle.take(run, "another")
