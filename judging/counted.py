"""Counting what belongs to each row of a queryset, apart from whatever else is counted of it."""

from django.db.models import Count, IntegerField, QuerySet, Subquery
from django.db.models.functions import Coalesce


def count_of(rows: QuerySet, by: str) -> Coalesce:
    """How many of `rows`, which refer to the outer row by the field `by`; 0 where there is none.

    A subquery: counts over joins multiply with each other, and a project of 100,000 examples and
    a few runs and rounds would be counted millions of times.
    """
    counted = rows.order_by().values(by).annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)
