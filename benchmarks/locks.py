"""How long one process holds the lock of an SQLite file while it opens, changes and deletes rounds.

    python -m benchmarks.locks [EXAMPLES]

Aim: with 60,000 items no transaction takes longer than 200 ms from its first statement to its
commit, and deleting the project takes at least 10,000 rows a second.

The file runs on older versions of FairJudge too, so that both can be compared:
`git worktree add OLD VERSION; cp benchmarks/locks.py OLD/benchmarks/; cd OLD; python -m
benchmarks.locks`.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES, MOST_MS, LEAST_ROWS_A_SECOND = 60_000, 200, 10_000


class Watch:
    """Times every transaction, and every write outside of one, from the lock to its release."""

    def __init__(self) -> None:
        self.held: list[float] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        from django.db import connection, transaction

        enter, leave = transaction.Atomic.__enter__, transaction.Atomic.__exit__
        watch, since = self, [0.0]

        def entered(atomic: object) -> None:
            outermost = not connection.in_atomic_block
            enter(atomic)
            if outermost:
                since[0] = time.perf_counter()

        def left(atomic: object, *error: object) -> None:
            leave(atomic, *error)
            if not connection.in_atomic_block:
                watch.held.append(time.perf_counter() - since[0])

        def statement(execute: Callable, sql: str, params: object, many: bool, context: dict):
            began, alone = time.perf_counter(), not connection.in_atomic_block
            found = execute(sql, params, many, context)
            if alone and sql.lstrip()[:6].upper() in ("UPDATE", "DELETE", "INSERT"):
                watch.held.append(time.perf_counter() - began)
            return found

        transaction.Atomic.__enter__, transaction.Atomic.__exit__ = entered, left
        try:
            with connection.execute_wrapper(statement):
                yield
        finally:
            transaction.Atomic.__enter__, transaction.Atomic.__exit__ = enter, leave


def measure(n: int) -> int:
    """Print how long each operation took, and its longest transaction. Returns what missed."""
    from django.core.management import call_command

    from annotation.deletion import delete_project
    from annotation.models import Annotator, Item, Slot, Vote
    from annotation.rounds import changes
    from annotation.rounds.opening import RoundSettings, open_round
    from judging.dataset.models import Example
    from judging.projects.models import Project
    from judging.runs.models import Verdict
    from judging.runs.verdicts import rebuild
    from tests.factories import make_examples, make_run

    call_command("migrate", verbosity=0, interactive=False)
    project = Project.objects.create(slug="locks", name="Locks")
    for _ in range(0, n, 10_000):
        make_examples(project, min(n, 10_000))
    run = make_run(project)
    keys = list(Example.objects.filter(project=project).values_list("pk", flat=True))
    fields = {"state": "judged", "label": "win", "gap": 1, "n_valid": 6, "n_asked": 6}
    rows = (Verdict(run=run, example_id=key, bpde=key % 97 / 97, **fields) for key in keys)
    Verdict.objects.bulk_create(rows, batch_size=5_000)
    missed = 0

    def timed(what: str, work: Callable[[], object], rows: int = 0) -> object:
        nonlocal missed
        watch, began = Watch(), time.perf_counter()
        with watch.watching():
            found = work()
        seconds = time.perf_counter() - began
        longest = 1000 * max(watch.held)
        fits = longest <= MOST_MS and (not rows or rows / seconds >= LEAST_ROWS_A_SECOND)
        missed += not fits
        speed = f", {rows / seconds:,.0f} rows a second" if rows else ""
        sys.stdout.write(
            f"{what:24} {seconds:7.1f} s, longest transaction {longest:9,.0f} ms, "
            f"{len(watch.held):6,} of them{speed}{'' if fits else '  TOO MUCH'}\n"
        )
        sys.stdout.flush()
        return found

    half = RoundSettings(beta=Decimal(50), votes=2, seed=1)
    whole = RoundSettings(everything=True, votes=2, seed=1)
    timed("write ranks and verdicts", lambda: rebuild.rebuild_verdicts(run))
    round_ = timed(f"open {n:,} items", lambda: open_round(project, None, run, whole))
    timed("raise votes from 2 to 3", lambda: changes.raise_votes(round_, None, 3))
    vote_on_some(round_, Annotator, Item, Slot, Vote)
    second = timed(f"open {n // 2:,} by rank", lambda: open_round(project, None, run, half))
    timed("extend to 100 %", lambda: changes.extend(second, None, Decimal(100)))
    timed("close the round", lambda: changes.close(round_, None))
    timed("reopen the round", lambda: changes.reopen(round_, None))
    counted = (Item, Slot, Vote, Verdict, Example)
    rows = sum(table.objects.count() for table in counted)
    timed("delete the project", lambda: delete_project(project, None), rows)
    left = sum(table.objects.count() for table in counted)
    if left:
        sys.stdout.write(f"{left} rows are left.\n")
    return missed + bool(left)


def vote_on_some(round_, annotators, items, slots, votes) -> None:
    """Give every twentieth item of the round one vote."""
    person = annotators.objects.create(project=round_.project, number=1, name="ana")
    keys = list(slots.objects.filter(round=round_, index=0).values_list("pk", flat=True)[::20])
    first = slots.objects.filter(pk__in=keys).select_related("item")
    votes.objects.bulk_create(
        (
            votes(
                slot=slot, item=slot.item, example_id=slot.item.example_id, annotator=person,
                protocol_id=round_.protocol_id, label="win",
            )
            for slot in first.iterator(chunk_size=5_000)
        ),
        batch_size=2_000,
    )  # fmt: skip
    from django.db.models import OuterRef, Subquery

    theirs = votes.objects.filter(slot=OuterRef("pk")).values("pk")
    first.update(annotator=person, vote=Subquery(theirs))


def main() -> int:
    if "--measure" in sys.argv:
        import django

        django.setup()
        return measure(int(sys.argv[-1]))
    n = sys.argv[1] if len(sys.argv) > 1 else str(EXAMPLES)
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: text for name, text in os.environ.items() if name != "DATABASE_URL"}
        environment |= {
            "FAIRJUDGE_DATA": folder,
            "DJANGO_SETTINGS_MODULE": "fairjudge_site.settings",
        }
        command = [sys.executable, "-m", "benchmarks.locks", "--measure", n]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
