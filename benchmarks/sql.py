"""What hand-made SQL saves: the same query or write by the ORM and by `judging/core/sql`.

    python -m benchmarks.sql [--postgres URL]

Prints the median time of each in microseconds, and how many times as long the ORM takes. A form
that saves less than a quarter (a ratio below 1.25) isn't worth its code: use the ORM there. Writes
of many rows are measured with 10 rows, about as many as the engine records at once, and with 500.
All of it happens within one transaction, so that no disk is measured.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.annotating.site import environment_of
from benchmarks.workspace import database_of_its_own

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 0.5
LEAST_GAIN = 1.25

Pair = tuple[str, Callable[[], object], Callable[[], object]]


def micros(call: Callable[[], object]) -> float:
    """Return the median time of a call; ten calls come first and are not counted."""
    for _ in range(10):
        call()
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(times) < 20 or time.perf_counter() < end:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return 1e6 * median(times)


def one_row() -> Iterator[Pair]:
    """Queries and writes of one row, as an annotator's key press needs them."""
    from django.contrib.sessions.models import Session
    from django.db.models import F
    from django.utils import timezone

    from annotation.models import Draft, Seat
    from annotation.queue import drafts, queue, settling
    from annotation.rounds.opening import RoundSettings, open_round
    from fairjudge_site import requests
    from judging.core.sql import statements
    from judging.projects import access
    from judging.projects.models import AuditEvent, Membership, Role
    from tests.factories import make_annotator, make_examples, make_member, make_project, make_run

    project = make_project()
    owner = make_member(project, Role.OWNER)
    annotator = make_annotator(project)
    make_examples(project, 50)
    run = make_run(project)
    round_ = open_round(project, owner, run, RoundSettings(beta=0, audit=20, votes=2, seed=1))
    draft = queue.claim_next(round_, annotator)
    seat = queue.seat_of(round_, annotator)
    key = "k" * 32
    Session.objects.create(
        session_key=key, session_data="", expire_date=timezone.now() + 3 * queue.LEASE
    )
    now = timezone.now()

    yield (
        "session by its key",
        lambda: Session.objects.filter(session_key=key, expire_date__gt=now).first(),
        lambda: requests._live_sessions.first(key=key, now=now),
    )
    yield (
        "membership with its project",
        lambda: (
            Membership.objects.select_related("project")
            .filter(project__slug=project.slug, user=annotator.user_id)
            .first()
        ),
        lambda: access._memberships.first(slug=project.slug, user=annotator.user_id),
    )
    claimable = queue._claimable
    given = {
        "round_": round_.pk,
        "protocol": round_.protocol_id,
        "annotator": annotator.pk,
        "now": now,
        "after": 0.0,
    }
    yield (
        "next free slots of a round",
        lambda: list(claimable.build(**given)),
        lambda: claimable.all(**given),
    )
    yield (
        "an item, locked",
        lambda: list(settling.locked_items.build(keys=[draft.item_id])),
        lambda: settling.locked_items.all(keys=[draft.item_id]),
    )
    yield (
        "update of a seat",
        lambda: Seat.objects.may_label().filter(pk=seat.pk).update(cursor=1.0),
        lambda: drafts._moved.count(seat=seat.pk, cursor=1.0),
    )

    def orm_count() -> Any:
        mine = Seat.objects.may_label().filter(pk=seat.pk)
        mine.update(cursor=1.0, n_shown=F("n_shown") + 1)
        return mine.values_list("n_shown").get()

    yield (
        "update of a seat, and its count",
        orm_count,
        lambda: drafts._shown_one_more.row(seat=seat.pk, cursor=1.0),
    )

    def event() -> AuditEvent:
        return AuditEvent(project=project, action="project created", detail={"a": 1})

    yield (
        "insert of an audit event",
        lambda: event().save(force_insert=True),
        lambda: statements.insert_one(event()),
    )
    assert Draft.objects.filter(pk=draft.pk).exists()


