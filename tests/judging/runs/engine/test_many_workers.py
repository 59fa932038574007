"""One run on several workers, as real processes on PostgreSQL, some of which are killed."""

import json
import random
import signal
import time
from bisect import bisect_left
from contextlib import contextmanager
from decimal import Decimal

import pytest
from django.db import connection
from django.db.models import Sum
from django.utils import timezone

from judging.runs import lifecycle
from judging.runs.engine.progress import progress_of
from judging.runs.models import Call, Run, Share, Stretch, Verdict
from tests.factories import make_run
from tests.judging.runs.engine.worker_processes import RANKING, WorkerProcesses
from tests.judging.runs.judging import (
    answered,
    every_slot_once,
    judged,
    loopback,
    make_judged_project,
    slots_of,
    started,
    states_of,
)
from tests.loopback import BiasedJudge, fixed
from tests.processes import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

SEED = 20261130
PAIRS = 240
AT_ONCE = 32
PRICE = (Decimal(1), Decimal(2))
# Its answer to a prompt is the same whenever it is asked.
STEADY = BiasedJudge(position_bias=0.5, noise=0.0)


@pytest.fixture(autouse=True)
def on_a_server():
    if connection.vendor == "sqlite":
        pytest.skip("SQLite lets one process write at a time, so a run has one worker there.")


@contextmanager
def workers_on(run, settings, server):
    endpoints = json.dumps([{"name": "loop", "base_url": server.base_url}])
    with WorkerProcesses(run, settings, endpoints) as workers:
        yield workers


def working(run) -> int:
    return Share.objects.filter(run=run).count()


def is_over(run) -> bool:
    run.refresh_from_db()
    return run.state in (Run.State.DONE, Run.State.PAUSED, Run.State.FAILED, Run.State.CANCELLED)


def verdicts_of(run):
    columns = "example__number", "label", "cs_1", "cs_2", "bpde", "rank", "n_valid", "stage"
    return list(Verdict.objects.filter(run=run).order_by("example__number").values_list(*columns))


def assert_exact(run):
    """The sums are those of the calls, and nobody is left with a part of the run."""
    run.refresh_from_db()
    sums = run.calls.aggregate(spent=Sum("usd"), reserved=Sum("reserved_usd"))
    assert (run.spent_usd, run.reserved_usd) == (sums["spent"], sums["reserved"])
    assert not Share.objects.filter(run=run).exists()
    assert not Stretch.objects.filter(run=run).exists()


def as_of_one_worker(project, run, **choices):
    """The same run again, of one worker in this process."""
    other = judged(project, **choices)
    assert verdicts_of(run) == verdicts_of(other)
    parts = run.calls.filter(state="done").values_list("example__number", "part").distinct()
    assert set(parts) == set(
        other.calls.filter(state="done").values_list("example__number", "part").distinct()
    )


def test_killed_workers_lose_nothing_recorded_and_ask_nothing_twice(settings):
    draw, kills, lost_at_most = random.Random(SEED), 6, 0
    project = make_judged_project(PAIRS)
    with loopback(settings, judge=STEADY, latency=fixed(0.15)) as server:
        run = started(project, concurrency=AT_ONCE, price=PRICE)
        with workers_on(run, settings, server) as workers:
            workers.start(3)
            assert eventually(lambda: working(run) > 1)
            for kill in range(kills):
                enough = (kill + 1) * 2 * PAIRS // (kills + 2)
                assert eventually(lambda enough=enough: server.completed >= enough)
                run.refresh_from_db()
                # Every second time it is the leader.
                leader = workers.pid_of(run.holder) if run.holder else 0
                victims = [pid for pid in workers.alive if (pid == leader) == (kill % 2 == 0)]
                lost_at_most += AT_ONCE
                workers.kill(draw.choice(victims or workers.alive))
                workers.start()
            assert eventually(lambda: is_over(run))
        assert run.state == Run.State.DONE
        assert every_slot_once(run)
        states = states_of(run)
        done, lost = states["done"], states["lost"]
        assert (done, states["claimed"], states["failed"]) == (2 * PAIRS, 0, 0)
        assert lost <= lost_at_most
        assert done <= server.completed <= done + lost
        assert sum(count - 3 for count in answered(server.log).values()) // 3 <= lost
        assert_exact(run)
        as_of_one_worker(project, run, concurrency=AT_ONCE, price=PRICE, name="alone")


