import errno
import io
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import InterfaceError, OperationalError, connection

from judging.core import commands
from judging.core.commands import FairJudgeCommand, ProgressBar
from judging.core.errors import UserError

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[3]


class Mistaken(FairJudgeCommand):
    def handle(self, *args, **options):
        raise UserError("There is no project x. Nothing was changed.")


class WithoutRoom(FairJudgeCommand):
    def handle(self, *args, **options):
        raise OSError(errno.ENOSPC, "No space left on device", "/data/labels.csv")


class ServerGone(FairJudgeCommand):
    def handle(self, *args, **options):
        raise OperationalError("server closed the connection unexpectedly\n\tThis probably means")


class Unconnected(FairJudgeCommand):
    def handle(self, *args, **options):
        raise InterfaceError("connection already closed")


class Interrupted(FairJudgeCommand):
    def handle(self, *args, **options):
        raise KeyboardInterrupt


def manage(environment, *arguments):
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_a_users_mistake_is_one_sentence(db):
    with pytest.raises(CommandError, match=r"^There is no project x\. Nothing was changed\.$"):
        call_command(Mistaken())


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (WithoutRoom(), r"^/data/labels.csv can't be used \(No space left on device\)\. What was"),
        (
            ServerGone(),
            r"^The database failed \(server closed the connection unexpectedly\)\. What",
        ),
        (Unconnected(), r"^The database failed \(connection already closed\)\. What"),
    ],
)
def test_what_the_machine_refuses_is_one_sentence(db, command, sentence):
    with pytest.raises(CommandError, match=sentence):
        call_command(command)


@pytest.mark.parametrize(
    "command",
    [
        ["export", "vicuna", "--run", ""],
        ["report", "vicuna", "--run", " "],
        ["open_round", "vicuna", "--beta", "20", "--run", ""],
        ["likelihood", "vicuna", "--model", ""],
        ["import_judgments", "vicuna", "judgments.csv", "--name", ""],
    ],
)
def test_the_unset_variable_of_a_shell_does_not_stand_for_what_is_usual(db, project, command):
    with pytest.raises(
        CommandError, match=r"^--\w+ is given without a value\. Nothing was changed"
    ):
        call_command(*command)


def test_ctrl_c_is_no_traceback_and_its_own_exit_code(db):
    with pytest.raises(CommandError) as stopped:
        call_command(Interrupted())
    assert stopped.value.returncode == 4


def test_a_reader_that_has_read_enough_is_no_traceback(environment_with_tables):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "manage.py", "create_user", "kim"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment_with_tables,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.databases
def test_a_database_that_is_ready_is_left_alone(db, monkeypatch):
    monkeypatch.setattr(commands, "call_command", lambda *args, **options: pytest.fail("migrated"))
    commands.prepare_database()


