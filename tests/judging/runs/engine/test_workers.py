"""A run in real workers, the first of which is killed: another one goes on by itself."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from threading import Event

import pytest

from tests.judging.runs.engine.test_kills import ROOT, Site
from tests.judging.runs.judging import answered
from tests.loopback import BiasedJudge, LoopbackServer
from tests.processes import eventually, processes_of

pytestmark = pytest.mark.system

PAIRS = 60
MAKE_PROJECT = f"""
from tests.factories import make_examples, make_project
make_examples(make_project("left"), {PAIRS})
"""


@contextmanager
def worker(site):
    """Killed at the end, with all its processes, whatever it is doing."""
    command = [sys.executable, "manage.py", "runall", "--only", "runs"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=site.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            for pid in processes_of(str(site.folder)) - {site.launcher.pid}:
                os.kill(pid, signal.SIGKILL)
            process.wait()


def run_state(site):
    ((state,),) = site.query("SELECT state FROM judging_run")
    return state


def a_killed_worker_is_followed_by_another(folder, **variables):
    killed = Event()
    judge = LoopbackServer(judge=BiasedJudge(), hold=lambda n: n >= 16 and not killed.is_set())
    with judge as server, Site(folder, server.base_url, **variables) as site:
        site.run("shell", "--verbosity", "0", "-c", MAKE_PROJECT)
        site.run("judge", "left", "--endpoint", "loop", "--concurrency", "2", "--background")
        with worker(site):
            assert eventually(lambda: server.completed >= 8, 240)
        killed.set()
        claimed = site.calls("claimed")
        assert (run_state(site), site.calls("lost")) == ("running", set())
        with worker(site):
            assert eventually(lambda: server.completed >= 2 * PAIRS, 240)
            assert eventually(lambda: run_state(site) == "done")
        done, lost = len(site.calls("done")), site.calls("lost")
        assert done == 2 * PAIRS
        # What was claimed and never sent is not lost.
        assert lost <= claimed
        assert 0 <= len(lost) - (server.requests - done) <= 2
        assert not site.calls("claimed")
    assert done <= server.completed <= done + len(lost)
    assert len(answered(server.log)) == 2 * PAIRS


def test_a_killed_worker_is_followed_by_another(site_folder):
    a_killed_worker_is_followed_by_another(site_folder)


@pytest.mark.long
@pytest.mark.brokers
def test_a_killed_worker_is_followed_by_another_on_redis(site_folder, redis_url):
    a_killed_worker_is_followed_by_another(site_folder, CELERY_BROKER_URL=redis_url)
