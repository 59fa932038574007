"""Who works on a run. A lease is taken by conditional UPDATE and must be renewed to be kept."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import connection
from django.db.models import Q
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from judging.core.leases import is_dead
from judging.incidents import DATABASE_AWAY
from judging.models.calls import Batch
from judging.models.runs import Run

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=20)
RENEW_SECONDS = 5.0
# A queued run has no holder: its `lease_until` says when to wake a worker once more.
SEND_AGAIN = timedelta(seconds=60)


def abandoned(run: Run) -> Q:
    """The condition under which `run`, as it was read, has lost its holder."""
    gone = Q(holder="") | Q(lease_until=None) | Q(lease_until__lt=timezone.now())
    return gone | Q(holder=run.holder) if is_dead(run.holder) else gone


def has_open_batches(run_id: int) -> bool:
    """Whether an endpoint may hold calls of the run, so that stopping it takes a worker."""
    return Batch.objects.filter(run=run_id, collected_at=None).exists()


def take(run: Run, holder: str) -> bool:
    """Make `holder` the only one who may claim calls of the run. False when another one is."""
    held = {"holder": holder, "lease_until": timezone.now() + LEASE, "finished_at": None}
    ours = Run.objects.filter(pk=run.pk).filter(abandoned(run))
    to_work_on = ours.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING))
    started = Coalesce("started_at", Now())
    if to_work_on.update(state=Run.State.RUNNING, started_at=started, reason="", **held):
        return True
    to_stop = ours.filter(state=Run.State.CANCELLING)
    return has_open_batches(run.pk) and to_stop.update(**held) == 1


def renew(run_id: int, holder: str) -> bool:
    """Keep the lease for another while. False when another holder took the run over."""
    until = timezone.now() + LEASE
    return Run.objects.filter(pk=run_id, holder=holder).update(lease_until=until) == 1


@contextmanager
def kept(run_id: int, holder: str) -> Iterator[None]:
    """Renew the lease from a thread of its own, whatever else takes long."""
    ended = threading.Event()

    def keep() -> None:
        held = True
        while held and not ended.wait(RENEW_SECONDS):
            try:
                held = renew(run_id, holder)
            except DATABASE_AWAY as error:
                # It may be back before the lease has run out.
                log.warning("The lease of run %s was not renewed: %s", run_id, error)
                connection.close()
        connection.close()

    keeper = threading.Thread(target=keep, name=f"lease of run {run_id}", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()
