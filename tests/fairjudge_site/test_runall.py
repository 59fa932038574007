"""`runall` as people use it: a real process, asked to stop in every way there is."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from judging.local_judge import local_base_url
from tests.processes import eventually, free_port, processes_of

ROOT = Path(__file__).parents[2]
PARTS = ["--only", "web", "--only", "runs", "--only", "quick"]


class RunAll:
    """The command, its output so far, and the processes of its data folder."""

    def __init__(self, environment, *arguments, models=None, **variables):
        self.data = environment["FAIRJUDGE_DATA"]
        if models is not None:
            Path(self.data).mkdir(exist_ok=True)
            Path(self.data, "models").symlink_to(models)
        self.url = f"http://127.0.0.1:{free_port()}"
        self.log = Path(self.data).parent / "runall.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "runall", *arguments],
                cwd=ROOT,
                env={**environment, "FAIRJUDGE_URL": self.url, **variables},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def output(self):
        return self.log.read_text()

    def wait_until_up(self):
        up = eventually(lambda: "FairJudge is at" in self.output() or self.process.poll(), 240)
        assert up, self.output()
        assert self.process.poll() is None, self.output()
        ready = self.output
        assert eventually(lambda: ready().count("ready.") == 2, 240), ready()

    def end(self):
        for pid in processes_of(self.data):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def run_all(environment_with_tables):
    started = []

    def start(*arguments, **options):
        started.append(RunAll(environment_with_tables, *arguments, **options))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_and_then_stops_with_everything_it_started(run_all, asked):
    site = run_all(*PARTS)
    site.wait_until_up()
    with urllib.request.urlopen(f"{site.url}/healthz") as answer:
        assert answer.status == 200
    site.process.send_signal(asked)
    assert site.process.wait(timeout=120) == 0, site.output()
    assert processes_of(site.data) == set()


def test_under_https_it_asks_itself_without_tls_and_past_any_proxy(run_all):
    with socket.create_server(("127.0.0.1", 0)) as free:
        bind = f"127.0.0.1:{free.getsockname()[1]}"
    site = run_all(
        "--only",
        "web",
        FAIRJUDGE_URL="https://judge.example.org",
        FAIRJUDGE_BIND=bind,
        http_proxy="http://127.0.0.1:1",
    )
    announced = "FairJudge is at https://judge.example.org"
    assert eventually(lambda: announced in site.output() or site.process.poll(), 120)
    assert announced in site.output()
    assert "Invalid request" not in site.output()


def test_a_killed_parent_leaves_no_orphan(run_all):
    site = run_all(*PARTS)
    site.wait_until_up()
    assert len(processes_of(site.data)) >= 4
    site.process.kill()
    site.process.wait()
    assert eventually(lambda: not processes_of(site.data), 120), site.output()


def test_the_local_judge_runs_beside_them_and_ends_with_a_killed_parent(run_all, local_model):
    site = run_all("--only", "quick", "--only", "judge", models=local_model.parent)
    assert eventually(lambda: "The local judge answers at" in site.output(), 240), site.output()
    assert local_base_url(Path(site.data)) in site.output()
    site.process.kill()
    site.process.wait()
    assert eventually(lambda: not processes_of(site.data), 120), site.output()
    assert local_base_url(Path(site.data)) is None


def test_a_judge_that_ends_takes_the_others_down_and_is_named(run_all, local_model):
    site = run_all("--only", "quick", "--only", "judge", models=local_model.parent)
    assert eventually(lambda: "The local judge answers at" in site.output(), 240), site.output()
    record = json.loads(Path(site.data, "local_judge.json").read_text())
    os.kill(record["pid"], signal.SIGKILL)
    assert site.process.wait(timeout=120) == 1
    assert "The part judge ended by itself" in site.output()
    assert processes_of(site.data) == set()


def test_a_part_that_ends_takes_the_others_down_and_is_named(run_all):
    site = run_all(*PARTS)
    site.wait_until_up()
    (worker,) = [
        pid
        for pid in processes_of(site.data)
        if b"--queues=quick" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(worker, signal.SIGKILL)
    assert site.process.wait(timeout=120) == 1
    assert "The part quick ended by itself" in site.output()
    assert "Traceback" not in site.output()
    assert processes_of(site.data) == set()


def test_a_port_in_use_is_said_and_nothing_is_started(own_environment):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "manage.py", "runall", *PARTS],
            cwd=ROOT,
            env={**own_environment, "FAIRJUDGE_BIND": address},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(f"CommandError: The site can't listen on {address} (")
    assert processes_of(own_environment["FAIRJUDGE_DATA"]) == set()
