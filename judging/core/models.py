"""The table of worker processes, the columns of a lease, and the field for who did something.

A worker renews its row for as long as it runs.
"""

from datetime import timedelta

from django.conf import settings
from django.db import models
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
