"""Writing rows of a model by SQL that is made once, many at a time or one.

The ORM resolves and converts every value of every row by itself, which took as much CPU as the
rest of a call: its request, its reply, and the parsing. PostgreSQL gets the rows as one JSON text,
since its driver looks for the placeholders of a statement of thousands of values one by one.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache, partial
from operator import attrgetter
from typing import Any, TypeVar

from django.db import connection, models
from django.db.models.base import ModelState
from django.utils import timezone

from judging.core.sql.prepared import own_cursor

# What SQLite can't take as it is, or would store otherwise than the ORM does. The scores and
# moments of many rows are few, and converting one takes longer than the rest of its row.
FEW = (models.DateTimeField, models.DecimalField)
CONVERTED = (*FEW, models.JSONField)
Model = type[models.Model]
Row = TypeVar("Row", bound=models.Model)
Objects = Sequence[Any]


class Columns:
    """Some columns of a model, at least two: how their values are read and converted."""

    def __init__(self, fields: Sequence[Any]) -> None:
        quote = connection.ops.quote_name
        self.fields = fields
        self.names = [quote(field.column) for field in fields]
        self.places = f"({', '.join(['%s'] * len(fields))})"
        self.typed = ", ".join(f"{quote(f.column)} {f.db_type(connection)}" for f in fields)
        self.read = attrgetter(*(field.attname for field in fields))
        self.converted = [
            (place, converter(field))
            for place, field in enumerate(fields)
            if isinstance(field, CONVERTED)
        ]

    def values(self, objects: Objects) -> Iterator[list[Any]]:
        for row in map(self.read, objects):
            cells = list(row)
            for place, convert in self.converted:
                if cells[place] is not None:
                    cells[place] = convert(cells[place])
            yield cells

    def values_list(self, objects: Objects) -> tuple[str, list[Any]]:
        cells = [cell for row in self.values(objects) for cell in row]
        return f"VALUES {', '.join([self.places] * len(objects))}", cells

    def recordset(self, objects: Objects) -> tuple[str, list[Any]]:
        """The same as a table of PostgreSQL, called `given`."""
        names = [field.column for field in self.fields]
        cells = [dict(zip(names, row, strict=True)) for row in map(self.read, objects)]
        text = json.dumps(cells, ensure_ascii=False, default=str)
        return f"json_to_recordset(%s) AS given({self.typed})", [text]


def converter(field: Any) -> Callable[[Any], Any]:
    convert = partial(field.get_db_prep_save, connection=connection)
    return lru_cache(maxsize=1000)(convert) if isinstance(field, FEW) else convert


@cache
def inserted_columns(model: Model) -> Columns:
    return Columns([field for field in model._meta.concrete_fields if not field.primary_key])


@cache
def named_columns(model: Model, names: tuple[str, ...]) -> Columns:
    return Columns([model._meta.get_field(name) for name in names])


@cache
def defaults(model: Model) -> tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
    """By column: values that all rows may share, and makers of those of which each has its own."""
    fields = model._meta.concrete_fields
    shared = {field.attname: field.get_default() for field in fields}
    return shared, [
        (f.attname, f.default) for f in fields if f.has_default() and callable(f.default)
    ]


def new(model: type[Row], **columns: Any) -> Row:
    """What `model(**columns)` makes, in a fifth of the time: nothing is looked up a field."""
    shared, made = defaults(model)
    row = model.__new__(model)
    row.__dict__ |= shared | {name: make() for name, make in made} | columns
    row._state = ModelState()
    return row


def insert(model: Model, objects: Objects) -> None:
    """Insert the objects and give them their primary keys."""
    columns = inserted_columns(model)
    now = timezone.now()
    for name in [f.attname for f in columns.fields if getattr(f, "auto_now_add", False)]:
        for each in objects:
            setattr(each, name, now)
    with connection.cursor() as cursor:
        for part in parts(columns, objects):
            execute_insert(cursor, model, columns, part, returning_key(model))
            for each, (key,) in zip(part, cursor.fetchall(), strict=True):
                each.pk = key


def insert_one(one: models.Model) -> None:
    """What `one.save(force_insert=True)` writes, without signals, by a statement that PostgreSQL
    too plans once. Sets the primary key."""
    model = type(one)
    columns = inserted_columns(model)
    cells = [f.get_db_prep_save(f.pre_save(one, add=True), connection) for f in columns.fields]
    with own_cursor() as cursor:
        row = f"VALUES {columns.places}"
        cursor.execute(insertion(model, columns, row, returning_key(model)), cells)
        (one.pk,) = cursor.fetchone()
    one._state.adding, one._state.db = False, connection.alias


def upsert(model: Model, objects: Objects, unique: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Insert the objects; where a row with the same `unique` fields exists, set `names` of it."""
    columns, same = inserted_columns(model), named_columns(model, unique).names
    changes = (f"{name} = EXCLUDED.{name}" for name in named_columns(model, names).names)
    ending = f"ON CONFLICT ({', '.join(same)}) DO UPDATE SET {', '.join(changes)}"
    with connection.cursor() as cursor:
        for part in parts(columns, objects):
            execute_insert(cursor, model, columns, part, ending)


def parts(columns: Columns, objects: Objects) -> Iterator[Objects]:
    """As many as one statement takes."""
    size = max(1, connection.ops.bulk_batch_size(columns.fields, objects)) if objects else 1
    for start in range(0, len(objects), size):
        yield objects[start : start + size]


def execute_insert(
    cursor: Any, model: Model, columns: Columns, objects: Objects, ending: str
) -> None:
    if connection.vendor == "postgresql":
        table, cells = columns.recordset(objects)
        rows = f"SELECT {', '.join(columns.names)} FROM {table}"
    else:
        rows, cells = columns.values_list(objects)
    cursor.execute(insertion(model, columns, rows, ending), cells)


def insertion(model: Model, columns: Columns, rows: str, ending: str) -> str:
    table = connection.ops.quote_name(model._meta.db_table)
    return f"INSERT INTO {table} ({', '.join(columns.names)}) {rows} {ending}"


def returning_key(model: Model) -> str:
    return f"RETURNING {connection.ops.quote_name(model._meta.pk.column)}"


def update(
    model: Model, objects: Objects, names: tuple[str, ...], found_by: tuple[str, ...] = ("id",)
) -> None:
    """Set these fields of rows that exist."""
    columns = named_columns(model, (*names, *found_by))
    changed, keys = columns.names[: len(names)], columns.names[len(names) :]
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            given, cells = columns.recordset(objects)
            changes = ", ".join(f"{name} = given.{name}" for name in changed)
            found = " AND ".join(f"{table}.{name} = given.{name}" for name in keys)
            cursor.execute(f"UPDATE {table} SET {changes} FROM {given} WHERE {found}", cells)
        else:
            changes = ", ".join(f"{name} = %s" for name in changed)
            found = " AND ".join(f"{name} = %s" for name in keys)
            cursor.executemany(
                f"UPDATE {table} SET {changes} WHERE {found}", list(columns.values(objects))
            )
