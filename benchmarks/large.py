"""A large project on PostgreSQL: how long imports, pages, rounds, exports and deletion take.

    python -m benchmarks.large [EXAMPLES] --postgres URL

It imports 20,000 pairs with recorded judgments (one sample in each order), copies them until there
are as many as asked for, opens a round for a fifth of the pairs, has half of it voted on, and adds
a run that is half done. Limits in seconds are for pages of
any size; those of imports, rounds and reports grow with the number of examples. Pages are asked
for by a test client, so that nothing but the application and the database is measured:

- first: in a process that has just started, with empty caches;
- changed: after one more vote was cast;
- warm: 20 times without a change.

A worker runs meanwhile, as on every site, and computes the figures of results pages.
"""

import argparse
import json
import re
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.annotating.site import environment_of
from benchmarks.api import worker
from benchmarks.imports import write_pairs
from benchmarks.workspace import child, database_cpu, database_of_its_own

# Pairs and judgments that the import commands write; the others are copies of these.
IMPORTED = 20_000
EXAMPLES, WARM, PEOPLE, VOTES, BETA = 100_000, 20, 20, 3, 20
MOST_FIRST, MOST_CHANGED, MOST_WARM = 1.0, 1.0, 0.3
MOST_GROWTH_MIB = 200
# Seconds for a million pairs, and rows a second.
MOST_IMPORT, LEAST_SAMPLES, LEAST_LABELS, LEAST_DELETED = 150, 10_000, 20_000, 10_000
MOST_REQUEST = 2.0
FIGURES_SECONDS = 900.0
SLUG = "large"
ME = "benchmarks.large"
Found = dict[str, Any]


def timed(work: Callable[[], Any]) -> tuple[Any, Found]:
    """Return what the work returned, and its seconds, processor seconds, and growth of memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, worked = time.perf_counter(), time.process_time()
    made = work()
    return made, {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - worked,
        "mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }


def the_project() -> Any:
    from judging.projects.models import Project

    return Project.every.get(slug=SLUG)


def the_owner() -> Any:
    from django.contrib.auth.models import User

    return User.objects.get(username="owner")


def step_pairs(path: str, n: int) -> Found:
    """Make the database, and import the pairs of a file."""
    from django.core.management import call_command

    from judging.dataset.writing import import_files
    from judging.projects.models import Project, Role
    from tests.factories import make_annotator, make_member

    call_command("migrate", verbosity=0, interactive=False)
    project = Project.objects.create(slug=SLUG, name="Large")
    make_member(project, Role.OWNER, "owner")
    for number in range(PEOPLE):
        make_annotator(project, f"person-{number}")
    make_annotator(project, "latecomer")
    write_pairs(Path(path), n)
    imported, found = timed(lambda: import_files(project, the_owner(), [Path(path)]))
    Path(path).unlink()
    return found | {"rows": imported.n_written}


def step_judgments(path: str, n: int) -> Found:
    """Import a sample in each order for every pair, as `import_judgments` does."""
    from judging.runs.recorded.writing import import_judgments

    chance = Random(11)
    with Path(path).open("w") as stream:
        for number in range(n):
            first, bias = chance.randint(1, 10), chance.choice((0, 0, 0, 0, 1, 2))
            second = chance.randint(1, 10)
            for order in ("original", "swapped"):
                up = bias if order == "original" else -bias
                scores = min(10, max(1, first + up)), second
                stream.write(
                    f'{{"external_id": "{number}", "order": "{order}", "score_1": {scores[0]}, '
                    f'"score_2": {scores[1]}, "raw_text": "The first says what was asked for, the '
                    f'second less of it. Scores of responses 1 and 2: {scores[0]}, {scores[1]}", '
                    '"prompt_tokens": 420, "completion_tokens": 60, "usd": 0.0003}\n'
                )
    project, user = the_project(), the_owner()
    _, found = timed(lambda: import_judgments(project, user, [Path(path)], name="recorded"))
    Path(path).unlink()
    return found | {"rows": 2 * n}


def columns(model: Any, **other: str) -> tuple[str, str]:
    """Return the names of a table's columns but its key, and what is copied into them."""
    names = [one.column for one in model._meta.concrete_fields if not one.primary_key]
    return ", ".join(names), ", ".join(other.get(name, f"old.{name}") for name in names)