def test_first_commands_that_start_at_once_make_the_folder_and_the_tables_once(own_environment):
    # Any command of ours will do; this one stops then, since its address is not ours.
    nowhere = {**own_environment, "FAIRJUDGE_BIND": "192.0.2.1:80"}
    command = [sys.executable, "manage.py", "runall", "--only", "web"]
    together = [
        subprocess.Popen(command, cwd=ROOT, env=nowhere, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    errors = [each.communicate()[1] for each in together]
    assert all(error.startswith("CommandError: The site can't listen") for error in errors), errors
    assert [each.returncode for each in together] == [1] * 2
    file = Path(own_environment["FAIRJUDGE_DATA"], "fairjudge.sqlite3")
    database = sqlite3.connect(file)
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    (mode,) = database.execute("PRAGMA journal_mode").fetchone()
    database.close()
    assert {"judging_project", "annotation_slot", "auth_user"} <= tables
    assert mode == "wal"


def test_a_server_database_without_tables_asks_for_migrate(own_environment, postgresql_url):
    on_server = {**own_environment, "DATABASE_URL": postgresql_url}
    done = manage(on_server, "runall", "--only", "web")
    assert done.returncode == 1
    assert "Run: manage.py migrate" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_of_a_command_needs_no_tables(own_environment):
    done = manage(own_environment, "runall", "--only", "web", "--help")
    assert done.returncode == 0


def test_a_database_that_does_not_answer_is_named(own_environment):
    away = {**own_environment, "DATABASE_URL": "postgres://user:sk-pw@127.0.0.1:1/none"}
    away["FAIRJUDGE_WAIT_SECONDS"] = "0"
    done = manage(away, "runall", "--only", "web")
    assert done.returncode == 3
    assert done.stderr.startswith("CommandError: The database does not answer")
    assert "Traceback" not in done.stderr
    assert "sk-pw" not in done.stderr


@pytest.mark.parametrize(
    "address",
    [
        "postgres://user:sk-pw@127.0.0.1:1/none",
        "sqlite:////no/such/folder/file.sqlite3",
    ],
)
def test_djangos_own_commands_show_no_traceback_of_it_either(own_environment, address):
    done = manage({**own_environment, "DATABASE_URL": address}, "migrate")
    assert done.returncode == 3
    assert done.stderr.startswith("CommandError: The database failed (")
    assert "Traceback" not in done.stderr
    assert "sk-pw" not in done.stderr


def test_a_database_that_cannot_be_used_is_told_as_it_is(own_environment, tmp_path):
    (tmp_path / "junk").write_bytes(b"no database at all " * 99)
    junk = {**own_environment, "DATABASE_URL": f"sqlite:///{tmp_path / 'junk'}"}
    done = manage(junk, "create_user", "kim")
    assert done.stderr.startswith("CommandError: The database does not answer (file is not a data")


def test_progress_off_a_terminal_is_plain_lines_at_times(monkeypatch):
    now = 0.0
    monkeypatch.setattr(commands.time, "monotonic", lambda: now)
    stream = io.StringIO()
    stream.write = lambda text, style=None, write=stream.write: write(f"{text}\n")
    progress = ProgressBar("Importing", 300, stream)
    progress.advance(100)
    now = 11.0
    progress.advance(100, "2 refused")
    progress.move_to(300)
    progress.close()
    assert stream.getvalue().splitlines() == [
        "Importing: 200 of 300, 2 refused",
        "Importing: 300 of 300",
    ]


def test_sqlite_holds_foreign_keys_and_waits_for_writers(db):
    if connection.vendor != "sqlite":
        pytest.skip("SQLite's own settings")
    with connection.cursor() as cursor:
        settings = {}
        for name in ("foreign_keys", "journal_mode", "synchronous", "busy_timeout"):
            settings[name] = cursor.execute(f"PRAGMA {name}").fetchone()[0]
    assert settings == {
        "foreign_keys": 1,
        "journal_mode": "wal",
        "synchronous": 1,
        "busy_timeout": 20_000,
    }


@pytest.mark.parametrize("arguments", [["v\udcff", "x.csv"], ["vicuna", "\udcff.csv"]])
def test_bytes_that_are_no_text_are_refused_in_a_sentence(db, arguments):
    with pytest.raises(CommandError, match=r"“.*[?].*” contains the lone surrogate"):
        call_command("import_examples", *arguments)


class Quoting(FairJudgeCommand):
    prepares_database = False

    def handle(self, *args, **options):
        self.stdout.write("It said \x1b[2J \u202eexe.\r\x9b")
        raise UserError("The endpoint said: \x1b]0;owned\x07")


def test_what_an_endpoint_said_does_not_steer_the_terminal(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        Quoting().run_from_argv(["manage.py", "quoting"])
    said = capsys.readouterr()
    assert said.out == "It said \ufffd[2J \ufffdexe.\ufffd\ufffd\n"
    assert said.err == "CommandError: The endpoint said: \ufffd]0;owned\ufffd\n"
