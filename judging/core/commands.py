"""What all commands share: a database that is ready, plain errors, progress and arguments."""

import fcntl
import os
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import (
    BaseCommand,
    CommandError,
    CommandParser,
    OutputWrapper,
)
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, OperationalError, connections
from django.db.migrations.executor import MigrationExecutor
from tqdm import tqdm

from judging.core.errors import UserError
from judging.core.text import printable, unstorable

LINE_EVERY = 10.0
# The status with which a shell reports a program that was ended by SIGPIPE.
CLOSED_PIPE = 141
# An exponent of millions would make exact arithmetic go on for hours.
LARGEST_EXPONENT = 30


class Printable(OutputWrapper):
    """A stream for people: what an endpoint or a file said never steers their terminal."""

    def write(self, msg: str = "", style_func: Any = None, ending: str | None = None) -> None:
        super().write(printable(str(msg)), style_func, ending)


class FairJudgeCommand(BaseCommand):
    """A command that prepares its database first, and shows a user's mistake without a traceback.

    Subclasses write `handle` as usual. A `UserError` that it raises is shown as a sentence.
    """

    requires_system_checks: list[str] = []
    prepares_database = True

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            refuse_undecodable(options)
            self.refuse_empty(options)
            if self.prepares_database:
                prepare_database()
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
            raise CommandError(str(error)) from error
        except (OSError, OperationalError, InterfaceError) as error:
            raise CommandError(system_failure(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Stopped. What was recorded is kept.", returncode=130) from None

    def refuse_empty(self, options: dict[str, Any]) -> None:
        """Refuse `--flag ""`, which a shell makes of an unset variable, rather than ignore it."""
        for action in self.create_parser("manage.py", "")._actions:
            value = options.get(action.dest)
            if action.default is None and isinstance(value, str) and not value.strip():
                name = next(iter(action.option_strings), action.metavar or action.dest)
                raise UserError(f"{name} is given without a value. Nothing was changed.")

    def run_from_argv(self, argv: list[str]) -> None:
        self.stdout, self.stderr = Printable(sys.stdout), Printable(sys.stderr)
        self.stderr.style_func = self.style.ERROR
        super().run_from_argv(argv)

    @contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator["ProgressBar"]:
        """Show on standard error how far a long command is."""
        bar = ProgressBar(what, total, self.stderr)
        try:
            yield bar
        finally:
            bar.close()


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

    def grow_to(self, total: int) -> None:
        """Raise the total, once there turns out to be more to do."""
        self.total = max(self.total or 0, total)
        if self.bar is not None:
            self.bar.total = self.total

    def write_line(self) -> None:
        of_total = "" if self.total is None else f" of {self.total}"
        note = f", {self.note}" if self.note else ""
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
        raise UserError(
            f"The database does not answer ({first_line(error)}). Nothing was changed. Start the "
            "database, or correct DATABASE_URL."
        ) from None
    if connection.vendor != "sqlite":
        raise UserError(
            "The database lacks tables of this version. Nothing was changed. Run: manage.py migrate"
        )
    call_command("migrate", verbosity=0, interactive=False)


MIGRATE_LOCK = 7_216_551


@contextmanager
def migrating_alone() -> Iterator[None]:
    """Let processes that migrate at the same time do it in turn, from any machine."""
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.vendor == "sqlite":
        with open(settings.FAIRJUDGE_DATA / "migrate.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        return
    with connection.cursor() as cursor:
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


def decimal_argument(text: str) -> Decimal:
    """Parse a plain, finite number exactly: money and percentages are never floats."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"“{text}” is not a number") from None
    if not value.is_finite() or abs(value.adjusted()) > LARGEST_EXPONENT:
        raise ArgumentTypeError(f"“{text}” is not a number")
    return value