def copied(model: Any, source: str, values: list[Any], **other: str) -> None:
    """Copy the rows `old` of a source, with other values in some columns."""
    from django.db import connection

    into, chosen = columns(model, **other)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {model._meta.db_table} ({into}) SELECT {chosen} FROM {source}",
            values,
        )
        # The next copy joins these rows, and the server would plan it as if there were none.
        cursor.execute(f"ANALYZE {model._meta.db_table}")


def step_grow(n: int) -> Found:
    """Fill the project up to n pairs with copies of the imported ones and their judgments."""
    from django.db import connection

    from judging.dataset.models import Example
    from judging.runs.models import Call, Parse, Run, Sample, Verdict

    base = the_project().examples.count()
    run = Run.objects.get(project__slug=SLUG, name="recorded").pk
    copies = f"generate_series(1, {(n - 1) // base}) AS c"
    number = f"old.number + c * {base}"
    copied(
        Example, f"judging_example old, {copies} WHERE {number} < %s ORDER BY {number}", [n],
        number=number, external_id=f"({number})::text", question="old.question || ' (' || c || ')'",
    )  # fmt: skip
    pair = f"""
        JOIN judging_example was ON was.id = old.example_id AND was.number < {base}
        JOIN judging_example now ON now.number % {base} = was.number AND now.number >= {base}
        WHERE old.run_id = %s ORDER BY now.number
    """
    for model in (Call, Verdict):
        table = f"{model._meta.db_table} old"
        copied(model, f"{table} {pair.replace('%', '%%', 1)}", [run], example_id="now.id")
    call = f"""
        JOIN judging_example was ON was.id = old_call.example_id
        JOIN judging_example now ON now.number %% {base} = was.number AND now.number >= {base}
        JOIN judging_call call ON call.run_id = old_call.run_id AND call.example_id = now.id
            AND call.part = old_call.part AND call.seq = old_call.seq
    """
    own = f"WHERE old_call.run_id = %s AND was.number < {base} ORDER BY call.id"
    copied(
        Sample,
        f"judging_sample old JOIN judging_call old_call ON old_call.id = old.call_id {call} {own}",
        [run], call_id="call.id",
    )  # fmt: skip
    copied(
        Parse,
        "judging_parse old JOIN judging_sample old_sample ON old_sample.id = old.sample_id "
        f"JOIN judging_call old_call ON old_call.id = old_sample.call_id {call} "
        f"JOIN judging_sample sample ON sample.call_id = call.id {own}",
        [run], sample_id="sample.id",
    )  # fmt: skip
    # As the end of an import does.
    the_project().imports.filter(n_judged__isnull=False).update(n_judged=n)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE judging_verdict v SET rank = r.place FROM (SELECT id, row_number() OVER "
            "(ORDER BY bpde DESC, id) AS place FROM judging_verdict WHERE run_id = %s) r "
            "WHERE r.id = v.id",
            [run],
        )
        cursor.execute("VACUUM ANALYZE")
    return {"rows": the_project().examples.count()}


def step_round(*_words: str) -> Found:
    """Open a round as its page does, have a worker write it, and vote on half of it."""
    from annotation.models import RoundWork
    from annotation.rounds import growing
    from annotation.rounds.opening import RoundSettings, open_round
    from judging.runs.models import Run

    run = Run.objects.get(project__slug=SLUG, name="recorded")
    settings = RoundSettings(beta=Decimal(BETA), votes=VOTES, seed=7)

    def asked() -> Any:
        return open_round(the_project(), the_owner(), run, settings, background=True)

    round_, request = timed(asked)
    work = RoundWork.objects.get(round=round_)
    _, found = timed(lambda: growing.work_on(work.pk))
    vote_on_half(round_.pk)
    half_a_run(run.pk)
    return {"request": request["seconds"], "rows": work.n_total} | found