@pytest.mark.long
def test_two_of_three_workers_that_are_killed_at_once_are_followed_by_the_third(settings):
    """Whichever they are: each of the three is left alone once."""
    for survivor in range(3):
        project = make_judged_project(PAIRS)
        with loopback(settings, judge=STEADY, latency=fixed(0.15)) as server:
            run = started(project, concurrency=AT_ONCE, price=PRICE)
            with workers_on(run, settings, server) as workers:
                workers.start(3)
                assert eventually(lambda run=run: working(run) == 3)
                assert eventually(lambda server=server: server.completed >= PAIRS)
                run.refresh_from_db()
                leader = workers.pid_of(run.holder)
                order = sorted(workers.alive, key=lambda pid, leader=leader: pid != leader)
                for pid in order[:survivor] + order[survivor + 1 :]:
                    workers.kill(pid)
                assert eventually(lambda run=run: is_over(run))
            assert run.state == Run.State.DONE
            assert every_slot_once(run)
            states = states_of(run)
            assert (states["done"], states["claimed"], states["failed"]) == (2 * PAIRS, 0, 0)
            assert states["lost"] <= AT_ONCE
            assert states["done"] <= server.completed <= states["done"] + states["lost"]
            assert_exact(run)


def test_several_workers_keep_to_the_run_s_calls_in_flight_and_its_budget(settings):
    with loopback(settings, judge=STEADY, latency=fixed(0.3)) as server:
        run = started(make_judged_project(400), concurrency=AT_ONCE, price=PRICE)
        budget = Decimal("0.3")
        Run.objects.filter(pk=run.pk).update(budget_usd=budget)
        most, seen = 0, set()
        with workers_on(run, settings, server) as workers:
            workers.start(4)
            while not is_over(run):
                seen |= set(Share.objects.values_list("holder", flat=True))
                committed = run.calls.aggregate(s=Sum("usd"), r=Sum("reserved_usd"))
                most = max(most, (committed["s"] or 0) + (committed["r"] or 0))
                assert run.spent_usd + run.reserved_usd <= budget
                time.sleep(0.05)
        assert len(seen) > 1
        assert run.state == Run.State.PAUSED
        assert "can't cover another call" in run.reason
        assert budget * Decimal("0.9") < most <= budget
        assert server.most_at_once <= AT_ONCE
        assert states_of(run).keys() == {"done"}
        assert_exact(run)


def test_a_pause_stops_all_workers_and_the_page_says_who_works(settings):
    with loopback(settings, judge=STEADY, latency=fixed(0.3)) as server:
        run = started(make_judged_project(400), concurrency=AT_ONCE, price=PRICE)
        with workers_on(run, settings, server) as workers:
            workers.start(3)
            assert eventually(lambda: working(run) == 3)
            assert eventually(lambda: server.completed > 60)
            progress = progress_of(run)
            assert len(progress.workers) == 3
            assert str(workers.pid_of(run.holder)) in progress.workers[0]
            paused_at = time.time()
            assert lifecycle.pause(run)
            assert eventually(lambda: is_over(run), 60)
        assert run.state == Run.State.PAUSED
        assert max(entry.arrived for entry in server.log) < paused_at + 5
        assert states_of(run) == {"done": server.completed}
        assert_exact(run)
        lifecycle.resume(run, background=False)
        with workers_on(run, settings, server) as workers:
            workers.start(2)
            assert eventually(lambda: is_over(run))
        assert run.state == Run.State.DONE
        assert server.requests == 800
        assert every_slot_once(run)


