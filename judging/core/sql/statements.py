"""Prepared queries and updates, writes of many rows by one statement, and reading at one moment.

A prepared query is written as a queryset and yields what that would yield: models, or named tuples
after `values_list`. It is compiled to SQL once in each process.

    @prepared
    def drafts_by(token: Any, user: Any) -> QuerySet:
        return Draft.objects.filter(token=token, annotator__user=user).select_related("item")

    drafts_by.first(token=token, user=user.pk)

The writes of many rows skip what the ORM resolves and converts for every value of every row, which
took as much CPU as the rest of a judge call: its request, its reply, and the parsing.
"""

import inspect
import json
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache, partial
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, get_origin

from django.db import connection, models, transaction
from django.db.models import Expression, QuerySet
from django.db.models.base import ModelState
from django.db.models.query import ModelIterable, get_related_populators
from django.db.models.sql import UpdateQuery
from django.utils import timezone

Cells = Sequence[Any]
# A list's SQL is kept for this many lengths: the engine's batches are up to `concurrency` long.
LENGTHS_KEPT = 64


class LeavingOut(models.Manager[Any]):
    """A model's default manager that never finds some of its rows, such as half-written ones.

    rows: the lookups of the rows that are left out, which a subclass names.
    also: the lookups of other rows that are left out, too.

    Both are attributes of the class, since Django makes the managers of related rows from the class
    alone.
    """

    rows: ClassVar[dict[str, Any]]
    also: ClassVar[dict[str, Any]] = {}

    def get_queryset(self) -> QuerySet[Any]:
        kept = super().get_queryset().exclude(**self.rows)
        return kept.exclude(**self.also) if self.also else kept


class Parameter(Expression):
    """A placeholder in a queryset for a value that comes later, or for one entry of a list.

    Its value is never None: SQL needs IS NULL for that, which is another statement.

    Args:
        place: index in the list, if the parameter is a list.
        set_to: the field that an UPDATE sets to the value.
    """

    def __init__(self, name: str, place: int | None = None, set_to: Any = None) -> None:
        super().__init__()
        self.name, self.place, self.set_to = name, place, set_to

    def of(self, values: dict[str, Any]) -> Any:
        value = values[self.name]
        return value if self.place is None else value[self.place]

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        return "(%s)", [self]


@dataclass(frozen=True)
class Compiled:
    """SQL for one kind of database, its values in order, and how its rows are read.

    Attributes:
        values: constants, and a Parameter for each value that comes later.
        converted: turns the database's values into Python's, as the fields would.
        made: turns a row into a model or a named tuple.
    """

    sql: str
    values: tuple[Any, ...]
    converted: Callable[[Iterable[Cells]], Iterator[Cells]]
    made: Callable[[Cells], Any]


class CompiledQuery:
    """A query that is compiled once for each kind of database, from `build`'s queryset.

    A parameter that `build` annotates as a list is for `__in`. Its list must not be empty. SQL has
    a placeholder for each entry, so it is kept for each of the lengths seen lately.
    """

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build
        self.parameters = inspect.signature(build).parameters
        self.lists = [p.name for p in self.parameters.values() if get_origin(p.annotation) is list]
        self.compiled = lru_cache(maxsize=LENGTHS_KEPT)(self._compiled)
        KNOWN.append(self)

    def compiled_for(self, values: dict[str, Any]) -> Any:
        lengths = {name: len(values[name]) for name in self.lists}
        return self.compiled(connection.vendor, **lengths)

    def built(self, lengths: dict[str, int]) -> Any:
        """Call `build` with placeholders instead of values."""
        parameters: dict[str, Any] = {name: Parameter(name) for name in self.parameters}
        for name, length in lengths.items():
            parameters[name] = [Parameter(name, place) for place in range(length)]
        return self.build(**parameters)

    def _compiled(self, vendor: str, **lengths: int) -> Any:
        raise NotImplementedError


# Every prepared query and update of the modules that are imported so far.
KNOWN: list[CompiledQuery] = []


def compile_known() -> None:
    """Compile everything now, before many threads find at once that nothing is compiled yet."""
    # Django compiles SELECT … FOR UPDATE only within a transaction.
    with transaction.atomic():
        for query in KNOWN:
            query.compiled(connection.vendor, **dict.fromkeys(query.lists, 1))


