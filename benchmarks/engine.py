"""The whole engine against the ideal: every call claimed, sent, recorded, parsed, and ranked.

    python -m benchmarks.engine [--quick] [--postgres URL]
    python -m benchmarks.engine --workers 1 2 4 --postgres URL [--latency S] [--calls N]

The ideal is the list schedule of the same latencies at the same limit with no overhead. The span
is from the first request that the server saw to the last result stored. Each row is a process and
a database of its own. In the rows of two workers another process tries all the time to work on the
same run: only one may hold it, and the other must cost it nothing.

With `--workers`, so many processes work on one run on PostgreSQL, each with 256 calls in flight.
Workers, database and judge share the machine's processors, so calls a second say little once these
are busy. What a second worker would bring on processors of its own shows in the CPU of the workers
a call, which must not grow with their number, and in how often one waits for another's lock.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CASES = {
    "32 × 200 ms": (1000, 32, 0.2, 0.0),
    "32 × 200 ms log-normal": (1000, 32, 0.2, 0.5),
    "256 × 1 s": (4000, 256, 1.0, 0.0),
    "256 × 1 s log-normal": (4000, 256, 1.0, 0.5),
    "32 × 200 ms, two workers": (1000, 32, 0.2, 0.0),
}
TWO_WORKERS = "two workers"
# How often a second worker tries; a real one is woken by the sweep every 15 s.
TRIES_EVERY = 0.2
TEXT = "A sentence of a response that is judged. " * 30


def measure(
    calls: int, concurrency: int, seconds: float, sigma: float, two_workers: bool = False
) -> dict[str, float]:
    """One run in a fresh database. Imports wait until Django is set up."""
    import django

    django.setup()
    from django.db import connection

    from benchmarks.engine_transport import ideal_span
    from tests.loopback.latency import fixed, lognormal

    latency = lognormal(seconds, sigma) if sigma else fixed(seconds)
    with tempfile.TemporaryDirectory() as folder:
        name = connection.creation.create_test_db(verbosity=0)
        try:
            log = Path(folder) / "log.jsonl"
            span, cpu = run_once(calls, concurrency, seconds, sigma, log, two_workers)
        finally:
            connection.creation.destroy_test_db(name, verbosity=0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ideal = ideal_span(latency, calls, concurrency)
    return {"ratio": span / ideal, "cpu_ms": cpu / calls * 1000, "megabytes": memory}


def run_once(
    calls: int, concurrency: int, seconds: float, sigma: float, log: Path, two_workers: bool
) -> tuple[float, float]:
    from django.conf import settings

    from benchmarks.engine_transport import server
    from judging.runs.engine import recording
    from judging.runs.engine.working import work_on
    from judging.runs.models import Call, EndpointLearned, Run
    from judging.runs.planning.start import start_run
    from tests.factories import make_examples, make_project

    stored_at = 0.0
    record = recording.record

    def timed_record(*values: Any) -> Any:
        nonlocal stored_at
        further = record(*values)
        stored_at = time.time()
        return further

    def prepared(slug: str, examples: int, url: str) -> Run:
        project = make_project(slug)
        make_examples(project, examples, response_1=TEXT, response_2=f"Other. {TEXT}")
        settings.FAIRJUDGE_ENDPOINTS = {"bench": {"base_url": url, "key_variable": ""}}
        return start_run(project, None, endpoint="bench", concurrency=concurrency, background=False)

    recording.record = timed_record
    with server(0.0, 0.0) as url:
        work_on(prepared("warm-up", 2, url))
    with server(seconds, sigma, "--log", str(log)) as url:
        run = prepared("measured", calls // 2, url)
        # The judge is known to answer: the pump's cautious first call is not measured.
        EndpointLearned.objects.create(base_url=url, model=run.model, learned={})
        with second_worker(run.pk) if two_workers else nullcontext():
            before = cpu_seconds()
            work_on(run)
            cpu = cpu_seconds() - before
    assert run.calls.filter(state=Call.State.DONE).count() == calls
    arrived = [json.loads(line)["arrived"] for line in log.read_text().splitlines()]
    assert len(arrived) == calls
    return stored_at - min(arrived), cpu


@contextmanager
def second_worker(run_id: int) -> Iterator[None]:
    """A process that would work on the same run, over the same database."""
    from django.db import connection

    name = connection.settings_dict["NAME"]
    url = f"sqlite:///{name}"
    if connection.vendor != "sqlite":
        url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
    command = [sys.executable, "-m", "benchmarks.engine", "--second", str(run_id)]
    environment = os.environ | {"DATABASE_URL": url}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        # It has imported everything once it has tried for the first time.
        process.stdout.readline()
        yield
        process.terminate()
        held = process.stdout.read()
    assert not held, "the second worker took the run from its holder"


def try_to_work_on(run_id: int) -> None:
    import django

    django.setup()
    from judging.runs.engine.recording import take_over
    from judging.runs.models import Run

    sys.stdout.write("tries\n")
    sys.stdout.flush()
    waiting = Run.State.QUEUED
    while True:
        run = Run.objects.get(pk=run_id)
        if run.state not in (waiting, Run.State.DONE) and take_over(run, "a second worker"):
            sys.stdout.write("held\n")
            sys.stdout.flush()
        time.sleep(TRIES_EVERY)


EACH = 256
SAMPLE_SECONDS = 0.02
WAITS = """
SELECT count(*), count(*) FILTER (WHERE wait_event_type = 'Lock')
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def measure_workers(n: int, calls: int, seconds: float) -> dict[str, float]:
    """One run on n workers, in a fresh database."""
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection
    from django.db.models import Max

    from benchmarks.engine_transport import ideal_span, server
    from judging.runs.models import EndpointLearned, Run
    from judging.runs.planning.start import start_run
    from tests.factories import make_examples, make_project
    from tests.loopback.latency import fixed

    name = connection.creation.create_test_db(verbosity=0)
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            server(0.0, 0.0) as warm,
            server(seconds, 0.0, "--log", f"{folder}/log") as address,
        ):
            addresses = {"warm": warm, "bench": address}
            endpoints = [{"name": name, "base_url": at} for name, at in addresses.items()]
            environment = os.environ | {
                "DATABASE_URL": url, "FAIRJUDGE_ENDPOINTS": json.dumps(endpoints)
            }  # fmt: skip
            settings.FAIRJUDGE_ENDPOINTS = {
                one["name"]: one | {"key_variable": ""} for one in endpoints
            }

            def prepared(slug: str, examples: int, endpoint: str, concurrency: int) -> Run:
                project = make_project(slug)
                make_examples(project, examples, response_1=TEXT, response_2=f"Other. {TEXT}")
                choices = {"endpoint": endpoint, "concurrency": concurrency, "price": (1, 1)}
                return start_run(project, None, background=False, **choices)

            run = prepared("measured", calls // 2, "bench", EACH * n)
            EndpointLearned.objects.create(base_url=address, model=run.model, learned={})
            command = [sys.executable, "-m", "benchmarks.engine", "--worker", str(run.pk)]
            pipe = subprocess.PIPE
            workers = [
                subprocess.Popen(
                    [*command, str(prepared(f"warm-up-{number}", 10, "warm", 8).pk)],
                    env=environment, text=True, stdin=pipe, stdout=pipe,
                )
                for number in range(n)
            ]  # fmt: skip
            for worker in workers:
                worker.stdout.readline()
            for worker in workers:
                worker.stdin.write("go\n")
                worker.stdin.flush()
            backends = waiting = 0
            while run.state != Run.State.DONE:
                time.sleep(SAMPLE_SECONDS)
                with connection.cursor() as cursor:
                    cursor.execute(WAITS)
                    found = cursor.fetchone()
                backends, waiting = backends + found[0], waiting + found[1]
                run.refresh_from_db()
            cpu = [float(worker.communicate()[0]) for worker in workers]
            done = run.calls.filter(state="done")
            assert done.count() == calls
            ended = done.aggregate(last=Max("finished_at"))["last"].timestamp()
            log = Path(folder, "log").read_text().splitlines()
            span = ended - min(json.loads(line)["arrived"] for line in log)
            assert len(log) == calls
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)
    return {
        "span": span,
        "ratio": span / ideal_span(fixed(seconds), calls, EACH * n) if seconds else 0.0,
        "cpu_ms": sum(cpu) / calls * 1000,
        "least_share": min(cpu) / sum(cpu),
        "waits": waiting / max(backends, 1),
    }