def vote_on_half(key: int) -> None:
    """Fill the slots of the first half of the round, and settle its items, by few statements."""
    from django.db import connection

    from annotation.models import Annotator, Seat

    people = list(
        Annotator.objects.filter(project__slug=SLUG, name__startswith="person-")
        .order_by("pk")
        .values_list("pk", flat=True)
    )
    label = "(ARRAY['win','win','win','tie','lose','lose'])[1 + (i.example_id * 7 + s.index) %% 6]"
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            INSERT INTO annotation_annotation (slot_id, item_id, example_id, protocol_id,
                annotator_id, label, answer, left_response, comment, active_seconds, source,
                unblinded, language, submitted_at, updated_at, is_practice)
            SELECT s.id, i.id, i.example_id, r.protocol_id,
                (%s::bigint[])[1 + (i.example_id * 3 + s.index) %% {PEOPLE}], {label},
                '{{"overall": "left"}}', 1, '', 20 + s.id %% 40, 'screen', false, '',
                now() - interval '1 minute' * (s.id %% 5000), now(), false
            FROM annotation_slot s JOIN annotation_item i ON i.id = s.item_id
                JOIN annotation_round r ON r.id = s.round_id
            WHERE s.round_id = %s AND s.position <= (
                SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY position)
                FROM annotation_item WHERE round_id = %s)
            """,
            [people, key, key],
        )
        cursor.execute(
            "UPDATE annotation_slot s SET vote_id = v.id, annotator_id = v.annotator_id "
            "FROM annotation_annotation v WHERE v.slot_id = s.id AND s.round_id = %s",
            [key],
        )
        cursor.execute(
            """
            UPDATE annotation_item i SET state = CASE WHEN most > 1 THEN 'complete'
                ELSE 'adjudicate' END
            FROM (SELECT item_id, max(n) AS most FROM (
                SELECT item_id, count(*) AS n FROM annotation_annotation GROUP BY item_id, label
            ) labels GROUP BY item_id) counted
            WHERE counted.item_id = i.id AND i.round_id = %s
            """,
            [key],
        )
        cursor.execute("VACUUM ANALYZE")
    Seat.objects.bulk_create(Seat(round_id=key, annotator_id=person) for person in people)


def half_a_run(recorded: int) -> None:
    """Add a run that a worker is at, with the first half of the calls of the recorded one."""
    from datetime import timedelta

    from django.db import connection
    from django.utils import timezone

    from judging.runs.models import Call, Parse, Run, Sample
    from tests.factories import make_run

    now = timezone.now()
    project = the_project()
    run = make_run(
        project, state=Run.State.RUNNING, ranked_at=None, k=1, form="score", model="judge",
        endpoint="default", concurrency=16, started_at=now, holder="elsewhere:1:1",
        lease_until=now + timedelta(days=1), parameters={"orders": ["original", "swapped"]},
        price={"prompt": "1", "completion": "1"},
    )  # fmt: skip
    half = project.examples.count() // 2

    copied(
        Call,
        "judging_call old JOIN judging_example e ON e.id = old.example_id "
        "WHERE old.run_id = %s AND e.number < %s ORDER BY old.id",
        [recorded, half], run_id=str(run.pk),
    )  # fmt: skip
    same = (
        "judging_call call ON call.run_id = %s AND call.example_id = was.example_id "
        "AND call.part = was.part AND call.seq = was.seq"
    )
    copied(
        Sample,
        f"judging_sample old JOIN judging_call was ON was.id = old.call_id JOIN {same} "
        "WHERE was.run_id = %s ORDER BY call.id",
        [run.pk, recorded], call_id="call.id",
    )  # fmt: skip
    copied(
        Parse,
        "judging_parse old JOIN judging_sample of ON of.id = old.sample_id "
        f"JOIN judging_call was ON was.id = of.call_id JOIN {same} "
        "JOIN judging_sample sample ON sample.call_id = call.id "
        "WHERE was.run_id = %s ORDER BY sample.id",
        [run.pk, recorded], sample_id="sample.id", evidence="'Both answer.'",
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


class Voter:
    """Somebody who votes on one open item after another, as the product does."""

    def __init__(self) -> None:
        from annotation.models import Annotator, Item

        self.person = Annotator.objects.get(project__slug=SLUG, name="latecomer")
        open_items = Item.objects.filter(round__project__slug=SLUG, state=Item.State.OPEN)
        fresh = open_items.exclude(annotations__annotator=self.person).order_by("position")
        self.items = list(fresh.select_related("round__protocol", "round__project")[:2000])
        self.n = 0

    def vote(self) -> None:
        from tests.factories import make_vote

        make_vote(self.items[self.n], self.person, ("win", "lose", "tie")[self.n % 3])
        self.n += 1


def pages_of(project: Any) -> dict[str, str]:
    """Return the addresses of the pages that are measured, by their names."""
    from django.urls import reverse

    from annotation.results.report.report import CHAPTERS

    of = [SLUG]
    keys = list(project.examples.order_by("number").values_list("pk", flat=True))
    browser = reverse("examples", args=of)
    chapters = [one.name for one in CHAPTERS if not one.method]
    return {
        "first page of the site": reverse("home"),
        "overview": reverse("project", args=of),
        "overview, figures": reverse("project_figures", args=of),
        "imports": reverse("imports", args=of),
        "runs": reverse("runs", args=of),
        "start a run": reverse("run_start", args=of),
        "run, done": reverse("run", args=[SLUG, 1]),
        "run, at work": reverse("run", args=[SLUG, 2]),
        "run, poll": reverse("run_progress", args=[SLUG, 2]),
        "examples, first": browser,
        "examples, middle": f"{browser}?after={keys[len(keys) // 2]}",
        "examples, last": f"{browser}?after={keys[-51]}",
        "examples, by BPDE": f"{browser}?run=1&sort=-bpde",
        "examples, by BPDE, middle": f"{browser}?run=1&sort=-bpde&after={keys[len(keys) // 2]}",
        "examples, judge says": f"{browser}?run=1&label=lose",
        "examples, disagree": f"{browser}?run=1&people=differs",
        "examples, search": f"{browser}?run=1&q=nothing+has+this",
        "example": reverse("example", args=[SLUG, keys[7]]),
        "plan": reverse("plan", args=of),
        "preregistration": reverse("preregistration", args=of),
        "rounds": reverse("rounds", args=of),
        "round": reverse("round", args=[SLUG, 1]),
        "round, poll": reverse("round_standing", args=[SLUG, 1]),
        "adjudication": reverse("adjudication", args=[SLUG, 1]),
        "people": reverse("people", args=of),
        "people, pace": reverse("people_pace", args=of),
        "settings": reverse("settings", args=of),
        **{f"results, {name}": reverse("results_page", args=[SLUG, name]) for name in chapters},
        "results, export": reverse("results_page", args=[SLUG, "export"]),
    }


class Reader:
    """The owner's browser, without the network."""

    def __init__(self) -> None:
        from django.conf import settings
        from django.test import Client

        self.client = Client(headers={"host": settings.FAIRJUDGE_URL.rpartition("/")[2]})
        self.client.force_login(the_owner(), backend=settings.LOGIN_BACKEND)

    def see_the_judge(self, url: str) -> None:
        """Answer the question that comes before the first page that shows the judge's output."""
        from django.urls import reverse

        self.client.get(url)
        self.client.post(reverse("look", args=[SLUG]), {"next": url})

    def ask(self, url: str) -> tuple[float, float, float, Any]:
        """Return the seconds, those of both processes' processor, and the page."""
        # The parts of pages that htmx asks for.
        parts = ("/progress", "/standing", "/figures", "/pace")
        headers = {"hx-request": "true"} if url.endswith(parts) else {}
        queried = database_cpu()
        began, worked = time.perf_counter(), time.process_time()
        answer = self.client.get(url, headers=headers)
        taken = time.perf_counter() - began, time.process_time() - worked
        taken = *taken, database_cpu() - queried
        assert answer.status_code == 200, (url, answer.status_code, answer.content[:300])
        return *taken, answer


