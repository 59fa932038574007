"""What had arrived is recorded by the next holder, and never asked for twice."""

import os
import random
import signal
import time
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from judging.core import leases
from judging.runs import lifecycle
from judging.runs.engine import pump, recording
from judging.runs.engine.claims import Journal, path_of, read_journal
from judging.runs.engine.working import work_on
from judging.runs.models import Call, Run, Sample
from tests.judging.runs.engine.test_kills import MAKE_PROJECT, PAIRS, Site, wait_for_answers
from tests.judging.runs.judging import (
    every_slot_once,
    loopback,
    make_judged_project,
    started,
    states_of,
)
from tests.loopback import BiasedJudge, LoopbackServer, fixed

pytestmark = pytest.mark.system

IN_FLIGHT = 8


def held_by_the_dead(project, settings, state=Run.State.RUNNING, **choices):
    """A run whose holder on this machine is dead, with its claims: answered, refused, unsent."""
    run = started(project, k=2, price=(1, 1), **choices)
    host = leases.new_holder().partition(":")[0]
    holder = f"{host}:1:1:abc"
    Run.objects.filter(pk=run.pk).update(
        state=state, holder=holder, lease_until=timezone.now() + timedelta(seconds=15)
    )
    run.refresh_from_db()
    return run


def worked_until_recording(run, monkeypatch):
    """Work on the run with a database that records nothing, and leave it as a kill does."""

    def away(*values):
        raise OperationalError("database is locked")

    with monkeypatch.context() as broken:
        broken.setattr(recording, "record", away)
        broken.setattr(pump, "DATABASE_PATIENCE", 0.0)
        broken.setattr(pump, "DATABASE_WAIT", 0.0)
        with pytest.raises(OperationalError):
            work_on(run)
    run.refresh_from_db()


