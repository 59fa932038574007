"""Shared by all tests: reference data, and what had to be skipped."""

import fcntl
import gc
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import redis
from _pytest.assertion import rewrite
from django.conf import settings
from django.db import connection, transaction
from django.test import TransactionTestCase
from pytest_django.live_server_helper import LiveServer
from whitenoise.middleware import WhiteNoiseMiddleware

from judging.core.errors import UserError
from judging.local_judge.running import local_model as find_local_model
from tests import postgresql
from tests.emptying import empty_tables
from tests.launcher import Launcher
from tests.loopback.post_office import PostOffice
from tests.loopback.receiver import Receiver

pytest_plugins = ["tests.roles"]

# Playwright's synchronous interface runs a loop in the thread in which Django's ORM is used.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

SETTINGS = "fairjudge_site.settings"
# Which files WhiteNoise serves, and how.
FROM_WHERE = ("STATIC_ROOT", "STATIC_URL", "STATICFILES_DIRS", "STATICFILES_FINDERS", "STORAGES")
ROOT = Path(__file__).resolve().parent.parent
# A busy machine may stall any single example. What CI runs is the same each time; new examples
# are looked for everywhere else.
hypothesis.settings.register_profile(
    "fairjudge",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
hypothesis.settings.load_profile("fairjudge")

# How a file says that some of its tests, or all of them, are left to `make test-system`.
SYSTEM = re.compile(r"mark\.(system|browser)\b")
WHOLE_FILE_SYSTEM = re.compile(r"^pytestmark = (\[\n\s+)?.*mark\.(system|browser)\b", re.MULTILINE)

REQUIRE_ALL = bool(os.environ.get("REQUIRE_ALL"))
skips: dict[str, int] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="attack with everything there is")


def missing(what: str) -> None:
    """Skip a test for want of `what`; a failure where REQUIRE_ALL asks for everything."""
    if REQUIRE_ALL:
        pytest.fail(f"{what} is missing, and REQUIRE_ALL is set", pytrace=False)
    pytest.skip(f"missing: {what}")


def answers(port: int, host: str = "127.0.0.1") -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False


@pytest.fixture(scope="session")
def test_data():
    """The folder of reference data: reference/, faireval/, pandalm/, llmbar/."""
    folder = os.environ.get("FAIRJUDGE_TEST_DATA")
    if not folder or not Path(folder).is_dir():
        missing("reference data (FAIRJUDGE_TEST_DATA)")
    return Path(folder)


@pytest.fixture(scope="session")
def reference(test_data):
    """Reads a file of reference/: JSON as its value, JSON lines as a list, others as text."""

    def read(name: str) -> Any:
        path = test_data / "reference" / name
        if not path.is_file():
            missing(f"reference/{name}")
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.loads(text)
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return text

    return read


@pytest.fixture(scope="session")
def chromium():
    """The path of the browser that Playwright drives."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        missing("Chromium")
    return path


@pytest.fixture(scope="session")
def live_server():
    """Static files are WhiteNoise's, as on a real site: a browser keeps them for a while."""
    server = LiveServer("localhost", start=False)
    server.thread.static_handler = lambda application: application
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgresql_url():
    """The PostgreSQL on which the tests marked `databases` run a second time."""
    if not postgresql.answers():
        missing("PostgreSQL")
    return postgresql.URL


@pytest.fixture
def django_assert_num_queries(django_assert_num_queries, monkeypatch):
    """Whatever the clock says: in a new minute, the rate of a token takes one more query."""
    monkeypatch.setattr("judging.projects.tokens.WINDOW_SECONDS", 10**7)
    return django_assert_num_queries


@pytest.fixture
def receiver(settings):
    """A receiver of webhooks that the site may send to."""
    with Receiver() as made:
        settings.FAIRJUDGE_WEBHOOK_HOSTS = {made.host}
        yield made


@pytest.fixture
def post_office(settings):
    """A mail server by which the site sends."""
    with PostOffice() as made:
        for name, value in made.settings().items():
            setattr(settings, name, value)
        yield made


@pytest.fixture
def redis_url(worker_id):
    """An empty database of the Redis on this machine, another one for each process of tests."""
    if not answers(6379):
        missing("Redis on localhost")
    number = 0 if worker_id == "master" else int(worker_id.removeprefix("gw"))
    url = f"redis://127.0.0.1:6379/{8 + number % 8}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture(scope="session")
def rabbitmq_url():
    if not answers(5672):
        missing("RabbitMQ on localhost")
    return "amqp://guest:guest@127.0.0.1:5672//"


