"""Sharing a run among workers: their money, their stretches of the examples, and their places.

The run's holder leads: it plans, calls helpers, takes back what dead workers left, and ends the run
once it is alone. A helper whose leader is gone leads. SQLite lets one process write at a time, so
there a run has no helpers.

A batch of calls changes nothing that two workers share. Its money comes from the worker's slice of
the budget, and its examples are in the worker's stretches. Who locks a share locks it before the
run, so that no two wait for each other.
"""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from judging.core import leases, waking
from judging.core.models import Worker
from judging.core.sql.statements import Changed, prepared, prepared_update
from judging.runs import lifecycle
from judging.runs.endpoints import LOCAL
from judging.runs.models import Run, Share, Stretch, subjects_of
from judging.runs.samples import PAGE

ZERO = Decimal(0)
# A slice lasts for about this many batches, so that few of them touch the run.
BATCHES_A_SLICE = 8
# A worker with fewer calls in flight has little to do, so it doesn't need another one.
LEAST_PLACES = 8
# A run that waits for so long finds no free worker, and helpers make room for it.
PATIENCE = timedelta(seconds=3)
BEFORE_THE_FIRST = -1


def open_share(run_id: int, holder: str, places: int = 0) -> None:
    Share.objects.create(
        run_id=run_id, holder=holder, lease_until=lifecycle.LEASE.end(), places=places
    )


def helpers(run_id: int) -> list[Share]:
    """Return the shares of all living workers but the run's holder."""
    others = Share.objects.filter(run=run_id).exclude(holder=F("run__holder"))
    return [share for share in others if not is_lost(share)]


def is_lost(share: Share) -> bool:
    return leases.is_over(share.lease_until) or leases.is_dead(share.holder)


def reserve(run_id: int, holder: str, total: Decimal) -> bool:
    """Reserve from the worker's slice. Call it in the transaction that claims.

    False if the slice is too small, the run isn't running, or the worker was given up for dead.
    """
    return bool(_reserved.count(run=run_id, holder=holder, total=total))


@prepared_update()
def _reserved(run: Any, holder: Any, total: Any) -> Changed:
    # A person may have lowered the budget since the slice was taken.
    kept = Q(budget_usd=None) | Q(budget_usd__gte=F("spent_usd") + F("reserved_usd"))
    running = Exists(Run.objects.filter(kept, pk=run, state=Run.State.RUNNING))
    ours = Share.objects.filter(running, run=run, holder=holder, free_usd__gte=total)
    return ours, {"free_usd": F("free_usd") - total}


def take_slice(run_id: int, holder: str, total: Decimal) -> bool:
    """Exchange the worker's slice for one of at least `total`. False if that is over the budget."""
    with transaction.atomic():
        share = locked(run_id, holder)
        for amount in (BATCHES_A_SLICE * total, total) if share else ():
            more = amount - share.free_usd
            then = F("spent_usd") + F("reserved_usd") + more
            affordable = Q(budget_usd=None) | Q(budget_usd__gte=then)
            running = Run.objects.filter(affordable, pk=run_id, state=Run.State.RUNNING)
            if running.update(reserved_usd=F("reserved_usd") + more):
                Share.objects.filter(pk=share.pk).update(free_usd=amount)
                return True
    return False


def settle(run_id: int, holder: str, freed: Decimal, spent: Decimal = ZERO) -> None:
    """Put back into the slice what calls no longer reserve, and note what they cost."""
    if freed or spent:
        _settled.count(run=run_id, holder=holder, freed=freed, spent=spent)


@prepared_update()
def _settled(run: Any, holder: Any, freed: Any, spent: Any) -> Changed:
    sums = {"free_usd": F("free_usd") + freed - spent, "spent_usd": F("spent_usd") + spent}
    return Share.objects.filter(run=run, holder=holder), sums


def lock(run_id: int, holder: str) -> None:
    """Let nobody take over what the worker has claimed, until the transaction ends."""
    if connection.features.has_select_for_update:
        _locked.all(run=run_id, holder=holder)


