import resource
import stat
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from judging.core import leases
from judging.core.leases import ProcessIdentity, boot
from judging.llm.client.errors import CallFailure, FailureKind
from judging.llm.client.messages import Choice, Reply, TokenLogprobs
from judging.llm.prices import Usage
from judging.runs.engine import claims, recording
from judging.runs.engine.claims import Journal, path_of, read_journal
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
    journal = Journal(RUN, dead_holder)
    journal.leaving(12)
    journal.leaving(5)
    assert read_journal(RUN, dead_holder).sent == {5, 12}
    assert read_journal(RUN + 1, dead_holder).sent is None


def test_of_a_living_process_nothing_is_certain_yet(folder):
    me = leases.new_holder()
    Journal(RUN, me).leaving(12)
    assert read_journal(RUN, me).sent is None


@pytest.mark.parametrize("content", ["", "another-boot\n12\n", "{boot}\nhalf a li\n12\n"])
def test_a_file_of_another_boot_or_a_broken_one_tells_nothing(folder, dead_holder, content):
    Journal(RUN, dead_holder)
    path_of(RUN, dead_holder).write_text(content.format(boot=boot()))
    assert read_journal(RUN, dead_holder).sent is None


def test_a_torn_last_line_is_of_a_request_that_had_not_left(folder, dead_holder):
    Journal(RUN, dead_holder).leaving(12)
    with path_of(RUN, dead_holder).open("a") as file:
        file.write("4")
    assert read_journal(RUN, dead_holder).sent == {12}


def test_a_call_that_was_only_refused_was_not_sent(folder, dead_holder):
    journal = Journal(RUN, dead_holder)
    for _ in range(3):
        journal.leaving(12)
        journal.cost_nothing(12)
    journal.leaving(5)
    journal.leaving(7)
    journal.cost_nothing(7)
    journal.leaving(7)
    assert read_journal(RUN, dead_holder).sent == {5, 7}
    assert set(journal.under_way) == {5, 7}


def test_the_journal_is_private(folder, dead_holder):
    Journal(RUN, dead_holder)
    assert stat.S_IMODE(path_of(RUN, dead_holder).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def reply(text: str, **more) -> Reply:
    top = (("8", -0.1), ("7", -2.5))
    choice = Choice(text, "stop", "thoughts", (TokenLogprobs("8", -0.1, top),), 3, "", ("audio",))
    return Reply((choice,), Usage(100, 20, 3, True, False, True), "judge", "x-1", 1, 2, 1, 50, "r")


OUTCOMES = [
    reply("Evidence: “fine”.\nScore: 8\u2028 \x85 end"),
    reply(""),
    CallFailure(FailureKind.DAY_LIMIT, "no more\ntoday", 429, 3, 0, 12, "x-2", 1.5e9),
]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_what_came_back_is_read_as_it_was(folder, dead_holder, outcome):
    journal = Journal(RUN, dead_holder)
    journal.leaving(12)
    journal.arrived(12, outcome)
    content = read_journal(RUN, dead_holder)
    assert content.outcomes == {12: outcome}
    assert content.sent == {12}


def test_a_full_disk_keeps_the_answers_and_says_that_more_may_have_been_sent(folder, dead_holder):
    journal = Journal(RUN, dead_holder)
    journal.leaving(5)
    journal.arrived(5, OUTCOMES[0])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.size + 3, limits[1]))
    try:
        journal.leaving(123456)
        journal.arrived(123456, OUTCOMES[0])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    journal.leaving(7)
    journal.arrived(7, OUTCOMES[1])
    content = read_journal(RUN, dead_holder)
    assert content.sent is None
    assert content.outcomes == {5: OUTCOMES[0], 7: OUTCOMES[1]}
    # Once there is room again, the whole journal is written anew and certain.
    journal.rewrite()
    content = read_journal(RUN, dead_holder)
    assert content.sent == {5, 7, 123456}
    assert set(content.outcomes) == {5, 7, 123456}


def test_a_folder_that_can_not_be_made_stops_nothing(settings, tmp_path, dead_holder):
    settings.FAIRJUDGE_DATA = tmp_path / "a file"
    settings.FAIRJUDGE_DATA.write_text("")
    with Journal(RUN, dead_holder) as journal:
        journal.leaving(12)
        journal.arrived(12, OUTCOMES[0])
        journal.recorded([12])
    assert read_journal(RUN, dead_holder).sent is None


def test_the_journal_stays_short_and_keeps_what_is_not_recorded(folder, dead_holder, monkeypatch):
    monkeypatch.setattr(claims, "LONG_JOURNAL", 2000)
    journal = Journal(RUN, dead_holder)
    journal.leaving(1)
    journal.arrived(1, OUTCOMES[0])
    journal.leaving(2)
    for call in range(3, 500):
        journal.leaving(call)
        journal.arrived(call, OUTCOMES[0])
        journal.recorded([call])
    assert path_of(RUN, dead_holder).stat().st_size < 10_000
    content = read_journal(RUN, dead_holder)
    assert {1, 2} <= content.sent
    assert content.outcomes[1] == OUTCOMES[0]


def test_workers_of_one_run_leave_the_files_of_others_alone(folder, dead_holder):
    Journal(RUN, dead_holder)
    with Journal(RUN, leases.new_holder()):
        assert len(list(folder.iterdir())) == 2
    assert [path.name for path in folder.iterdir()] == ["7-abc"]


def test_an_error_leaves_the_file_behind_as_a_kill_does(folder, dead_holder):
    with suppress(OperationalError), Journal(RUN, dead_holder) as journal:
        journal.leaving(12)
        raise OperationalError("database or disk is full")
    assert read_journal(RUN, dead_holder).sent == {12}


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
        Journal(run.pk, dead_holder).leaving(first)
        if by_sweep:
            assert recording.sweep() == 1
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
    Journal(run.pk, elsewhere)
    assert recording.take_over(run, leases.new_holder())
    assert states_of(run) == {"lost": 3}