def test_a_leader_that_is_asked_to_end_or_killed_while_it_ranks_is_followed(settings):
    ranking = settings.FAIRJUDGE_DATA / RANKING
    with loopback(settings, judge=STEADY, latency=fixed(0.1)) as server:
        run = started(make_judged_project(PAIRS), concurrency=AT_ONCE)
        ranking.touch()
        try:
            with workers_on(run, settings, server) as workers:
                workers.start(2)
                assert eventually(lambda: working(run) == 2 and server.completed > 40)
                run.refresh_from_db()
                first = run.holder
                workers.send(workers.pid_of(first), signal.SIGTERM)
                assert eventually(lambda: run.refresh_from_db() or run.holder not in ("", first))
                assert run.state == Run.State.RUNNING
                workers.start()
                finished = Call.objects.filter(run=run, state=Call.State.DONE)
                assert eventually(lambda: finished.count() == 2 * PAIRS and not working(run))
                run.refresh_from_db()
                workers.kill(workers.pid_of(run.holder))
                ranking.unlink()
                assert eventually(lambda: is_over(run))
        finally:
            ranking.unlink(missing_ok=True)
        assert run.state == Run.State.DONE
        assert server.requests == 2 * PAIRS
        assert states_of(run) == {"done": 2 * PAIRS}
        assert Verdict.objects.filter(run=run, rank__isnull=False).count() == PAIRS


@pytest.mark.parametrize(
    "choices", [{"adaptive": 0.9, "k": 4}, {"method": "portia", "k": 1}], ids=["adaptive", "portia"]
)
def test_a_run_in_stages_is_the_same_on_several_workers(settings, choices):
    choices = {"concurrency": AT_ONCE} | choices
    project = make_judged_project(PAIRS, response_1=STORY, response_2=f"{STORY} {STORY}")
    with loopback(settings, judge=STEADY, latency=fixed(0.1)) as server:
        run = started(project, **choices)
        with workers_on(run, settings, server) as workers:
            workers.start(3)
            assert eventually(lambda: working(run) > 1)
            assert eventually(lambda: is_over(run))
        assert run.state == Run.State.DONE
        assert set(slots_of(run).values()) == {1}
        as_of_one_worker(project, run, **choices, name="alone")


STORY = "The first sentence says one thing. The second one says another. A third one ends it."


def test_who_may_not_help_is_refused(settings):
    settings.CELERY_BROKER_URL = "filesystem://"
    run = started_as_led(settings, concurrency=AT_ONCE)
    assert lifecycle.may_share(run)
    for fields in ({"rpm": 60}, {"concurrency": 8}, {"endpoint": "local"}, {"planned_to": None}):
        other = Run.objects.get(pk=run.pk)
        for name, value in fields.items():
            setattr(other, name, value)
        assert not lifecycle.may_share(other), fields
    soon = timezone.now() + lifecycle.SEND_AGAIN
    waiting = make_run(run.project, state=Run.State.QUEUED, lease_until=soon)
    assert lifecycle.may_share(run)
    Run.objects.filter(pk=waiting.pk).update(lease_until=soon - 2 * lifecycle.PATIENCE)
    assert not lifecycle.may_share(run)


def started_as_led(settings, **choices):
    with loopback(settings):
        run = started(make_judged_project(3), **choices)
    Run.objects.filter(pk=run.pk).update(state=Run.State.RUNNING, planned_to=-1)
    lifecycle.open_share(run.pk, "elsewhere:1:1:a", run.concurrency)
    run.refresh_from_db()
    return run


@pytest.mark.long
@pytest.mark.brokers
def test_four_workers_with_256_calls_in_flight_share_one_minute(settings, redis_url):
    """No minute holds more than the limit, wherever it begins."""
    settings.CELERY_BROKER_URL = redis_url
    rpm, seconds = 900, 100
    with loopback(settings, judge=STEADY, latency=fixed(1.0)) as server:
        run = started(make_judged_project(1000), concurrency=4 * 256, rpm=rpm)
        with workers_on(run, settings, server) as workers:
            workers.start(4)
            assert eventually(lambda: working(run) == 4)
            time.sleep(seconds)
            lifecycle.pause(run)
            assert eventually(lambda: is_over(run))
        arrived = sorted(entry.arrived for entry in server.log)
    assert arrived[-1] - arrived[0] > 61
    in_a_minute = max(bisect_left(arrived, at + 60) - n for n, at in enumerate(arrived))
    # A busy machine sends a request up to a second after its turn.
    assert rpm * 0.9 < in_a_minute <= rpm * 61 / 60
