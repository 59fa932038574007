import resource
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from judging.core import leases
from judging.core.leases import ProcessIdentity, boot
from judging.runs.engine import claims
from judging.runs.engine.claims import SentCalls, calls_sent_by, path_of
from judging.runs.engine.working import work_on
from judging.runs.models import Call, Run
from tests.factories import make_run
from tests.judging.runs.judging import (
    every_slot_once,
    loopback,
    make_judged_project,
    started,
    states_of,
)

pytestmark = pytest.mark.skipif(not boot(), reason="only Linux tells one boot from another")
db = pytest.mark.django_db(transaction=True)

RUN = 7


@pytest.fixture
def folder(settings, tmp_path):
    settings.FAIRJUDGE_DATA = tmp_path
    return tmp_path / "departures"


@pytest.fixture
def dead_holder():
    """A process of this machine that was killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = ProcessIdentity.of(process.pid).started
        process.kill()
    host = leases.new_holder().partition(":")[0]
    return f"{host}:{process.pid}:{started}:abc"


def test_what_a_killed_process_began_to_send_is_known(folder, dead_holder):
    sent_calls = SentCalls(RUN, dead_holder)
    sent_calls.add(12)
    sent_calls.add(5)
    assert calls_sent_by(RUN, dead_holder) == {5, 12}
    assert calls_sent_by(RUN + 1, dead_holder) is None


def test_of_a_living_process_nothing_is_certain_yet(folder):
    me = leases.new_holder()
    SentCalls(RUN, me).add(12)
    assert calls_sent_by(RUN, me) is None


@pytest.mark.parametrize("content", ["", "another-boot\n12\n", "{boot}\nhalf a li"])
def test_a_file_of_another_boot_or_a_broken_one_tells_nothing(folder, dead_holder, content):
    SentCalls(RUN, dead_holder)
    path_of(RUN, dead_holder).write_text(content.format(boot=boot()))
    assert calls_sent_by(RUN, dead_holder) is None


def test_a_file_that_can_not_grow_is_removed(folder, dead_holder):
    sent_calls = SentCalls(RUN, dead_holder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(boot()) + 3, limits[1]))
    try:
        sent_calls.add(123456)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    sent_calls.add(7)
    assert calls_sent_by(RUN, dead_holder) is None
    assert not list(folder.iterdir())


def test_the_next_holder_takes_the_earlier_files_away(folder, dead_holder):
    SentCalls(RUN, dead_holder)
    SentCalls(RUN + 70, dead_holder)
    with SentCalls(RUN, leases.new_holder()):
        assert {path.name.partition("-")[0] for path in folder.iterdir()} == {"7", "77"}
    assert [path.name for path in folder.iterdir()] == ["77-abc"]


def test_an_error_leaves_the_file_behind_as_a_kill_does(folder, dead_holder):
    with suppress(OperationalError), SentCalls(RUN, dead_holder) as sent_calls:
        sent_calls.add(12)
        raise OperationalError("database or disk is full")
    assert calls_sent_by(RUN, dead_holder) == {12}


def claimed(run: Run, holder: str) -> list[int]:
    """Three claims of the holder, of a dollar each."""
    about = run.project.examples.order_by("pk")[:3]
    return [
        Call.objects.create(
            run=run,
            example=example,
            part="original",
            slots=[0, 1, 2],
            holder=holder,
            claimed_at=timezone.now(),
            reserved_usd=1,
        ).pk
        for example in about
    ]


@db
@pytest.mark.databases
@pytest.mark.parametrize("by_sweep", [False, True])
def test_of_a_dead_holders_claims_only_what_it_sent_is_lost(
    folder, settings, dead_holder, monkeypatch, by_sweep
):
    monkeypatch.setattr("judging.core.waking.wake_on_commit", lambda task, run: None)
    with loopback(settings) as server:
        run = started(make_judged_project(3), price=(1, 1))
        Run.objects.filter(pk=run.pk).update(
            state=Run.State.RUNNING,
            holder=dead_holder,
            lease_until=timezone.now() + timedelta(seconds=15),
        )
        run.refresh_from_db()
        first, *_ = claimed(run, dead_holder)
        SentCalls(run.pk, dead_holder).add(first)
        if by_sweep:
            assert claims.sweep() == 1
            run.refresh_from_db()
        assert work_on(run)
    run.refresh_from_db()
    assert states_of(run) == {"done": 6, "lost": 1}
    assert Call.objects.get(state="lost").pk == first
    assert run.reserved_usd == 1
    assert server.requests == 6
    assert every_slot_once(run)
    assert not list(folder.iterdir())


@db
def test_claims_of_a_holder_that_is_not_known_to_be_dead_are_all_lost(folder, project):
    elsewhere = "another-machine:12:34:abc"
    run = make_run(make_judged_project(3), state=Run.State.RUNNING, holder=elsewhere)
    claimed(run, elsewhere)
    SentCalls(run.pk, elsewhere)
    assert claims.take_over(run, leases.new_holder())
    assert states_of(run) == {"lost": 3}
