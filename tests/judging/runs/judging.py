"""What the engine's tests share: a run at the loopback server, and what its log must say of it."""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

from django.db import connections

from judging.projects.models import Project
from judging.runs.engine.pump import Pump
from judging.runs.engine.working import work_on
from judging.runs.models import Call, Run, Sample
from judging.runs.planning.start import start_run
from tests.factories import make_examples, make_project
from tests.loopback import LogEntry, LoopbackServer

ENDPOINT = "loop"


@contextmanager
def loopback(settings: Any, *script: Any, **options: Any) -> Iterator[LoopbackServer]:
    """A loopback server that the site knows as an endpoint."""
    with LoopbackServer(*script, **options) as server:
        settings.FAIRJUDGE_ENDPOINTS = {ENDPOINT: {"base_url": server.base_url, "key_variable": ""}}
        yield server


def make_judged_project(examples: int, **fields: Any) -> Project:
    project = make_project()
    make_examples(project, examples, **fields)
    return project


def started(project: Project, **choices: Any) -> Run:
    """A run that waits for whoever pumps it."""
    choices = {"endpoint": ENDPOINT, "concurrency": 4, "seed": 7} | choices
    return start_run(project, None, background=False, **choices)


def judged(project: Project, **choices: Any) -> Run:
    """A run that was pumped here, as it is afterwards."""
    run = started(project, **choices)
    assert work_on(run)
    run.refresh_from_db()
    return run


@contextmanager
def in_thread(work: Callable[..., Any], *values: Any) -> Iterator[Future[Any]]:
    """Work beside the test, as a worker does; it has ended when the block is left."""

    def closing() -> Any:
        try:
            return work(*values)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(closing)
        yield future
        future.result(timeout=300)


def stop_of_a_pump(monkeypatch: Any) -> Event:
    """Set once a pump has seen that it is to send nothing more."""
    seen, stop = Event(), Pump.stop

    def seeing(pump: Pump) -> None:
        stop(pump)
        seen.set()

    monkeypatch.setattr(Pump, "stop", seeing)
    return seen


def answered(log: list[LogEntry]) -> Counter[str]:
    """Choices that reached the client whole, by prompt."""
    counts: Counter[str] = Counter()
    for entry in log:
        if entry.complete and entry.status == 200:
            counts[entry.prompt_sha256] += entry.choices
    return counts


def slots_of(run: Run) -> Counter[tuple[int, str, int]]:
    """How many samples each slot has."""
    samples = Sample.objects.filter(call__run=run)
    return Counter(samples.values_list("call__example_id", "call__part", "slot"))


def every_slot_once(run: Run) -> bool:
    expected = {
        (pk, part, slot)
        for pk in run.project.examples.judged().values_list("pk", flat=True)
        for part in run.orders
        for slot in range(run.k)
    }
    counts = slots_of(run)
    return set(counts) == expected and set(counts.values()) == {1}


def states_of(run: Run) -> Counter[str]:
    return Counter(Call.objects.filter(run=run).values_list("state", flat=True))
