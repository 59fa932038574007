"""How long annotators wait: next item, fetch ahead, submit; fifty of them at once; an export.

    python -m benchmarks.workspace [--quick] [--postgres URL]

Aims: on the server p95 of at most 40 ms for each request, with 100,000 examples (two responses of
1,500 characters each) and a round of 20,000 as with 1,000; fifty people at once, each of whom votes
every two seconds in the mean, wait at most 150 ms (p95) without an error, and no item gets more
votes than it asks for; an export of 100,000 rows starts within a second in memory that stays flat.
Then the fifty vote without a pause, which is printed and has no aim.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from benchmarks.annotating.site import environment_of, export, peak_mib, site

ROOT = Path(__file__).resolve().parent.parent
PEOPLE, PACE, SECONDS = 50, 2.0, 60
MOST_MS, MOST_MS_OF_FIFTY, MOST_SECONDS_TO_FIRST_BYTE, MOST_MIB = 40, 150, 1, 40
# Examples, the share of them that the round holds in percent, requests of each kind.
SIZES = [(100_000, 20, 200), (1_000, 100, 200)]
QUICK = [(2_000, 50, 50)]


def child(environment: dict[str, str], *words: object, given: str = "") -> dict[str, Any]:
    command = [sys.executable, "-m", *map(str, words)]
    ended = subprocess.run(
        command,
        env=environment,
        cwd=ROOT,
        input=given.encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


class Bench:
    """One project in a database of its own; collects what misses its aim."""

    def __init__(self, where: str, environment: dict[str, str], seconds: int) -> None:
        self.where, self.environment, self.seconds = where, environment, seconds
        self.missed = 0

    def tell(self, what: str, fits: bool = True) -> None:
        self.missed += not fits
        sys.stdout.write(f"{self.where}  {what}{'' if fits else '  TOO MUCH'}\n")
        sys.stdout.flush()

    def run(self, n_examples: int, beta: int, n: int, *, alone: bool) -> None:
        built = child(self.environment, "benchmarks.workspace", "--build", n_examples, beta)
        given = json.dumps(built)
        times = child(self.environment, "benchmarks.workspace", "--serve", n, given=given)
        for kind, taken in times.items():
            wall, cpu = (np.array(part) * 1000 for part in zip(*taken, strict=True))
            p50, p95 = np.percentile(wall, [50, 95])
            self.tell(
                f"{kind:12} {p50:5.1f} / {p95:5.1f} ms (p50 / p95; limit {MOST_MS}), processor "
                f"{np.percentile(cpu, 50):5.1f} / {np.percentile(cpu, 95):5.1f} ms",
                p95 <= MOST_MS,
            )
        if alone:
            return
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log.txt"
            with site(self.environment, ROOT, log) as (port, pid):
                self.fifty(port, given, PACE)
                self.fifty(port, given, 0)
                self.take_along(port, pid, built, n_examples)
            if "database is locked" in log.read_text():
                self.tell("“database is locked” in the log", fits=False)
        surplus = child(self.environment, "benchmarks.workspace", "--count", given=given)
        self.tell(f"items with more votes than asked: {surplus['more']}", not surplus["more"])

    def fifty(self, port: int, given: str, pace: float) -> None:
        seconds = self.seconds if pace else self.seconds / 3
        found = child(
            self.environment, "benchmarks.annotating.annotators", port, seconds, pace, given=given
        )
        for error in found["errors"][:3]:
            self.tell(f"error: {error}", fits=False)
        taken = np.concatenate([*found["seconds"].values()]) * 1000
        how = f"every {pace:.0f} s" if pace else "without a pause"
        votes = len(found["seconds"]["submit"])
        p50, p95 = np.percentile(taken, [50, 95])
        limit = f"; limit {MOST_MS_OF_FIFTY}" if pace else ""
        self.tell(
            f"{PEOPLE} people {how}: {p50:.0f} / {p95:.0f} ms (p50 / p95{limit}), "
            f"{len(taken) / found['span']:.0f} requests and {votes / found['span']:.0f} votes a "
            f"second, {len(found['errors'])} errors",
            not pace or p95 <= MOST_MS_OF_FIFTY,
        )

    def take_along(self, port: int, pid: int, built: dict[str, Any], n_rows: int) -> None:
        before = peak_mib(pid)
        for what in ("labels", "votes"):
            found = export(port, built["owner"], what)
            grown = peak_mib(pid) - before
            fits = found["first"] <= MOST_SECONDS_TO_FIRST_BYTE and grown <= MOST_MIB
            whole = what != "labels" or found["rows"] == n_rows
            self.tell(
                f"export of {found['rows']:,.0f} {what}: first byte after {found['first']:.2f} s "
                f"(limit {MOST_SECONDS_TO_FIRST_BYTE}), {found['mib']:.0f} MiB in "
                f"{found['seconds']:.1f} s, memory +{grown:.0f} MiB (limit {MOST_MIB})",
                fits and whole,
            )


@contextmanager
def database_of_its_own(url: str, name: str = "fairjudge_benchmark") -> Iterator[str]:
    """A new database beside the one that the URL names; none for SQLite, whose file is new."""
    if not url:
        yield ""
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield url.rpartition("/")[0] + f"/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def database_cpu() -> float:
    """Return the processor seconds of the connection's server process, if it is on this machine."""
    from django.db import connection

    if connection.vendor != "postgresql":
        return 0.0
    connection.ensure_connection()
    process = Path(f"/proc/{connection.connection.info.backend_pid}")
    try:
        if "postgres" not in (process / "comm").read_text():
            return 0.0
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def step(options: argparse.Namespace) -> Any:
    """What is done in a process of its own."""
    import django

    django.setup()
    if options.build:
        from benchmarks.annotating.building import build

        n_examples, beta = options.build
        return build(n_examples, beta, PEOPLE)
    built = json.load(sys.stdin)
    if options.serve:
        from benchmarks.annotating.serving import serve

        return serve(built["address"], built["people"][0], options.serve)
    from annotation.models import Item
    from benchmarks.annotating.building import VOTES, votes_above

    return {"more": votes_above(Item.objects.filter(round=built["round"]), VOTES)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small project only")
    parser.add_argument("--postgres", metavar="URL", help="measure there too")
    parser.add_argument("--build", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build or options.serve or options.count:
        sys.stdout.write(json.dumps(step(options)) + "\n")
        return
    missed = 0
    for url in ["", *([options.postgres] if options.postgres else [])]:
        for place, (n_examples, beta, n) in enumerate(QUICK if options.quick else SIZES):
            with tempfile.TemporaryDirectory() as folder, database_of_its_own(url) as own:
                where = f"{'PostgreSQL' if url else 'SQLite':10} {n_examples:>7,} examples"
                seconds = SECONDS // 3 if options.quick else SECONDS
                bench = Bench(where, environment_of(folder, own), seconds)
                bench.run(n_examples, beta, n, alone=place > 0)
            missed += bench.missed
    sys.exit("Annotators wait longer than they may." if missed else 0)


if __name__ == "__main__":
    main()
