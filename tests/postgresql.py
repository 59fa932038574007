"""Runs the tests marked `databases` once more on PostgreSQL: `python -m tests.postgresql`."""

import os
import subprocess
import sys

import psycopg

URL = os.environ.get("FAIRJUDGE_TEST_POSTGRESQL") or "postgres://postgres@127.0.0.1:5432/postgres"


def answers() -> bool:
    try:
        psycopg.connect(URL, connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def main() -> int:
    if not answers():
        print("PostgreSQL does not answer: the database tests run on SQLite only.")  # noqa: T201
        return int(bool(os.environ.get("REQUIRE_ALL")))
    pytest = [sys.executable, "-m", "pytest", "-m", "databases", *sys.argv[1:]]
    environment = {**os.environ, "FAIRJUDGE_TEST_DATABASE_URL": URL}
    return subprocess.run(pytest, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
