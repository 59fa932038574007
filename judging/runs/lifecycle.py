"""The life of a run: its lease, the named changes of its state, and its workers' shares.

Every change is a conditional UPDATE, harmless when repeated. A lease must be renewed to be kept.

The run's holder leads: it plans, calls helpers, takes back what dead workers left, and ends the run
once it is alone. A helper whose leader is gone leads. SQLite lets one process write at a time, so
there a run has no helpers. A batch of calls changes nothing that two workers share: its money comes
from the worker's slice of the budget, and its examples are in the worker's stretches. Who locks a
share locks it before the run, so that no two wait for each other.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from judging.core import leases, waking
from judging.core.errors import UserError
from judging.core.models import Worker, merge
from judging.core.sql.statements import Changed, prepared, prepared_update
from judging.projects.access import need_texts, record_event, refuse_for_last, tell, version_of
from judging.projects.models import Project
from judging.runs.endpoints import LOCAL, stored_url
from judging.runs.forms.portia import check_splitter
from judging.runs.models import (
    Batch,
    Form,
    Method,
    Parse,
    Run,
    Share,
    Stretch,
    Verdict,
    subjects_of,
)

# Four renewals may fail before a run changes hands, and a run whose worker died waits no longer.
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
    # A resumed run keeps the moment at which it was first started.
    started = {"started_at": Coalesce("started_at", Now()), "finished_at": None, "resume_at": None}
    if LEASE.take(to_work_on, holder, state=Run.State.RUNNING, reason="", **started):
        return True
    # A stopped run needs a worker only if an endpoint still has batches of it.
    to_stop = ours.filter(state=Run.State.CANCELLING)
    return has_open_batches(run.pk) and LEASE.take(to_stop, holder, finished_at=None)


def renew(run_id: int, holder: str) -> bool:
    """Keep the leases for another while. False when another holder took the run over."""
    # A leader has a share as well, so both are renewed whatever the first says.
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
        # A run that somebody holds is cancelled by its holder, who sees the new state within a
        # second.
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
            # Only what failed up to now is repeated. A failure after the resume must not repeat for
            # ever.
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
        # Without the moment the sweep leaves the run alone, and a person reads why it waits.
        Run.objects.filter(pk=run.pk, state=State.PAUSED).update(resume_at=None, reason=str(error))
        return False


def check_resumable(run: Run, statuses: set[str]) -> None:
    if run.method == Method.IMPORTED:
        raise UserError(f"Run {run.name} was recorded elsewhere, so no sample can be repeated.")
    need_texts(run.project, "To go on with a run needs them.")
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
        # The lock leaves keys alone, so that calls which refer to the run can still be written.
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
    # Its share is given up at once, so that the leader takes back what it had.
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


ZERO = Decimal(0)
# A slice lasts for about this many batches, so that few of them touch the run.
BATCHES_A_SLICE = 8
# A worker with fewer calls in flight has little to do, so it doesn't need another one.
LEAST_PLACES = 8
# A run that waits for so long finds no free worker, and helpers make room for it.
PATIENCE = timedelta(seconds=3)
CALL_AGAIN_SECONDS = 10
BEFORE_THE_FIRST = -1
EXAMPLES_A_STRETCH = 50


def open_share(run_id: int, holder: str, places: int = 0) -> None:
    Share.objects.create(run_id=run_id, holder=holder, lease_until=LEASE.end(), places=places)


def helpers(run_id: int) -> list[Share]:
    """Return the shares of all living workers but the run's holder."""
    others = Share.objects.filter(run=run_id).exclude(holder=F("run__holder"))
    return [share for share in others if not is_lost(share)]


def is_lost(share: Share) -> bool:
    return leases.is_over(share.lease_until) or leases.is_dead(share.holder)


def reserve_usd(run_id: int, holder: str, total: Decimal) -> bool:
    """Reserve from the worker's slice. Call it in the transaction that claims.

    False if the slice is too small, the run isn't running, or the worker was given up for dead.
    """
    return bool(_reserved.count(run=run_id, holder=holder, total=total))


@prepared_update()
def _reserved(run: Any, holder: Any, total: Any) -> Changed:
    # A person may have lowered the budget since the slice was taken.
    kept = Q(budget_usd=None) | Q(budget_usd__gte=F("spent_usd") + F("reserved_usd"))
    running = Exists(Run.objects.filter(kept, pk=run, state=State.RUNNING))
    ours = Share.objects.filter(running, run=run, holder=holder, free_usd__gte=total)
    return ours, {"free_usd": F("free_usd") - total}


def take_slice(run_id: int, holder: str, total: Decimal) -> bool:
    """Exchange the worker's slice for one of at least `total`. False if that is over the budget."""
    with transaction.atomic():
        share = locked_share(run_id, holder)
        # A large slice first; near the end of a budget, exactly what the next batch needs.
        for amount in (BATCHES_A_SLICE * total, total) if share else ():
            more = amount - share.free_usd
            then = F("spent_usd") + F("reserved_usd") + more
            affordable = Q(budget_usd=None) | Q(budget_usd__gte=then)
            running = Run.objects.filter(affordable, pk=run_id, state=State.RUNNING)
            if running.update(reserved_usd=F("reserved_usd") + more):
                Share.objects.filter(pk=share.pk).update(free_usd=amount)
                return True
    return False


def settle_usd(run_id: int, holder: str, freed: Decimal, spent: Decimal = ZERO) -> None:
    """Put back into the slice what calls no longer reserve, and note what they cost."""
    if freed or spent:
        _settled.count(run=run_id, holder=holder, freed=freed, spent=spent)


