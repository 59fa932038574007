"""A run in real workers, the first of which is killed: another one goes on by itself."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.judging.runs.judging import answered
from tests.loopback import BiasedJudge, LoopbackServer, fixed
from tests.processes import eventually, processes_of

ROOT = Path(__file__).parents[3]
PAIRS = 60
MAKE_PROJECT = f"""
from tests.factories import make_examples, make_project
make_examples(make_project("left"), {PAIRS})
"""
STATE = """
from judging.models import Call, Run
run = Run.objects.get()
print(run.state, *(run.calls.filter(state=s).count() for s in ("done", "lost", "claimed")))
"""


def manage(environment, *arguments):
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def state(environment):
    name, *counts = manage(environment, "shell", "--no-imports", "-c", STATE).split()
    return name, *map(int, counts)


@contextmanager
def worker(environment):
    """Killed at the end, with all its processes, whatever it is doing."""
    command = [sys.executable, "manage.py", "runall", "--only", "runs"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            for pid in processes_of(environment["FAIRJUDGE_DATA"]):
                os.kill(pid, signal.SIGKILL)
            process.wait()


def a_killed_worker_is_followed_by_another(environment):
    with LoopbackServer(judge=BiasedJudge(), latency=fixed(0.1)) as server:
        endpoints = [{"name": "loop", "base_url": server.base_url}]
        environment = {**environment, "FAIRJUDGE_ENDPOINTS": json.dumps(endpoints)}
        manage(environment, "migrate", "--verbosity=0")
        manage(environment, "shell", "--no-imports", "-c", MAKE_PROJECT)
        flags = ["--endpoint", "loop", "--concurrency", "2", "--background"]
        manage(environment, "judge", "left", *flags)
        with worker(environment):
            assert eventually(lambda: server.completed >= 8, 120)
        name, done, lost, in_flight = state(environment)
        assert (name, lost) == ("running", 0)
        with worker(environment):
            assert eventually(lambda: server.completed >= 2 * PAIRS, 120)
            assert eventually(lambda: state(environment)[0] == "done")
        _, done, lost, left = state(environment)
    assert (done, lost, left) == (2 * PAIRS, in_flight, 0)
    assert done <= server.completed <= done + in_flight
    assert len(answered(server.log)) == 2 * PAIRS


def test_a_killed_worker_is_followed_by_another(environment_with_tables):
    a_killed_worker_is_followed_by_another(environment_with_tables)


@pytest.mark.brokers
def test_a_killed_worker_is_followed_by_another_on_redis(environment_with_tables, redis_url):
    a_killed_worker_is_followed_by_another(
        {**environment_with_tables, "CELERY_BROKER_URL": redis_url}
    )
