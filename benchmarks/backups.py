"""Backups of a large site while people vote, and what comes back.

    python -m benchmarks.backups [--examples N] [--postgres URL]

Aims: while `backup` runs, people who vote wait at most 100 ms longer (p95) than without it and
nobody meets an error; the memory of `backup` and of `restore` stays under 200 MiB; what is restored
has the same rows and hashes, which `restore` compares by itself.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.annotating.site import environment_of, site
from benchmarks.workspace import ROOT, database_of_its_own

PEOPLE, PACE, ALONE = 20, 1.0, 30
MOST_MS_MORE, MOST_MIB = 100, 200


def command(environment: dict[str, str], *words: str) -> tuple[dict[str, Any], float, float]:
    """Run a command. Returns what it says, its seconds, and the most memory it had, in MiB."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "manage.py", *words, "--json"],
        env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    return json.loads(said), time.monotonic() - began, peak(used)


def peak(used: resource.struct_rusage) -> float:
    return used.ru_maxrss / 1024


class Voters:
    """People who vote in the background, for some seconds."""

    def __init__(self, environment: dict[str, str], port: int, built: str, seconds: float) -> None:
        words = ["benchmarks.annotating.annotators", str(port), str(seconds), str(PACE)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", *words],
            env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdin is not None
        self.process.stdin.write(built)
        self.process.stdin.close()

    def p95(self) -> tuple[int, float]:
        """Return the number of votes, and the milliseconds that 95 % of them took at most."""
        assert self.process.stdout is not None
        found = json.loads(self.process.stdout.read())
        self.process.wait()
        assert not found["errors"], found["errors"][:3]
        taken = found["seconds"]["submit"]
        return len(taken), float(np.quantile(taken, 0.95)) * 1000


def build(environment: dict[str, str], n: int) -> str:
    """Return the round's address and the people's sessions, as JSON."""
    # Three thousand items are enough for all votes here.
    percent = min(100, max(1, round(300_000 / n)))
    code = (
        "import django, json; django.setup()\n"
        "from benchmarks.annotating.building import build\n"
        f"print(json.dumps(build({n}, {percent}, {PEOPLE})))"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return made.stdout.splitlines()[-1]


def measure(environment: dict[str, str], folder: Path, built: str) -> bool:
    file = folder / "all.zip"
    with site(environment, ROOT, folder / "site.txt") as (port, _):
        n_alone, alone = Voters(environment, port, built, ALONE).p95()
        say(f"{n_alone} votes without a backup: p95 {alone:.0f} ms")
        voters = Voters(environment, port, built, ALONE)
        made_, seconds, mib = command(environment, "backup", str(file))
        n_during, during = voters.p95()
    size = file.stat().st_size / 1e6
    say(f"backup: {made_['rows']:,} rows, {size:.0f} MB in {seconds:.0f} s, {mib:.0f} MiB")
    say(f"{n_during} votes meanwhile: p95 {during:.0f} ms")
    restored, seconds, again = command(environment, "restore", str(file), "--yes")
    say(f"restore: {restored['rows']:,} rows compared, in {seconds:.0f} s, {again:.0f} MiB")
    fits = during <= alone + MOST_MS_MORE and max(mib, again) <= MOST_MIB
    return fits and restored["rows"] == made_["rows"]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=300_000)
    parser.add_argument("--postgres", default="", help="a server on which a database may be made")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        database_of_its_own(options.postgres, "fairjudge_backups") as database,
    ):
        say(f"{'PostgreSQL' if database else 'SQLite'}, {options.examples:,} examples")
        environment = environment_of(folder, database)
        fits = measure(environment, Path(folder), build(environment, options.examples))
    sys.exit(0 if fits else "An aim is missed.")


if __name__ == "__main__":
    main()
