"""Writing many rows in short transactions, so that nobody waits long for the database.

SQLite lets one process write at a time. A vote, or an answer that was paid for, waits while another
process holds the lock. How many rows fit into a short transaction depends on the machine and on
its load, so the number follows the time that was measured.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction
from django.db.models import Model, QuerySet

# Others should wait 200 ms at most, and a chunk may take several times as long as the last one.
AIM_SECONDS = 0.05
FIRST, LEAST, MOST = 200, 10, 20_000
# Others ask for the lock every few milliseconds, and less often the longer they wait.
LONGEST_PAUSE = 0.05


class Chunks:
    """How many rows to write in the next transaction, by the time that the last ones took.

    Attributes:
        size: rows of the next chunk.
    """

    def __init__(self) -> None:
        self.size = FIRST
        self._ended: float | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write one chunk, then let others write."""
        now = time.monotonic()
        others_had = 0.0 if self._ended is None else now - self._ended
        with transaction.atomic():
            began = time.monotonic()
            yield
        self.took(time.monotonic() - began, others_had)
        self._ended = time.monotonic()

    def took(self, seconds: float, others_had: float = 0.0) -> None:
        """Fit the size to what the last chunk took, at most fourfold down and twofold up.

        Args:
            others_had: how long others could write before it, while the next rows were read.
        """
        factor = min(max(AIM_SECONDS / max(seconds, 1e-6), 0.25), 2.0)
        self.size = min(max(int(self.size * factor), LEAST), MOST)
        if connection.vendor == "sqlite" and not connection.in_atomic_block:
            time.sleep(max(min(seconds / 2, LONGEST_PAUSE) - others_had, 0))


def in_chunks(rows: QuerySet[Any], write: Callable[[list[int]], object], most: int = MOST) -> None:
    """Call `write` with the keys of all rows, in order, a chunk of them in each transaction."""
    chunks, last = Chunks(), 0
    keys = rows.order_by("pk").values_list("pk", flat=True)
    while chunk := list(keys.filter(pk__gt=last)[: min(chunks.size, most)]):
        with chunks.transaction():
            write(chunk)
        last = chunk[-1]


def delete_rows(model: type[Model], **which: Any) -> int:
    """Delete rows without looking for what refers to them, which has to be gone. Returns how many.

    Django would read every row, and search each table that refers to it.
    """
    rows = model._base_manager.filter(**which)
    return int(rows._raw_delete(rows.db))