def work(run_id: int, warm_up: int) -> None:
    """A worker of a run, from the word go until the run is done. It prints its CPU seconds."""
    import django

    django.setup()
    from judging.runs.engine.working import work_on
    from judging.runs.models import Run

    work_on(Run.objects.get(pk=warm_up))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    before = cpu_seconds()
    while (run := Run.objects.get(pk=run_id)).state != Run.State.DONE:
        work_on(run, helps=True)
        time.sleep(0.1)
    sys.stdout.write(f"{cpu_seconds() - before}\n")


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def row(database_url: str, *arguments: str) -> dict[str, float]:
    """The measurement in a process of its own."""
    with tempfile.TemporaryDirectory() as data:
        environment = os.environ | {
            "FAIRJUDGE_DATA": data,
            "DJANGO_SETTINGS_MODULE": "fairjudge_site.settings",
            "DATABASE_URL": database_url,
            "FAIRJUDGE_LOG_LEVEL": "WARNING",
        }
        command = [sys.executable, "-m", "benchmarks.engine", *arguments]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(workers: list[int], url: str, calls: int, latency: float) -> None:
    given = ["--calls", str(calls), "--latency", str(latency)]
    for n in workers:
        found = row(url, "--many", str(n), *given)
        ideal = f"{found['ratio']:5.2f} × ideal  " if latency else ""
        line = (
            f"{n} workers  {calls / found['span']:6.0f} calls/s  {ideal}"
            f"{found['cpu_ms']:5.2f} ms CPU of the workers a call  "
            f"least share {found['least_share']:4.0%}  waits for locks {found['waits']:6.2%}"
        )
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="32 × 200 ms only")
    parser.add_argument("--postgres", metavar="URL", help="measure there too")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--second", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, nargs="+", help="so many on one run")
    parser.add_argument("--latency", type=float, default=0.0, help="with --workers: seconds")
    parser.add_argument("--calls", type=int, default=4000, help="with --workers")
    parser.add_argument("--many", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return
    if options.many:
        found = measure_workers(options.many, options.calls, options.latency)
        sys.stdout.write(json.dumps(found) + "\n")
        return
    if options.workers:
        compare(options.workers, options.postgres, options.calls, options.latency)
        return
    if options.second:
        try_to_work_on(options.second)
    if options.case:
        found = measure(*CASES[options.case], TWO_WORKERS in options.case)
        sys.stdout.write(json.dumps(found) + "\n")
        return
    databases = {"SQLite": ""} | ({"PostgreSQL": options.postgres} if options.postgres else {})
    for database, url in databases.items():
        for case in list(CASES)[:1] if options.quick else CASES:
            found = row(url, "--case", case)
            line = (
                f"{database:10} {case:26} {found['ratio']:5.2f} × ideal  "
                f"{found['cpu_ms']:5.2f} ms CPU a call  {found['megabytes']:4.0f} MB"
            )
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
