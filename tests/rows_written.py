"""How many rows each transaction changes: what others wait for, whatever the machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from django.db import connection, transaction


def reads_of_cache(n: int) -> int:
    """Return how many queries n reads of kept figures take: on PostgreSQL, a table keeps them."""
    return n if connection.vendor == "postgresql" else 0


@contextmanager
def rows_of_transactions() -> Iterator[list[int]]:
    """Yield a list to which each transaction, and each statement outside of one, adds its rows.

    A transaction that the test itself is in does not count.
    """
    sizes: list[int] = []
    level, rows = [0], [0, 0]
    enter, leave = transaction.Atomic.__enter__, transaction.Atomic.__exit__

    def entered(atomic):
        enter(atomic)
        level[0] += 1
        if level[0] == 1:
            rows[:] = [0, changes()]

    def left(atomic, *error):
        leave(atomic, *error)
        level[0] -= 1
        if not level[0]:
            sizes.append(rows[0] + changes() - rows[1])

    def changes():
        # SQLite tells the rows of INSERT … RETURNING only once they are all fetched.
        return connection.connection.total_changes if connection.vendor == "sqlite" else 0

    def count(execute, sql, params, many, context):
        before = changes()
        found = execute(sql, params, many, context)
        if sql.lstrip()[:6].upper() in ("INSERT", "UPDATE", "DELETE"):
            told = 0 if connection.vendor == "sqlite" else max(context["cursor"].rowcount, 0)
            if level[0]:
                rows[0] += told
            else:
                sizes.append(told + changes() - before)
        return found

    with (
        patch.object(transaction.Atomic, "__enter__", entered),
        patch.object(transaction.Atomic, "__exit__", left),
        connection.execute_wrapper(count),
    ):
        yield sizes