class Prepared(CompiledQuery):
    """A query whose `all` and `first` take the values of `build`'s parameters by name."""

    def all(self, **values: Any) -> list[Any]:
        compiled: Compiled = self.compiled_for(values)
        with planned_cursor() as cursor:
            cursor.execute(compiled.sql, [bound(value, values) for value in compiled.values])
            rows = cursor.fetchall()
        return [compiled.made(row) for row in compiled.converted(rows)]

    def first(self, **values: Any) -> Any:
        """Return the first one, or None. All are fetched: use it for queries that find few."""
        rows = self.all(**values)
        return rows[0] if rows else None

    def _compiled(self, vendor: str, **lengths: int) -> Compiled:
        queryset = self.built(lengths)
        compiler = queryset.query.get_compiler(connection=connection)
        sql, values = compiler.as_sql()
        converters = compiler.get_converters([column for column, _, _ in compiler.select])

        def converted(rows: Iterable[Cells]) -> Iterator[Cells]:
            cells: Iterator[Cells] = compiler.apply_converters(rows, converters)
            return cells

        return Compiled(sql, tuple(values), converted, _maker(queryset, compiler))


def prepared(build: Callable[..., QuerySet[Any, Any]]) -> Prepared:
    return Prepared(build)


def planned_cursor() -> Any:
    """Return a cursor with which PostgreSQL, too, plans a statement only once.

    It sends values apart from the SQL. When the same SQL comes for the fifth time, psycopg has the
    server prepare it (`prepare_threshold` in the settings). Django's option `server_side_binding`
    would do the same to every statement of the ORM, whose SQL seldom comes again.
    """
    if connection.vendor != "postgresql":
        return connection.cursor()
    from django.db.backends.postgresql.base import ServerBindingCursor

    connection.ensure_connection()
    return connection._prepare_cursor(ServerBindingCursor(connection.connection))


def bound(value: Any, values: dict[str, Any]) -> Any:
    """Return a statement's value as the driver takes it, looked up if it is a parameter."""
    if not isinstance(value, Parameter):
        return value
    field, value = value.set_to, value.of(values)
    if field is not None:
        return field.get_db_prep_save(value, connection)
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value


def _maker(queryset: QuerySet[Any, Any], compiler: Any) -> Callable[[Cells], Any]:
    """Return what turns a row into a named tuple, or into a model with its related models."""
    if not issubclass(queryset._iterable_class, ModelIterable):
        return namedtuple("Row", list(map(str, queryset._fields or ())))._make
    model, places = compiler.klass_info["model"], compiler.klass_info["select_fields"]
    # Django selects the columns of the model next to each other, and those of related models after
    # them.
    start, end = places[0], places[-1] + 1
    names = [column.target.attname for column, _, _ in compiler.select[start:end]]
    related = get_related_populators(compiler.klass_info, compiler.select, queryset.db)
    annotations = list(compiler.annotation_col_map.items())

    def made(row: Cells) -> Any:
        instance = model.from_db(queryset.db, names, row[start:end])
        for populator in related:
            populator.populate(row, instance)
        for name, place in annotations:
            setattr(instance, name, row[place])
        return instance

    return made


Changed = tuple[QuerySet[Any], dict[str, Any]]


class PreparedUpdate(CompiledQuery):
    """An UPDATE of a queryset's rows. `build` returns the queryset and the new values by field."""

    def __init__(self, build: Callable[..., Changed], returned: Sequence[str]) -> None:
        super().__init__(build)
        self.returned = returned

    def count(self, **values: Any) -> int:
        """Update, and return how many rows were changed."""
        with self._executed(values) as cursor:
            changed: int = cursor.rowcount
        return changed

    def row(self, **values: Any) -> tuple[Any, ...] | None:
        """Update one row, and return the fields in `returned` as they are now."""
        with self._executed(values) as cursor:
            returned: tuple[Any, ...] | None = cursor.fetchone()
        return returned

    def _executed(self, values: dict[str, Any]) -> Any:
        sql, in_order = self.compiled_for(values)
        cursor = planned_cursor()
        cursor.execute(sql, [bound(value, values) for value in in_order])
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
    """Make an update whose `row` returns these fields unconverted, so numbers and text only."""
    return lambda build: PreparedUpdate(build, returned)