def many_rows(n: int) -> Iterator[Pair]:
    """Writes of many rows, as an import, the engine and the rebuilding of verdicts need them."""
    from decimal import Decimal

    from django.utils import timezone

    from judging.core.sql import statements
    from judging.dataset.models import Example
    from judging.runs.engine.recording import CALL_RESULT
    from judging.runs.models import Call, Parse, Sample, Verdict
    from judging.runs.verdicts.rebuild import JUDGED_FIELDS, UNIQUE
    from tests.factories import make_examples, make_project, make_run

    project = make_project()
    examples = make_examples(project, n)
    source = examples[0].source_id
    run = make_run(project)
    call_fields = {"part": "original", "slots": [0], "holder": "me", "claimed_at": timezone.now()}
    calls = Call.objects.bulk_create(
        Call(run=run, example=example, reserved_usd=Decimal("0.01"), **call_fields)
        for example in examples
    )
    numbers, seqs, slots = count(n), count(1), count()
    text = "word " * 300

    def rows_of_examples() -> list[Example]:
        return [
            Example(
                project_id=project.pk,
                source_id=source,
                number=number,
                external_id=str(number),
                question=text[:50],
                response_1=text,
                response_2=text,
            )
            for number, _ in zip(numbers, range(n), strict=False)
        ]

    def rows_of_calls(make: Callable[..., Call]) -> list[Call]:
        seq = next(seqs)
        return [make(run_id=run.pk, example_id=e.pk, seq=seq, **call_fields) for e in examples]

    def samples(make: Callable[..., Any]) -> list[Any]:
        slot = next(slots)
        return [
            make(call_id=call.pk, index=slot, slot=slot, attempt=1, raw_text=text) for call in calls
        ]

    ids = tuple(call.pk for call in calls)
    verdicts = [
        Verdict(run_id=run.pk, example_id=example.pk, cs_1=1.0, cs_2=2.0, state="judged")
        for example in examples
    ]
    yield (
        f"{n} objects in memory",
        lambda: [Parse(version=1, status="valid", score_1=Decimal(1)) for _ in range(n)],
        lambda: [
            statements.new(Parse, version=1, status="valid", score_1=Decimal(1)) for _ in range(n)
        ],
    )
    yield (
        f"insert of {n} examples",
        lambda: Example.objects.bulk_create(rows_of_examples()),
        lambda: statements.insert(Example, rows_of_examples()),
    )
    yield (
        f"insert of {n} calls",
        lambda: Call.objects.bulk_create(rows_of_calls(Call)),
        lambda: statements.insert(
            Call, rows_of_calls(lambda **fields: statements.new(Call, **fields))
        ),
    )
    yield (
        f"insert of {n} samples",
        lambda: Sample.objects.bulk_create(samples(Sample)),
        lambda: statements.insert(
            Sample, samples(lambda **fields: statements.new(Sample, **fields))
        ),
    )
    yield (
        f"insert of {n} samples by column",
        lambda: Sample.objects.bulk_create(samples(Sample)),
        lambda: statements.insert_columns(
            Sample, n, call_id=ids, index=next(slots), slot=0, attempt=1, raw_text=text
        ),
    )
    yield (
        f"update of {n} calls",
        lambda: Call.objects.bulk_update(calls, CALL_RESULT),
        lambda: statements.update(Call, calls, CALL_RESULT),
    )
    yield (
        f"upsert of {n} verdicts",
        lambda: Verdict.objects.bulk_create(
            verdicts, update_conflicts=True, unique_fields=UNIQUE, update_fields=JUDGED_FIELDS
        ),
        lambda: statements.upsert(Verdict, verdicts, UNIQUE, JUDGED_FIELDS),
    )


def engine() -> Iterator[Pair]:
    """The statements of the engine, each of which is sent once for a batch of ten calls."""
    from decimal import Decimal

    from django.db.models import Exists, F, Max, Q

    from judging.runs import lifecycle
    from judging.runs.engine import claims, recording
    from judging.runs.models import Call, Run, Share
    from judging.runs.samples import Ask
    from tests.factories import make_examples, make_project, make_run

    project = make_project()
    examples = make_examples(project, 10)
    run = make_run(project, state=Run.State.RUNNING, holder="me", budget_usd=Decimal(10**6))
    calls = Call.objects.bulk_create(
        Call(run=run, example=example, part="original", slots=[0], holder="me", claimed_at=now())
        for example in examples
    )
    ids = [call.pk for call in calls]
    asks = [Ask(example, "original", (0,), 1) for example in examples]
    cent = Decimal("0.0000001")

    lifecycle.open_share(run.pk, "me")
    lifecycle.settle_usd(run.pk, "me", cent * 10**6)
    mine = Share.objects.filter(run=run.pk, holder="me")

    def orm_reserve() -> bool:
        kept = Q(budget_usd=None) | Q(budget_usd__gte=F("spent_usd") + F("reserved_usd"))
        running = Exists(Run.objects.filter(kept, pk=run.pk, state=Run.State.RUNNING))
        ours = mine.filter(running, free_usd__gte=cent)
        return ours.update(free_usd=F("free_usd") - cent) == 1

    yield (
        "reserving for a batch",
        orm_reserve,
        lambda: lifecycle.reserve_usd(run.pk, "me", cent),
    )
    yield (
        "settling what a batch cost",
        lambda: mine.update(free_usd=F("free_usd") + cent - cent, spent_usd=F("spent_usd") + cent),
        lambda: lifecycle.settle_usd(run.pk, "me", cent, cent),
    )
    yield (
        "last numbers of a batch",
        lambda: list(
            Call.objects.filter(run=run, example__in=[e.pk for e in examples])
            .values_list("example_id", "point_item_id", "part")
            .annotate(Max("seq"))
            .order_by()
        ),
        lambda: claims.next_seqs(run.pk, asks),
    )
    yield (
        "which calls are still claimed",
        lambda: (
            mine.select_for_update().values_list("pk").first(),
            set(
                Call.objects.filter(pk__in=ids, holder="me", state="claimed").values_list(
                    "pk", flat=True
                )
            ),
        ),
        lambda: (lifecycle.lock_share(run.pk, "me"), recording.claimed_calls("me", ids)),
    )


def now() -> Any:
    from django.utils import timezone

    return timezone.now()


def measure() -> None:
    """Runs in a process of its own, with a database of its own."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection, transaction

    call_command("migrate", verbosity=0, interactive=False)
    sys.stdout.write(f"{connection.vendor:<36} {'ORM':>9} {'SQL':>9}  ratio\n")
    for pairs in (one_row(), engine(), many_rows(10), many_rows(500)):
        with transaction.atomic():
            for what, by_orm, by_sql in pairs:
                orm, sql = micros(by_orm), micros(by_sql)
                note = "" if orm / sql >= LEAST_GAIN else "  use the ORM"
                sys.stdout.write(
                    f"{what:<36} {orm:>6,.0f} µs {sql:>6,.0f} µs  {orm / sql:.2f}{note}\n"
                )
                sys.stdout.flush()
            transaction.set_rollback(True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", metavar="URL", help="measure there too")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure()
        return
    for url in ["", *([options.postgres] if options.postgres else [])]:
        with tempfile.TemporaryDirectory() as folder, database_of_its_own(url) as own:
            command = [sys.executable, "-m", "benchmarks.sql", "--measure"]
            subprocess.run(command, env=environment_of(folder, own), cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
