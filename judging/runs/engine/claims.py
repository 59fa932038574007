"""Claiming calls before they are sent, their money, and what becomes of claims after a death.

Only the run's holder claims, while the run is running. Every call reserves its upper bound before
it is sent, and holds its cost afterwards. Spent is the sum of the calls' known costs, reserved the
sum of their reservations. A request that was cut off may have been billed, so its call keeps its
upper bound reserved, even if a later request of the same call brought the answer.

After a worker died, its calls are marked lost and its runs go on by themselves. A call that it
claimed but certainly never sent is free again, as if it had not been claimed.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from itertools import count
from pathlib import Path
from typing import Any, Self

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, Q, QuerySet, Sum
from django.utils import timezone

from judging.core import leases
from judging.core.leases import boot, is_dead
from judging.core.sql import statements
from judging.core.sql.statements import Changed, prepared, prepared_update
from judging.llm.client.messages import JudgeRequest
from judging.llm.prices import PriceSnapshot
from judging.runs import lifecycle
from judging.runs.models import Batch, Call, Run, place_of
from judging.runs.planning.agenda import Questioner
from judging.runs.samples import Ask

ZERO = Decimal(0)
# What the columns hold, so that a sum of rounded amounts equals the sum of the rows.
SMALLEST = Decimal("1e-10")


def rounded_up(usd: Decimal) -> Decimal:
    return usd.quantize(SMALLEST, ROUND_CEILING)


def reserve(run_id: int, holder: str, amounts: Sequence[Decimal | None]) -> int:
    """Reserve for as many of the first calls as the budget holds, and return their number.

    The UPDATE only succeeds for the run's holder while the run is running. This also stops a worker
    that was given up for dead. Call it in the transaction that claims.
    """
    n = len(amounts)
    while n:
        total = sum((amount or ZERO for amount in amounts[:n]), ZERO)
        if _reserved.count(run=run_id, holder=holder, total=total):
            return n
        n //= 2
    return 0


@prepared_update()
def _reserved(run: Any, holder: Any, total: Any) -> Changed:
    affordable = Q(budget_usd=None) | Q(budget_usd__gte=F("spent_usd") + F("reserved_usd") + total)
    ours = Run.objects.filter(affordable, pk=run, holder=holder, state=Run.State.RUNNING)
    return ours, {"reserved_usd": F("reserved_usd") + total}


def reconcile(run_id: int, released: Decimal, spent: Decimal) -> None:
    _reconciled.count(run=run_id, released=released, spent=spent)


@prepared_update()
def _reconciled(run: Any, released: Any, spent: Any) -> Changed:
    sums = {"reserved_usd": F("reserved_usd") - released, "spent_usd": F("spent_usd") + spent}
    return Run.objects.filter(pk=run), sums


def recount(run_id: int) -> None:
    """Set spent and reserved from the calls themselves."""
    sums = Call.objects.filter(run_id=run_id).aggregate(
        spent=Sum("usd"), reserved=Sum("reserved_usd")
    )
    Run.objects.filter(pk=run_id).update(
        spent_usd=sums["spent"] or ZERO, reserved_usd=sums["reserved"] or ZERO
    )


NO_ANSWER = "The batch ended without this answer. It may have been billed."
Place = tuple[int | None, int | None, str]
PLACE = ("example_id", "point_item_id", "part")


@dataclass(frozen=True, slots=True)
class Claim:
    """A call that this holder may send, and what it reserves until it is recorded."""

    call: Call
    ask: Ask
    request: JudgeRequest
    reserved: Decimal | None


def claim(
    run_id: int,
    holder: str,
    asks: Sequence[Ask],
    questioner: Questioner,
    price: PriceSnapshot | None,
    batch: Batch | None = None,
) -> list[Claim]:
    """Claim as many of the first asks as the budget holds; none if the run has another holder.

    If another holder made a call in the meantime its `seq` is taken: the unique constraint on
    (run, example, part, seq) then refuses the whole transaction.
    """
    requests = [questioner.request(ask.subject, ask.part, len(ask.slots)) for ask in asks]
    upper_bounds = [upper_bound(request, price) for request in requests]
    now = timezone.now()
    with transaction.atomic():
        affordable = reserve(run_id, holder, upper_bounds)
        seqs = next_seqs(run_id, asks[:affordable])
        calls = [
            statements.new(
                Call,
                run_id=run_id,
                **place_of(ask.subject),
                part=ask.part,
                seq=next(seqs[*place(ask), ask.part]),
                slots=list(ask.slots),
                attempt=ask.attempt,
                holder=holder,
                claimed_at=now,
                reserved_usd=reserved,
                batch_id=batch.pk if batch else None,
            )
            for ask, reserved in zip(asks[:affordable], upper_bounds[:affordable], strict=True)
        ]
        statements.insert(Call, calls)
    return [
        Claim(call, ask, request, call.reserved_usd)
        for call, ask, request in zip(calls, asks, requests, strict=False)
    ]


def next_seqs(run_id: int, asks: Sequence[Ask]) -> defaultdict[Place, Iterator[int]]:
    """Return for each part of a subject the numbers of its next calls."""
    seqs: defaultdict[Place, Iterator[int]] = defaultdict(count)
    places = {place(ask) for ask in asks}
    examples = [example for example, _ in places if example is not None]
    items = [item for _, item in places if item is not None]
    taken = _last_of_examples.all(run=run_id, ids=examples) if examples else []
    taken += _last_of_items.all(run=run_id, ids=items) if items else []
    taken += _last_of_inputs.all(run=run_id) if (None, None) in places else []
    for *of, seq in taken:
        seqs[tuple(of)] = count(seq + 1)
    return seqs


@prepared
def _last_of_examples(run: Any, ids: list[int]) -> QuerySet[Call, Any]:
    return _last(Call.objects.filter(run=run, example__pk__in=ids))


@prepared
def _last_of_items(run: Any, ids: list[int]) -> QuerySet[Call, Any]:
    return _last(Call.objects.filter(run=run, point_item__pk__in=ids))


@prepared
def _last_of_inputs(run: Any) -> QuerySet[Call, Any]:
    """Calls about content-free inputs, which belong to no example."""
    return _last(Call.objects.filter(run=run, example=None, point_item=None))


def _last(calls: QuerySet[Call]) -> QuerySet[Call, Any]:
    return calls.order_by().values(*PLACE).annotate(last=Max("seq")).values_list(*PLACE, "last")


def place(ask: Ask) -> tuple[int | None, int | None]:
    fields = place_of(ask.subject)
    return fields.get("example_id"), fields.get("point_item_id")


def upper_bound(request: JudgeRequest, price: PriceSnapshot | None) -> Decimal | None:
    if price is None:
        return None
    most = price.reserve(request.prompt_tokens, request.n, request.max_tokens)
    return rounded_up(most)


def lose(run_id: int, holder: str, claims: Sequence[Claim]) -> None:
    """Mark claims lost whose answers never came. They may be billed, so they stay reserved."""
    with transaction.atomic():
        ids = [claim.call.pk for claim in claims]
        ours = Call.objects.filter(pk__in=ids, holder=holder, state=Call.State.CLAIMED)
        ours.update(state=Call.State.LOST, finished_at=timezone.now(), error=NO_ANSWER)


def give_back(run_id: int, holder: str, claims: Sequence[Claim]) -> None:
    """Delete claims that were never sent, or were refused each time."""
    with transaction.atomic():
        ids = [claim.call.pk for claim in claims]
        ours = Call.objects.filter(pk__in=ids, holder=holder, state=Call.State.CLAIMED)
        ours.delete()
        recount(run_id)


FOLDER = "departures"


class SentCalls:
    """The calls that one holder began to send, in a file that a kill leaves behind.

    Calls are claimed some time before they are sent, and each is written here before its first
    request, since a transaction for each would cost more than the call. After the holder's death
    the file tells which claims were never sent and may be freed. A crash of the machine may lose
    lines that a kill leaves, so a file counts until the next boot only. If a line can't be written
    the file is removed, since then nothing is certain.
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


