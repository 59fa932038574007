"""Counting what belongs to each row of a queryset, apart from whatever else is counted of it."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db import models, transaction
from django.db.models import Count, IntegerField, QuerySet, Subquery
from django.db.models.functions import Coalesce


def count_of(rows: QuerySet, by: str) -> Coalesce:
    """How many of `rows`, which refer to the outer row by the field `by`; 0 where there is none.

    A subquery: counts over joins multiply with each other, and a project of 100,000 examples and
    a few runs and rounds would be counted millions of times.
    """
    counted = rows.order_by().values(by).annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


Kept = Mapping[str, Any]


def merge(row: models.Model, field: str, change: Callable[[Kept], Kept]) -> None:
    """Store `change` of what the row holds now, and give it to `row` as well.

    The row is locked from the read to the write. On SQLite a transaction begins with the lock.
    """
    rows = type(row)._base_manager.filter(pk=row.pk)
    with transaction.atomic():
        held = rows.select_for_update(no_key=True).values_list(field, flat=True).get()
        changed = change(held)
        rows.update(**{field: changed})
    setattr(row, field, changed)
