"""Updates that are compiled once, for the rows that change whenever an annotator touches a key.

    @prepared_update("n_shown")
    def _one_more(seat: Any, cursor: Any) -> Changed:
        return Seat.objects.filter(pk=seat), {"n_shown": F("n_shown") + 1, "cursor": cursor}

    _one_more.row(seat=seat.pk, cursor=7.0)

See `judging.prepared`, whose parameters these are.
"""

from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.db.models.sql import UpdateQuery

from judging.prepared import Known, Parameter, bound, own_cursor

Changed = tuple[QuerySet[Any], dict[str, Any]]


class PreparedUpdate(Known):
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