def folder_of_the_run(factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run of tests share."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextmanager
def made_once(folder: Path) -> Iterator[Path]:
    """A folder that processes of tests share, one of them at a time."""
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield folder


@pytest.fixture(scope="session")
def local_model(tmp_path_factory):
    """The local model's file, fetched once for all processes of tests."""
    with made_once(tmp_path_factory.getbasetemp().parent / "local-model") as folder:
        try:
            return find_local_model(folder, print)
        except UserError as error:
            missing(f"the local model ({error})")


@pytest.fixture
def own_environment(tmp_path):
    """The environment of a process that runs the real settings over a data folder of its own."""
    ours = {"FAIRJUDGE_DATA": str(tmp_path / "data"), "DJANGO_SETTINGS_MODULE": SETTINGS}
    return {**os.environ, **ours, "DJANGO_ALLOW_ASYNC_UNSAFE": ""}


@pytest.fixture(scope="session")
def new_database(tmp_path_factory):
    """An SQLite file with all tables and no rows, for all processes of one run: making them takes
    seconds."""
    with made_once(folder_of_the_run(tmp_path_factory) / "new-database") as folder:
        data = {"FAIRJUDGE_DATA": str(folder), "DATABASE_URL": ""}
        ours = {**data, "DJANGO_SETTINGS_MODULE": SETTINGS}
        command = [sys.executable, ROOT / "manage.py", "migrate", "--verbosity=0"]
        made = folder / "made"
        if not made.exists():
            subprocess.run(command, env={**os.environ, **ours}, check=True)
            made.touch()
        return folder / "fairjudge.sqlite3"


@pytest.fixture(scope="session")
def django_db_keepdb(request, django_db_modify_db_settings):
    """On SQLite each process starts from that file; what it makes of it ends with its folder."""
    if connection.vendor != "sqlite":
        return False
    tables = request.getfixturevalue("new_database")
    shutil.copy(tables, connection.settings_dict["TEST"]["NAME"])
    return True


@pytest.fixture(scope="session", autouse=True)
def static_files_looked_at_once():
    """Each client's first request sets up WhiteNoise, which looks at every static file: that is
    most of what a first request takes."""
    look, seen = WhiteNoiseMiddleware.add_files_from_finders, {}

    def add(self):
        key = self.max_age, *(str(getattr(settings, name)) for name in FROM_WHERE)
        if key not in seen:
            look(self)
            seen[key] = dict(self.files)
        self.files.update(seen[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add)
        yield


@pytest.fixture(scope="session", autouse=True)
def tables_emptied_quickly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda test: empty_tables())
        yield


@pytest.fixture(scope="module")
def rows_of_module(django_db_setup, django_db_blocker):
    """What fixtures of this scope write, each test of the module finds as it was written.

    Not for modules whose tests commit: those empty the tables."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def environment_with_tables(own_environment, new_database):
    """The same where the tables are there already."""
    data = Path(own_environment["FAIRJUDGE_DATA"])
    data.mkdir(exist_ok=True)
    shutil.copy(new_database, data)
    return own_environment


@pytest.fixture(scope="session")
def launched(tmp_path_factory):
    """Starts launchers, one for all tests of a process that ask for the same variables."""
    started = {}
    with ExitStack() as held:

        def launch(**variables: str) -> Launcher:
            key = tuple(sorted(variables.items()))
            if key not in started:
                data = {"FAIRJUDGE_DATA": str(tmp_path_factory.mktemp("launched") / "data")}
                ours = {**data, "DJANGO_SETTINGS_MODULE": SETTINGS, "DJANGO_ALLOW_ASYNC_UNSAFE": ""}
                started[key] = held.enter_context(Launcher({**os.environ, **ours, **variables}))
            return started[key]

        yield launch


@pytest.fixture
def launcher(launched, new_database):
    """Runs commands over a data folder in which the tables are there already."""
    launcher = launched()
    launcher.start_over()
    shutil.copy(new_database, launcher.data)
    return launcher


def compile_a_share(config: pytest.Config) -> None:
    """Write the bytecode of this process's share of the tests, if it isn't there.

    Processes read the tests in one order, so each would compile every module for itself: a third
    of the time until the first test.
    """
    shared = getattr(config, "workerinput", None)
    if shared is None or sys.dont_write_bytecode:
        return
    number, n = int(shared["workerid"].removeprefix("gw")), shared["workercount"]
    asked = [ROOT / name.partition("::")[0] for name in config.args]
    ours = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if any(map(path.is_relative_to, asked)) and not is_left_out(path, config.option.markexpr)
    ]
    for path in ours[number::n]:
        folder = rewrite.get_cache_dir(path)
        compiled = folder / (path.stem + rewrite.PYC_TAIL)
        # What has no bytecode in the end is compiled when it is read, and its error told.
        with suppress(SyntaxError):
            if rewrite.try_makedirs(folder) and rewrite._read_pyc(path, compiled) is None:
                source, code = rewrite._rewrite_test(path, config)
                rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, compiled)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What collecting makes stays until the end: looking through it for garbage finds none."""
    compile_a_share(session.config)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def is_left_out(path: Path, selected: str) -> bool:
    """Whether a file has no test that `make` selects. To read it would take long."""
    if not path.match("test_*.py") or not selected:
        return False
    text = path.read_text("utf-8")
    if selected.startswith("databases"):
        return "mark.databases" not in text
    if selected.startswith("(system or browser)"):
        return not SYSTEM.search(text)
    whole_system = WHOLE_FILE_SYSTEM.search(text)
    return selected.startswith("not (long or system or browser)") and bool(whole_system)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_left_out(collection_path, config.option.markexpr) or None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        skips[reason] = skips.get(reason, 0) + 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for reason, count in sorted(skips.items()):
        terminalreporter.write_line(f"skipped {count}: {reason}", yellow=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    shutil.rmtree(settings.FAIRJUDGE_DATA, ignore_errors=True)


@pytest.fixture
def site_folder(tmp_path, new_database):
    """A data folder in which the tables are there already."""
    shutil.copy(new_database, tmp_path)
    return tmp_path