@pytest.mark.django_db(transaction=True)
@pytest.mark.databases
@pytest.mark.parametrize("by_sweep", [False, True])
def test_answers_that_no_database_had_yet_are_recorded_by_the_next_holder(
    settings, monkeypatch, sent, tmp_path, by_sweep
):
    settings.FAIRJUDGE_DATA = tmp_path
    with loopback(settings, judge=BiasedJudge()) as server:
        run = started(make_judged_project(6), price=(1, 1))
        worked_until_recording(run, monkeypatch)
        answered = server.completed
        assert answered
        content = read_journal(run.pk, run.holder)
        assert len(content.outcomes) == answered
        Run.objects.filter(pk=run.pk).update(lease_until=timezone.now())
        run.refresh_from_db()
        if by_sweep:
            assert recording.sweep() == 1
            assert states_of(run) == {"done": answered}
            run.refresh_from_db()
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert server.completed == states_of(run)["done"] == 12
    assert run.reserved_usd == 0
    assert run.spent_usd == sum(run.calls.values_list("usd", flat=True))
    assert not list((tmp_path / "departures").iterdir())


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_nobody_can_record_is_lost_and_the_run_goes_on(
    settings, monkeypatch, tmp_path
):
    settings.FAIRJUDGE_DATA = tmp_path
    with loopback(settings) as server:
        run = started(make_judged_project(2))
        worked_until_recording(run, monkeypatch)
        first, *_ = read_journal(run.pk, run.holder).outcomes
        read = recording.read_arrival

        def failing(arrival, *values):
            if arrival.claim.call.pk == first:
                raise RuntimeError("a reply that breaks the parser")
            return read(arrival, *values)

        Run.objects.filter(pk=run.pk).update(lease_until=timezone.now())
        run.refresh_from_db()
        monkeypatch.setattr(recording, "read_arrival", failing)
        assert work_on(run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert Call.objects.get(state="lost").pk == first
    assert every_slot_once(run)
    assert server.completed == states_of(run)["done"] + 1


@pytest.mark.django_db(transaction=True)
def test_a_machine_without_the_journal_calls_them_lost(settings, monkeypatch, tmp_path):
    settings.FAIRJUDGE_DATA = tmp_path / "here"
    settings.FAIRJUDGE_DATA.mkdir()
    with loopback(settings):
        run = started(make_judged_project(2))
        worked_until_recording(run, monkeypatch)
        Run.objects.filter(pk=run.pk).update(lease_until=timezone.now())
        run.refresh_from_db()
        settings.FAIRJUDGE_DATA = tmp_path / "elsewhere"
        settings.FAIRJUDGE_DATA.mkdir()
        assert work_on(run)
        lost = run.calls.filter(state="lost")
        assert lost.exists()
        assert all("may have been billed" in call.error for call in lost)
        settings.FAIRJUDGE_DATA = tmp_path / "here"
        # Nobody needs it any more, and it holds replies.
        recording.sweep()
        assert not list((tmp_path / "here" / "departures").iterdir())
    run.refresh_from_db()
    assert run.state == Run.State.DONE


@pytest.mark.django_db(transaction=True)
def test_the_sweep_leaves_the_journals_of_the_living(settings, tmp_path):
    settings.FAIRJUDGE_DATA = tmp_path
    run = started(make_judged_project(2), endpoint="local")
    holder = leases.new_holder()
    assert lifecycle.take(run, holder)
    Journal(run.pk, holder)
    Journal(run.pk + 1, "host:1:1:gone")
    recording.sweep()
    assert [path.name for path in (tmp_path / "departures").iterdir()] == [
        path_of(run.pk, holder).name
    ]


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.long)])
def test_kills_at_eight_calls_in_flight_repeat_no_answer_that_arrived(site_folder, kills):
    draw = random.Random(2026)
    arrived: dict[int, object] = {}
    journals = site_folder / "departures"

    with (
        LoopbackServer(judge=BiasedJudge(), latency=fixed(0.03)) as server,
        Site(site_folder, server.base_url) as site,
    ):
        site.run("shell", "--verbosity", "0", "-c", MAKE_PROJECT)
        command = ["judge", "killed", "--endpoint", "loop", "--concurrency", "8", "--name", "r"]
        for _ in range(kills):
            pid = site.start(*command)
            wait_for_answers(server, server.completed + draw.randint(3, 25))
            time.sleep(draw.random() * 0.05)
            os.kill(pid, signal.SIGKILL)
            assert site.wait() == -signal.SIGKILL
            claimed = site.calls("claimed")
            for journal in journals.iterdir():
                for line in journal.read_text().split("\n")[1:]:
                    number, _, content = line.partition(" ")
                    if content and int(number) in claimed:
                        arrived[int(number)] = content
            command = ["judge", "killed", "--resume", "r"]
        site.run(*command)
        assert arrived
        done = site.calls("done")
        assert set(arrived) <= done
        assert server.requests - len(done) <= kills * IN_FLIGHT
        assert len(done) == PAIRS * 2
        assert not list(journals.iterdir())


@pytest.mark.django_db(transaction=True)
def test_calls_that_only_met_refusals_are_free_after_a_kill(settings, monkeypatch, tmp_path):
    settings.FAIRJUDGE_DATA = tmp_path
    with loopback(settings) as server:
        run = held_by_the_dead(make_judged_project(3), settings)
        calls = [
            Call.objects.create(
                run=run,
                example=example,
                part="original",
                slots=[0, 1],
                holder=run.holder,
                claimed_at=timezone.now(),
                reserved_usd=1,
            )
            for example in run.project.examples.all()
        ]
        journal = Journal(run.pk, run.holder)
        for call in calls[:2]:
            journal.leaving(call.pk)
            journal.cost_nothing(call.pk)
        journal.leaving(calls[1].pk)
        assert work_on(run)
    run.refresh_from_db()
    assert states_of(run) == {"done": 6, "lost": 1}
    assert Call.objects.get(state="lost").pk == calls[1].pk
    assert run.reserved_usd == 1
    assert server.requests == 6
    assert Sample.objects.count() == 12
