"""What every command shares: a database that is ready, plain errors, and progress."""

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
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, OperationalError, connections
from django.db.migrations.executor import MigrationExecutor
from tqdm import tqdm

from judging.core.errors import UserError
from judging.core.text import unstorable

LINE_EVERY = 10.0
# What a shell reports of a program that SIGPIPE ended.
CLOSED_PIPE = 141


class FairJudgeCommand(BaseCommand):
    """A command that prepares its database first and never shows a traceback for a user's mistake.

    Subclasses write `handle` as usual and raise `UserError`, or call domain code that does.
    """

    requires_system_checks: list[str] = []
    prepares_database = True

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            refuse_undecodable(options)
            self.refuse_empty(options)
            if self.prepares_database:
                prepare_database()
            done = super().execute(*args, **options)
            sys.stdout.flush()
            return done
        except BrokenPipeError:
            # As of `| head`, which has read enough. What is still buffered goes nowhere, so that
            # Python finds nothing to complain about when it ends.
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())
            sys.exit(CLOSED_PIPE)
        except UserError as error:
            raise CommandError(str(error)) from error
        except (OSError, OperationalError, InterfaceError) as error:
            raise CommandError(trouble(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Stopped. What was recorded is kept.", returncode=130) from None

    def refuse_empty(self, options: dict[str, Any]) -> None:
        """What a shell leaves of an unset variable would stand for what is usual, or for all."""
        for action in self.create_parser("manage.py", "")._actions:
            value = options.get(action.dest)
            if action.default is None and isinstance(value, str) and not value.strip():
                name = next(iter(action.option_strings), action.metavar or action.dest)
                raise UserError(f"{name} is given without a value. Nothing was changed.")

    @contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator["ProgressBar"]:
        """Shows how far a long command is, on standard error."""
        shown = ProgressBar(what, total, self.stderr)
        try:
            yield shown
        finally:
            shown.close()


class ProgressBar:
    """A bar on a terminal; elsewhere a plain line at times, so that logs stay readable."""

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
            self.bar.set_postfix_str(note, refresh=False)
            self.bar.update(steps)
        elif time.monotonic() >= self.line_due:
            self.write_line()

    def grow_to(self, total: int) -> None:
        """There turned out to be more to do than was known."""
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


def trouble(error: OSError | OperationalError | InterfaceError) -> str:
    """What the machine refused, such as a full disk or a server that went away, as a sentence."""
    if isinstance(error, OperationalError | InterfaceError):
        what = f"The database failed ({first_line(error)})"
    else:
        place = f"{error.filename} can't be used" if error.filename else "The system failed"
        what = f"{place} ({error.strerror or first_line(error)})"
    return f"{what}. What was recorded before is kept; try again when that is mended."


def first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def refuse_undecodable(options: dict[str, Any]) -> None:
    """Bytes of a command line that are no text come as lone surrogates, which nothing stores."""
    for value in options.values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str | Path) and (found := unstorable(str(one))):
                shown = str(one).encode(errors="replace").decode()
                raise UserError(f"“{shown}” holds {found}. Nothing was changed.")


def prepare_database() -> None:
    """Make the tables of an SQLite file; ask for `migrate` on a server, where others share them."""
    connection = connections[DEFAULT_DB_ALIAS]
    try:
        if not unapplied(connection):
            return
    except DatabaseError as error:
        raise UserError(
            f"The database does not answer ({first_line(error)}). Nothing was changed. Start it, "
            "or correct DATABASE_URL."
        ) from None
    if connection.vendor != "sqlite":
        raise UserError(
            "The database lacks tables of this version. Nothing was changed. Run: manage.py migrate"
        )
    with open(settings.FAIRJUDGE_DATA / "migrate.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        call_command("migrate", verbosity=0, interactive=False)


def unapplied(connection: Any) -> bool:
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


_LARGEST_EXPONENT = 30


def add_project(parser: CommandParser, more: str = "") -> None:
    parser.add_argument("project", metavar="PROJECT", help=f"its slug, as in addresses{more}")


def add_format(parser: CommandParser, formats: Sequence[str]) -> None:
    parser.add_argument(
        "--format", choices=formats, default="auto", help="default: seen from the file itself"
    )


def decimal_argument(text: str) -> Decimal:
    """A plain, finite number, exactly as written: money and percentages are never floats."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"“{text}” is not a number") from None
    # An exponent of millions would make exact arithmetic go on for hours.
    if not value.is_finite() or abs(value.adjusted()) > _LARGEST_EXPONENT:
        raise ArgumentTypeError(f"“{text}” is not a number")
    return value