def step_pages(only: str = "") -> Found:
    """Return the times of each page: first, after a vote, and warm."""
    pages = {name: url for name, url in pages_of(the_project()).items() if re.search(only, name)}
    wait_for_worker()
    reader, voter = Reader(), Voter()
    reader.see_the_judge(pages_of(the_project())["results, verdict"])
    found: Found = {name: {} for name in pages}
    for name, url in pages.items():
        found[name]["first"] = reader.ask(url)[:3]
        if only:
            sys.stderr.write(f"{name:28} first {found[name]['first']}\n")
    waited = {"seconds": 0.0}
    if not only:
        _, waited = timed(wait_for_figures)
    for name, url in pages.items():
        voter.vote()
        found[name]["changed"] = reader.ask(url)[:3]
    if not only:
        wait_for_figures()
    for name, url in pages.items():
        reader.ask(url)
        found[name]["warm"] = [reader.ask(url)[:3] for _ in range(2 if only else WARM)]
        if only:
            sys.stderr.write(f"{name:28} {found[name]['changed']} {found[name]['warm'][-1]}\n")
    return {"pages": found, "figures": waited["seconds"]}


def wait_for_worker() -> None:
    """Wait until a worker says that it is there, since pages leave to it what takes long."""
    from judging.core.models import Worker

    until = time.monotonic() + FIGURES_SECONDS
    while not Worker.objects.alive().exists():
        assert time.monotonic() < until, "no worker started"
        time.sleep(0.1)