@prepared
def _locked(run: Any, holder: Any) -> QuerySet[Share, Any]:
    ours = Share.objects.select_for_update().filter(run=run, holder=holder)
    return ours.values_list("pk")


def locked(run_id: int, holder: str) -> Share | None:
    return Share.objects.select_for_update().filter(run=run_id, holder=holder).first()


def hand_in(run_id: int, holder: str, *, slice_too: bool = False) -> None:
    """Count what the worker spent among the run's sums; with `slice_too`, give its slice back."""
    with transaction.atomic():
        share = locked(run_id, holder)
        if share is None:
            return
        kept = ZERO if slice_too else share.free_usd
        back = share.spent_usd + share.free_usd - kept
        Run.objects.filter(pk=run_id).update(
            spent_usd=F("spent_usd") + share.spent_usd, reserved_usd=F("reserved_usd") - back
        )
        Share.objects.filter(pk=share.pk).update(spent_usd=ZERO, free_usd=kept)


def close(run_id: int, holder: str) -> None:
    """End the worker's part. What it has not finished of its stretches is free."""
    with transaction.atomic():
        hand_in(run_id, holder, slice_too=True)
        Share.objects.filter(run=run_id, holder=holder).delete()


def money_of(run: Run, shares: Sequence[Share]) -> tuple[Decimal, Decimal]:
    """Return what the run has spent, and what its calls reserve, with all its shares counted in."""
    spent = sum((share.spent_usd for share in shares), ZERO)
    free = sum((share.free_usd for share in shares), ZERO)
    return run.spent_usd + spent, run.reserved_usd - spent - free


def start_plan(run: Run) -> None:
    """Plan all examples once more. Only who is alone with the run may do it."""
    run.stretches.all().delete()
    run.planned_to = BEFORE_THE_FIRST
    Run.objects.filter(pk=run.pk).update(planned_to=BEFORE_THE_FIRST)


def end_plan(run: Run) -> bool:
    """Hand out no more stretches. False, and nothing changed, if somebody may still ask."""
    with transaction.atomic():
        running = Run.objects.filter(pk=run.pk, state=Run.State.RUNNING)
        if not running.update(planned_to=None) or helpers(run.pk) or run.stretches.exists():
            transaction.set_rollback(True)
            return False
    run.planned_to = None
    return True


def take_stretch(run: Run, holder: str, finished: Sequence[int] = ()) -> Stretch | None:
    """Take the next examples that nobody has asked about; None if there are none.

    Args:
        finished: Stretches that are done with.
    """
    ours = Exists(Share.objects.filter(run=run.pk, holder=holder))
    with transaction.atomic():
        if finished:
            Stretch.objects.filter(pk__in=finished, holder=holder).delete()
        while run.planned_to is not None:
            after = run.planned_to
            later = subjects_of(run).filter(number__gt=after).order_by("number")
            numbers = list(later.values_list("number", flat=True)[:PAGE])
            if not numbers:
                break
            here = Run.objects.filter(ours, pk=run.pk, state=Run.State.RUNNING, planned_to=after)
            if here.update(planned_to=numbers[-1]):
                run.planned_to = numbers[-1]
                return Stretch.objects.create(
                    run=run, holder=holder, after=after, through=run.planned_to
                )
            now = Run.objects.filter(ours, pk=run.pk, state=Run.State.RUNNING)
            moved_to = now.values_list("planned_to", flat=True).first()
            if moved_to in (None, after):
                break
            run.planned_to = moved_to
    return take_left(run, holder)


def take_left(run: Run, holder: str) -> Stretch | None:
    """Take a stretch whose holder has no share any more: it died, or left."""
    working = Share.objects.filter(run=run.pk, holder=OuterRef("holder"))
    ours = Exists(Share.objects.filter(run=run.pk, holder=holder))
    free = Stretch.objects.filter(~Exists(working), run=run.pk)
    for stretch in free.order_by("pk"):
        same = Stretch.objects.filter(ours, pk=stretch.pk, holder=stretch.holder)
        if same.update(holder=holder):
            return stretch
    return None


