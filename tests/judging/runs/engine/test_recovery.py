import re
import subprocess
import sys
from datetime import timedelta
from threading import Event

import pytest
from django.db import OperationalError
from django.utils import timezone

from judging.core import leases
from judging.core.leases import ProcessIdentity
from judging.core.processes import stop_requested
from judging.runs import lifecycle
from judging.runs.engine import recording
from judging.runs.engine.working import work_on
from judging.runs.models import Call, Run, Sample
from tests.factories import make_run
from tests.judging.runs.judging import (
    answered,
    every_slot_once,
    in_thread,
    judged,
    loopback,
    make_judged_project,
    started,
    states_of,
    stop_of_a_pump,
)
from tests.loopback import BiasedJudge, fixed
from tests.processes import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

ELSEWHERE = "another-machine:12:34:abc"


@pytest.fixture
def dead_holder():
    """A process of this machine that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = ProcessIdentity.of(process.pid).started
        process.communicate(b"\n")
    me = leases.new_holder().partition(":")[0]
    return f"{me}:{process.pid}:{started}:abc"


def held(project, holder, until, state=Run.State.RUNNING):
    return make_run(project, state=state, holder=holder, lease_until=timezone.now() + until)


def claimed(run, example, holder, **fields):
    return Call.objects.create(
        run=run,
        example=example,
        part="original",
        slots=[0, 1, 2],
        holder=holder,
        claimed_at=timezone.now(),
        **fields,
    )


def test_a_lease_that_runs_is_refused_to_everybody_else(project):
    run = held(project, ELSEWHERE, timedelta(seconds=5))
    assert not lifecycle.take(run, "me")
    assert not recording.recover(run)
    run.refresh_from_db()
    assert run.holder == ELSEWHERE


def test_a_lease_that_expired_is_taken_once(project):
    run = held(project, ELSEWHERE, timedelta(seconds=-1))
    assert lifecycle.take(run, "me")
    assert not lifecycle.take(run, "another")
    assert not lifecycle.renew(run.pk, ELSEWHERE)
    assert lifecycle.renew(run.pk, "me")


def test_a_lease_is_renewed_again_after_the_database_failed(project, monkeypatch):
    run = held(project, "me", timedelta(seconds=1))
    renew, asked, renewed = lifecycle.renew, [], Event()

    def failing_at_first(*values):
        asked.append(values)
        if len(asked) < 3:
            raise OperationalError("database is locked")
        done = renew(*values)
        renewed.set()
        return done

    monkeypatch.setattr(lifecycle, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(lifecycle, "renew", failing_at_first)
    with lifecycle.kept(run.pk, "me"):
        assert renewed.wait(20)
    before, _ = run.lease_until, run.refresh_from_db()
    assert run.lease_until > before


def test_a_dead_process_of_this_machine_is_not_waited_for(project, dead_holder):
    run = held(project, dead_holder, timedelta(seconds=15))
    assert leases.is_dead(dead_holder)
    assert lifecycle.take(run, "me")


def test_a_living_process_and_one_elsewhere_are_not_called_dead():
    assert not leases.is_dead(leases.new_holder())
    assert not leases.is_dead(ELSEWHERE)
    assert not leases.is_dead("")


def test_the_sweep_queues_a_run_again_whose_worker_died(project, sent):
    run = held(project, ELSEWHERE, timedelta(seconds=-1))
    assert recording.sweep() == 1
    run.refresh_from_db()
    assert (run.state, run.holder) == (Run.State.QUEUED, "")
    assert sent == [run.pk]
    assert recording.sweep() == 0


def test_the_sweep_leaves_a_living_run_alone(project, sent):
    held(project, ELSEWHERE, timedelta(seconds=5))
    make_run(project, state=Run.State.DONE)
    assert recording.sweep() == 0
    assert sent == []


@pytest.mark.parametrize(
    ("state", "end"),
    [(Run.State.PAUSING, Run.State.PAUSED), (Run.State.CANCELLING, Run.State.CANCELLED)],
)
def test_a_run_whose_worker_died_while_stopping_is_stopped(project, sent, state, end):
    run = held(project, ELSEWHERE, timedelta(seconds=-1), state)
    assert recording.sweep() == 1
    run.refresh_from_db()
    assert run.state == end
    assert sent == []


def test_a_queued_run_whose_message_was_lost_is_sent_again(project, sent):
    run = held(project, "", timedelta(seconds=-1), Run.State.QUEUED)
    assert recording.sweep() == 1
    assert sent == [run.pk]
    assert recording.sweep() == 0


def test_a_call_in_flight_at_a_death_is_lost_and_its_money_stays_held(settings):
    project = make_judged_project(2)
    example = project.examples.first()
    with loopback(settings):
        run = started(project, price=(1, 1))
        Run.objects.filter(pk=run.pk).update(
            state=Run.State.RUNNING, holder=ELSEWHERE, lease_until=timezone.now()
        )
        call = claimed(run, example, ELSEWHERE, reserved_usd=2)
        run.refresh_from_db()
        assert work_on(run)
    run.refresh_from_db()
    call.refresh_from_db()
    assert run.state == Run.State.DONE
    assert call.state == Call.State.LOST
    assert "may have been billed" in call.error
    assert run.reserved_usd == 2
    assert every_slot_once(run)
    again = Call.objects.get(run=run, example=example, part="original", state="done")
    assert again.seq == call.seq + 1


def test_of_two_workers_on_one_run_one_works(settings):
    project = make_judged_project(20)
    refused = Event()

    with loopback(settings, judge=BiasedJudge(), hold=lambda n: not refused.is_set()) as server:
        run = started(project)
        with in_thread(work_on, run) as first:
            assert eventually(lambda: server.requests)
            run.refresh_from_db()
            try:
                assert not work_on(run)
            finally:
                refused.set()
        assert first.result()
    assert server.requests == 40
    assert every_slot_once(run)


def test_a_worker_that_was_given_up_for_dead_records_nothing_more(settings):
    """It hangs in a call when another one takes over; its late answer is not stored twice."""
    project = make_judged_project(6)
    first_asked, taken_over = Event(), Event()

    def script(asked):
        if asked.number == 0:
            first_asked.set()
            assert taken_over.wait(60)
        return None

    with loopback(settings, latency=fixed(0)) as other, loopback(settings, script) as slow:
        run = started(project)
        Run.objects.filter(pk=run.pk).update(base_url=other.base_url)
        with in_thread(work_on, run) as late:
            assert first_asked.wait(60)
            Run.objects.filter(pk=run.pk).update(lease_until=timezone.now())
            settings.FAIRJUDGE_ENDPOINTS["loop"]["base_url"] = other.base_url
            run.refresh_from_db()
            assert work_on(run)
            taken_over.set()
        assert late.result()
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert slow.requests == 1
    assert other.requests == 12
    assert states_of(run) == {"done": 12, "lost": 1}
    assert every_slot_once(run)


def test_a_resume_under_another_address_is_refused(settings):
    with loopback(settings):
        run = judged(make_judged_project(1))
    with loopback(settings), pytest.raises(Exception, match="never mixed"):
        lifecycle.resume(run, background=False)
    run.refresh_from_db()
    assert run.state == Run.State.DONE


def test_an_unexpected_error_fails_the_run_and_keeps_what_was_recorded(
    settings, monkeypatch, caplog
):
    written = []
    record = recording.record

    def failing(*values):
        if written:
            raise RuntimeError("disk on fire")
        written.append(values)
        return record(*values)

    monkeypatch.setattr(recording, "record", failing)
    with loopback(settings) as server:
        run = judged(make_judged_project(10), concurrency=2)
        assert run.state == Run.State.FAILED
        assert "disk on fire" not in run.reason
        (reference,) = re.findall(r"\(reference (\w{8})\)", run.reason)
        assert f"run {run.pk} stopped (reference {reference})" in caplog.text
        assert "RuntimeError: disk on fire" in caplog.text
        kept = Sample.objects.count()
        assert kept
        monkeypatch.setattr(recording, "record", record)
        lifecycle.resume(run, background=False)
        work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    lost = states_of(run)["lost"]
    assert server.completed <= states_of(run)["done"] + lost
    assert sum(answered(server.log).values()) >= 60


def test_a_worker_that_ends_hands_its_run_back_without_loss(settings, monkeypatch, sent):
    seen = stop_of_a_pump(monkeypatch)

    def in_flight_at_the_end(number):
        return number >= 7 and not seen.is_set()

    with loopback(settings, judge=BiasedJudge(), hold=in_flight_at_the_end) as server:
        run = started(make_judged_project(30))
        try:
            with in_thread(work_on, run):
                assert eventually(lambda: server.requests > 7)
                stop_requested.set()
        finally:
            stop_requested.clear()
        run.refresh_from_db()
        assert (run.state, run.holder) == (Run.State.QUEUED, "")
        assert states_of(run) == {"done": server.completed}
        assert recording.sweep() == 1
        assert sent == [run.pk]
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert server.requests == 60
    assert every_slot_once(run)