@prepared_update()
def _settled(run: Any, holder: Any, freed: Any, spent: Any) -> Changed:
    # What was spent comes out of the reservation that has just been freed.
    sums = {"free_usd": F("free_usd") + freed - spent, "spent_usd": F("spent_usd") + spent}
    return Share.objects.filter(run=run, holder=holder), sums


def lock_share(run_id: int, holder: str) -> None:
    """Let nobody take over what the worker has claimed, until the transaction ends."""
    if connection.features.has_select_for_update:
        _locked.all(run=run_id, holder=holder)


@prepared
def _locked(run: Any, holder: Any) -> QuerySet[Share, Any]:
    ours = Share.objects.select_for_update().filter(run=run, holder=holder)
    return ours.values_list("pk")


def locked_share(run_id: int, holder: str) -> Share | None:
    return Share.objects.select_for_update().filter(run=run_id, holder=holder).first()


def hand_in(run_id: int, holder: str, *, slice_too: bool = False) -> None:
    """Count what the worker spent among the run's sums; with `slice_too`, give its slice back."""
    with transaction.atomic():
        share = locked_share(run_id, holder)
        if share is None:
            return
        kept = ZERO if slice_too else share.free_usd
        # The run counts a slice as reserved, whether calls used it or not.
        back = share.spent_usd + share.free_usd - kept
        Run.objects.filter(pk=run_id).update(
            spent_usd=F("spent_usd") + share.spent_usd, reserved_usd=F("reserved_usd") - back
        )
        Share.objects.filter(pk=share.pk).update(spent_usd=ZERO, free_usd=kept)


def close_share(run_id: int, holder: str) -> None:
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


def end_plan(run: Run, holder: str) -> bool:
    """Hand out no more stretches. False, and nothing changed, if somebody may still ask."""
    with transaction.atomic():
        ours = LEASE.held_by(Run.objects.filter(pk=run.pk, state=State.RUNNING), holder)
        # The update comes first: it locks the run, so that nobody takes a stretch during the other
        # checks.
        if not ours.update(planned_to=None) or helpers(run.pk) or run.stretches.exists():
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
            # Stretches are bounds rather than lists of ids, so an import meanwhile only adds to the
            # end.
            later = subjects_of(run).filter(number__gt=after).order_by("number")
            numbers = list(later.values_list("number", flat=True)[:EXAMPLES_A_STRETCH])
            if not numbers:
                break
            here = Run.objects.filter(ours, pk=run.pk, state=State.RUNNING, planned_to=after)
            # Two workers may have read the same place; the condition lets one of them have it.
            if here.update(planned_to=numbers[-1]):
                run.planned_to = numbers[-1]
                return Stretch.objects.create(
                    run=run, holder=holder, after=after, through=run.planned_to
                )
            now = Run.objects.filter(ours, pk=run.pk, state=State.RUNNING)
            moved_to = now.values_list("planned_to", flat=True).first()
            # Nobody moved the place, so the update failed for another reason: a pause, or a lost
            # share.
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


def allows_helpers() -> bool:
    return connection.vendor == "postgresql"


def may_share(run: Run) -> bool:
    """Return True if another worker can work on the run, and has something to do there.

    A limit a minute holds for all workers only if Redis counts for them.
    """
    counts = settings.CELERY_BROKER_URL.startswith(("redis:", "rediss:"))
    return (
        allows_helpers()
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
    since = timezone.now() + SEND_AGAIN - PATIENCE
    waiting = Run.objects.filter(state=State.QUEUED, lease_until__lt=since)
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
        serves = settings.RUNS in worker.served
        if serves and f"{worker.hostname}:{worker.pid}" not in at_work:
            # A busy worker leaves its messages in the queue.
            name = f"helper-{worker.name}"
            leases.wake_once(waking.PUMP_RUN, name, run.pk, CALL_AGAIN_SECONDS)


def join(run: Run, holder: str) -> bool:
    """Help the run's holder. False if this process works on the run, or nobody leads it."""
    run.refresh_from_db()
    at_work = {
        process_of(share_holder) for share_holder in run.shares.values_list("holder", flat=True)
    }
    led = run.state == State.RUNNING and run.holder and not leases.is_over(run.lease_until)
    # One process would share the same processor, so a second pump in it gains nothing.
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
    place = next((place for place, (other, _) in enumerate(rows) if other == holder), None)
    if place is None:
        return 0, len(rows)
    # These whole parts add up to the limit, whatever the number of workers.
    fair = run.concurrency * (place + 1) // len(rows) - run.concurrency * place // len(rows)
    mine = rows[place][1]
    if mine > fair:
        run.shares.filter(holder=holder).update(places=max(fair, in_use))
    elif mine < fair:
        with transaction.atomic():
            if locked_share(run.pk, holder) is None:
                return 0, len(rows)
            Run.objects.select_for_update(no_key=True).get(pk=run.pk)
            taken = run.shares.exclude(holder=holder).aggregate(n=Sum("places"))["n"] or 0
            mine = max(mine, min(fair, run.concurrency - taken))
            run.shares.filter(holder=holder).update(places=mine)
    return min(mine, fair), len(rows)


def lead(run: Run, holder: str) -> bool:
    """Lead the run in place of its holder, if that is gone. Nothing else changes."""
    working = (State.RUNNING, State.PAUSING, State.CANCELLING)
    gone = Run.objects.filter(leases.abandoned(run), pk=run.pk, state__in=working)
    return LEASE.take(gone, holder)


def hand_over(run: Run, holder: str) -> bool:
    """Leave the run to its helpers, one of whom leads it then. False if there are none."""
    if not helpers(run.pk):
        return False
    close_share(run.pk, holder)
    mine = LEASE.held_by(Run.objects.filter(pk=run.pk), holder)
    return bool(mine.update(**leases.FREE))
