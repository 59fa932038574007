"""The named changes of a run's state: conditional UPDATEs, harmless when repeated."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from judging.audit import record
from judging.core import waking
from judging.errors import UserError
from judging.json_fields import merge
from judging.models.calls import Parse
from judging.models.projects import Project
from judging.models.runs import Form, Method, Run
from judging.runs.endpoints import stored_url
from judging.runs.lease import SEND_AGAIN, has_open_batches
from judging.runs.portia.settings import check_splitter

State = Run.State

RESUMABLE = (State.PAUSED, State.CANCELLED, State.DONE, State.FAILED)
# Statuses that a person may have asked for again; an error is asked again by every resume.
RETRIABLE = frozenset(Parse.Status.values) - {Parse.Status.VALID}


def change(run_id: int, moves: dict[str, str], **fields: Any) -> bool:
    """Move the run along the one of `moves` that starts at its state."""
    return any(
        Run.objects.filter(pk=run_id, state=before).update(state=after, **fields)
        for before, after in moves.items()
    )


def pause(run: Run, reason: str = "", user: Any = None) -> bool:
    """Send nothing more; what is in flight is still recorded."""
    moves = {State.RUNNING: State.PAUSING, State.QUEUED: State.PAUSED}
    changed = change(run.pk, moves, reason=reason)
    if changed and user is not None:
        record(run.project, user, "run paused", run.name)
    return changed


def cancel(run: Run, user: Any = None) -> bool:
    """Stop for good. Answers stay, and the run can still be resumed.

    Batches at the endpoint go on without the run, so a worker has to cancel them there: of a run
    that failed too, and of one whose endpoint did not end them the last time.
    """
    at_endpoint = has_open_batches(run.pk)
    waiting = State.CANCELLING if at_endpoint else State.CANCELLED
    moves = {
        State.RUNNING: State.CANCELLING,
        State.PAUSING: State.CANCELLING,
        State.QUEUED: waiting,
        State.PAUSED: waiting,
    }
    if at_endpoint:
        moves |= {State.FAILED: waiting, State.CANCELLED: waiting}
    with transaction.atomic():
        changed = change(run.pk, moves, reason="")
        unheld = Run.objects.filter(pk=run.pk, state=State.CANCELLING, holder="")
        if changed and unheld.update(lease_until=timezone.now() + SEND_AGAIN):
            send(run.pk)
        if changed:
            record(run.project, user, "run stopped", run.name)
    return changed


def resume(
    run: Run,
    user: Any = None,
    *,
    retry: Iterable[str] = (Parse.Status.ERROR,),
    max_tokens: int | None = None,
    budget: Decimal | None = None,
    background: bool = True,
) -> bool:
    """Queue the run again, for what has no answer yet and for the statuses in `retry`.

    Raises UserError for a recorded run, for a status that can't be asked again, and where the
    endpoint's address is no longer the one that the run was started with.
    """
    statuses = set(retry)
    check_resumable(run, statuses)
    if budget is not None:
        check_budget(run)
    fields: dict[str, Any] = {"reason": "", "holder": ""}
    fields["lease_until"] = timezone.now() + SEND_AGAIN
    if max_tokens is not None:
        fields["max_tokens"] = max_tokens
    if budget is not None:
        fields["budget_usd"] = budget
    with transaction.atomic():
        changed = change(run.pk, dict.fromkeys(RESUMABLE, State.QUEUED), **fields)
        if changed:
            last = run.calls.aggregate(last=Max("pk"))["last"] or 0
            retried = {"statuses": sorted(statuses), "through": last}
            merge(run, "parameters", lambda kept: {**kept, "retry": retried})
            raised = None if budget is None else str(budget)
            detail = {"retry": sorted(statuses), "max_tokens": max_tokens, "budget": raised}
            record(run.project, user, "run resumed", run.name, **detail)
            if background:
                send(run.pk)
    return changed


def check_resumable(run: Run, statuses: set[str]) -> None:
    if run.method == Method.IMPORTED:
        raise UserError(f"Run {run.name} was recorded elsewhere: there is nothing to ask again.")
    if unknown := statuses - RETRIABLE:
        raise UserError(
            f"{', '.join(sorted(unknown))} can't be asked again. Nothing was changed. "
            f"Choose from: {', '.join(sorted(RETRIABLE))}."
        )
    check_splitter(run)
    now = stored_url(run.endpoint)
    if now != run.base_url:
        raise UserError(
            f"Run {run.name} was started at {run.base_url}, and endpoint {run.endpoint} is now at "
            f"{now}. Answers of two judges are never mixed in a run: start a new run, or set the "
            "endpoint's address back."
        )


def check_budget(run: Run) -> None:
    if run.price is None:
        raise UserError(
            f"The price of {run.model} is unknown, so run {run.name} can't keep a budget. "
            "Nothing was changed. Start a new run with its price given."
        )


def raise_budget(run: Run, usd: Decimal, user: Any = None) -> None:
    check_budget(run)
    Run.objects.filter(pk=run.pk).update(budget_usd=usd)
    record(run.project, user, "run budget changed", run.name, usd=str(usd))


def send(run_id: int) -> None:
    """Wake a worker once the transaction is committed; the database stays the truth."""
    waking.wake_on_commit(waking.PUMP_RUN, run_id)


def settle(run_id: int, holder: str, moves: dict[str, str], **fields: Any) -> bool:
    """The holder's last word on a run: its end state, and the lease given back."""
    ended = Run.objects.filter(pk=run_id, holder=holder)
    fields |= {"holder": "", "lease_until": None, "finished_at": timezone.now()}
    return any(
        ended.filter(state=before).update(state=after, **fields) for before, after in moves.items()
    )


def make_primary(run: Run) -> None:
    """The first run that is done is its project's primary one until a person chooses another."""
    about_pairs = Run.objects.exclude(form=Form.POINTWISE)
    done = about_pairs.filter(pk=run.pk, state=State.DONE).exists()
    if done:
        Project.objects.filter(pk=run.project_id, primary_run=None).update(primary_run=run.pk)


def fail(run_id: int, holder: str, reason: str) -> bool:
    """Stopped by something that another attempt would most likely meet again."""
    moves = dict.fromkeys((State.RUNNING, State.PAUSING, State.CANCELLING), State.FAILED)
    return settle(run_id, holder, moves, reason=reason)
