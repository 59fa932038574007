"""Changing what a JSON field holds under some keys, while others change what is under theirs."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db import models, transaction

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
