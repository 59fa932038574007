"""Long work: who works on a row, until when, and in which short transactions it writes.

Runs, imports and the re-reading of replies are each worked on by one process at a time. A lease is
taken and renewed by conditional UPDATE: of several processes that try, the database lets one
succeed, on SQLite too, where row locks do nothing. A holder that stops renewing loses the row when
its time is over. A holder that is known to be dead loses it at once, so that after a crash nobody
waits for the time to run out.

SQLite lets one process write at a time. A vote, or an answer that was paid for, waits while another
process holds the lock. So long work writes in chunks. How many rows fit into a short transaction
depends on the machine and on its load, so the number follows the time that was measured. What a
first pass read waits for the second one in a temporary file.
"""

import gc
import logging
import os
import pickle
import socket
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import starmap
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

from django.db import connection, transaction
from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from judging.core import waking
from judging.core.caching import report_cache
from judging.core.incidents import DATABASE_AWAY
from judging.core.sql.statements import MANY, rows_came

log = logging.getLogger(__name__)

ONE_WAKE_SECONDS = 60
# A lease that ends later was written before the clock was set back.
LONGEST = timedelta(minutes=5)
# What a holder writes that gives its row back.
FREE = {"holder": "", "lease_until": None}


class TakenOver(Exception):
    """Another process has the row now, or its work was cancelled or undone: this one leaves."""


@dataclass(frozen=True)
class Lease:
    """A kind of lease: how long a holder may be silent, and the lookups of its two columns.

    A re-reading keeps its holder and its time in a JSON column. It writes them itself.
    """

    length: timedelta
    holder: str = "holder"
    time: str = "lease_until"

    def end(self) -> datetime:
        return timezone.now() + self.length

    def take(self, rows: QuerySet[Any], holder: str, **fields: Any) -> bool:
        """Make `holder` the only one who works on the row. `rows` is the row, if it is free."""
        return rows.update(holder=holder, lease_until=self.end(), **fields) == 1

    def renew(self, rows: QuerySet[Any], holder: str, **fields: Any) -> bool:
        """Keep the row for another while. False if somebody else has taken it over."""
        return self.held_by(rows, holder).update(lease_until=self.end(), **fields) == 1

    def held_by(self, rows: QuerySet[Any], holder: str) -> QuerySet[Any]:
        return rows.filter(**{self.holder: holder})

    def unchanged(self, rows: QuerySet[Any], holder: str, time: Any) -> QuerySet[Any]:
        """The row, if its lease is still as it was read: nobody renewed it or took it since."""
        return self.held_by(rows, holder).filter(**{self.time: time})


def is_over(lease_until: datetime | None) -> bool:
    now = timezone.now()
    return lease_until is None or not now <= lease_until <= now + LONGEST


def over() -> Q:
    """The condition of `is_over`, for a query."""
    now = timezone.now()
    return Q(lease_until=None) | Q(lease_until__lt=now) | Q(lease_until__gt=now + LONGEST)


def free() -> Q:
    """Rows that nobody holds, as far as the database alone can tell."""
    return Q(holder="") | over()


def abandoned(row: Any) -> Q:
    """The condition under which `row`, as it was read, has lost its holder."""
    return free() | Q(holder=row.holder) if is_dead(row.holder) else free()


def wake_abandoned(
    rows: QuerySet[Any], task: str, name: str, seconds: float = ONE_WAKE_SECONDS
) -> None:
    """Wake a worker for each row that is free: messages are lost, and processes are killed."""
    for row in rows:
        if rows.filter(abandoned(row), pk=row.pk).exists():
            wake_once(task, name, row.pk, seconds)


def wake_once(task: str, name: str, key: int, seconds: float = ONE_WAKE_SECONDS) -> None:
    """Wake a worker, and not again within these seconds: one that is busy needs no second message.

    Args:
        name: of the kind of work, under which the cache remembers the key.
    """
    if report_cache.add(f"{name}:{key}", True, seconds):
        waking.wake(task, key)


