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
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, get_origin

from django.db import connection, transaction
from django.db.models import Expression, QuerySet
from django.db.models.query import ModelIterable, get_related_populators
from django.db.models.sql import UpdateQuery

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