# Many rows share a few times and scores, and converting one takes longer than the rest of its row.
CACHED = (models.DateTimeField, models.DecimalField)
# Fields whose values SQLite can't take as they are, or would store differently from the ORM.
CONVERTED = (*CACHED, models.JSONField)
Model = type[models.Model]
Row = TypeVar("Row", bound=models.Model)
Objects = Sequence[Any]


class ColumnPlaces:
    """At least two columns of a model, and how their values are read and converted."""

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

    def values_list(self, rows: Iterable[Sequence[Any]]) -> tuple[str, list[Any]]:
        """Return rows of converted cells as a table expression, and all cells in their order."""
        listed = list(rows)
        return f"VALUES {', '.join([self.places] * len(listed))}", list(chain.from_iterable(listed))

    def recordset(self, objects: Objects) -> tuple[str, list[Any]]:
        """Return the rows as a table expression of PostgreSQL, called `given`.

        They travel as one JSON text: psycopg looks for the placeholders of a statement one by one,
        which takes long in a statement of thousands of values.
        """
        names = [field.column for field in self.fields]
        cells = [dict(zip(names, row, strict=True)) for row in map(self.read, objects)]
        # The server turns texts into the types that `typed` names.
        text = json.dumps(cells, ensure_ascii=False, default=str)
        return f"json_to_recordset(%s) AS given({self.typed})", [text]


def converter(field: Any) -> Callable[[Any], Any]:
    convert = partial(field.get_db_prep_save, connection=connection)
    return lru_cache(maxsize=1000)(convert) if isinstance(field, CACHED) else convert


@cache
def inserted_columns(model: Model) -> ColumnPlaces:
    return ColumnPlaces([field for field in model._meta.concrete_fields if not field.primary_key])


@cache
def named_columns(model: Model, names: tuple[str, ...]) -> ColumnPlaces:
    return ColumnPlaces([model._meta.get_field(name) for name in names])


@cache
def defaults(model: Model) -> tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
    """Return, by column, the default values, and the functions that make a default for each row."""
    fields = model._meta.concrete_fields
    shared = {field.attname: field.get_default() for field in fields}
    return shared, [
        (f.attname, f.default) for f in fields if f.has_default() and callable(f.default)
    ]


def new(model: type[Row], /, **columns: Any) -> Row:
    """Make what `model(**columns)` makes, in a fifth of the time or less.

    Columns are named by `attname`, such as `run_id`. Neither signals nor `__init__` are called.
    """
    shared, made = defaults(model)
    row = model.__new__(model)
    row.__dict__ |= shared | {name: make() for name, make in made} | columns
    row._state = ModelState()
    return row


def insert(model: Model, objects: Objects) -> None:
    """Insert the objects and give them their primary keys."""
    columns = inserted_columns(model)
    now = timezone.now()
    # The ORM sets these times in `pre_save`, which isn't called here.
    for name in [f.attname for f in columns.fields if getattr(f, "auto_now_add", False)]:
        for row in objects:
            setattr(row, name, now)
    if connection.vendor == "postgresql" and len(objects) >= COPIED:
        keys = _copy(model, list(zip(*map(columns.read, objects), strict=True)))
    else:
        keys = []
        with connection.cursor() as cursor:
            for part in parts(columns, objects):
                execute_insert(cursor, model, columns, part, returning_key(model))
                keys += [key for (key,) in cursor.fetchall()]
    for row, key in zip(objects, keys, strict=True):
        row.pk = key


def insert_columns(model: type[Row], n: int, /, **filled: Any) -> list[int]:
    """Insert n rows, and return their primary keys, without making an object for each.

    Args:
        filled: by `attname` a tuple of n values, or the value of all rows. The others are defaults.
    """
    shared, made = defaults(model)
    filled = shared | {name: make() for name, make in made} | filled
    columns, now = inserted_columns(model), timezone.now()
    filled |= {f.attname: now for f in columns.fields if getattr(f, "auto_now_add", False)}
    values = [filled[field.attname] for field in columns.fields]
    cells = [each if type(each) is tuple else (each,) * n for each in values]
    if connection.vendor == "postgresql" and n >= COPIED:
        return _copy(model, cells)
    for place, convert in columns.converted:
        ids, made = converted_once(cells[place], partial(_unless_none, convert))
        cells[place] = list(map(made.__getitem__, ids))
    rows, keys = list(zip(*cells, strict=True)), []
    with connection.cursor() as cursor:
        for part in parts(columns, rows):
            table, listed = columns.values_list(part)
            cursor.execute(insertion(model, columns, table, returning_key(model)), listed)
            keys += [key for (key,) in cursor.fetchall()]
    return keys


