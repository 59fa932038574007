"""The life of a run: its lease, the named changes of its state, and the project's primary run.

Every change is a conditional UPDATE, harmless when repeated. A lease must be renewed to be kept.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Max, Q
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from judging.core import leases, waking
from judging.core.errors import UserError
from judging.core.queries import merge
from judging.projects.access import record_event, refuse_for_last, tell, version_of
from judging.projects.models import Project
from judging.runs.endpoints import stored_url
from judging.runs.forms.portia import check_splitter
from judging.runs.models import Batch, Form, Method, Parse, Run, Share, Verdict

LEASE = leases.Lease(timedelta(seconds=20))
RENEW_SECONDS = 5.0
# A queued run has no holder; its `lease_until` says when to wake a worker again.
SEND_AGAIN = timedelta(seconds=60)


def has_open_batches(run_id: int) -> bool:
    """Return True if an endpoint may hold calls of the run, so that stopping needs a worker."""
    return Batch.objects.filter(run=run_id, collected_at=None).exists()


def take(run: Run, holder: str) -> bool:
    """Make `holder` the only one who may claim calls of the run. False when another one is."""
    ours = Run.objects.filter(leases.abandoned(run), pk=run.pk)
    to_work_on = ours.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING))
    started = {"started_at": Coalesce("started_at", Now()), "finished_at": None, "resume_at": None}
    if LEASE.take(to_work_on, holder, state=Run.State.RUNNING, reason="", **started):
        return True
    to_stop = ours.filter(state=Run.State.CANCELLING)
    return has_open_batches(run.pk) and LEASE.take(to_stop, holder, finished_at=None)


def renew(run_id: int, holder: str) -> bool:
    """Keep the leases for another while. False when another holder took the run over."""
    leads = LEASE.renew(Run.objects.filter(pk=run_id), holder)
    return LEASE.renew(Share.objects.filter(run=run_id), holder) or leads


def kept(run_id: int, holder: str) -> AbstractContextManager[None]:
    """Renew the lease from a thread of its own, whatever else takes long."""
    return leases.kept(lambda: renew(run_id, holder), RENEW_SECONDS, f"run {run_id}")


State = Run.State

RESUMABLE = (State.PAUSED, State.CANCELLED, State.DONE, State.FAILED)
# Statuses that a person may have repeated. Every resume repeats errors.
RETRIABLE = frozenset(Parse.Status.values) - {Parse.Status.VALID}


def change(run_id: int, moves: dict[str, str], **fields: Any) -> bool:
    """Move the run from its state to the next one by `moves`. False if there is no such move."""
    return any(
        Run.objects.filter(pk=run_id, state=before).update(state=after, **fields)
        for before, after in moves.items()
    )


def pause(run: Run, reason: str = "", user: Any = None, *, until: datetime | None = None) -> bool:
    """Pause: nothing more is sent, and what is in flight is still recorded.

    Args:
        until: When a worker resumes the run by itself; None if a person has to.
    """
    moves = {State.RUNNING: State.PAUSING, State.QUEUED: State.PAUSED}
    with transaction.atomic():
        changed = change(run.pk, moves, reason=reason, resume_at=until)
        if changed and user is not None:
            record_event(run.project, user, "run paused", run.name)
        if changed:
            tell_of(run.pk)
    return changed


def cancel(run: Run, user: Any = None) -> bool:
    """Stop the run. Answers are kept, and the run can still be resumed.

    Batches at the endpoint go on without the run, so a worker has to cancel them there. This
    includes runs that failed, and runs whose endpoint did not end its batches the last time.
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
        changed = change(run.pk, moves, reason="", resume_at=None)
        unheld = Run.objects.filter(pk=run.pk, state=State.CANCELLING, holder="")
        if changed and unheld.update(lease_until=timezone.now() + SEND_AGAIN):
            send(run.pk)
        if changed:
            record_event(run.project, user, "run stopped", run.name)
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

    Raises UserError for a recorded run, for a status that can't be asked again, and if the
    endpoint's address has changed since the run was started.
    """
    statuses = set(retry)
    check_resumable(run, statuses)
    if budget is not None:
        check_budget(run)
    fields: dict[str, Any] = {"reason": "", "holder": "", "resume_at": None}
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
            record_event(run.project, user, "run resumed", run.name, **detail)
            if background:
                send(run.pk)
    return changed


def resume_when_due(run: Run) -> bool:
    """Resume a run whose endpoint's limit of a day has ended. If it can't go on, say why."""
    try:
        return resume(run)
    except UserError as error:
        Run.objects.filter(pk=run.pk, state=State.PAUSED).update(resume_at=None, reason=str(error))
        return False


def check_resumable(run: Run, statuses: set[str]) -> None:
    if run.method == Method.IMPORTED:
        raise UserError(f"Run {run.name} was recorded elsewhere, so no sample can be repeated.")
    if unknown := statuses - RETRIABLE:
        raise UserError(
            f"{', '.join(sorted(unknown))} can't be repeated. Nothing was changed. "
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


def raise_budget(run: Run, usd: Decimal, user: Any = None, *, made_for: str | None = None) -> None:
    """Change the budget.

    Args:
        made_for: The budget that the form showed, by `version_of`. Raises Overtaken if it is
            another by now.
    """
    check_budget(run)
    with transaction.atomic():
        now = Run.objects.select_for_update(no_key=True).get(pk=run.pk)
        if made_for not in (None, version_of(now.budget_usd)) and now.budget_usd != usd:
            events = run.project.audit_events.filter(subject=run.name)
            changes = Q(action="run budget changed") | Q(action="run resumed")
            refuse_for_last(events.filter(changes), user, lambda _: "changed the budget")
        Run.objects.filter(pk=run.pk).update(budget_usd=usd)
        record_event(run.project, user, "run budget changed", run.name, usd=str(usd))


def send(run_id: int) -> None:
    """Wake a worker after the commit. If the message is lost, a sweep finds the run."""
    waking.wake_on_commit(waking.PUMP_RUN, run_id)


def settle(run_id: int, holder: str, moves: dict[str, str], **fields: Any) -> bool:
    """Give the run its end state and return the lease; only its holder can."""
    ended = LEASE.held_by(Run.objects.filter(pk=run_id), holder)
    fields |= leases.FREE | {"finished_at": timezone.now()}
    with transaction.atomic():
        changed = any(
            ended.filter(state=before).update(state=after, **fields)
            for before, after in moves.items()
        )
        if changed:
            tell_of(run_id)
    return changed


_TOLD = {State.DONE: "run.done", State.PAUSED: "run.paused", State.FAILED: "run.failed"}


def tell_of(run_id: int) -> None:
    """Tell webhooks of the state that the run has now, in the transaction that gave it."""
    run = Run.objects.select_related("project").get(pk=run_id)
    event = _TOLD.get(State(run.state))
    if event is not None:
        names = ("name", "endpoint", "model", "state", "reason")
        data = {"run": run.number} | {name: getattr(run, name) for name in names}
        tell(run.project, event, lambda: data)


def make_primary(run: Run) -> None:
    """Make the first finished run its project's primary run, until a person chooses another.

    Final labels, results and exports are about the primary run. A run over a part of the examples
    gives way to the first one over all of them.
    """
    about_pairs = Run.objects.exclude(form=Form.POINTWISE)
    done = about_pairs.filter(pk=run.pk, state=State.DONE).exists()
    if done:
        free = Q(primary_run=None)
        chosen = run.project.audit_events.filter(action="primary run chosen")
        if run.frame_id is None and not chosen.exists():
            free |= Q(primary_run__frame__isnull=False)
        Project.objects.filter(free, pk=run.project_id).update(primary_run=run.pk)


def fail(run: Run, holder: str, reason: str) -> None:
    """Fail the run for a reason that another attempt would most likely meet again.

    While another worker leads the run, it is paused instead.
    """
    moves = dict.fromkeys((State.RUNNING, State.PAUSING, State.CANCELLING), State.FAILED)
    shared = Share.objects.filter(run=run, holder=holder).update(lease_until=None)
    if not settle(run.pk, holder, moves, reason=reason) and shared:
        pause(run, reason)


def choose_primary(run: Run, user: Any, *, made_for: str | None = None) -> bool:
    """Make this the primary run; False if it is. Raises UserError if it judged no example.

    Args:
        made_for: The number of the primary run that the form showed. Raises Overtaken if a person
            chose another since.
    """
    judged = Verdict.objects.filter(run=run, state=Verdict.State.JUDGED)
    if run.ranked_at is None or not judged.exists():
        raise UserError(f"Run {run.name} has no verdicts yet. Nothing was changed.")
    with transaction.atomic():
        project = Project.objects.select_for_update(no_key=True).get(pk=run.project_id)
        if made_for not in (None, str(project.primary_run_id), str(run.pk)):
            events = project.audit_events.filter(action="primary run chosen")
            refuse_for_last(events, user, lambda last: f"chose {last.subject} as primary run")
        others = Project.objects.filter(pk=run.project_id).exclude(primary_run=run)
        changed = others.update(primary_run=run)
        if changed:
            record_event(run.project, user, "primary run chosen", run.name)
    return bool(changed)