@contextmanager
def kept(renew: Callable[[], bool], every: float, what: str) -> Iterator[None]:
    """Renew a lease from a thread of its own, however long the block takes."""
    ended = threading.Event()

    def keep() -> None:
        held = True
        while held and not ended.wait(every):
            try:
                held = renew()
            except DATABASE_AWAY as error:
                # The database may be back before the lease has run out.
                log.warning("The lease of %s was not renewed: %s", what, error)
                # Django has a connection for each thread, and nothing else closes this one's.
                connection.close()
        connection.close()

    keeper = threading.Thread(target=keep, name=f"lease of {what}", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        # The block may give the row back next, and no renewal may come after that.
        keeper.join()


def new_holder() -> str:
    """Return a name for this piece of work: host, process, its start, and a random part."""
    me = ProcessIdentity.of(os.getpid())
    return f"{socket.gethostname()}:{me.pid}:{me.started}:{uuid.uuid4().hex[:12]}"


def is_dead(holder: str) -> bool:
    """Return True if the holder was a process of this machine that has ended. Unknown: False."""
    host, *process = holder.split(":")
    if host != socket.gethostname() or len(process) != 3:
        return False
    return not ProcessIdentity(int(process[0]), int(process[1])).lives()


@dataclass(frozen=True)
class ProcessIdentity:
    """A process, told apart from a later one that was given the same number."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity":
        return cls(pid, start_time(pid) or 0)

    def lives(self) -> bool:
        if sys.platform == "linux":
            started = start_time(self.pid)
            return started is not None and started == self.started
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            # It belongs to another user, so it exists.
            return True
        return True


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process. None if it is dead or unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may hold spaces. After it comes field 3 of proc(5), the state. The time
    # of the start is field 22.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def boot() -> str:
    """Return an id of the machine's current boot. Only Linux has one; elsewhere it is empty."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


# Others should wait 200 ms at most, and a chunk may take several times as long as the last one.
AIM_SECONDS = 0.05
FIRST, LEAST, MOST = 200, 10, 20_000
# A server locks rows and no whole database. On a busy machine small chunks would only take longer.
LEAST_ON_A_SERVER = 500
# Others ask for the lock every few milliseconds, and less often the longer they wait.
LONGEST_PAUSE = 0.05


class Chunks:
    """How many rows to write in the next transaction, by the time that the last ones took.

    Attributes:
        size: rows of the next chunk.
        tables: those with new rows to which other new rows refer. PostgreSQL plans once how it
            looks up such a row. If the table was small, it reads all of it for every reference,
            so the tables are counted as soon as they are large.
    """

    def __init__(self, *tables: type[Model]) -> None:
        self.size, self.tables = FIRST, tables
        self._written = 0
        self._ended: float | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write one chunk, then let others write."""
        now = time.monotonic()
        others_had = 0.0 if self._ended is None else now - self._ended
        with collecting_later(), transaction.atomic():
            began = time.monotonic()
            yield
        self._written += self.size
        if self._written >= MANY and self.tables:
            rows_came(self._written, *self.tables)
            self.tables = ()
        self.took(time.monotonic() - began, others_had)
        self._ended = time.monotonic()

    def took(self, seconds: float, others_had: float = 0.0) -> None:
        """Fit the size to what the last chunk took, at most fourfold down and twofold up.

        Args:
            others_had: how long others could write before it, while the next rows were read.
        """
        factor = min(max(AIM_SECONDS / max(seconds, 1e-6), 0.25), 2.0)
        is_file = connection.vendor == "sqlite"
        least = LEAST if is_file else LEAST_ON_A_SERVER
        self.size = min(max(int(self.size * factor), least), MOST)
        # Within an outer transaction the lock is kept, and a pause would help nobody.
        if is_file and not connection.in_atomic_block:
            time.sleep(max(min(seconds / 2, LONGEST_PAUSE) - others_had, 0))


@contextmanager
def collecting_later() -> Iterator[None]:
    """Put Python's search for circles of unused objects off until the block has ended.

    The search looks at every object of the process. In a process with a hundred thousand rows at
    hand that takes longer than a chunk.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def in_chunks(rows: QuerySet[Any], write: Callable[[list[int]], object], most: int = MOST) -> None:
    """Call `write` with the keys of all rows, in order, a chunk of them in each transaction."""
    chunks, last = Chunks(), 0
    keys = rows.order_by("pk").values_list("pk", flat=True)
    # Each chunk begins after the last key and not at an offset: `write` may take rows out of
    # `rows`.
    while chunk := list(keys.filter(pk__gt=last)[: min(chunks.size, most)]):
        with chunks.transaction():
            write(chunk)
        last = chunk[-1]


def write_in_chunks(rows: QuerySet[Any], **values: Any) -> None:
    """Write the same values into all rows, a chunk of them in each transaction."""
    # A default manager may leave rows out, such as those of deleted projects.
    every = rows.model._base_manager
    in_chunks(rows, lambda keys: every.filter(pk__in=keys).update(**values))


def delete_rows(model: type[Model], **which: Any) -> int:
    """Delete rows without looking for what refers to them, which has to be gone. Returns how many.

    Django would read every row, and search each table that refers to it.
    """
    rows = model._base_manager.filter(**which)
    return int(rows._raw_delete(rows.db))


KeptRow = TypeVar("KeptRow")


class KeptRows(Generic[KeptRow]):
    """Rows of one kind in a temporary file, so that a second pass reads no file again.

    They come back in the order in which they were added. `kind` is a dataclass or a named tuple.
    Adding raises OSError if the temporary folder is full.
    """

    BLOCK = 500

    def __init__(self, kind: Any) -> None:
        is_tuple = issubclass(kind, tuple)
        self._kind, self._cells = kind, tuple if is_tuple else attrgetter(*kind.__match_args__)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - the finalizer closes it
        weakref.finalize(self, self._file.close)
        self._waiting: list[tuple[Any, ...]] = []

    def add(self, row: KeptRow) -> None:
        self._waiting.append(self._cells(row))
        if len(self._waiting) == self.BLOCK:
            pickle.dump(self._waiting, self._file, pickle.HIGHEST_PROTOCOL)
            # A full disk shows while rows are added, and not in the second pass.
            self._file.flush()
            self._waiting.clear()

    def __iter__(self) -> Iterator[KeptRow]:
        end = self._file.tell()
        self._file.seek(0)
        while self._file.tell() < end:
            yield from starmap(self._kind, pickle.load(self._file))
        yield from starmap(self._kind, self._waiting)
