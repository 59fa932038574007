"""What happens after a worker died: its calls are marked lost, its runs go on by themselves.

A call that it claimed and certainly never sent is free again, as if it had not been claimed.
"""

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from judging.models.calls import Call
from judging.models.runs import Run
from judging.runs import budget, lease, states
from judging.runs.departures import departed

State = Run.State
AFTER_A_DEATH = {
    State.RUNNING: State.QUEUED,
    State.PAUSING: State.PAUSED,
    State.CANCELLING: State.CANCELLED,
}


def take_over(run: Run, holder: str) -> bool:
    """Take the lease, and mark as lost what an earlier holder had in flight."""
    sent = departed(run.pk, run.holder)
    with transaction.atomic():
        if not lease.take(run, holder):
            return False
        free_unsent(run, sent)
        lose_claims(run.pk)
    return True


def free_unsent(run: Run, sent: set[int] | None) -> None:
    """Delete claims of the run's holder, as it was read, that are not among those it has sent."""
    if sent is None:
        return
    theirs = Call.objects.filter(
        run_id=run.pk, state=Call.State.CLAIMED, batch=None, holder=run.holder
    )
    claimed = theirs.values_list("pk", flat=True)
    theirs.filter(pk__in=set(claimed) - sent).delete()


def lose_claims(run_id: int) -> int:
    """Claims whose holder is gone: possibly billed, so they go on holding their reservation.

    Calls in a batch are not lost: the endpoint keeps their answers until they are collected.
    """
    lost = Call.objects.filter(run_id=run_id, state=Call.State.CLAIMED, batch=None).update(
        state=Call.State.LOST,
        finished_at=timezone.now(),
        error="The worker stopped before the answer was recorded. It may have been billed.",
    )
    budget.recount(run_id)
    return lost


def recover(run: Run) -> bool:
    """Give a run that lost its holder its next state; a running one is queued again."""
    after = AFTER_A_DEATH.get(State(run.state))
    if after is None:
        return False
    if after == State.CANCELLED and lease.has_open_batches(run.pk):
        return send_again(run)
    sent = departed(run.pk, run.holder)
    with transaction.atomic():
        ownerless = Run.objects.filter(pk=run.pk, state=run.state).filter(lease.abandoned(run))
        if not ownerless.update(
            state=after, holder="", lease_until=timezone.now() + lease.SEND_AGAIN
        ):
            return False
        free_unsent(run, sent)
        lose_claims(run.pk)
        if after == State.QUEUED:
            states.send(run.pk)
    return True


def sweep() -> int:
    """Called by every worker every 15 s; how many runs it set going again."""
    held = Run.objects.filter(state__in=AFTER_A_DEATH)
    recovered = sum(recover(run) for run in held)
    waiting = Run.objects.filter(unheard(), state=State.QUEUED)
    return recovered + sum(send_again(run) for run in waiting)


def unheard() -> Q:
    return Q(lease_until=None) | Q(lease_until__lt=timezone.now())


def send_again(run: Run) -> bool:
    """Wake a worker for a run that waits for one and whose message, or worker, was lost."""
    with transaction.atomic():
        same = Run.objects.filter(unheard(), pk=run.pk, state=run.state, holder=run.holder)
        if not same.update(holder="", lease_until=timezone.now() + lease.SEND_AGAIN):
            return False
        states.send(run.pk)
    return True