def wait_for_figures() -> None:
    """Wait until a worker has computed the report of the data as they are."""
    from annotation.results.report.cache import shown_report

    until = time.monotonic() + FIGURES_SECONDS
    project = the_project()
    while shown_report(project, project.primary_run).renewing:
        assert time.monotonic() < until, "no worker computed the figures"
        time.sleep(1)


def step_labels(*_words: str) -> Found:
    from annotation.results.tables.exports import ExportRequest, export

    project = the_project()

    def all_rows() -> int:
        pieces = export(project, project.primary_run, the_owner(), ExportRequest("labels"))
        return sum(piece.count(b"\n") for piece in pieces)

    _, found = timed(all_rows)
    return found | {"rows": project.examples.count()}


def step_report(path: str, *_words: str) -> Found:
    """Write the ZIP while somebody votes, and verify it."""
    from django.db import connection

    from annotation.results.delivery.package import deliver
    from annotation.results.delivery.verify import verify

    project, over, cast = the_project(), threading.Event(), [0]

    def vote() -> None:
        voter = Voter()
        while not over.wait(0.1):
            voter.vote()
            cast[0] += 1
        connection.close()

    thread = threading.Thread(target=vote)
    thread.start()
    try:
        run = project.primary_run
        _, found = timed(lambda: deliver(project, run, the_owner(), Path(path)))
    finally:
        over.set()
        thread.join()
    checked = verify(Path(path))
    Path(path).unlink()
    return found | {"votes": cast[0], "wrong": checked[:3]}


def step_close(*_words: str) -> Found:
    """Close the round as its page does, then do the worker's part."""
    from annotation.models import Round, RoundWork
    from annotation.rounds import changes, growing

    round_ = Round.objects.get(project__slug=SLUG)
    _, request = timed(lambda: changes.close(round_, the_owner(), background=True))
    work = RoundWork.objects.filter(round=round_).latest("pk")
    _, found = timed(lambda: growing.work_on(work.pk))
    return {"request": request["seconds"], "rows": work.n_total} | found


def step_delete(*_words: str) -> Found:
    """Delete the project as its page does, then do the worker's part."""
    from annotation.deletion import delete_project, go_on
    from judging.projects.models import Deletion

    rows = rows_in_all()
    _, request = timed(lambda: delete_project(the_project(), the_owner(), background=True))
    deletion = Deletion.objects.get()
    _, found = timed(lambda: go_on(deletion.pk))
    return {"request": request["seconds"], "rows": rows - rows_in_all()} | found


def rows_in_all() -> int:
    from django.apps import apps

    return sum(
        model._base_manager.count()
        for name in ("judging", "annotation")
        for model in apps.get_app_config(name).get_models()
    )


