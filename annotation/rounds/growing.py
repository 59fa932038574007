"""Long work on a round: writing its items and slots, and settling what follows from them.

A round of 60,000 items is 240,000 rows. They are written in many short transactions, between which
votes and judges' answers are stored. Nobody sees them until one last short transaction shows them
all. The plan is stored first, so that after a kill a worker goes on where the work stopped.

Closing writes nothing new, but a round is closed at once and its items follow. If that is
cancelled, the round is what it was before, and the items follow back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from annotation.models import Item, Round, RoundWork, RoutingScores, Selection, Slot, WorkPart
from annotation.queue.settling import (
    Advance,
    count_all_earlier_votes,
    count_earlier_votes,
    hand_back,
    no_news,
    settle_all,
    settle_skipped,
)
from annotation.rounds.selecting import Ranked
from judging.core import leases, waking
from judging.core.errors import UserError
from judging.core.leases import Chunks, Lease, TakenOver, delete_rows, in_chunks, new_holder
from judging.core.processes import stop_requested
from judging.core.sql.statements import insert_columns, rows_came
from judging.dataset.models import Example
from judging.projects import access

Kind, State = RoundWork.Kind, RoundWork.State
LEASE = Lease(timedelta(seconds=60))
# Rows of the plan that are stored, and read, together.
PART = 1000
# A page does smaller work at once, and leaves larger work to a worker.
AT_ONCE = 5000
NOTHING_TO_CANCEL = "Nothing that can be cancelled is under way now."
# What the audit trail calls work whose end is an event.
_EVENTS = {
    Kind.OPEN: "round opened",
    Kind.EXTEND: "cut extended",
    Kind.VOTES: "votes raised",
    Kind.SELECT: "round selected by what it learned",
}

# An item to be written: selection, example, rank, BPDE, routing score, place in the round's
# order, place in the audit, and the chance with which it was drawn.
Row = tuple[int, int, int | None, float | None, float | None, float, int | None, float]


@dataclass(frozen=True)
class BegunWork:
    """Work that was begun, and the parts of its plan that are not stored yet.

    n_rows: how much there is to write.
    holder: this process, until it leaves the work to another one.
    """

    key: int
    n_rows: int
    holder: str
    parts: Sequence[WorkPart] = ()


def rows_of(
    selection: Selection, ranked: Sequence[Ranked], positions: Sequence[float]
) -> list[Row]:
    """Return the items of one selection, at these places in the round's order."""
    share = 1.0
    if selection.kind in Selection.RANDOM:
        share = len(ranked) / selection.frame_size if selection.frame_size else 0.0
    audited = selection.kind == Selection.Kind.AUDIT
    return [
        (
            selection.pk,
            example.example_id,
            example.rank or None,
            example.bpde,
            example.routing_score,
            place,
            number if audited else None,
            share,
        )
        for number, (example, place) in enumerate(zip(ranked, positions, strict=True))
    ]


def begin(
    round_: Round,
    kind: RoundWork.Kind,
    user: AbstractUser | None,
    rows: Sequence[Row] = (),
    *,
    n_total: int | None = None,
    state: RoundWork.State = State.WRITING,
    learned: dict[str, Any] | None = None,
    **plan: Any,
) -> BegunWork:
    """Record that the work is to be done, in the transaction that decided it.

    Raises UserError if the round is still being worked on.
    """
    holder = new_holder()
    try:
        with transaction.atomic():
            work = RoundWork.objects.create(
                round=round_, kind=kind, state=state, user=user, plan=plan,
                n_total=len(rows) if n_total is None else n_total,
                holder=holder, lease_until=LEASE.end(),
            )  # fmt: skip
    except IntegrityError:
        raise still_at_work(round_) from None
    parts = [
        WorkPart(work=work, start=start, content=rows[start : start + PART])
        for start in range(0, len(rows), PART)
    ]
    if learned is not None:
        # First, since the last part shows that the plan is whole.
        parts.insert(0, WorkPart(work=work, start=-1, content=learned))
    return BegunWork(work.pk, work.n_total, holder, parts)


