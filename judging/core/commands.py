"""What all commands share: a database that is ready, plain errors, exit codes, pipes, progress.

docs/commands.md documents the exit codes and the JSON documents.
"""

import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal, InvalidOperation
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser, OutputWrapper
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, OperationalError, connections
from django.db.migrations.executor import MigrationExecutor
from tqdm import tqdm

from judging.core.errors import Failed, Interrupted, Misuse, UserError
from judging.core.text import UNPRINTABLE, printable, unstorable

LINE_EVERY = 10.0
# The status with which a shell reports a program that was ended by SIGPIPE.
CLOSED_PIPE = 141
# An exponent of millions would make exact arithmetic go on for hours.
LARGEST_EXPONENT = 30


class Printable(OutputWrapper):
    """A stream for people: what an endpoint or a file said never steers their terminal."""

    def write(self, msg: str = "", style_func: Any = None, ending: str | None = None) -> None:
        super().write(printable(str(msg)), style_func, ending)


class Exit(IntEnum):
    """How a command ended. A command may have verdicts of its own, from 10 on."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    FAILED = 3
    INTERRUPTED = 4


_EXITS = {Misuse: Exit.USAGE, Failed: Exit.FAILED, Interrupted: Exit.INTERRUPTED}
# What the system says if the user named a file wrongly. Anything else is not the user's mistake.
_MISNAMED = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
_MISNAMED_OR_BARRED = (*_MISNAMED, PermissionError)


def exit_of(error: BaseException) -> Exit:
    """Return the code with which a command ends after this error."""
    for kind, code in _EXITS.items():
        if isinstance(error, kind):
            return code
    if isinstance(error, UserError):
        cause = error.__cause__
        return exit_of(cause) if isinstance(cause, OSError) else Exit.REFUSED
    return Exit.REFUSED if isinstance(error, _MISNAMED_OR_BARRED) else Exit.FAILED


# Names standard input if a file is read, and standard output if one is written.
STANDARD = Path("-")
STANDARD_OUTPUT = "standard-output"


class FairJudgeCommand(BaseCommand):
    """A command that prepares its database first, and shows a user's mistake without a traceback.

    Subclasses write `handle` as usual. A `UserError` that it raises is shown as a sentence. Once
    the work is done, it calls `tell` with what `--json` prints.

    reads, writes: names of options that hold paths, of which `-` means standard input or output.
    Subclasses get the path of a temporary file instead, and need to know nothing of it.
    waits_for_database: how long a command that starts with the machine waits for a database that
        comes late.
    spool: the folder that holds what came from standard input, while the command works.
    document: where `--json` writes its one document; None without `--json`, or once it is written.
    """

    requires_system_checks: list[str] = []
    prepares_database = True
    json_help = "print one JSON document; everything else goes to standard error"
    waits_for_database = 0.0
    reads: tuple[str, ...] = ()
    spool: Path | None = None
    writes: tuple[str, ...] = ()
    document: Any = None

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.add_argument("--json", action="store_true", help=self.json_help)
        return parser

    def execute(self, *args: Any, **options: Any) -> str | None:
        self.document = None
        if options.get("json"):
            self.document = options.get("stdout") or self.stdout
            # Standard output then holds the document alone, so that a program can read it as it
            # comes.
            options["stdout"] = options.get("stderr") or Printable(sys.stderr)
        try:
            return self._execute(*args, **options)
        except CommandError as error:
            self.tell({"error": str(error), "exit": int(error.returncode)})
            raise
        except Exception as error:
            sentence = f"An unexpected error ({type(error).__name__}). Please report it."
            self.tell({"error": sentence, "exit": int(Exit.FAILED)})
            raise

    def _execute(self, *args: Any, **options: Any) -> str | None:
        try:
            refuse_undecodable(options)
            self.refuse_empty(options)
            if self.prepares_database:
                self.wait_for_database()
                prepare_database()
            with self._standard_streams(options):
                output = super().execute(*args, **options)
            sys.stdout.flush()
            return output
        except BrokenPipeError:
            # The reader, such as `head`, has read enough. What is still buffered goes nowhere, so
            # that Python doesn't report the closed pipe again when it ends.
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
            sys.exit(CLOSED_PIPE)
        except UserError as error:
            raise CommandError(str(error), returncode=exit_of(error)) from error
        except (OSError, OperationalError, InterfaceError) as error:
            raise CommandError(system_failure(error), returncode=exit_of(error)) from error
        except KeyboardInterrupt:
            raise CommandError(
                "Stopped. What was recorded is kept.", returncode=Exit.INTERRUPTED
            ) from None

    def wait_for_database(self) -> None:
        """Wait, and say so once. A database that doesn't come is told of by what needs it."""
        deadline, told = time.monotonic() + self.waits_for_database, False
        while time.monotonic() < deadline:
            try:
                connections[DEFAULT_DB_ALIAS].ensure_connection()
                return
            except (DatabaseError, InterfaceError) as error:
                if not told:
                    self.stderr.write(f"Waiting for the database ({first_line(error)}).")
                told = True
                time.sleep(0.5)

    def tell(self, document: Any) -> None:
        """Print the document of `--json`, once. Without `--json`, nothing happens."""
        if self.document is None:
            return
        stream, self.document = self.document, None
        stream.write(as_document(document) + "\n")
        stream.flush()

    def shown(self, path: Path) -> str:
        """Return how a file is called in a sentence."""
        return "standard output" if path.stem == STANDARD_OUTPUT else str(path)

    @property
    def as_json(self) -> bool:
        """Return True if a document is asked for and not printed yet."""
        return self.document is not None

    @contextmanager
    def _standard_streams(self, options: dict[str, Any]) -> Iterator[None]:
        """Put temporary files in the place of `-`: files are read twice, and written whole."""
        from_input = [name for name in self.reads for _ in range(_standard_in(options.get(name)))]
        to_output = [name for name in self.writes if options.get(name) == STANDARD]
        if len(from_input) > 1:
            raise Misuse("Standard input can be read once only. Name one file as “-”.")
        if len(to_output) > 1 or (to_output and options.get("json")):
            raise Misuse(
                "Standard output holds one file or the JSON document. Name a file for the others."
            )
        with ExitStack() as kept:
            if from_input:
                folder = kept.enter_context(tempfile.TemporaryDirectory(prefix="fairjudge-"))
                self.spool = Path(folder)
                path = self.spool / "standard-input"
                with path.open("wb") as file:
                    shutil.copyfileobj(sys.stdin.buffer, file)
                for name in from_input:
                    options[name] = _in_place_of_standard(options[name], path)
            for name in to_output:
                folder = kept.enter_context(tempfile.TemporaryDirectory(prefix="fairjudge-"))
                options[name] = Path(folder, STANDARD_OUTPUT)
                # What the command says belongs to people, and must not be in the file.
                options["stdout"] = options.get("stderr") or Printable(sys.stderr)
            try:
                yield
            except SystemExit:
                # The command has a verdict of its own, and its files are whole.
                _to_standard_output(options, to_output)
                raise
            _to_standard_output(options, to_output)

    def refuse_empty(self, options: dict[str, Any]) -> None:
        """Refuse `--flag ""`, which a shell makes of an unset variable, rather than ignore it."""
        # argparse has no public list of a parser's options.
        for action in self.create_parser("manage.py", "")._actions:
            value = options.get(action.dest)
            if action.default is None and isinstance(value, str) and not value.strip():
                name = next(iter(action.option_strings), action.metavar or action.dest)
                raise UserError(f"{name} is given without a value. Nothing was changed.")

    def confirm(self, name: str, act: str, *, sure: bool) -> None:
        """Ask for the name of what goes for good. Raises UserError if it isn't given."""
        if sure:
            return
        if not sys.stdin.isatty():
            raise UserError(f"This cannot be undone. Add --yes to confirm. Nothing was {act}d.")
        if input(f"This cannot be undone. Type {name} to {act}: ").strip() != name:
            raise UserError(f"That is another name. Nothing was {act}d.")

    def run_from_argv(self, argv: list[str]) -> None:
        self.stdout, self.stderr = Printable(sys.stdout), Printable(sys.stderr)
        self.stderr.style_func = self.style.ERROR
        try:
            with stopped_by_request():
                super().run_from_argv(argv)
        except Exception:
            # A mistake in FairJudge. Python's own code for it, 1, would blame the user.
            traceback.print_exc()
            sys.exit(Exit.FAILED)

    @contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator["ProgressBar"]:
        """Show on standard error how far a long command is."""
        bar = ProgressBar(what, total, self.stderr)
        try:
            yield bar
        finally:
            bar.close()


