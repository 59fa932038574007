"""What the models of all rooms share, and the tables of workers, stored files, figures and alerts.

Rooms take from here the columns of a lease, the field for who did something, counts of what belongs
to each row, and the safe change of a JSON column. A worker renews its row for as long as it runs.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import Count, IntegerField, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

# A worker renews its row every 5 seconds.
SILENT_AFTER = timedelta(seconds=30)
# A busy machine renews it late, and no request does long work itself because of that.
PATIENCE = timedelta(minutes=2)


def user_or_none() -> models.ForeignKey:
    """Return a field for the user who did it: None for commands, and once the login is deleted."""
    user = settings.AUTH_USER_MODEL
    return models.ForeignKey(user, null=True, on_delete=models.SET_NULL, related_name="+")


class Leased(models.Model):
    """A row on which one process works at a time. `judging.core.leases` writes these columns."""

    holder = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


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


class WorkerQuerySet(models.QuerySet["Worker"]):
    def alive(self, silent_after: timedelta | None = None) -> "WorkerQuerySet":
        """Workers that renewed their row lately. If there are none, no queued work is done."""
        now, silence = timezone.now(), silent_after or SILENT_AFTER
        # A time to come was written before the clock was set back.
        return self.filter(seen_at__gt=now - silence, seen_at__lt=now + silence)

    def serve(self, queue: str) -> bool:
        """Return True if one of these workers serves a queue, such as `settings.QUICK`."""
        return any(queue in worker.served for worker in self.only("queues"))

    def take_long_work(self) -> bool:
        """Return True if a worker does what would take long in a request, now or once it can."""
        return self.alive(PATIENCE).serve(settings.QUICK)


class Worker(models.Model):
    """A worker process, and when it was last seen.

    release, secret_key: what it must have in common with the others: the code, and the secret key,
        of which it says a few letters of a hash.
    """

    name = models.CharField(max_length=200, unique=True)
    queues = models.CharField(max_length=200, blank=True)
    hostname = models.CharField(max_length=200, blank=True)
    pid = models.PositiveIntegerField(default=0)
    release = models.CharField(max_length=16, blank=True, default="")
    secret_key = models.CharField(max_length=16, blank=True, default="")
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(db_index=True)

    objects = WorkerQuerySet.as_manager()

    @property
    def served(self) -> list[str]:
        return self.queues.split(",") if self.queues else []

    @property
    def is_alive(self) -> bool:
        return abs(timezone.now() - self.seen_at) < SILENT_AFTER


class StoredFile(models.Model):
    """A file of the site in the database. Until it is whole, nobody reads it."""

    name = models.CharField(max_length=400, db_index=True)
    size = models.BigIntegerField(default=0)
    whole = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)


class StoredPiece(models.Model):
    file = models.ForeignKey(StoredFile, on_delete=models.CASCADE, related_name="pieces")
    place = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["file", "place"], name="piece_once")]


class KeptFigure(models.Model):
    """What took long to compute, for all machines of a site; it can be computed again."""

    key = models.CharField(max_length=64, primary_key=True)
    until = models.DateTimeField(null=True, db_index=True)
    content = models.BinaryField()


class Alert(models.Model):
    """Something that needs the operator: from when to when, and what they were told of it.

    key: what it is about, such as `disk:host`. told: whether the last notice said that it began.
    """

    key = models.CharField(max_length=200, unique=True)
    said = models.TextField()
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    told = models.BooleanField(default=False)