class Bench:
    """Prints the table, and counts what misses its limit."""

    def __init__(self, environment: dict[str, str], folder: str, n: int) -> None:
        self.environment, self.folder, self.n, self.missed = environment, folder, n, 0

    def step(self, name: str, *words: object) -> Found:
        return child(self.environment, ME, "--step", name, *words)

    def tell(self, what: str, figure: str, limit: str = "", fits: bool = True) -> None:
        self.missed += not fits
        limit = f"  (limit {limit})" if limit else ""
        sys.stdout.write(f"{what:28} {figure}{limit}{'' if fits else '  TOO MUCH'}\n")
        sys.stdout.flush()

    def speed(self, what: str, found: Found, least: int, unit: str) -> None:
        speed = found["rows"] / found["seconds"]
        self.tell(
            what,
            f"{found['rows']:,} {unit} in {found['seconds']:.1f} s, processor "
            f"{found['cpu']:.1f} s: {speed:,.0f} a second, memory +{found['mib']:.0f} MiB",
            f"{least:,} a second, {MOST_GROWTH_MIB} MiB",
            speed >= least and found["mib"] <= MOST_GROWTH_MIB,
        )

    def build(self) -> None:
        pairs, judged = f"{self.folder}/pairs.jsonl", f"{self.folder}/judgments.jsonl"
        n_imported = min(self.n, IMPORTED)
        self.speed(
            "import of pairs", self.step("pairs", pairs, n_imported), 10**6 // MOST_IMPORT, "pairs"
        )
        found = self.step("judgments", judged, n_imported)
        self.speed("import of judgments", found, LEAST_SAMPLES, "samples")
        if n_imported < self.n:
            self.step("grow", self.n)
        self.in_background("opening a round", self.step("round"), "items")

    def in_background(self, what: str, found: Found, unit: str, least: int = 0) -> None:
        speed = found["rows"] / found["seconds"]
        self.tell(
            what,
            f"answered in {found['request']:.2f} s; a worker then needs {found['seconds']:.1f} s "
            f"(processor {found['cpu']:.1f} s) for {found['rows']:,} {unit}: {speed:,.0f} a second",
            f"{MOST_REQUEST:g} s" + (f", {least:,} a second" if least else ""),
            found["request"] <= MOST_REQUEST and speed >= least,
        )

    def pages(self) -> None:
        with worker(self.environment):
            found = self.step("pages")
        self.tell("figures of results", f"a worker has them after {found['figures']:.0f} s")
        limits = f"{MOST_FIRST:g} / {MOST_CHANGED:g} / {MOST_WARM:g} s"
        self.tell("page", f"first   changed  warm p50 / p95     processor, database  ({limits})")
        for name, taken in found["pages"].items():
            wall, cpu, database = (np.array(one) for one in zip(*taken["warm"], strict=True))
            p50, p95 = np.percentile(wall, [50, 95])
            first, changed = taken["first"][0], taken["changed"][0]
            fits = first <= MOST_FIRST and changed <= MOST_CHANGED and p95 <= MOST_WARM
            self.tell(
                name,
                f"{first:6.2f} {changed:6.2f}   {p50:6.3f} / {p95:6.3f} s    "
                f"{np.percentile(cpu, 50):6.3f}, {np.percentile(database, 50):6.3f} s",
                fits=fits,
            )

    def rest(self) -> None:
        self.speed("export of labels", self.step("labels"), LEAST_LABELS, "rows")
        found = self.step("report", f"{self.folder}/report.zip")
        said = "; ".join(found["wrong"]) or "verified"
        self.tell(
            "report as ZIP",
            f"{found['seconds']:.1f} s, processor {found['cpu']:.1f} s, memory +{found['mib']:.0f} "
            f"MiB, {found['votes']} votes meanwhile: {said}",
            fits=not found["wrong"] and found["votes"] > 0,
        )
        self.in_background("closing the round", self.step("close"), "items")
        found = self.step("delete")
        self.in_background("deleting the project", found, "rows", LEAST_DELETED)


STEPS: dict[str, Callable[..., Found]] = {
    name.removeprefix("step_"): work
    for name, work in list(globals().items())
    if name.startswith("step_")
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("examples", type=int, nargs="?", default=EXAMPLES)
    parser.add_argument("--postgres", metavar="URL", help="the server, and a database on it")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        import django

        django.setup()
        name, *words = options.step
        found = STEPS[name](*(int(one) if one.isdigit() else one for one in words))
        sys.stdout.write(json.dumps(found) + "\n")
        return
    if not options.postgres:
        parser.error("Name a PostgreSQL server: --postgres URL. SQLite is not for this size.")
    with (
        tempfile.TemporaryDirectory() as folder,
        database_of_its_own(options.postgres, "fairjudge_large") as own,
    ):
        bench = Bench(environment_of(folder, own), folder, options.examples)
        bench.build()
        bench.pages()
        bench.rest()
    sys.exit("A large project takes longer than it may." if bench.missed else 0)


if __name__ == "__main__":
    main()