def _standard_in(value: Any) -> int:
    """Return how many of these paths, or of this one, are standard input."""
    return list(value if isinstance(value, list) else [value]).count(STANDARD)


def _to_standard_output(options: dict[str, Any], names: Sequence[str]) -> None:
    # The command may have added an ending to the name that it got.
    for folder in [options[name].parent for name in names]:
        for path in folder.iterdir():
            with path.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _in_place_of_standard(value: Any, path: Path) -> Any:
    if isinstance(value, list):
        return [path if entry == STANDARD else entry for entry in value]
    return path


def as_document(document: Any, indent: int | None = 2) -> str:
    """Return JSON that reads back exactly, and yet steers no terminal and turns no line around."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, default=_plain)
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


@contextmanager
def stopped_by_request() -> Iterator[None]:
    """Treat a request to end (SIGTERM), as a CI server sends it, like Ctrl-C."""
    ours = threading.current_thread() is threading.main_thread()
    # Python sets signal handlers in the main thread only. One that is there already, such as a
    # worker's, stays.
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class ProgressBar:
    """A bar on a terminal. Elsewhere a plain line every few seconds, so that logs are readable."""

    def __init__(self, what: str, total: int | None, stream: Any) -> None:
        self.what, self.total, self.stream = what, total, stream
        self.done, self.note = 0, ""
        self.line_due = time.monotonic() + LINE_EVERY
        self.bar = tqdm(total=total, desc=what, leave=True) if sys.stderr.isatty() else None

    def advance(self, steps: int = 1, note: str = "") -> None:
        self.move_to(self.done + steps, note)

    def move_to(self, done: int, note: str = "") -> None:
        steps, self.done, self.note = done - self.done, done, note
        if self.total is not None:
            self.grow_to(done)
        if self.bar is not None:
            self.bar.set_postfix_str(printable(note), refresh=False)
            self.bar.update(steps)
        elif time.monotonic() >= self.line_due:
            self.write_line()

    def note_ranked(self, done: int, total: int) -> bool:
        """Say how far the examples are ranked, which comes last. Nothing but a signal stops it."""
        self.move_to(self.done, f"{done} of {total} examples ranked")
        return True

    def grow_to(self, total: int) -> None:
        """Raise the total, once there turns out to be more to do."""
        self.total = max(self.total or 0, total)
        if self.bar is not None:
            self.bar.total = self.total

    def write_line(self) -> None:
        of_total = "" if self.total is None else f" of {self.total}"
        note = f", {self.note}" if self.note else ""
        # The stream's usual style is that of errors, and progress is none.
        self.stream.write(f"{self.what}: {self.done}{of_total}{note}", lambda text: text)
        self.line_due = time.monotonic() + LINE_EVERY

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        else:
            self.write_line()


def system_failure(error: OSError | OperationalError | InterfaceError) -> str:
    """Say in a sentence what failed, such as a full disk or a server that went away."""
    if isinstance(error, OperationalError | InterfaceError):
        what = f"The database failed ({first_line(error)})"
    else:
        place = f"{error.filename} can't be used" if error.filename else "The system failed"
        what = f"{place} ({error.strerror or first_line(error)})"
    return f"{what}. What was recorded before is kept. Fix this and try again."


def first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def refuse_undecodable(options: dict[str, Any]) -> None:
    """Refuse bytes that are not text: Python passes them as lone surrogates."""
    for value in options.values():
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str | Path) and (fault := unstorable(str(word))):
                shown = str(word).encode(errors="replace").decode()
                raise UserError(f"“{shown}” contains {fault}. Nothing was changed.")


def prepare_database() -> None:
    """Migrate an SQLite file. On a server, which others share, ask the user to migrate."""
    connection = connections[DEFAULT_DB_ALIAS]
    try:
        if not unapplied(connection):
            return
    except DatabaseError as error:
        raise Failed(
            f"The database does not answer ({first_line(error)}). Nothing was changed. Start the "
            "database, or correct DATABASE_URL."
        ) from None
    if connection.vendor != "sqlite":
        raise UserError(
            "The database lacks tables of this version. Nothing was changed. Run: manage.py migrate"
        )
    call_command("migrate", verbosity=0, interactive=False)


# Any number will do for PostgreSQL, if all releases use the same and nothing else does.
MIGRATE_LOCK = 7_216_551


@contextmanager
def migrating_alone() -> Iterator[None]:
    """Let processes that migrate at the same time do it in turn, from any machine."""
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.vendor == "sqlite":
        with open(settings.FAIRJUDGE_DATA / "migrate.lock", "w") as lock:
            # The system releases this lock however the process ends.
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        return
    with connection.cursor() as cursor:
        # A lock of the session, not of a transaction: migrations commit one by one.
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATE_LOCK])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATE_LOCK])


def unapplied(connection: Any) -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def add_project(parser: CommandParser, more: str = "") -> None:
    parser.add_argument(
        "project", metavar="PROJECT", help=f"the project's slug, as in its address{more}"
    )


def add_subset(parser: CommandParser, *, seed: bool = False) -> None:
    """Add the options that choose a subset; `seed` if the command has no seed of its own."""
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="only examples of this category, tag, model or text; may be repeated",
    )
    parser.add_argument(
        "--sample", type=positive, metavar="N", help="only N of these examples, at random"
    )
    parser.add_argument(
        "--examples", type=Path, metavar="FILE", help="only the IDs in this file, one per line"
    )
    if seed:
        parser.add_argument("--seed", type=int, help="repeats a sample; default: random")


def positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0, of nine digits at most")
    return int(text)


def names_subset(options: dict[str, Any]) -> bool:
    """Return True if a command's options choose a part of the examples."""
    return any(options[name] for name in ("where", "sample", "examples"))


def add_labels(parser: CommandParser) -> None:
    parser.add_argument(
        "--labels",
        metavar="CODE=LABEL,…",
        help="what codes mean, as labels of response 1, such as 1=win,2=lose,0=tie",
    )


def add_format(parser: CommandParser, formats: Sequence[str]) -> None:
    parser.add_argument(
        "--format", choices=formats, default="auto", help="default: detected from the file"
    )
    parser.add_argument("--sheet", help="the sheet of a workbook; default: the first one")


def decimal_argument(text: str) -> Decimal:
    """Parse a plain, finite number exactly: money and percentages are never floats."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"“{text}” is not a number") from None
    if not value.is_finite() or abs(value.adjusted()) > LARGEST_EXPONENT:
        raise ArgumentTypeError(f"“{text}” is not a number")
    return value
