"""`runall` as people use it: a real process, asked to stop in every way there is."""

import json
import os
import select
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fairjudge_site import processes
from judging.core.processes import parts_down, status_at
from judging.local_judge import local_base_url
from tests.processes import eventually, free_port, processes_of

pytestmark = pytest.mark.system

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
        # Two processes of the web server start no other code than one.
        one = {"FAIRJUDGE_WEB_PROCESSES": "1"} | options
        started.append(RunAll(environment_with_tables, *arguments, **one))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.mark.long
@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_and_then_stops_with_everything_it_started(run_all, asked):
    site = run_all(*PARTS)
    site.wait_until_up()
    # A worker says that it is ready before its first sign of life is in the database.
    address = site.url.removeprefix("http://")
    assert eventually(lambda: status_at(address, "/healthz", 30) == 200), site.output()
    site.process.send_signal(asked)
    assert site.process.wait(timeout=300) == 0, site.output()
    assert processes_of(site.data) == set()


def test_a_hangup_loads_the_code_again_and_a_stop_ends_everything(run_all):
    site = run_all(*PARTS, FAIRJUDGE_QUEUE_PREFIX="ours.")
    site.wait_until_up()
    address = site.url.removeprefix("http://")
    assert eventually(lambda: status_at(address, "/healthz", 30) == 200), site.output()
    before = processes_of(site.data)
    site.process.send_signal(signal.SIGHUP)
    assert eventually(lambda: site.output().count("ready.") == 4, 120), site.output()
    # A worker says that it is ready a moment before it can be seen.
    assert eventually(lambda: status_at(address, "/readyz", 30) == 200), site.output()
    with urllib.request.urlopen(f"{site.url}/readyz") as answer:
        queues = json.load(answer)["queues"]
    assert queues == {"ours.runs": True, "ours.quick": True}
    after = processes_of(site.data)
    # The launcher, gunicorn's own process and the local queue stay; workers are new.
    assert before - after
    assert after - before
    assert "starts again in" not in site.output()
    assert site.process.poll() is None
    site.process.send_signal(signal.SIGTERM)
    assert site.process.wait(timeout=300) == 0, site.output()
    assert processes_of(site.data) == set()


