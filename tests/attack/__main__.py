"""Attacks the site with everything there is and prints the figures: `make attack`.

    python -m tests.attack [--quick]

On SQLite, then on PostgreSQL if FAIRJUDGE_TEST_POSTGRESQL names one: the walk of roles, methods and
ids, and the kills. Once: the bombs, the patterns, the injections in a real browser, the links at
use, the passwords, and slow clients. It takes about 20 minutes on two idle cores.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests import postgresql

ROOT = Path(__file__).parents[2]
DATABASE = ["tests/attack/test_walk.py", "tests/attack/test_kills.py"]
# These meet no database, or each database alike.
ONCE = [
    "tests/attack/test_bombs.py",
    "tests/attack/test_patterns.py",
    "tests/test_access_walk.py",
    "tests/annotation/test_links_end.py",
    "tests/annotation/rendering/test_hostile_texts.py",
    "tests/browser/test_hostile_everywhere.py",
    "tests/fairjudge_site/test_security.py",
    "tests/fairjudge_site/test_runall.py",
    "tests/judging/core/test_bounds.py",
    "tests/judging/runs/engine/test_kills.py",
]
SLOW_CLIENTS = ["-m", "benchmarks.slow_clients", "--seconds", "8"]
Rows = list[tuple[str, str, str]]


def attacked(where: str, files: list[str], database: str, rows: Rows, whole: list[str]) -> bool:
    """Run these files against one database, add their figures, return whether they hold."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *whole, *files]
    environment = os.environ | {"FAIRJUDGE_TEST_DATABASE_URL": database}
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    for line in done.stdout.splitlines():
        if line.startswith("figure | "):
            _, what, value = line.split(" | ", 2)
            rows.append((where, what, value))
    summary = re.findall(r"^(?:\d+ \w+(?:, )?)+ in .*$", done.stdout, re.M)
    rows.append((where, "tests", summary[-1] if summary else "no summary"))
    rows.append((where, "seconds", f"{time.monotonic() - began:.0f}"))
    if done.returncode:
        say(done.stdout[-8000:] + done.stderr[-2000:])
    return done.returncode == 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    rows: Rows = []
    whole = [] if "--quick" in sys.argv else ["--whole"]
    holds = attacked("SQLite", DATABASE + ONCE, "", rows, whole)
    if os.environ.get("FAIRJUDGE_TEST_POSTGRESQL"):
        holds &= attacked("PostgreSQL", DATABASE, postgresql.URL, rows, whole)
    else:
        say("FAIRJUDGE_TEST_POSTGRESQL names no server: PostgreSQL is not attacked.")
    slow = subprocess.run(
        [sys.executable, *SLOW_CLIENTS], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    rows += [
        ("slow clients", *line.strip().split(None, 2)[1:]) for line in slow.stdout.splitlines()
    ]  # type: ignore[misc]
    say("| where | what | figure |\n|---|---|---|")
    for row in rows:
        say(f"| {' | '.join(row)} |")
    holds &= slow.returncode == 0
    say("Every attack was repelled." if holds else "There is a hole: see above.")
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