def still_at_work(round_: Round) -> UserError:
    work = current_work(round_)
    what = work.get_kind_display() if work else "another change"
    return UserError(
        f"Round {round_.number} is not ready for this: {what} is still under way. Nothing was "
        "changed. Wait until it is done, or cancel it."
    )


def current_work(round_: Round) -> RoundWork | None:
    """Return the work on the round that has not ended."""
    return round_.works.exclude(state=State.DONE).first()


def do(planned: BegunWork, advance: Advance = no_news, *, background: bool = False) -> bool:
    """Do the work now, or leave it to a worker if there is much of it.

    Returns False if it was left to a worker. Raises UserError if somebody cancelled it meanwhile.
    """
    _store_plan(planned)
    if background and planned.n_rows > AT_ONCE:
        mine = LEASE.held_by(RoundWork.objects.filter(pk=planned.key), planned.holder)
        mine.update(**leases.FREE)
        waking.wake_on_commit(waking.WORK_ON_ROUND, planned.key)
        return False
    try:
        _carry_out(planned.key, planned.holder, advance)
    except TakenOver:
        raise UserError("Somebody cancelled this meanwhile. Nothing was changed.") from None
    return True


def _store_plan(planned: BegunWork) -> None:
    """Store what is to be written, so that another process can go on."""
    rest, chunks = list(planned.parts), Chunks()
    mine = LEASE.held_by(RoundWork.objects.filter(pk=planned.key), planned.holder)
    while rest:
        size = max(1, chunks.size // PART)
        with chunks.transaction():
            LEASE.renew(mine, planned.holder)
            WorkPart.objects.bulk_create(rest[:size])
        rest = rest[size:]


def work_on(key: int, advance: Advance = no_news) -> bool:
    """Go on with work that nobody does. Returns False if somebody does, or if it has ended."""
    work = RoundWork.objects.exclude(state=State.DONE).filter(pk=key).first()
    if work is None:
        return False
    holder = new_holder()
    same = LEASE.unchanged(RoundWork.objects.filter(pk=key), work.holder, work.lease_until)
    if not LEASE.take(same.filter(leases.abandoned(work)), holder):
        return False
    try:
        _carry_out(key, holder, advance)
    except TakenOver:
        return False
    return True


def wake_unfinished() -> None:
    unfinished = RoundWork.objects.exclude(state=State.DONE)
    leases.wake_abandoned(unfinished, waking.WORK_ON_ROUND, "round-work")


def cancel(round_: Round, user: AbstractUser | None, *, background: bool = False) -> None:
    """Undo work that is under way. What was there before it stays as it is.

    A round that was being closed is open again, or paused if it was.
    """
    work = current_work(round_)
    if work is None or not work.is_cancellable:
        raise UserError(NOTHING_TO_CANCEL)
    same = RoundWork.objects.filter(pk=work.pk, state=work.state)
    holder = new_holder()
    fields = {"state": State.CANCELLING, "n_done": 0}
    with transaction.atomic():
        if work.kind == Kind.CLOSE:
            access.need_texts(round_.project, "People can't label pairs without them.")
            # Locked before the work, as `close` and `reopen` do.
            before = {"state": work.plan.get("before", Round.State.OPEN), "closed_at": None}
            Round.objects.filter(pk=round_.pk, state=Round.State.CLOSED).update(**before)
            round_.refresh_from_db(fields=list(before))
        # A process that is still at it finds that the row is no longer its own, and leaves.
        if not LEASE.take(same, holder, **fields):
            raise UserError(NOTHING_TO_CANCEL)
        subject = f"round {round_.number}"
        access.record_event(round_.project, user, "change cancelled", subject, what=work.kind)
    n_rows = work.n_total if work.kind == Kind.CLOSE else work.n_done
    do(BegunWork(work.pk, n_rows, holder), background=background)


def _carry_out(key: int, holder: str, advance: Advance) -> None:
    work = RoundWork.objects.select_related("round__project", "round__run", "user").get(pk=key)
    ours = _Ours(work, holder)
    try:
        if work.state == State.WRITING and not _is_planned_whole(work):
            ours.move(State.CANCELLING)
        if work.state == State.WRITING:
            advance(work.n_done)
            (_write_slots if work.kind == Kind.VOTES else _write_items)(ours, advance)
            with transaction.atomic():
                ours.move(State.SETTLING)
                _show(work)
        if work.state == State.CANCELLING and work.kind != Kind.CLOSE:
            _remove(ours)
            if work.kind == Kind.OPEN:
                # The work goes with it.
                work.round.delete()
                return
        else:
            _settle(ours)
        work.parts.all().delete()
        ours.move(State.DONE, plan={}, **leases.FREE)
    except TakenOver:
        raise
    except BaseException:
        # Free at once, so that nobody waits for the lease to run out.
        LEASE.held_by(RoundWork.objects.filter(pk=key), holder).update(**leases.FREE)
        raise


class _Ours:
    """The work while this process does it."""

    def __init__(self, work: RoundWork, holder: str) -> None:
        self.work, self.holder = work, holder

    def renew(self, **fields: Any) -> None:
        """Keep the work. Raises TakenOver, or UserError if the process has to stop."""
        if stop_requested.is_set():
            raise UserError("The process was stopped. A worker goes on later.")
        same = RoundWork.objects.filter(pk=self.work.pk, state=self.work.state)
        if not LEASE.renew(same, self.holder, **fields):
            raise TakenOver

    def move(self, state: RoundWork.State, **fields: Any) -> None:
        same = RoundWork.objects.filter(pk=self.work.pk, state=self.work.state)
        if not LEASE.held_by(same, self.holder).update(state=state, **fields):
            raise TakenOver
        self.work.state = state


def _is_planned_whole(work: RoundWork) -> bool:
    """Return False if the process was killed before all of the plan was stored."""
    if work.kind == Kind.VOTES:
        return True
    last = work.parts.order_by("-start").first()
    stored = 0 if last is None or last.start < 0 else last.start + len(last.content)
    return stored == work.n_total


def _write_items(ours: _Ours, advance: Advance) -> None:
    work, chunks = ours.work, Chunks(Item)
    while rows := _next_rows(work, chunks.size):
        with chunks.transaction():
            ours.renew(n_done=work.n_done + len(rows))
            _insert_items(work.round, rows)
        work.n_done += len(rows)
        advance(len(rows))


def _next_rows(work: RoundWork, size: int) -> list[Row]:
    if work.n_done >= work.n_total:
        return []
    part = work.parts.filter(start__gte=0, start__lte=work.n_done).order_by("-start").first()
    rows: list[Row] = part.content[work.n_done - part.start :][:size]
    return rows


def _insert_items(round_: Round, rows: Sequence[Row]) -> None:
    # Examples may have gone with an import that was undone. Locked, so that no more of them go.
    wanted = Example.objects.filter(pk__in=[row[1] for row in rows]).order_by("pk")
    there = set(wanted.select_for_update(no_key=True).values_list("pk", flat=True))
    columns = (
        "selection_id", "example_id", "rank", "bpde", "routing_score", "position", "audit_order",
        "probability",
    )  # fmt: skip
    if rows := [row for row in rows if row[1] in there]:
        values = dict(zip(columns, zip(*rows, strict=True), strict=True))
        keys = insert_columns(Item, len(rows), round_id=round_.pk, **values)
        items = list(zip(keys, values["position"], strict=True))
        _insert_slots(round_, items, 0, round_.votes_per_item)


def _insert_slots(round_: Round, items: Sequence[tuple[int, float]], first: int, end: int) -> None:
    if slots := [(*item, index) for item in items for index in range(first, end)]:
        values = dict(zip(("item_id", "position", "index"), zip(*slots, strict=True), strict=True))
        insert_columns(Slot, len(slots), round_id=round_.pk, **values)


def _write_slots(ours: _Ours, advance: Advance) -> None:
    """Write the slots of more votes. They are seen once the round asks for as many votes."""
    work, chunks = ours.work, Chunks()
    before, votes = work.plan["before"], work.plan["votes"]
    items = Item.objects.filter(round=work.round).order_by("pk").values_list("pk", "position")
    while chunk := list(items.filter(pk__gt=work.plan.get("last", 0))[: chunks.size]):
        plan = work.plan | {"last": chunk[-1][0]}
        with chunks.transaction():
            ours.renew(n_done=work.n_done + len(chunk), plan=plan)
            _insert_slots(work.round, chunk, before, votes)
        work.n_done, work.plan = work.n_done + len(chunk), plan
        advance(len(chunk))


def _show(work: RoundWork) -> None:
    """Show everything that was written, in the transaction in which the writing ends."""
    round_, plan = work.round, work.plan
    changed: dict[str, Any] = plan.get("round", {})
    for selection in Selection.every.filter(round=round_, ready=False):
        selection.n_items = Item.every.filter(selection=selection).count()
        selection.ready = True
        selection.save(update_fields=["n_items", "ready"])
    if work.kind == Kind.SELECT:
        learned = work.parts.get(start=-1).content
        RoutingScores.objects.create(round=round_, **learned)
        round_.selections.filter(items=None).delete()
    # Half a round is not in `objects`.
    Round.every.filter(pk=round_.pk).update(**changed)
    for name, value in changed.items():
        setattr(round_, name, value)
    slots = work.n_total * (plan["votes"] - plan["before"] if work.kind == Kind.VOTES else 1)
    rows_came(slots * (1 if work.kind == Kind.VOTES else round_.votes_per_item), Item, Slot)
    detail = plan.get("event", {})
    access.record_event(
        round_.project, work.user, _EVENTS[work.kind], f"round {round_.number}", **detail
    )


def _settle(ours: _Ours) -> None:
    """Do what follows, which may be done twice: count earlier votes, and settle the items."""
    work, round_ = ours.work, ours.work.round
    items = Item.objects.filter(round=round_)
    # In practice, an item without an empty slot is open too.
    reopened = items if round_.is_practice else items.filter(slots__vote=None).distinct()

    def still_ours(rows: int) -> None:
        ours.renew()

    if work.kind == Kind.CLOSE and work.state == State.SETTLING:
        _settle_counted(ours, items.exclude(state=Item.State.COMPLETE))
        # Last, so that people keep what they have in hand if the closing is cancelled.
        with transaction.atomic():
            ours.renew()
            hand_back(Slot.objects.filter(round=round_))
        count_earlier_votes(round_, advance=still_ours)
    elif work.kind == Kind.VOTES:
        # What was complete opens again.
        settle_all(items.exclude(state=Item.State.OPEN), still_ours)
        count_earlier_votes(round_, advance=still_ours)
        settle_skipped(items)
    else:
        # After it is shown: a vote that was given meanwhile didn't see the new items.
        count_all_earlier_votes(round_, still_ours)
        if work.kind in (Kind.CLOSE, Kind.REOPEN):
            _settle_counted(ours, reopened)


def _settle_counted(ours: _Ours, items: QuerySet[Item]) -> None:
    """Settle these items, and write down with each chunk how many of them are settled.

    The chunk's transaction holds the work from its start on. So nobody cancels in it, and no item
    is settled by what the round no longer is.
    """
    work = ours.work
    work.n_done = 0
    ours.renew(n_done=0, n_total=items.count())

    def settled(rows: int) -> None:
        work.n_done += rows
        ours.renew(n_done=work.n_done)

    settle_all(items, settled)


def _remove(ours: _Ours) -> None:
    """Remove what was written and never seen."""
    round_ = ours.work.round

    def slots(keys: list[int]) -> None:
        ours.renew()
        delete_rows(Slot, pk__in=keys)

    def items(keys: list[int]) -> None:
        ours.renew()
        delete_rows(Slot, item__in=keys)
        delete_rows(Item, pk__in=keys)

    if ours.work.kind == Kind.VOTES:
        before = ours.work.plan["before"]
        in_chunks(Slot.objects.filter(round=round_, vote=None, index__gte=before), slots)
        return
    hidden = Selection.every.filter(round=round_, ready=False)
    in_chunks(Item.every.filter(selection__in=hidden.values("pk")), items, PART)
    hidden.delete()
