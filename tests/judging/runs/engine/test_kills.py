"""`manage.py judge` killed and interrupted; its counts are proven on the server's own log."""

import json
import os
import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from judging.core.commands import Exit
from tests.judging.runs.judging import answered
from tests.launcher import Launcher
from tests.loopback import BiasedJudge, LoopbackServer, fixed

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[4]
PAIRS = 150
MOST_AFTERWARDS = 6
SEED = 20261127
LONGEST_WAIT = 60


class Site:
    """A site of its own, with the default database, seen from outside."""

    def __init__(self, folder: Path, base_url: str, **variables: str) -> None:
        self.folder = folder
        endpoints = [{"name": "loop", "base_url": base_url}]
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("FAIRJUDGE_", "OPENAI_", "DATABASE_", "DJANGO_"))
        } | {
            "FAIRJUDGE_DATA": str(folder),
            "FAIRJUDGE_ENDPOINTS": json.dumps(endpoints),
            "FAIRJUDGE_LOG_LEVEL": "WARNING",
            **variables,
        }
        self.launcher = Launcher(self.environment)

    def __enter__(self) -> "Site":
        self.launcher.__enter__()
        return self

    def __exit__(self, *ended: object) -> None:
        self.launcher.__exit__(*ended)

    def start(self, *command: str) -> int:
        """The number of the process that runs the command."""
        output = str(self.folder / "output.txt")
        (pid,) = self.launcher.start(command, stdout=output, stderr=output)
        return pid

    def wait(self) -> int:
        """The exit code of the command that was started last."""
        (code,) = self.launcher.wait()
        return code

    def run(self, *command: str) -> None:
        self.start(*command)
        assert self.wait() == 0, (self.folder / "output.txt").read_text()

    def query(self, sql: str, *values: str) -> list[tuple]:
        with sqlite3.connect(self.folder / "fairjudge.sqlite3", timeout=20) as database:
            return database.execute(sql, values).fetchall()

    def calls(self, state: str) -> set[int]:
        return {pk for (pk,) in self.query("SELECT id FROM judging_call WHERE state = ?", state)}


MAKE_PROJECT = f"""
from tests.factories import make_examples, make_project
make_examples(make_project("killed"), {PAIRS})
"""


def wait_for_answers(server: LoopbackServer, count: int) -> None:
    deadline = time.monotonic() + LONGEST_WAIT
    while server.completed < count:
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_kills_lose_nothing_recorded_and_ask_nothing_twice(site_folder, kills):
    draw = random.Random(SEED)
    in_flight, enough = set(), [0]

    def late_for_the_kill(number):
        """However late the kill comes: answers are left for those after it."""
        return server.completed >= enough[0] + MOST_AFTERWARDS

    with (
        LoopbackServer(judge=BiasedJudge(), latency=fixed(0.03), hold=late_for_the_kill) as server,
        Site(site_folder, server.base_url) as site,
    ):
        site.run("shell", "--verbosity", "0", "-c", MAKE_PROJECT)
        command = ["judge", "killed", "--endpoint", "loop", "--concurrency", "4", "--name", "r"]
        for _ in range(kills):
            pid = site.start(*command)
            enough[0] = server.completed + draw.randint(1, 9)
            wait_for_answers(server, enough[0])
            time.sleep(draw.random() * 0.05)
            os.kill(pid, signal.SIGKILL)
            assert site.wait() == -signal.SIGKILL
            in_flight |= site.calls("claimed")
            command = ["judge", "killed", "--resume", "r"]
        enough[0] = 10 * PAIRS
        site.run(*command)
    done = len(site.calls("done"))
    assert site.query("SELECT state FROM judging_run") == [("done",)]
    # What a kill cut off is lost, and nothing else is: not what was claimed and never sent.
    lost = site.calls("lost")
    assert lost < in_flight
    assert 0 <= len(lost) - (server.requests - done) <= 4 * kills
    assert not site.calls("failed") | site.calls("claimed")
    assert done <= server.completed <= done + len(lost)
    slots = site.query(
        "SELECT count(*), count(DISTINCT c.example_id || c.part || s.slot) FROM judging_sample s"
        " JOIN judging_call c ON s.call_id = c.id"
    )
    assert slots == [(PAIRS * 2 * 3, PAIRS * 2 * 3)]
    repeated = sum(count - 3 for count in answered(server.log).values()) // 3
    assert repeated == server.completed - done


def test_ctrl_c_pauses_and_loses_nothing(site_folder):
    with (
        LoopbackServer(judge=BiasedJudge(), latency=fixed(0.1)) as server,
        Site(site_folder, server.base_url) as site,
    ):
        site.run("shell", "--verbosity", "0", "-c", MAKE_PROJECT)
        pid = site.start("judge", "killed", "--endpoint", "loop", "--concurrency", "4")
        wait_for_answers(server, 9)
        os.kill(pid, signal.SIGINT)
        assert site.wait() == Exit.INTERRUPTED
        assert site.query("SELECT state, holder FROM judging_run") == [("paused", "")]
        assert len(site.calls("done")) == server.completed == server.requests < PAIRS
        assert not site.calls("lost") | site.calls("claimed")
    output = (site_folder / "output.txt").read_text()
    assert "Stopped at the keyboard" in output
    assert "Traceback" not in output
