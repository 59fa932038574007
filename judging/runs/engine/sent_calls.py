"""Which of its calls a holder began to send: what a kill leaves to know of those that it claimed.

Calls are claimed some time before they are sent. Each is written down here in front of its first
request, in a file, since a transaction of its own would cost more than the call. A call that is
missing in the file of a process that died was never sent. A crash of the machine may lose what a
kill leaves, so a file tells something until the next boot only.
"""

import os
from pathlib import Path
from typing import Self

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from judging.core.leases import is_dead
from judging.core.processes import boot
from judging.runs import lifecycle
from judging.runs.engine import claims
from judging.runs.models import Call, Run

FOLDER = "departures"


class SentCalls:
    """One holder's file, which an error leaves behind as a kill does.

    Where it can't be kept it is removed: then nothing is certain.
    """

    def __init__(self, run_id: int, holder: str) -> None:
        self.path = path_of(run_id, holder)
        self.file: int | None = None
        try:
            self.path.parent.mkdir(exist_ok=True)
            for earlier in self.path.parent.glob(f"{run_id}-*"):
                earlier.unlink(missing_ok=True)
            if boot():
                self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            return
        self.write(boot())

    def add(self, call_id: int) -> None:
        self.write(str(call_id))

    def write(self, line: str) -> None:
        if self.file is None:
            return
        content = f"{line}\n".encode()
        try:
            whole = os.write(self.file, content) == len(content)
        except OSError:
            whole = False
        if not whole:
            forget(self.path)
            self.close()

    def close(self) -> None:
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is None:
            forget(self.path)


def departed(run_id: int, holder: str) -> set[int] | None:
    """The calls that a holder which died began to send; None where that can't be known."""
    if not is_dead(holder):
        return None
    try:
        first, *calls = path_of(run_id, holder).read_text().splitlines()
        return set(map(int, calls)) if first and first == boot() else None
    except (OSError, ValueError):
        return None


def forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        # A file that can't be removed can be emptied, and an empty one tells nothing.
        os.truncate(path, 0)


def path_of(run_id: int, holder: str) -> Path:
    return settings.FAIRJUDGE_DATA / FOLDER / f"{run_id}-{holder.rpartition(':')[2]}"


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
        if not lifecycle.take(run, holder):
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
    claims.recount(run_id)
    return lost


def recover(run: Run) -> bool:
    """Give a run that lost its holder its next state; a running one is queued again."""
    after = AFTER_A_DEATH.get(State(run.state))
    if after is None:
        return False
    if after == State.CANCELLED and lifecycle.has_open_batches(run.pk):
        return send_again(run)
    sent = departed(run.pk, run.holder)
    with transaction.atomic():
        ownerless = Run.objects.filter(pk=run.pk, state=run.state).filter(lifecycle.abandoned(run))
        if not ownerless.update(
            state=after, holder="", lease_until=timezone.now() + lifecycle.SEND_AGAIN
        ):
            return False
        free_unsent(run, sent)
        lose_claims(run.pk)
        if after == State.QUEUED:
            lifecycle.send(run.pk)
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
        if not same.update(holder="", lease_until=timezone.now() + lifecycle.SEND_AGAIN):
            return False
        lifecycle.send(run.pk)
    return True