def calls_sent_by(run_id: int, holder: str) -> set[int] | None:
    """Return the calls that a dead holder began to send; None if that is unknown."""
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
        # A file that can't be removed can be emptied, and an empty file tells nothing.
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
    sent = calls_sent_by(run.pk, run.holder)
    with transaction.atomic():
        if not lifecycle.take(run, holder):
            return False
        free_unsent(run, sent)
        lose_claims(run.pk)
    return True


def free_unsent(run: Run, sent: set[int] | None) -> None:
    """Delete the claims that the run's former holder never sent."""
    if sent is None:
        return
    theirs = Call.objects.filter(
        run_id=run.pk, state=Call.State.CLAIMED, batch=None, holder=run.holder
    )
    claimed = theirs.values_list("pk", flat=True)
    theirs.filter(pk__in=set(claimed) - sent).delete()


def lose_claims(run_id: int) -> int:
    """Mark claims lost whose holder is gone. They may be billed, so they stay reserved.

    Calls in a batch are not lost: the endpoint keeps their answers until they are collected.
    """
    lost = Call.objects.filter(run_id=run_id, state=Call.State.CLAIMED, batch=None).update(
        state=Call.State.LOST,
        finished_at=timezone.now(),
        error="The worker stopped before the answer was recorded. It may have been billed.",
    )
    recount(run_id)
    return lost


def recover(run: Run) -> bool:
    """Move a run that lost its holder to its next state; a running run is queued again."""
    after = AFTER_A_DEATH.get(State(run.state))
    if after is None:
        return False
    if after == State.CANCELLED and lifecycle.has_open_batches(run.pk):
        return send_again(run)
    sent = calls_sent_by(run.pk, run.holder)
    with transaction.atomic():
        ownerless = Run.objects.filter(leases.abandoned(run), pk=run.pk, state=run.state)
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
    """Send abandoned runs to workers again, and return their number. Workers call it every 15 s."""
    held = Run.objects.filter(state__in=AFTER_A_DEATH)
    recovered = sum(recover(run) for run in held)
    waiting = Run.objects.filter(leases.over(), state=State.QUEUED)
    return recovered + sum(send_again(run) for run in waiting)


def send_again(run: Run) -> bool:
    """Wake a worker for a waiting run whose message or worker was lost."""
    with transaction.atomic():
        same = Run.objects.filter(leases.over(), pk=run.pk, state=run.state, holder=run.holder)
        if not same.update(holder="", lease_until=timezone.now() + lifecycle.SEND_AGAIN):
            return False
        lifecycle.send(run.pk)
    return True
