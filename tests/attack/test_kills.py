"""The web server is killed while people vote: no answered vote is lost, and none is double."""

import os
import random
import signal
import time
from http.client import HTTPException
from pathlib import Path

import psycopg
import pytest

from benchmarks.annotating.annotators import Person
from benchmarks.annotating.site import environment_of, site
from benchmarks.workspace import child
from tests import postgresql
from tests.processes import processes_of

ROOT = Path(__file__).parents[2]
PACE = 0.1
COUNT = """
import json
from django.db.models import Count
from annotation.models import Item, Slot, Vote
print(json.dumps({
    "votes": Vote.objects.count(),
    "slots": Slot.objects.exclude(vote=None).count(),
    "twice": Vote.objects.values("item", "annotator").annotate(n=Count("pk"))
        .filter(n__gt=1).count(),
    "over": Item.objects.annotate(n=Count("annotations")).filter(n__gt=3).count(),
    "open": sum(
        1 for item in Item.objects.filter(state="complete").annotate(n=Count("annotations"))
        if item.n < 3
    ),
}))
"""


class Patient(Person):
    """Asks again, as a browser does, until the server is there; counts votes that were answered."""

    answered = 0

    def ask(self, kind, method, url, fields=None):
        for _ in range(200):
            try:
                found = super().ask(kind, method, url, fields)
                self.answered += kind == "submit"
                return found
            except (OSError, HTTPException):
                self.site.close()
                time.sleep(0.1)
        raise AssertionError("the server did not come back")


@pytest.fixture
def database(tmp_path):
    """Its URL; none for SQLite, whose file is in the data folder."""
    if not os.environ.get("FAIRJUDGE_TEST_DATABASE_URL"):
        yield ""
        return
    name = f"fairjudge_kills_{os.getpid()}"
    with psycopg.connect(postgresql.URL, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield postgresql.URL.rpartition("/")[0] + f"/{name}"
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def counted(environment):
    return child(
        environment, "django", "shell", "--verbosity=0", "--no-imports", "--command", COUNT
    )


@pytest.mark.databases
def test_kills_while_people_vote_lose_nothing_and_double_nothing(tmp_path, database, whole, figure):
    kills, draw = (20, random.Random(5)) if whole else (3, random.Random(6))
    environment = environment_of(str(tmp_path), database)
    # More pairs than six people can vote on meanwhile, however quick the machine is.
    built = child(environment, "benchmarks.workspace", "--build", 1200 if whole else 300, 100)
    before = counted(environment)
    log = tmp_path / "site.txt"
    with site(environment, ROOT, log) as (port, _):
        until = time.monotonic() + 1.0 * kills + 2
        people = [Patient(port, s, built["address"], until, PACE) for s in built["people"][:6]]
        for person in people:
            person.start()
        killed = 0
        while killed < kills and any(thread.is_alive() for thread in people):
            time.sleep(0.5 + draw.random() * 0.5)
            if workers := servers(tmp_path):
                os.kill(draw.choice(workers), signal.SIGKILL)
                killed += 1
        for person in people:
            person.join()
    after = counted(environment)
    answered = sum(person.answered for person in people)
    figure("kills: of web processes while people voted", killed)
    figure("kills: votes answered meanwhile", answered)
    figure("kills: votes lost", max(0, before["votes"] + answered - after["votes"]))
    assert [person.errors for person in people if person.errors] == [], log.read_text()[-2000:]
    assert killed
    assert answered
    # A vote may have been recorded just before the kill, and is answered when it is sent again.
    assert after["votes"] - before["votes"] >= answered
    assert after["votes"] == after["slots"]
    assert (after["twice"], after["over"], after["open"]) == (0, 0, 0)


def servers(data: Path) -> list[int]:
    """The processes that answer requests: gunicorn's children, and not itself."""
    ours = processes_of(str(data))
    gunicorn = {pid for pid in ours if b"gunicorn" in Path(f"/proc/{pid}/cmdline").read_bytes()}
    return [pid for pid in gunicorn if parent_of(pid) in gunicorn]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
