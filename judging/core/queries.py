"""Counting what belongs to each row, changing a JSON column safely, and reading at one moment."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db import connection, models, transaction
from django.db.models import Count, IntegerField, QuerySet, Subquery
from django.db.models.functions import Coalesce


def count_of(rows: QuerySet, by: str) -> Coalesce:
    """Count, in a subquery, the `rows` whose field `by` refers to the outer row.

    Counts over joins multiply with each other: for a project of 100,000 examples with a few runs
    and rounds, the database would count millions of rows.
    """
    counted = rows.order_by().values(by).annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


Json = Mapping[str, Any]


def merge(row: models.Model, field: str, change: Callable[[Json], Json]) -> None:
    """Apply `change` to the stored value of a JSON column, and set the result on `row` too.

    The row is locked from the read to the write. On SQLite every transaction begins with a lock.
    """
    rows = type(row)._base_manager.filter(pk=row.pk)
    with transaction.atomic():
        stored = rows.select_for_update(no_key=True).values_list(field, flat=True).get()
        changed = change(stored)
        rows.update(**{field: changed})
    setattr(row, field, changed)


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
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
    else:
        # Our transactions take the lock for writing at once, which would keep every vote waiting.
        usual: str | None = connection.transaction_mode
        connection.transaction_mode = "DEFERRED"
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                connection.transaction_mode = usual
                # The first reading sets the moment.
                cursor.execute("SELECT 1 FROM sqlite_master LIMIT 1")
                cursor.execute("PRAGMA query_only = ON")
                try:
                    yield
                finally:
                    cursor.execute("PRAGMA query_only = OFF")
        finally:
            connection.transaction_mode = usual