def subjects_in(run: Run, stretch: Stretch) -> list[Any]:
    within = subjects_of(run).filter(number__gt=stretch.after, number__lte=stretch.through)
    return list(within.order_by("number", "pk"))


def possible() -> bool:
    return connection.vendor == "postgresql"


def may_share(run: Run) -> bool:
    """Return True if another worker can work on the run, and has something to do there.

    A limit a minute holds for all workers only if Redis counts for them.
    """
    counts = settings.CELERY_BROKER_URL.startswith(("redis:", "rediss:"))
    return (
        possible()
        and not run.in_batches
        and run.endpoint != LOCAL
        and run.planned_to is not None
        and (counts or not (run.rpm or run.tpm))
        and run.concurrency >= LEAST_PLACES * (run.shares.count() + 1)
        and subjects_of(run).filter(number__gt=run.planned_to).exists()
        and not others_wait(run)
    )


def others_wait(run: Run) -> bool:
    """Return True if another run waits for a worker. It goes before help for this one."""
    since = timezone.now() + lifecycle.SEND_AGAIN - PATIENCE
    waiting = Run.objects.filter(state=Run.State.QUEUED, lease_until__lt=since)
    return waiting.exclude(pk=run.pk).exists()


def process_of(holder: str) -> str:
    """Return the host and the process of a holder."""
    return ":".join(holder.split(":")[:2])


def call_helpers(run: Run) -> None:
    """Wake each worker that doesn't work on the run yet, if the run may be shared."""
    if not may_share(run):
        return
    at_work = {process_of(holder) for holder in run.shares.values_list("holder", flat=True)}
    for worker in Worker.objects.alive():
        serves = settings.RUNS in worker.queues.split(",")
        if serves and f"{worker.hostname}:{worker.pid}" not in at_work:
            waking.wake(waking.PUMP_RUN, run.pk)


def join(run: Run, holder: str) -> bool:
    """Help the run's holder. False if this process works on the run, or nobody leads it."""
    run.refresh_from_db()
    at_work = {process_of(one) for one in run.shares.values_list("holder", flat=True)}
    led = run.state == Run.State.RUNNING and run.holder and not leases.is_over(run.lease_until)
    if not led or process_of(holder) in at_work or not may_share(run):
        return False
    open_share(run.pk, holder)
    return True


def agree_on_places(run: Run, holder: str, in_use: int) -> tuple[int, int]:
    """Return how many calls this worker may have in flight now, and how many workers there are.

    All workers together never have more than the run's limit: one takes a place only after another
    gave it up.
    """
    rows = list(run.shares.order_by("pk").values_list("holder", "places"))
    place = next((place for place, (one, _) in enumerate(rows) if one == holder), None)
    if place is None:
        return 0, len(rows)
    fair = run.concurrency * (place + 1) // len(rows) - run.concurrency * place // len(rows)
    mine = rows[place][1]
    if mine > fair and in_use <= fair:
        run.shares.filter(holder=holder).update(places=fair)
    elif mine < fair:
        with transaction.atomic():
            if locked(run.pk, holder) is None:
                return 0, len(rows)
            Run.objects.select_for_update(no_key=True).get(pk=run.pk)
            taken = run.shares.exclude(holder=holder).aggregate(n=Sum("places"))["n"] or 0
            mine = max(mine, min(fair, run.concurrency - taken))
            run.shares.filter(holder=holder).update(places=mine)
    return min(mine, fair), len(rows)


def lead(run: Run, holder: str) -> bool:
    """Lead the run in place of its holder, if that is gone. Nothing else changes."""
    working = (Run.State.RUNNING, Run.State.PAUSING, Run.State.CANCELLING)
    gone = Run.objects.filter(leases.abandoned(run), pk=run.pk, state__in=working)
    return lifecycle.LEASE.take(gone, holder)


def hand_over(run: Run, holder: str) -> bool:
    """Leave the run to its helpers, one of whom leads it then. False if there are none."""
    if not helpers(run.pk):
        return False
    close(run.pk, holder)
    mine = lifecycle.LEASE.held_by(Run.objects.filter(pk=run.pk), holder)
    return bool(mine.update(**leases.FREE))
