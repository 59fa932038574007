"""Sending what waits in a table: one process at a time for each receiver, and for a day.

What is to be sent is written in the transaction of what causes it, so that none is lost and none
tells of a change that was rolled back. A worker sends it and tries again for a day. The sweep finds
later attempts, lost messages and killed senders.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from judging.core import leases, waking
from judging.core.leases import Lease, delete_rows, in_chunks, new_holder
from judging.core.processes import stop_requested
from judging.projects.models import Receiver, Sent

# When the attempts begin, in seconds after the event; the last one after a day.
ATTEMPTS = (0, 5, 60, 300, 1800, 7200, 18_000, 36_000, 57_600, 86_400)
# What has ended stays in the log for so long.
KEPT = timedelta(days=30)
LEASE = Lease(timedelta(seconds=60))
# So long a worker sends to one receiver before other work gets its turn.
AT_ONCE_SECONDS = 20.0
# A receiver that doesn't answer costs a worker the whole timeout each time, so it is asked seldom.
REST_SECONDS, LONGEST_REST_SECONDS = 15, 300
ONE_WAKE_SECONDS = 10
WAITING, SENDING, DELIVERED, DEAD, UNSURE = "waiting", "sending", "delivered", "dead", "unsure"


@dataclass(frozen=True)
class Outcome:
    """What came of an attempt.

    state: DELIVERED, DEAD, UNSURE, or WAITING for another attempt, as long as its day lasts.
    rests: the receiver didn't answer, and is left alone for a while.
    receiver, row: further columns to write. also: called in the transaction that writes all.
    """

    state: str
    status: int | None = None
    said: str = ""
    rests: bool = False
    receiver: dict[str, Any] = field(default_factory=dict)
    row: dict[str, Any] = field(default_factory=dict)
    also: Callable[[], object] = lambda: None


# Sends one row. It calls `begin` right before a step that must not be done twice, and returns None
# if that says that another process has taken over.
Attempt = Callable[[Any, Any, Callable[[], bool]], Outcome | None]


@dataclass(frozen=True)
class Courier:
    """A kind of receivers, and the rows that they are sent.

    name: of the kind, in the cache. task: sends for one receiver, by its key.
    receivers: those that are on, whether they rest or not.
    on: the same as far as their own columns tell. A lease is taken under this condition: under one
        on another table, two senders that wait for each other would both get it.
    to: the field of a row that leads to its receiver.
    """

    name: str
    task: str
    receivers: Callable[[], QuerySet[Any]]
    rows: type[Sent]
    to: str
    on: Q = field(default_factory=Q)

    def send_due(self, key: int, attempt: Attempt) -> int:
        """Send what is due for a receiver, and return how many attempts were made.

        Another process that sends to the same receiver makes this one leave at once.
        """
        receiver = self._ready().filter(pk=key).first()
        if receiver is None:
            return 0
        rows, holder = self._still_on(receiver), new_holder()
        if not LEASE.take(rows.filter(leases.abandoned(receiver)), holder):
            return 0
        # Who began to send these was killed: whether they arrived, nobody can tell.
        self._rows(key, SENDING).update(state=UNSURE)
        sent, until = 0, time.monotonic() + AT_ONCE_SECONDS
        try:
            while time.monotonic() < until and not stop_requested.is_set():
                if not LEASE.renew(rows, holder):
                    break
                receiver.refresh_from_db()
                row = self._due(receiver).first()
                if row is None:
                    break
                self._attempt(receiver, row, holder, attempt)
                sent += 1
        finally:
            all_rows = type(receiver)._base_manager.filter(pk=key)
            LEASE.held_by(all_rows, holder).update(**leases.FREE)
        # It may have been queued while this process held the lease, or its turn was over.
        receiver = self._ready().filter(pk=key).first()
        if receiver is not None and self._due(receiver).exists():
            waking.wake(self.task, key)
        return sent

    def wake(self) -> None:
        """Wake workers for what is due: later attempts, lost messages and killed senders."""
        mine = self.rows._base_manager.filter(**{self.to: OuterRef("pk")})
        due = Q(state=WAITING, next_at__lte=timezone.now()) | Q(state=SENDING)
        receivers = self._ready().filter(Exists(mine.filter(due)))
        leases.wake_abandoned(receivers, self.task, self.name, ONE_WAKE_SECONDS)

    def wake_for(self, receiver: Receiver) -> None:
        """Wake a worker to send what waits for a receiver, once the transaction is committed."""
        waking.wake_on_commit(self.task, receiver.pk)

    def send_again(self, row: Sent) -> None:
        """Queue a row again for another day, within a transaction. Its message id stays."""
        receiver, now = getattr(row, self.to), timezone.now()
        same = self.rows._base_manager.filter(pk=row.pk)
        same.update(state=WAITING, began_at=now, next_at=now)
        type(receiver)._base_manager.filter(pk=receiver.pk).update(failures=0, rest_until=None)
        self.wake_for(receiver)

    def forget_old(self) -> None:
        """Delete what has ended long ago from the log."""
        ended = self.rows._base_manager.exclude(state__in=(WAITING, SENDING))
        old = ended.filter(at__lt=timezone.now() - KEPT)
        in_chunks(old, lambda keys: delete_rows(self.rows, pk__in=keys))

    def _ready(self) -> QuerySet[Any]:
        """Return receivers that may be sent to now."""
        return self.receivers().filter(Q(rest_until=None) | Q(rest_until__lte=timezone.now()))

    def _still_on(self, receiver: Receiver) -> QuerySet[Any]:
        return type(receiver)._base_manager.filter(self.on, pk=receiver.pk)

    def _rows(self, key: int, state: str) -> QuerySet[Any]:
        return self.rows._base_manager.filter(**{self.to: key}, state=state)

    def _due(self, receiver: Receiver) -> QuerySet[Any]:
        now, waiting = timezone.now(), self._rows(receiver.pk, WAITING)
        if receiver.rest_until is not None and receiver.rest_until > now:
            return waiting.none()
        return waiting.filter(next_at__lte=now).order_by("next_at", "pk")

    def _attempt(self, receiver: Receiver, row: Sent, holder: str, attempt: Attempt) -> None:
        rows = self._still_on(receiver)
        same = self.rows._base_manager.filter(pk=row.pk, began_at=row.began_at)

        def begin() -> bool:
            with transaction.atomic():
                return LEASE.renew(rows, holder) and same.update(state=SENDING) == 1

        came = attempt(receiver, row, begin)
        if came is None:
            return
        answer = came.said[: Sent._meta.get_field("said").max_length]
        fields = {"status": came.status, "said": answer, "tried_at": timezone.now()}
        fields |= _what_follows(row, came.state) | came.row
        with transaction.atomic():
            mine = LEASE.held_by(type(receiver)._base_manager.filter(pk=receiver.pk), holder)
            # If another process has taken over, since this one seemed dead, it goes on.
            if mine.update(**_of_receiver(receiver, came.rests), **came.receiver):
                same.update(attempts=F("attempts") + 1, **fields)
                came.also()


def _what_follows(row: Sent, state: str) -> dict[str, Any]:
    """Return the next state. What is still to be sent a day later is given up."""
    if state != WAITING:
        return {"state": state}
    passed = (timezone.now() - row.began_at).total_seconds()
    later = next((offset for offset in ATTEMPTS if offset > passed), None)
    if later is None:
        return {"state": DEAD}
    return {"state": WAITING, "next_at": row.began_at + timedelta(seconds=later)}


def _of_receiver(receiver: Receiver, rests: bool) -> dict[str, Any]:
    if not rests:
        return {"failures": 0, "rest_until": None}
    rest = min(REST_SECONDS * 2 ** min(receiver.failures, 10), LONGEST_REST_SECONDS)
    rest_until = timezone.now() + timedelta(seconds=rest)
    return {"failures": receiver.failures + 1, "rest_until": rest_until}
