"""How fast the REST interface is: examples in, labels out, and small reads, over a real site.

    python -m benchmarks.api [ROWS] [--postgres URL]

Aims: 100,000 examples of 1.5 kB are in within 30 s, from the first byte that is sent until they
can be seen; labels go out at 20,000 rows a second or more, in memory that stays flat; a small read
takes 30 ms at most (p95).
"""

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.annotating.site import environment_of, peak_mib, site
from benchmarks.imports import write_pairs
from benchmarks.workspace import ROOT, database_of_its_own

MOST_SECONDS_IN, LEAST_ROWS_A_SECOND, MOST_MS, MOST_MIB = 30, 20_000, 30, 60
READS = 300
SMALL = ("me", "projects/bench", "projects/bench/runs", "projects/bench/examples?limit=5")
TOKEN = """
from django.contrib.auth.models import User
from judging.projects.access import create_project
from judging.projects.tokens import issue_token
user = User.objects.create_superuser("bench", password="bench")
create_project(user, "bench", "bench")
print(issue_token(user, "bench", ["read", "write"])[1])
"""


@contextmanager
def worker(environment: dict[str, str]) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "-A", "fairjudge_site", "worker", "-Q", "quick,runs"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(
        [*command, "--concurrency", "1", "--loglevel", "WARNING"],
        env=environment, cwd=ROOT, **quiet,  # type: ignore[call-overload]
    ) as process:  # fmt: skip
        try:
            yield
        finally:
            process.terminate()
            process.wait()


class Client:
    """Keeps its connection, as programs do."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self._headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        headers = self._headers | ({"Content-Type": "application/x-ndjson"} if body else {})
        self._connection.request(method, f"/api/v1/{path}", body, headers)
        return self._connection.getresponse()

    def read(self, path: str) -> Any:
        try:
            return json.loads(self.ask("GET", path).read())
        except ConnectionError:
            # The server may close a connection that was idle; a read may be repeated.
            self._connection.close()
            return json.loads(self.ask("GET", path).read())


class Bench:
    def __init__(self, where: str) -> None:
        self.where, self.missed = where, 0

    def tell(self, what: str, fits: bool) -> None:
        self.missed += not fits
        sys.stdout.write(f"{self.where:10}  {what}{'' if fits else '  TOO MUCH'}\n")
        sys.stdout.flush()

    def run(self, environment: dict[str, str], folder: Path, n: int) -> None:
        pairs = folder / "pairs.jsonl"
        write_pairs(pairs, n)
        manage = [sys.executable, "manage.py"]
        subprocess.run(
            [*manage, "migrate", "--verbosity", "0"], env=environment, cwd=ROOT, check=True
        )
        made = subprocess.run(
            [*manage, "shell", "--no-imports", "-c", TOKEN],
            env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        token = made.stdout.decode().split()[-1]
        with worker(environment), site(environment, ROOT, folder / "log.txt") as (port, pid):
            client = Client(port, token)
            self.examples_in(client, pairs, n)
            self.labels_out(client, pid, n)
            self.small_reads(client)

    def examples_in(self, client: Client, pairs: Path, n: int) -> None:
        client.read("me")
        began = time.perf_counter()
        with pairs.open("rb") as stream:
            response = client.ask("POST", "projects/bench/examples", stream.read())
        found = json.loads(response.read())
        checked = time.perf_counter() - began
        while found["state"] == "writing":
            time.sleep(0.1)
            found = client.read(f"projects/bench/imports/{found['number']}")
        seconds = time.perf_counter() - began
        limit = MOST_SECONDS_IN * n / 100_000
        self.tell(
            f"{found['written']:,} examples in: {seconds:.1f} s, of which {checked:.1f} s until "
            f"the answer (limit {limit:.0f})",
            seconds <= limit and found["written"] == n,
        )

    def labels_out(self, client: Client, pid: int, n: int) -> None:
        before = peak_mib(pid)
        for kind in ("jsonl", "csv"):
            began, rows = time.perf_counter(), 0
            response = client.ask("GET", f"projects/bench/labels.{kind}")
            while piece := response.read(1 << 20):
                rows += piece.count(b"\n")
            speed = rows / (time.perf_counter() - began)
            grown = peak_mib(pid) - before
            self.tell(
                f"{rows:,} labels out as {kind}: {speed:,.0f} rows/s (at least "
                f"{LEAST_ROWS_A_SECOND:,}), memory +{grown:.0f} MiB (limit {MOST_MIB})",
                speed >= LEAST_ROWS_A_SECOND and grown <= MOST_MIB and rows >= n,
            )

    def small_reads(self, client: Client) -> None:
        for path in SMALL:
            taken = []
            for _ in range(READS):
                began = time.perf_counter()
                client.ask("GET", path).read()
                taken.append(1000 * (time.perf_counter() - began))
            p50, p95 = np.percentile(taken, [50, 95])
            self.tell(
                f"GET {path}: {p50:.1f} / {p95:.1f} ms (p50 / p95; limit {MOST_MS})", p95 <= MOST_MS
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=100_000)
    parser.add_argument("--postgres", metavar="URL", help="measure there too")
    options = parser.parse_args()
    missed = 0
    for url in ["", *([options.postgres] if options.postgres else [])]:
        with tempfile.TemporaryDirectory() as folder, database_of_its_own(url) as own:
            bench = Bench("PostgreSQL" if url else "SQLite")
            environment = environment_of(folder, own) | {"FAIRJUDGE_API_RATE": "1000000"}
            bench.run(environment, Path(folder), options.rows)
            missed += bench.missed
    sys.exit("The REST interface is slower than it may be." if missed else 0)


if __name__ == "__main__":
    main()
