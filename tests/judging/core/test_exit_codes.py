"""Every command ends with the code that docs/commands.md gives, and prints one JSON document."""

import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command, get_commands
from django.db import OperationalError

from judging.core.commands import FairJudgeCommand
from judging.core.errors import Failed, Interrupted, Misuse, UserError
from tests.factories import make_examples
from tests.processes import eventually

ROOT = Path(__file__).parents[3]
OURS = {"annotation", "annotation.results", "fairjudge_site", "judging"}


def command(name):
    app = get_commands()[name]
    return importlib.import_module(f"{app}.management.commands.{name}").Command()


ALL = sorted(
    name
    for name, app in get_commands().items()
    if app in OURS and isinstance(command(name), FairJudgeCommand)
)
# Arguments with which each can be called, and which name nothing that exists.
ARGUMENTS = {
    "backup": ["no/such/folder/backup.zip"],
    "create_user": [""],
    "demo": [],
    "erase": ["nobody", "--yes"],
    "preregister": ["none", "--goal", "x"],
    "sizes": ["--win-rate", "2"],
    "escalate": ["none", "--agreement", "0.9"],
    "cheapest": ["none"],
    "export": ["none", "-o", "labels.csv"],
    "compare": ["none", "1", "2"],
    "gate": ["none", "--require", "accuracy>=0.5"],
    "import_examples": ["none", "no-such-file.csv"],
    "import_judgments": ["none", "no-such-file.csv"],
    "import_scores": ["none", "no-such-file.csv"],
    "import_votes": ["none", "no-such-file.csv"],
    "mail": ["--again", "0"],
    "open_round": ["none", "--all"],
    "password_link": ["nobody"],
    "put_aside": ["none", "1", "nobody", "--reason", "why"],
    "reset_second_factor": ["nobody"],
    "restore": ["no-such-file.zip", "--yes"],
    "runall": [],
    "verify": ["no-such-file.zip"],
}
ARGUMENTS = {name: ARGUMENTS.get(name, ["none"]) for name in ALL}


def raising(error):
    def handle(self, *args, **options):
        raise error

    return handle


def code_of(name, *more, stdout=None):
    stdout = io.StringIO() if stdout is None else stdout
    with pytest.raises((CommandError, SystemExit)) as ended:
        call_command(name, *ARGUMENTS[name], *more, stdout=stdout, stderr=io.StringIO())
    return getattr(ended.value, "returncode", getattr(ended.value, "code", None))


