"""A run's money. Every call holds its upper bound before it is sent, and its cost afterwards.

Invariant: spent is the sum of the calls' known costs, reserved the sum of what calls hold. A
request that was cut off may have been billed, so its call keeps holding its upper bound, also
where a later request of the same call brought the answer.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from itertools import count

from django.db import connection, transaction
from django.db.models import Sum
from django.utils import timezone

from judging.core.sql import rows
from judging.llm.client.messages import JudgeRequest
from judging.llm.prices import PriceSnapshot
from judging.runs.models import Batch, Call, Run
from judging.runs.planning.questions import Questioner
from judging.runs.slots import Ask, place_of

ZERO = Decimal(0)
# What the columns hold; sums of rounded amounts stay equal to the rounded rows.
SMALLEST = Decimal("1e-10")

# Both are asked for with each batch, and the ORM would take longer than the database for them.
RESERVE = """
    UPDATE judging_run SET reserved_usd = reserved_usd + %s
    WHERE id = %s AND holder = %s AND state = 'running'
    AND (budget_usd IS NULL OR budget_usd >= spent_usd + reserved_usd + %s)
"""
RECONCILE = """
    UPDATE judging_run SET reserved_usd = reserved_usd - %s, spent_usd = spent_usd + %s
    WHERE id = %s
"""


def rounded_up(usd: Decimal) -> Decimal:
    return usd.quantize(SMALLEST, ROUND_CEILING)


def reserve(run_id: int, holder: str, amounts: Sequence[Decimal | None]) -> int:
    """Reserve for as many of the first calls as fit; the number of them.

    The UPDATE holds only for the run's holder while the run is running, which also fences off
    a worker that was given up for dead. Call it in the transaction that claims.
    """
    count = len(amounts)
    with connection.cursor() as cursor:
        while count:
            total = sum((amount or ZERO for amount in amounts[:count]), ZERO)
            cursor.execute(RESERVE, [total, run_id, holder, total])
            if cursor.rowcount:
                return count
            count //= 2
    return 0


def reconcile(run_id: int, released: Decimal, spent: Decimal) -> None:
    with connection.cursor() as cursor:
        cursor.execute(RECONCILE, [released, spent, run_id])


def recount(run_id: int) -> None:
    """Set both sums from the calls themselves, as when a run changes hands."""
    sums = Call.objects.filter(run_id=run_id).aggregate(
        spent=Sum("usd"), reserved=Sum("reserved_usd")
    )
    Run.objects.filter(pk=run_id).update(
        spent_usd=sums["spent"] or ZERO, reserved_usd=sums["reserved"] or ZERO
    )


NO_ANSWER = "The batch ended without this answer. It may have been billed."
Place = tuple[int | None, int | None, str]
# Asked for with each batch: the ORM would take longer than the database for it.
LAST_SEQS = """
    SELECT example_id, point_item_id, part, MAX(seq) FROM judging_call
    WHERE run_id = %s AND ({}) GROUP BY example_id, point_item_id, part
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A call that is ours to send, and what it holds of the budget until it is recorded."""

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
    """Claim as many of the first asks as the budget holds; none once the run is no longer ours.

    A call whose `seq` is taken was made by somebody else in the meantime: unique (run, example,
    part, seq) refuses it, and with it the transaction.
    """
    requests = [questioner.request(ask.subject, ask.part, len(ask.slots)) for ask in asks]
    upper_bounds = [upper_bound(request, price) for request in requests]
    now = timezone.now()
    with transaction.atomic():
        affordable = reserve(run_id, holder, upper_bounds)
        seqs = next_seqs(run_id, asks[:affordable])
        calls = [
            rows.new(
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
        rows.insert(Call, calls)
    return [
        Claim(call, ask, request, call.reserved_usd)
        for call, ask, request in zip(calls, asks, requests, strict=False)
    ]


def next_seqs(run_id: int, asks: Sequence[Ask]) -> defaultdict[Place, Iterator[int]]:
    """For each part of a subject, the numbers that its further calls get."""
    seqs: defaultdict[Place, Iterator[int]] = defaultdict(count)
    examples, items = zip(*map(place, asks), strict=True) if asks else ((), ())
    about = [
        f"{column} IN ({', '.join(map(str, ids))})"
        for column, ids in (
            ("example_id", set(examples) - {None}),
            ("point_item_id", set(items) - {None}),
        )
        if ids
    ]
    if any(place(ask) == (None, None) for ask in asks):
        about.append("(example_id IS NULL AND point_item_id IS NULL)")
    if about:
        with connection.cursor() as cursor:
            cursor.execute(LAST_SEQS.format(" OR ".join(about)), [run_id])
            for example_id, item_id, part, seq in cursor.fetchall():
                seqs[example_id, item_id, part] = count(seq + 1)
    return seqs


def place(ask: Ask) -> tuple[int | None, int | None]:
    found = place_of(ask.subject)
    return found.get("example_id"), found.get("point_item_id")


def upper_bound(request: JudgeRequest, price: PriceSnapshot | None) -> Decimal | None:
    if price is None:
        return None
    most = price.reserve(request.prompt_tokens, request.n, request.max_tokens)
    return rounded_up(most)


def lose(run_id: int, holder: str, claims: Sequence[Claim]) -> None:
    """Claims whose answers never came: possibly billed, so they go on holding their reservation."""
    with transaction.atomic():
        ids = [claim.call.pk for claim in claims]
        ours = Call.objects.filter(pk__in=ids, holder=holder, state=Call.State.CLAIMED)
        ours.update(state=Call.State.LOST, finished_at=timezone.now(), error=NO_ANSWER)


def give_back(run_id: int, holder: str, claims: Sequence[Claim]) -> None:
    """Claims that were never sent, or refused each time, as if they had not been made."""
    with transaction.atomic():
        ids = [claim.call.pk for claim in claims]
        ours = Call.objects.filter(pk__in=ids, holder=holder, state=Call.State.CLAIMED)
        ours.delete()
        recount(run_id)
