"""Writing many rows of a model by SQL that is made once.

The ORM resolves and converts every value of every row by itself, which took as much CPU as the
rest of a call: its request, its reply, and the parsing.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from django.db import connection, models
from django.utils import timezone

# What a driver can't take as it is, or would store otherwise than the ORM does.
CONVERTED = (models.DateTimeField, models.DecimalField, models.JSONField)


class Columns:
    """Some columns of a model, at least two: how their values are read and converted."""

    def __init__(self, fields: Sequence[Any]) -> None:
        self.names = [connection.ops.quote_name(field.column) for field in fields]
        self.fields = fields
        self.read = attrgetter(*(field.attname for field in fields))
        self.converted = [
            (place, field.get_db_prep_save)
            for place, field in enumerate(fields)
            if isinstance(field, CONVERTED)
        ]

    def values(self, objects: Sequence[models.Model]) -> Iterator[list[Any]]:
        for row in map(self.read, objects):
            cells = list(row)
            for place, convert in self.converted:
                if cells[place] is not None:
                    cells[place] = convert(cells[place], connection)
            yield cells


@cache
def inserted_columns(model: type[models.Model]) -> Columns:
    return Columns([field for field in model._meta.concrete_fields if not field.primary_key])


@cache
def named_columns(model: type[models.Model], names: tuple[str, ...]) -> Columns:
    return Columns([model._meta.get_field(name) for name in names])


def insert(model: type[models.Model], objects: Sequence[Any]) -> None:
    """Insert the objects and give them their primary keys, in one statement a few hundred rows."""
    columns = inserted_columns(model)
    stamps = [f.attname for f in columns.fields if getattr(f, "auto_now_add", False)]
    now = timezone.now()
    for name in stamps:
        for each in objects:
            setattr(each, name, now)
    size = max(1, connection.ops.bulk_batch_size(columns.fields, objects)) if objects else 1
    for start in range(0, len(objects), size):
        insert_at_once(model, columns, objects[start : start + size])


def insert_at_once(
    model: type[models.Model], columns: Columns, objects: Sequence[models.Model]
) -> None:
    quote = connection.ops.quote_name
    row = f"({', '.join(['%s'] * len(columns.names))})"
    statement = (
        f"INSERT INTO {quote(model._meta.db_table)} ({', '.join(columns.names)}) "
        f"VALUES {', '.join([row] * len(objects))} RETURNING {quote(model._meta.pk.column)}"
    )
    cells = [cell for each in columns.values(objects) for cell in each]
    with connection.cursor() as cursor:
        cursor.execute(statement, cells)
        for each, (key,) in zip(objects, cursor.fetchall(), strict=True):
            each.pk = key


def update(
    model: type[models.Model],
    objects: Sequence[Any],
    names: tuple[str, ...],
    found_by: tuple[str, ...] = ("id",),
) -> None:
    """Set these fields of rows that exist."""
    columns = named_columns(model, (*names, *found_by))
    changed, keys = columns.names[: len(names)], columns.names[len(names) :]
    changes = ", ".join(f"{name} = %s" for name in changed)
    found = " AND ".join(f"{name} = %s" for name in keys)
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {table} SET {changes} WHERE {found}", list(columns.values(objects))
        )