@pytest.mark.system
@pytest.mark.parametrize("name", sorted(set(ALL) - {"demo", "runall"}))
def test_a_name_that_nothing_has_is_the_users_mistake(db, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stdout = io.StringIO()
    assert code_of(name, "--json", stdout=stdout) == 1
    told = json.loads(stdout.getvalue())
    assert told["exit"] == 1
    assert told["error"].strip()


@pytest.mark.parametrize("name", ALL)
def test_an_option_that_is_not_there_is_a_usage_error(name, capsys):
    with pytest.raises(SystemExit) as ended:
        command(name).run_from_argv(["manage.py", name, *ARGUMENTS[name], "--no-such-option"])
    assert ended.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UserError("There is none."), 1),
        (Misuse("These don't go together."), 2),
        (Failed("The endpoint is down."), 3),
        (OSError(28, "No space left on device"), 3),
        (OperationalError("server closed the connection"), 3),
        (Interrupted("The run is paused."), 4),
        (KeyboardInterrupt(), 4),
        (FileNotFoundError(2, "No such file", "x.csv"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_command_ends_with_the_code_of_what_went_wrong(db, name, error, code, monkeypatch):
    kind = type(command(name))
    monkeypatch.setattr(kind, "handle", raising(error))
    # What is empty is refused before the work begins, and is not what is asked here.
    monkeypatch.setattr(kind, "refuse_empty", lambda self, options: None)
    assert code_of(name) == code


@pytest.mark.parametrize("name", ["report", "create_user"])
def test_a_mistake_in_fairjudge_is_no_users_mistake(db, name, monkeypatch, capsys):
    monkeypatch.setattr(type(command(name)), "handle", raising(ZeroDivisionError("division")))
    with pytest.raises(SystemExit) as ended:
        command(name).run_from_argv(["manage.py", name, "none", "--json"])
    assert ended.value.code == 3
    said = capsys.readouterr()
    assert json.loads(said.out)["exit"] == 3
    assert "ZeroDivisionError" in said.err


def test_a_full_disk_under_a_users_error_is_not_the_users_mistake():
    from judging.core.commands import exit_of

    full, misnamed = UserError("x can't be written."), UserError("x can't be written.")
    full.__cause__ = OSError(28, "No space left on device")
    misnamed.__cause__ = FileNotFoundError(2, "No such file")
    assert (exit_of(full), exit_of(misnamed), exit_of(UserError("no"))) == (3, 1, 1)


def test_all_codes_and_all_commands_are_in_the_docs():
    page = (ROOT / "docs/commands.md").read_text()
    codes = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "4", "10", "11", "141"]
    described = page.split("| command | keys of its document |")[1]
    rows = {word for row in re.findall(r"^\| (.+?) \|", described, re.MULTILINE)
            for word in re.findall(r"`(\w+)", row)}  # fmt: skip
    assert set(ALL) - {"runall"} - rows == set()


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_end_is_an_interruption(environment_with_tables, number):
    process = subprocess.Popen(
        [sys.executable, "manage.py", "import_examples", "vicuna", "-", "--json"],
        cwd=ROOT, env=environment_with_tables, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        # A shell's background jobs ignore SIGINT, and so would all that they start.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    # It waits for standard input once it has found the tables.
    assert eventually(lambda: waits(process.pid))
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 4, err
    assert json.loads(out)["exit"] == 4
    assert "Traceback" not in err


def waits(pid):
    """Whether the process reads from a pipe that brings nothing."""
    return "pipe" in Path(f"/proc/{pid}/wchan").read_text() if os.path.exists("/proc") else True


PAIRS = "question,response_1,response_2,model_1,model_2\n" + "".join(
    f"Q{n},yes {n},no {n},maple,birch\n" for n in range(5)
)


def test_a_project_goes_through_pipes_alone(launcher):
    def piped(given, *arguments):
        (done,) = launcher.run_at_once(arguments, given=given)
        return done

    done = piped(PAIRS.encode(), "import_examples", "p", "-", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["project"], told["import"], told["written"], told["rows"]) == ("p", 1, 5, 5)
    labels = piped(b"", "export", "p", "-o", "-")
    assert labels.returncode == 0, labels.stderr
    assert len(labels.stdout.decode("utf-8-sig").splitlines()) == 6
    again = piped(labels.stdout, "import_examples", "p", "-", "--json")
    assert json.loads(again.stdout)["known"] == 5, again.stderr
    names = [row.split(",")[0] for row in labels.stdout.decode("utf-8-sig").splitlines()]
    votes = "external_id,annotator,label\n" + "".join(f"{one},ana,win\n" for one in names[1:])
    voted = piped(votes.encode(), "import_votes", "p", "-", "--json")
    assert json.loads(voted.stdout)["added"] == 5, voted.stderr
    backup = piped(b"", "backup", "-")
    assert backup.stdout.startswith(b"PK"), backup.stderr
    restored = piped(backup.stdout, "restore", "-", "--yes", "--json")
    document = json.loads(restored.stdout)
    assert document.pop("rows") > 5
    assert document == {"restored": True, "projects": 1}


def test_standard_input_is_read_once_and_output_holds_one_thing(db, project):
    assert code_of_call("import_examples", "vicuna", "-", "-") == 2
    assert code_of_call("report", "vicuna", "-o", "-", "--json") == 2
    assert code_of_call("export", "vicuna", "--json") == 2


# Options that hold a file and see to “-” themselves.
OWN_DASH = {("export", "output")}


@pytest.mark.parametrize("name", ALL)
def test_each_file_of_a_command_can_be_standard_input_or_output(name):
    one = command(name)
    known = {*one.reads, *one.writes} | {dest for of, dest in OWN_DASH if of == name}
    files = {
        action.dest
        for action in one.create_parser("manage.py", name)._actions
        if action.type is Path
        or "FILE" in str(action.metavar)
        or re.search(r"\b(a|the) file to\b|\bor a file\b", str(action.help))
    }
    assert files == known


def test_a_template_comes_from_standard_input(db, project, monkeypatch):
    make_examples(project, 2)
    written = """
        form = "relation"
        reply = "verdict_mark"
        text = "{question} {first} {second} Answer [[A]], [[B]] or [[C]]."
        sample_reply = "[[A]]"
    """
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(written.encode())))
    stdout = io.StringIO()
    asked = ("judge", "vicuna", "--template", "-", "--estimate", "--model", "m")
    call_command(*asked, "--json", stdout=stdout, stderr=io.StringIO())
    assert json.loads(stdout.getvalue())["n_calls"] == 4
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"form = 1")))
    with pytest.raises(CommandError, match="judge template"):
        call_command(*asked, stdout=io.StringIO(), stderr=io.StringIO())


def code_of_call(*arguments):
    with pytest.raises(CommandError) as ended:
        call_command(*arguments, stdout=io.StringIO(), stderr=io.StringIO())
    return ended.value.returncode


def test_refused_rows_of_standard_input_are_kept(db, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO((PAIRS + ",Q9,no,a,b\n").encode()))
    )
    stdout = io.StringIO()
    call_command("import_examples", "p", "-", "--skip-invalid", "--json", stdout=stdout)
    told = json.loads(stdout.getvalue())
    assert (told["written"], told["refused"]) == (5, 1)
    (kept,) = told["refused_files"]
    assert "Q9" in (tmp_path / kept).read_text()


def test_a_document_reads_back_exactly_and_steers_no_terminal():
    from judging.core.commands import as_document

    hostile = {"name": "\x1b[2J \u202eexe.\x9b\r\n é"}
    text = as_document(hostile)
    assert json.loads(text) == hostile
    assert not set("\x1b\u202e\x9b\r") & set(text)
