"""Writes that are compiled once, for the rows that change whenever an annotator touches a key.

    @prepared_update("n_shown")
    def _one_more(seat: Any, cursor: Any) -> Changed:
        return Seat.objects.filter(pk=seat), {"n_shown": F("n_shown") + 1, "cursor": cursor}

    _one_more.row(seat=seat.pk, cursor=7.0)

See `judging.prepared`, whose parameters these are.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from django.db import connection, models
from django.db.models import QuerySet
from django.db.models.sql import UpdateQuery

from judging.prepared import KNOWN, Parameter, bound, own_cursor

Changed = tuple[QuerySet[Any], dict[str, Any]]


class PreparedUpdate:
    """An UPDATE of the rows of a queryset, of one table, to values by their fields' names."""

    def __init__(self, build: Callable[..., Changed], returned: Sequence[str]) -> None:
        self.build, self.returned = build, returned
        self.parameters = inspect.signature(build).parameters
        self.lists: list[str] = []
        self.compiled = lru_cache(maxsize=8)(self._compiled)
        KNOWN.append(self)

    def count(self, **given: Any) -> int:
        """How many rows were changed."""
        with self._done(given) as cursor:
            changed: int = cursor.rowcount
        return changed

    def row(self, **given: Any) -> tuple[Any, ...] | None:
        """What was asked for of the one row that was changed, as it is now."""
        with self._done(given) as cursor:
            found: tuple[Any, ...] | None = cursor.fetchone()
        return found

    def _done(self, given: dict[str, Any]) -> Any:
        sql, values = self.compiled(connection.vendor)
        cursor = own_cursor()
        cursor.execute(sql, [bound(value, given) for value in values])
        return cursor

    def _compiled(self, _vendor: str) -> tuple[str, tuple[Any, ...]]:
        queryset, changes = self.build(**{name: Parameter(name) for name in self.parameters})
        field = queryset.model._meta.get_field
        query = queryset.query.chain(UpdateQuery)
        query.add_update_values(
            {
                name: Parameter(value.name, set_to=field(name))
                if isinstance(value, Parameter)
                else value
                for name, value in changes.items()
            }
        )
        sql, values = query.get_compiler(connection=connection).as_sql()
        if self.returned:
            sql += f" RETURNING {_columns(field(name) for name in self.returned)}"
        return sql, tuple(values)


def prepared_update(*returned: str) -> Callable[[Callable[..., Changed]], PreparedUpdate]:
    """`returned`: fields whose values come as they are stored, for numbers and texts."""
    return lambda build: PreparedUpdate(build, returned)


def insert(one: models.Model) -> None:
    """What `one.save(force_insert=True)` writes, without signals. Sets the primary key."""
    sql, fields = _insertion(type(one), connection.vendor)
    cells = [f.get_db_prep_save(f.pre_save(one, add=True), connection) for f in fields]
    with own_cursor() as cursor:
        cursor.execute(sql, cells)
        (one.pk,) = cursor.fetchone()
    one._state.adding, one._state.db = False, connection.alias


@cache
def _insertion(model: type[models.Model], _vendor: str) -> tuple[str, list[Any]]:
    meta = model._meta
    fields = [field for field in meta.concrete_fields if not field.primary_key]
    places = ", ".join(["%s"] * len(fields))
    table = connection.ops.quote_name(meta.db_table)
    into = f"{table} ({_columns(fields)}) VALUES ({places})"
    return f"INSERT INTO {into} RETURNING {_columns([meta.pk])}", fields


def _columns(fields: Any) -> str:
    return ", ".join(connection.ops.quote_name(field.column) for field in fields)
