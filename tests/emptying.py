"""Empties the tables after a test that commits, at a small part of what `flush` takes.

Django's command truncates every table, which PostgreSQL does with new files for each and its
indexes, and then makes the content types and permissions again. A test writes to few tables, and to
those two to none.
"""

from django.db import connection, transaction

KEPT = {"auth_permission", "django_content_type"}


def filled_tables() -> list[str]:
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    asked = (
        f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {connection.ops.quote_name(name)})"
        for name in sorted({*names} - KEPT)
    )
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(asked))
        return [name for (name,) in cursor.fetchall()]


def empty_tables() -> None:
    # Foreign keys are checked when the transaction ends, so any order will do.
    with transaction.atomic(), connection.cursor() as cursor:
        for name in filled_tables():
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(name)}")
