"""Queries that are compiled once, for the few that run whenever an annotator touches a key.

The ORM takes a millisecond or more to turn a queryset into SQL that a database answers in a
tenth of one.  A prepared query is written as a queryset all the same, and yields what that would
yield: models, or named tuples where it says `values_list`.

    @prepared
    def drafts_by(token: Any, user: Any) -> QuerySet:
        return Draft.objects.filter(token=token, annotator__user=user).select_related("item")

    drafts_by.first(token=token, user=user.pk)
"""

import inspect
import json
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache, partial
from operator import attrgetter
from typing import Any, TypeVar, get_origin

from django.db import connection, models, transaction
from django.db.models import Expression, QuerySet
from django.db.models.base import ModelState
from django.db.models.query import ModelIterable, get_related_populators
from django.db.models.sql import UpdateQuery
from django.utils import timezone

Cells = Sequence[Any]


class Parameter(Expression):
    """Stands in a queryset for a value that is not known yet, or for one place of a list.

    Never for None, which is not compared but asked for with IS NULL.
    `set_to`: the field that gets the value, where something is written.
    """

    def __init__(self, name: str, place: int | None = None, set_to: Any = None) -> None:
        super().__init__()
        self.name, self.place, self.set_to = name, place, set_to

    def of(self, given: dict[str, Any]) -> Any:
        value = given[self.name]
        return value if self.place is None else value[self.place]

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        return "(%s)", [self]


@dataclass(frozen=True)
class Compiled:
    """SQL for one kind of database, its values and parameters in order, and how rows are read."""

    sql: str
    values: tuple[Any, ...]
    converted: Callable[[Iterable[Cells]], Iterator[Cells]]
    made: Callable[[Cells], Any]


class CompiledQuery:
    """What is compiled once for each kind of database, from what `build` makes of parameters.

    A parameter that is called a list is for `__in`, and is not empty: SQL is kept for each of the
    lengths seen lately.
    """

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build
        self.parameters = inspect.signature(build).parameters
        self.lists = [p.name for p in self.parameters.values() if get_origin(p.annotation) is list]
        self.compiled = lru_cache(maxsize=8)(self._compiled)
        KNOWN.append(self)

    def compiled_for(self, given: dict[str, Any]) -> Any:
        lengths = {name: len(given[name]) for name in self.lists}
        return self.compiled(connection.vendor, **lengths)

    def built(self, lengths: dict[str, int]) -> Any:
        """What `build` makes of parameters whose values come later."""
        parameters: dict[str, Any] = {name: Parameter(name) for name in self.parameters}
        for name, length in lengths.items():
            parameters[name] = [Parameter(name, place) for place in range(length)]
        return self.build(**parameters)

    def _compiled(self, vendor: str, **lengths: int) -> Any:
        raise NotImplementedError


# All that the modules imported so far have.
KNOWN: list[CompiledQuery] = []


def compile_known() -> None:
    """Before many threads find at once that a query is not compiled yet."""
    with transaction.atomic():
        for one in KNOWN:
            one.compiled(connection.vendor, **dict.fromkeys(one.lists, 1))


class Prepared(CompiledQuery):
    """A queryset that is asked with the values of its parameters, by their names."""

    def all(self, **given: Any) -> list[Any]:
        compiled: Compiled = self.compiled_for(given)
        with own_cursor() as cursor:
            cursor.execute(compiled.sql, [bound(value, given) for value in compiled.values])
            rows = cursor.fetchall()
        return [compiled.made(row) for row in compiled.converted(rows)]

    def first(self, **given: Any) -> Any:
        """The first one, or None.  All are found for it: for queries that find one or few."""
        found = self.all(**given)
        return found[0] if found else None

    def _compiled(self, vendor: str, **lengths: int) -> Compiled:
        queryset = self.built(lengths)
        compiler = queryset.query.get_compiler(connection=connection)
        sql, values = compiler.as_sql()
        converters = compiler.get_converters([column for column, _, _ in compiler.select])

        def converted(rows: Iterable[Cells]) -> Iterator[Cells]:
            found: Iterator[Cells] = compiler.apply_converters(rows, converters)
            return found

        return Compiled(sql, tuple(values), converted, _maker(queryset, compiler))


def prepared(build: Callable[..., QuerySet[Any, Any]]) -> Prepared:
    return Prepared(build)


def own_cursor() -> Any:
    """On PostgreSQL one that sends values apart from the SQL: then it too plans a query once, when
    it has come for the fifth time (`prepare_threshold` in the settings)."""
    if connection.vendor != "postgresql":
        return connection.cursor()
    from django.db.backends.postgresql.base import ServerBindingCursor

    connection.ensure_connection()
    return connection._prepare_cursor(ServerBindingCursor(connection.connection))


def bound(value: Any, given: dict[str, Any]) -> Any:
    if not isinstance(value, Parameter):
        return value
    field, value = value.set_to, value.of(given)
    if field is not None:
        return field.get_db_prep_save(value, connection)
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value


def _maker(queryset: QuerySet[Any, Any], compiler: Any) -> Callable[[Cells], Any]:
    """What makes a model, with those selected along and its annotations, or a named tuple."""
    if not issubclass(queryset._iterable_class, ModelIterable):
        return namedtuple("Row", list(map(str, queryset._fields or ())))._make
    model, places = compiler.klass_info["model"], compiler.klass_info["select_fields"]
    start, end = places[0], places[-1] + 1
    names = [column.target.attname for column, _, _ in compiler.select[start:end]]
    related = get_related_populators(compiler.klass_info, compiler.select, queryset.db)
    annotations = list(compiler.annotation_col_map.items())

    def made(row: Cells) -> Any:
        one = model.from_db(queryset.db, names, row[start:end])
        for populator in related:
            populator.populate(row, one)
        for name, place in annotations:
            setattr(one, name, row[place])
        return one

    return made


Changed = tuple[QuerySet[Any], dict[str, Any]]


class PreparedUpdate(CompiledQuery):
    """An UPDATE of the rows of a queryset, of one table, to values by their fields' names."""

    def __init__(self, build: Callable[..., Changed], returned: Sequence[str]) -> None:
        super().__init__(build)
        self.returned = returned

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
        sql, values = self.compiled_for(given)
        cursor = own_cursor()
        cursor.execute(sql, [bound(value, given) for value in values])
        return cursor

    def _compiled(self, vendor: str, **lengths: int) -> tuple[str, tuple[Any, ...]]:
        queryset, changes = self.built(lengths)
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
            columns = (connection.ops.quote_name(field(name).column) for name in self.returned)
            sql += f" RETURNING {', '.join(columns)}"
        return sql, tuple(values)


def prepared_update(*returned: str) -> Callable[[Callable[..., Changed]], PreparedUpdate]:
    """`returned`: fields whose values come as they are stored, for numbers and texts."""
    return lambda build: PreparedUpdate(build, returned)


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


MANY = 1000


def rows_came(n: int, *tables: type[models.Model]) -> None:
    """Have the tables counted anew, once the transaction that brought the rows is over.

    Autovacuum comes a minute later or more, and until then PostgreSQL plans as if they were empty:
    in a round of 18,000 items the next one took 900 ms to hand out, and 28 ms afterwards. SQLite
    plans well without statistics, and badly with them: 5 ms became 70 to 190.
    """
    if connection.vendor == "postgresql" and n >= MANY:
        transaction.on_commit(partial(_analyze, tables), robust=True)


def _analyze(tables: tuple[type[models.Model], ...]) -> None:
    names = ", ".join(connection.ops.quote_name(table._meta.db_table) for table in tables)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {names}")