def test_a_database_that_comes_late_is_waited_for(environment_with_tables, postgresql_url):
    """The port answers only after a while, by passing bytes on to the real server."""
    parts = urlsplit(postgresql_url)
    with passing_on(parts.hostname, parts.port or 5432) as late:
        port = late.server_address[1]
        url = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()
        with subprocess.Popen(
            [sys.executable, "manage.py", "runall", "--only", "judge"],
            cwd=ROOT,
            env={**environment_with_tables, "DATABASE_URL": url, "FAIRJUDGE_WAIT_SECONDS": "60"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as waiting:
            assert "Waiting for the database" in waiting.stdout.readline()
            assert waiting.poll() is None
            late.server_activate()
            threading.Thread(target=late.serve_forever, daemon=True).start()
            said = waiting.communicate(timeout=300)[0]
            late.shutdown()
    # It came, and has no tables of ours.
    assert "The database lacks tables" in said
    assert "Waiting" not in said


@contextmanager
def passing_on(host, to):
    """A server that passes what comes on to a port. It holds its own, and doesn't listen yet."""

    class PassOn(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection((host, to)) as server:
                both = (self.request, server)
                while True:
                    for one in select.select(both, (), (), 5)[0]:
                        data = one.recv(2**16)
                        if not data:
                            return
                        (server if one is self.request else self.request).sendall(data)

    with socketserver.ThreadingTCPServer(
        ("127.0.0.1", 0), PassOn, bind_and_activate=False
    ) as server:
        server.daemon_threads = True
        server.server_bind()
        yield server


@pytest.mark.long
def test_the_local_judge_runs_beside_them_and_stops_with_them(run_all, local_model):
    site = run_all("--only", "quick", "--only", "judge", models=local_model.parent)
    assert eventually(lambda: "The local judge answers at" in site.output(), 240), site.output()
    assert local_base_url(Path(site.data)) in site.output()
    assert eventually(lambda: "ready." in site.output(), 240), site.output()
    site.process.send_signal(signal.SIGTERM)
    assert site.process.wait(timeout=300) == 0, site.output()
    assert processes_of(site.data) == set()


def test_under_https_it_asks_itself_without_tls_and_past_any_proxy(run_all):
    """And when it is killed, its part ends with it. Below, that is tried with all parts."""
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
    assert len(processes_of(site.data)) > 1
    site.process.kill()
    site.process.wait()
    assert eventually(lambda: not processes_of(site.data)), site.output()


def process_with(site, word):
    """The process that runs a part: the oldest one with this word in its command."""
    return min(
        pid
        for pid in processes_of(site.data)
        if word in Path(f"/proc/{pid}/cmdline").read_bytes()
        and b"manage.py" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


@pytest.mark.long
def test_parts_that_die_are_started_again_and_a_killed_parent_leaves_no_orphan(
    run_all, local_model
):
    """The pages stay up meanwhile."""
    site = run_all(*PARTS, "--only", "judge", models=local_model.parent)
    site.wait_until_up()
    assert len(processes_of(site.data)) >= 5
    answers = "The local judge answers at"
    assert eventually(lambda: answers in site.output(), 240), site.output()
    record = json.loads(Path(site.data, "local_judge.json").read_text())
    os.kill(record["pid"], signal.SIGKILL)
    assert eventually(lambda: site.output().count(answers) == 2, 240), site.output()
    assert "The part judge was ended by signal 9" in site.output()
    assert local_base_url(Path(site.data)) in site.output()

    os.kill(process_with(site, b"--queues=quick"), signal.SIGKILL)
    seen = []

    def quick_is_back():
        with urllib.request.urlopen(f"{site.url}/healthz", timeout=30) as answer:
            seen.append(json.load(answer)["parts"])
        return site.output().count("ready.") == 3

    assert eventually(quick_is_back, 240), site.output()
    assert "The part quick was ended by signal 9" in site.output()
    assert {"quick": "restarting"} in seen
    assert eventually(lambda: quick_is_back() and seen[-1] == {}), seen

    os.kill(process_with(site, b"gunicorn"), signal.SIGKILL)
    assert eventually(lambda: "The part web was ended by signal 9" in site.output())
    address = site.url.removeprefix("http://")
    assert eventually(lambda: site.output().count("Booting worker") == 2, 120), site.output()
    assert eventually(lambda: status_at(address, "/login/", 5) == 200, 120), site.output()
    assert site.process.poll() is None
    # What was started again ends with its parent, and so does `runs`, which never died.
    site.process.kill()
    site.process.wait()
    assert eventually(lambda: not processes_of(site.data), 120), site.output()
    assert local_base_url(Path(site.data)) is None


def test_a_part_that_dies_at_once_again_and_again_is_given_up_with_the_reason(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(processes, "DELAYS", (0.05, 0.05))
    lines = []
    supervisor = processes.Supervisor(lines.append, tmp_path)
    try:
        supervisor.run("fine", [sys.executable, "-c", "import time; time.sleep(600)"])
        supervisor.run("broken", [sys.executable, "-c", "print('no such thing'); exit(3)"])
        assert eventually(lambda: supervisor.look_after() and supervisor.gave_up("broken"))
        assert lines.count("broken | no such thing") == 3
        assert "The part broken ended with status 3. It ended 3 times" in lines[-1]
        assert lines[-1].endswith("Its last line: no such thing")
        assert parts_down(tmp_path) == {"broken": "given up"}
        assert supervisor.parts[0].child.poll() is None
    finally:
        supervisor.stop()
    assert parts_down(tmp_path) == {}
    assert supervisor.parts[0].child.poll() is not None


def test_a_port_in_use_is_said_and_nothing_is_started(environment_with_tables):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "manage.py", "runall", *PARTS],
            cwd=ROOT,
            env={**environment_with_tables, "FAIRJUDGE_BIND": address},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(f"CommandError: The site can't listen on {address} (")
    assert processes_of(environment_with_tables["FAIRJUDGE_DATA"]) == set()


def test_programs_read_what_happens_line_by_line(run_all):
    site = run_all("--json", "--only", "web")

    def events():
        lines = [line for line in site.output().splitlines() if line.startswith("{")]
        return [json.loads(line) for line in lines]

    def named(name):
        return [one for one in events() if one.get("event") == name]

    assert eventually(lambda: named("ready") or site.process.poll(), 240), site.output()
    assert named("ready")[0]["url"] == site.url
    os.kill(named("started")[0]["pid"], signal.SIGKILL)
    assert eventually(lambda: len(named("started")) == 2, 240), site.output()
    (died,) = named("ended")
    assert (died["part"], died["starts_again_in"]) == ("web", 1.0)
    site.process.send_signal(signal.SIGTERM)
    assert site.process.wait(timeout=300) == 0, site.output()
    assert [one["event"] for one in events()][-2:] == ["stopping", "stopped"]
    # Of a port that is taken, its last line says why.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        other = run_all("--json", "--only", "web", FAIRJUDGE_URL=url)
        assert other.process.wait(timeout=240) == 1, other.output()
    *_, last = [line for line in other.output().splitlines() if line.startswith("{")]
    assert json.loads(last)["exit"] == 1
