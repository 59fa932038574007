"""Runs the tests marked `databases` once more on PostgreSQL: `python -m tests.postgresql`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import psycopg
from psycopg.sql import SQL, Identifier

ROOT = Path(__file__).resolve().parent.parent
URL = os.environ.get("FAIRJUDGE_TEST_POSTGRESQL") or "postgres://postgres@127.0.0.1:5432/postgres"


def answers() -> bool:
    try:
        psycopg.connect(URL, connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


@contextmanager
def database_with_tables() -> Iterator[str]:
    """The name of a database that has all tables and no rows: each process copies it, instead of
    making the tables once more."""
    name = f"test_tables_{os.getpid()}"
    with psycopg.connect(URL, autocommit=True) as server, TemporaryDirectory() as data:
        server.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        try:
            migrate = [sys.executable, ROOT / "manage.py", "migrate", "--verbosity=0"]
            ours = {
                "FAIRJUDGE_DATA": data,
                "DATABASE_URL": urlsplit(URL)._replace(path=f"/{name}").geturl(),
                "DJANGO_SETTINGS_MODULE": "fairjudge_site.settings",
            }
            subprocess.run(migrate, env={**os.environ, **ours}, check=True)
            yield name
        finally:
            server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def main() -> int:
    if not answers():
        print("PostgreSQL does not answer: the database tests run on SQLite only.")  # noqa: T201
        return int(bool(os.environ.get("REQUIRE_ALL")))
    pytest = [sys.executable, "-m", "pytest", "-m", "databases", *sys.argv[1:]]
    with database_with_tables() as tables:
        ours = {"FAIRJUDGE_TEST_DATABASE_URL": URL, "FAIRJUDGE_TEST_TABLES": tables}
        return subprocess.run(pytest, env={**os.environ, **ours}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
