"""A site of two machines: separate installations and data folders, one database and one broker."""

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.loopback.object_storage import ACCESS_KEY, SECRET_KEY, ObjectStorage
from tests.processes import eventually, free_port, processes_of

ROOT = Path(__file__).parents[2]
INSTALLED = ("annotation", "docs", "fairjudge_site", "judging", "locale", "static", "templates")
PAIRS = [{"external_id": f"e{n}", "question": f"Question {n}?", "response_1": f"Yes, {n}.",
          "response_2": f"No, {n}."} for n in range(20)]  # fmt: skip
INVALID = {"external_id": "bad", "question": "", "response_1": "", "response_2": ""}
JUDGED = [{"external_id": f"e{n}", "order": order, "label": "win"}
          for n in range(20) for order in ("original", "swapped")]  # fmt: skip
# Prints whether the figures of the run are there already, or computes them.
FIGURES = """
from annotation.results.report.cache import current_report, ready_report
from judging.runs.models import Run
run = Run.objects.get()
print("ready", ready_report(run.project, run) is not None)
current_report(run.project, run)
"""
# What a program leaves to a worker if the project is large.
LEAVE = """
from annotation.results.delivery.jobs import leave_to_worker
from judging.runs.models import Run
run = Run.objects.get()
user = run.project.memberships.get().user
print(leave_to_worker(run.project, user, "report", {"run": 1, "kind": "html"}).pk)
"""


class Machine:
    """An installation with a data folder of its own."""

    def __init__(self, folder: Path, code: Path, environment: dict[str, str]) -> None:
        self.data, self.code = folder / "data", code
        self.data.mkdir(parents=True)
        ours = {"FAIRJUDGE_DATA": str(self.data), "PYTHONPATH": str(code)}
        self.environment = os.environ | environment | ours
        self.log = folder / "log"

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=self.code, env=self.environment, text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *parts: str) -> subprocess.Popen[bytes]:
        only = [word for part in parts for word in ("--only", part)]
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "manage.py", "runall", *only],
                cwd=self.code, env=self.environment, stdout=log, stderr=log,
            )  # fmt: skip


@pytest.fixture
def copied(tmp_path):
    """The code once more, as another installation has it: with other times of its files."""
    code = tmp_path / "installed"
    for name in INSTALLED:
        shutil.copytree(
            ROOT / name, code / name, copy_function=shutil.copyfile,
            ignore=shutil.ignore_patterns("__pycache__"),
        )  # fmt: skip
    shutil.copyfile(ROOT / "manage.py", code / "manage.py")
    return code


@pytest.fixture
def database(postgresql_url):
    name = f"two_machines_{os.getpid()}"
    with psycopg.connect(postgresql_url, autocommit=True) as server:
        server.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        yield urlsplit(postgresql_url)._replace(path=f"/{name}").geturl()
        server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@pytest.mark.long
@pytest.mark.parametrize("place", ["database", "s3"])
def test_two_machines_find_each_others_files(tmp_path, copied, database, redis_url, place):
    url = f"http://127.0.0.1:{free_port()}"
    common = {
        "DJANGO_SETTINGS_MODULE": "fairjudge_site.settings",
        "DATABASE_URL": database,
        "CELERY_BROKER_URL": redis_url,
        "FAIRJUDGE_SECRET_KEY": "two machines share this secret key: " + "x" * 30,
        "FAIRJUDGE_URL": url,
        "FAIRJUDGE_FILES": "",
    }
    with ExitStack() as held:
        if place == "s3":
            bucket = held.enter_context(ObjectStorage())
            common |= {"FAIRJUDGE_FILES": bucket.url, "AWS_ACCESS_KEY_ID": ACCESS_KEY}
            common |= {"AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        web, worker = Machine(tmp_path / "a", ROOT, common), Machine(tmp_path / "b", copied, common)
        web.run("migrate", "--verbosity=0")
        web.run("create_user", "ana", "--researcher")
        token = web.run("token", "ana", "--scopes", "read,write").strip()
        started = [web.start("web"), worker.start("quick")]
        held.callback(end, web, worker, started)

        def ask(path: str, body: object = None, **headers: str) -> tuple[int, bytes]:
            request = urllib.request.Request(f"{url}/api/v1/{path}")
            request.headers |= {"Authorization": f"Bearer {token}"} | headers
            if body is not None:
                request.data = body if isinstance(body, bytes) else json.dumps(body).encode()
                request.headers |= {"Content-type": headers.get("Content-type", "application/json")}
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()

        def is_ready() -> bool:
            try:
                with urllib.request.urlopen(f"{url}/healthz", timeout=30) as answer:
                    return answer.status == 200
            except OSError:
                return False

        assert eventually(is_ready, 240), web.log.read_text() + worker.log.read_text()
        assert ask("projects", {"slug": "vicuna", "name": "Vicuna"})[0] == 201
        rows = {"Content-type": "application/x-ndjson"}
        sent = lines([*PAIRS[:10], INVALID, *PAIRS[10:]])
        status, said = ask("projects/vicuna/examples?skip_invalid=true", sent, **rows)
        assert status == 202, said
        assert not list((web.data / "uploads").rglob("*.*")), "the upload is not on this machine"

        def is_imported() -> bool:
            found = json.loads(ask("projects/vicuna/imports/1")[1])
            assert found["state"] in ("writing", "done"), found
            return found["state"] == "done"

        assert eventually(is_imported, 120), worker.log.read_text()
        status, refused = ask("projects/vicuna/imports/1/refused/0")
        assert (status, json.loads(refused)) == (200, INVALID)

        status, said = ask("projects/vicuna/judgments?name=old", lines(JUDGED), **rows)
        assert status == 201, said
        job = f"projects/vicuna/jobs/{web.run('shell', '--verbosity=0', '-c', LEAVE).strip()}"
        left = eventually(lambda: json.loads(ask(job)[1])["state"] != "waiting", 180)
        assert left, worker.log.read_text()
        status, said = ask(f"{job}/file")
        assert (status, b"<html" in said) == (200, True), said
        # One computes the figures, and the other has them then.
        assert worker.run("shell", "--verbosity=0", "-c", FIGURES).split() == ["ready", "False"]
        assert web.run("shell", "--verbosity=0", "-c", FIGURES).split() == ["ready", "True"]
        # Nothing of the data stays behind in a folder.
        for machine in (web, worker):
            assert not [one for one in (machine.data / "uploads").rglob("*") if one.is_file()]


def lines(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def end(*ours) -> None:
    *machines, started = ours
    for process in started:
        process.terminate()
    for process in started:
        process.wait(timeout=120)
    assert not any(processes_of(str(machine.data)) for machine in machines)
