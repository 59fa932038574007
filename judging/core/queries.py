"""Counting what belongs to each row of a queryset, and changing a JSON column safely."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db import models, transaction
from django.db.models import Count, IntegerField, QuerySet, Subquery
from django.db.models.functions import Coalesce


def count_of(rows: QuerySet, by: str) -> Coalesce:
    """Count, in a subquery, the `rows` whose field `by` refers to the outer row.

    Counts over joins multiply with each other: for a project of 100,000 examples with a few runs
    and rounds, the database would count millions of rows.
    """
    # The columns of an order would join the groups, and split them.
    counted = rows.order_by().values(by).annotate(n=Count("*")).values("n")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


Json = Mapping[str, Any]


def merge(row: models.Model, field: str, change: Callable[[Json], Json]) -> None:
    """Apply `change` to the stored value of a JSON column, and set the result on `row` too.

    The row is locked from the read to the write. On SQLite every transaction begins with a lock.
    """
    rows = type(row)._base_manager.filter(pk=row.pk)
    with transaction.atomic():
        # The lock spares the key, so that rows that refer to this one can still be stored.
        stored = rows.select_for_update(no_key=True).values_list(field, flat=True).get()
        changed = change(stored)
        rows.update(**{field: changed})
    setattr(row, field, changed)
