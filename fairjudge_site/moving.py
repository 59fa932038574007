"""Moving a site from SQLite, with which everybody starts, to PostgreSQL.

Rows go over as the ORM reads them, so that each column gets the type that PostgreSQL has for it.
All of it is one transaction on PostgreSQL, which is kept only if every table reads the same
afterwards.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import dj_database_url
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management.color import no_style
from django.db import DatabaseError, connections, transaction
from django.db.models import BinaryField, Model

from judging.core.commands import first_line
from judging.core.errors import UserError
from judging.core.models import Worker
from judging.projects.models import Project

_TARGET = "target"
_ROWS_AT_ONCE = 2_000
# Images have some megabytes each.
_FILES_AT_ONCE = 8
_NOTHING = "Nothing was moved."


@dataclass(frozen=True)
class MovedTable:
    """A table that reads the same on both sides.

    sha256: the sum of the hashes of its rows, since the databases don't sort texts alike.
    """

    table: str
    rows: int
    sha256: str


def move_to_postgresql(address: str, tell: Callable[[MovedTable], None]) -> list[MovedTable]:
    """Copy every row of this site's SQLite database into an empty PostgreSQL database.

    A process that writes to the SQLite file waits meanwhile, so nothing is written there alone.

    Args:
        address: the database as `DATABASE_URL` has it.
        tell: is called with each table that was moved.

    Raises UserError if the source isn't SQLite, workers are running, the target isn't PostgreSQL,
    can't be used or holds data, or if a row doesn't fit. The target is then as empty as before.
    """
    _connect(address)
    try:
        _prepare(address)
        # The first one keeps writers of SQLite waiting. The second one is undone as a whole.
        with transaction.atomic(), transaction.atomic(using=_TARGET):
            return [*_moved(tell)]
    finally:
        connections[_TARGET].close()


def _connect(address: str) -> None:
    """Name the target `_TARGET`, and see that it answers."""
    if connections["default"].vendor != "sqlite":
        raise UserError(f"This site doesn't use SQLite: see DATABASE_URL. {_NOTHING}")
    try:
        target = dj_database_url.parse(address)
    except (dj_database_url.ParseError, dj_database_url.UnknownSchemeError, ValueError):
        target = {}
    if target.get("ENGINE") != "django.db.backends.postgresql" or not target.get("NAME"):
        raise UserError(
            f"The new database must be postgres://user:password@host:5432/name. {_NOTHING}"
        )
    if find_spec("psycopg") is None:
        raise UserError(
            "PostgreSQL needs the package psycopg, which is not installed. Install it with: "
            f"pip install 'fairjudge[postgres]'. {_NOTHING}"
        )
    if Worker.objects.alive().exists():
        raise UserError(
            "Workers of this site are running, and what they and people write now would stay on "
            f"SQLite alone. Stop the site, wait half a minute, and run this again. {_NOTHING}"
        )
    # Django completes the settings of databases only when it starts, so it is done here.
    databases = {"default": {}, _TARGET: target}
    connections.databases[_TARGET] = connections.configure_settings(databases)[_TARGET]
    try:
        connections[_TARGET].ensure_connection()
    except DatabaseError as error:
        raise UserError(
            f"The new database can't be used: {first_line(error)}. {_NOTHING}"
        ) from error


def _prepare(address: str) -> None:
    """Make the tables in a process of their own, since migrations work on the site's database."""
    command = [sys.executable, "-m", "fairjudge_site", "migrate", "--verbosity=0"]
    environment = os.environ | {"DATABASE_URL": address}
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if made.returncode:
        reason = (made.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(f"The tables can't be made: {reason} {_NOTHING}")
    held = [model for model in (get_user_model(), Project) if _all_of(model, _TARGET).exists()]
    if held:
        names = " and ".join(str(model._meta.verbose_name_plural) for model in held)
        raise UserError(f"The new database holds {names} already. Name an empty one. {_NOTHING}")


def _all_of(model: type[Model], using: str) -> Any:
    # Not `objects`, which leaves rows out in some models.
    return model._base_manager.using(using).order_by("pk")


def _moved(tell: Callable[[MovedTable], None]) -> Iterator[MovedTable]:
    target = connections[_TARGET]
    models = [
        model
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
    ]
    # Making the tables filled a few: what Django knows of permissions comes from the source too.
    names = ", ".join(target.ops.quote_name(model._meta.db_table) for model in models)
    with target.cursor() as cursor:
        cursor.execute(f"TRUNCATE {names}")
    for model in models:
        sent = _Rows(model)
        _copy(model, sent)
        arrived = _Rows(model, _TARGET)
        # Reading the rows counts and hashes them.
        for _ in arrived:
            pass
        if sent.moved != arrived.moved:
            raise UserError(
                f"The table {model._meta.db_table} reads otherwise on PostgreSQL. {_NOTHING}"
            )
        tell(sent.moved)
        yield sent.moved
    with target.cursor() as cursor:
        # Rows came with their keys, of which PostgreSQL's counters know nothing yet.
        for statement in target.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)
        # Without statistics, PostgreSQL would plan the first queries badly.
        for model in models:
            cursor.execute(f"ANALYZE {target.ops.quote_name(model._meta.db_table)}")


def _fields(model: type[Model]) -> list[Any]:
    return [field for field in model._meta.concrete_fields if not field.generated]


class _Rows:
    """The rows of a model in one of the databases, counted and hashed as they are read."""

    def __init__(self, model: type[Model], using: str = "default") -> None:
        names = [field.attname for field in _fields(model)]
        self._rows = _all_of(model, using).values_list(*names)
        files = any(isinstance(field, BinaryField) for field in _fields(model))
        self._at_once = _FILES_AT_ONCE if files else _ROWS_AT_ONCE
        self._table = model._meta.db_table
        self._sum, self._count = 0, 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for row in self._rows.iterator(chunk_size=self._at_once):
            text = json.dumps([_same(value) for value in row])
            self._sum += int.from_bytes(hashlib.sha256(text.encode()).digest())
            self._count += 1
            yield row

    @property
    def moved(self) -> MovedTable:
        return MovedTable(self._table, self._count, f"{self._sum % 2**256:064x}")


def _same(value: Any) -> Any:
    """Return what a value is in both databases.

    PostgreSQL sorts the keys of JSON, and writes its numbers in other ways than Python.
    """
    if isinstance(value, bool | str | None):
        return value
    if isinstance(value, int | float):
        # Beyond 2^53, a whole number loses digits as a float.
        return repr(float(value)) if abs(value) < 2**53 or isinstance(value, float) else str(value)
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, dict):
        return {key: _same(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_same(entry) for entry in value]
    return bytes(value).hex() if isinstance(value, bytes | memoryview) else str(value)


def _copy(model: type[Model], rows: _Rows) -> None:
    from psycopg import Error

    target, fields = connections[_TARGET], _fields(model)
    table = target.ops.quote_name(model._meta.db_table)
    columns = ", ".join(target.ops.quote_name(field.column) for field in fields)
    key = [field.primary_key for field in fields].index(True)
    last: Any = None
    try:
        with (
            target.cursor() as cursor,
            cursor.cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy,
        ):
            for row in rows:
                last = row[key]
                copy.write_row(
                    [
                        field.get_db_prep_save(value, target)
                        for field, value in zip(fields, row, strict=True)
                    ]
                )
    except Error as error:
        raise UserError(
            f"PostgreSQL refused a row of {model._meta.db_table} at or before {last}: "
            f"{first_line(error)}. {_NOTHING}"
        ) from error