def _unless_none(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def converted_once(
    values: Cells, convert: Callable[[Any], Any]
) -> tuple[list[int], dict[int, Any]]:
    """Convert an object that many rows share only once.

    By identity: 1, True and Decimal(1) are equal and have other texts, and lists can't be keys.

    Returns the identity of each value in order, and by identity what it becomes.
    """
    ids = list(map(id, values))
    objects = dict(zip(ids, values, strict=True))
    return ids, {place: convert(value) for place, value in objects.items()}


COPIED = 100


def _copy(model: Model, cells: Sequence[Cells]) -> list[int]:
    """Insert columns of cells by COPY, and return the keys, which are drawn first.

    It takes the server less time than JSON. An object that many rows share is made text only once.
    """
    columns, key = inserted_columns(model), model._meta.pk.column
    table = connection.ops.quote_name(model._meta.db_table)
    # The name is looked up once. Within the list of columns it would be for every key, which took
    # the server as long as COPY.
    drawn = (
        "WITH own AS MATERIALIZED (SELECT pg_get_serial_sequence(%s, %s)::regclass AS name) "
        "SELECT nextval(own.name) FROM own, generate_series(1, %s)"
    )
    with connection.cursor() as cursor:
        cursor.execute(drawn, [table, key, len(cells[0])])
        keys = [drawn_key for (drawn_key,) in cursor.fetchall()]
        own, shared = {connection.ops.quote_name(key): list(map(str, keys))}, {}
        for field, name, column in zip(columns.fields, columns.names, cells, strict=True):
            is_json = isinstance(field, models.JSONField)
            as_json = partial(json.dumps, cls=field.encoder) if is_json else None
            ids, texts = converted_once(column, partial(_copied, as_json=as_json))
            if len(texts) == 1:
                shared[name] = texts[ids[0]]
            else:
                own[name] = list(map(texts.__getitem__, ids))
        # Columns with one value for all rows come last, so that their text is joined only once.
        end = "".join(f"\t{text}" for text in shared.values()) + "\n"
        rows = map("\t".join, zip(*own.values(), strict=True))
        with cursor.copy(f"COPY {table} ({', '.join([*own, *shared])}) FROM STDIN") as copy:
            copy.write(end.join([*rows, ""]))
    return keys


def _copied(value: Any, as_json: Callable[[Any], str] | None) -> str:
    """Return a value as COPY's text format has it."""
    if value is None:
        return "\\N"
    text = as_json(value) if as_json else value
    if not isinstance(text, str):
        return str(text)
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return text.replace("\t", "\\t")


def insert_one(row: models.Model) -> None:
    """Write what `row.save(force_insert=True)` writes, and set the primary key. Sends no signals.

    PostgreSQL plans the statement only once.
    """
    model = type(row)
    columns = inserted_columns(model)
    cells = [f.get_db_prep_save(f.pre_save(row, add=True), connection) for f in columns.fields]
    with planned_cursor() as cursor:
        values = f"VALUES {columns.places}"
        cursor.execute(insertion(model, columns, values, returning_key(model)), cells)
        (row.pk,) = cursor.fetchone()
    row._state.adding, row._state.db = False, connection.alias


def upsert(model: Model, objects: Objects, unique: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Insert the objects. If a row has the same `unique` fields, set its `names` instead."""
    columns, same = inserted_columns(model), named_columns(model, unique).names
    changes = (f"{name} = EXCLUDED.{name}" for name in named_columns(model, names).names)
    ending = f"ON CONFLICT ({', '.join(same)}) DO UPDATE SET {', '.join(changes)}"
    with connection.cursor() as cursor:
        for part in parts(columns, objects):
            execute_insert(cursor, model, columns, part, ending)


def parts(columns: ColumnPlaces, objects: Objects) -> Iterator[Objects]:
    """Split the objects into parts of as many as one statement takes."""
    size = max(1, connection.ops.bulk_batch_size(columns.fields, objects)) if objects else 1
    for start in range(0, len(objects), size):
        yield objects[start : start + size]


def execute_insert(
    cursor: Any, model: Model, columns: ColumnPlaces, objects: Objects, ending: str
) -> None:
    if connection.vendor == "postgresql":
        table, cells = columns.recordset(objects)
        rows = f"SELECT {', '.join(columns.names)} FROM {table}"
    else:
        rows, cells = columns.values_list(columns.values(objects))
    cursor.execute(insertion(model, columns, rows, ending), cells)


def insertion(model: Model, columns: ColumnPlaces, rows: str, ending: str) -> str:
    table = connection.ops.quote_name(model._meta.db_table)
    return f"INSERT INTO {table} ({', '.join(columns.names)}) {rows} {ending}"


def returning_key(model: Model) -> str:
    return f"RETURNING {connection.ops.quote_name(model._meta.pk.column)}"


def update(
    model: Model, objects: Objects, names: tuple[str, ...], found_by: tuple[str, ...] = ("id",)
) -> None:
    """Set the fields `names` of existing rows, each found by its fields `found_by`."""
    columns = named_columns(model, (*names, *found_by))
    changed, keys = columns.names[: len(names)], columns.names[len(names) :]
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            source, cells = columns.recordset(objects)
            changes = ", ".join(f"{name} = given.{name}" for name in changed)
            same = " AND ".join(f"{table}.{name} = given.{name}" for name in keys)
            cursor.execute(f"UPDATE {table} SET {changes} FROM {source} WHERE {same}", cells)
        else:
            changes = ", ".join(f"{name} = %s" for name in changed)
            same = " AND ".join(f"{name} = %s" for name in keys)
            # SQLite runs in this process, so a statement for each row costs no round trip.
            statement = f"UPDATE {table} SET {changes} WHERE {same}"
            cursor.executemany(statement, list(columns.values(objects)))


MANY = 1000


def rows_came(n: int, *tables: type[models.Model]) -> None:
    """Have PostgreSQL count the tables after the transaction that added `n` rows; all if none.

    Its autovacuum comes a minute later or more. Until then it plans as if the tables were empty:
    in a round of 18,000 items the next item took 900 ms to hand out, and 28 ms afterwards. SQLite
    plans well without statistics, and badly with them: 5 ms became 70 to 190 ms.
    """
    if connection.vendor == "postgresql" and n >= MANY:
        transaction.on_commit(partial(_analyze, tables), robust=True)


def _analyze(tables: tuple[type[models.Model], ...]) -> None:
    names = ", ".join(connection.ops.quote_name(table._meta.db_table) for table in tables)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {names}")


_left: ContextVar[list[Callable[[], object]] | None] = ContextVar("left", default=None)


@contextmanager
def snapshot() -> Iterator[None]:
    """Read the database as it is at the start of the block, while others go on writing.

    The block itself writes nothing: what it leaves to `after_snapshot` is done once it has ended.
    Within a transaction, the block sees what the transaction sees.
    """
    left: list[Callable[[], object]] = []
    before = _left.set(left)
    try:
        with _one_moment():
            yield
    finally:
        _left.reset(before)
    for work in left:
        work()


def after_snapshot(work: Callable[[], object]) -> None:
    """Do what writes after the snapshot that is being read, or at once if there is none."""
    left = _left.get()
    if left is None:
        work()
    else:
        left.append(work)


@contextmanager
def _one_moment() -> Iterator[None]:
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
            # By default, each statement would see what others committed before it.
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
    else:
        # Our transactions take the lock for writing at once, which would keep every vote waiting.
        usual: str | None = connection.transaction_mode
        connection.transaction_mode = "DEFERRED"
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                # The first reading sets the moment.
                cursor.execute("SELECT 1 FROM sqlite_master LIMIT 1")
                # SQLite refuses to write after a read that others have written over, so a write is
                # a mistake here even if it would succeed.
                cursor.execute("PRAGMA query_only = ON")
                try:
                    yield
                finally:
                    cursor.execute("PRAGMA query_only = OFF")
        finally:
            connection.transaction_mode = usual
