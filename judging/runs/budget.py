"""A run's money. Every call holds its upper bound before it is sent, and its cost afterwards.

Invariant: spent is the sum of the calls' known costs, reserved the sum of what calls hold. A
request that was cut off may have been billed, so its call keeps holding its upper bound, also
where a later request of the same call brought the answer.
"""

from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal

from django.db import connection
from django.db.models import Sum

from judging.models.calls import Call
from judging.models.runs import Run

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
