"""Claiming calls before they are sent: by the run's holder alone, while the run is running."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count

from django.db import connection, transaction
from django.utils import timezone

from judging import rows
from judging.llm.prices import PriceSnapshot
from judging.llm.requests import JudgeRequest
from judging.models.calls import Batch, Call
from judging.runs import budget
from judging.runs.plan import Ask
from judging.runs.questions import Questioner
from judging.runs.subjects import place_of

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
        affordable = budget.reserve(run_id, holder, upper_bounds)
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
    return budget.rounded_up(most)


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
        budget.recount(run_id)
