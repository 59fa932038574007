import heapq
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest
from django.utils import timezone

from judging.core import caching
from judging.core.models import Worker
from judging.runs.engine import progress as progress_module
from judging.runs.engine.progress import PACED_CALLS, OrderCounts, progress_of, seconds_per_call
from judging.runs.models import Run
from tests.factories import make_examples, make_run
from tests.judging.runs.recorded_files import record_sample, record_scores

pytestmark = pytest.mark.django_db


def test_progress_counts_slots_by_order_and_status(project):
    run = make_run(project, state=Run.State.RUNNING, k=2, concurrency=2)
    one, _ = make_examples(project, 2)
    record_scores(run, one, "original", [(8, 6), None])
    record_scores(run, one, "swapped", [(8, 6)])
    progress = progress_of(run)
    assert (progress.expected, progress.settled) == (8, 3)
    assert progress.statuses == {"valid": 2, "unparsed": 1}
    assert progress.by_order == {
        "original": OrderCounts(4, {"valid": 1, "unparsed": 1}),
        "swapped": OrderCounts(4, {"valid": 1}),
    }
    original, swapped = progress.by_order.values()
    assert (original.settled, original.valid, original.failures) == (2, 1, {"unparsed": 1})
    assert (swapped.settled, swapped.valid, swapped.failures) == (1, 1, {})
    assert progress.share == 3 / 8
    assert not progress.finished
    assert progress.calls_done == 2
    assert progress.calls_per_minute > 0
    assert progress.eta_seconds > 0
    assert [evidence.text for evidence in progress.recent] == ["8 against 6"] * 2


def test_a_slot_that_was_asked_again_counts_once_by_its_last_attempt(project):
    run = make_run(project, k=1, method="ec")
    (example,) = make_examples(project, 1)
    record_scores(run, example, "original", [None])
    record_sample(record_scores(run, example, "original", []), 0, (8, 6), attempt=1)
    progress = progress_of(run)
    assert progress.statuses == {"valid": 1}
    assert progress.settled == 1


def test_an_unknown_price_is_unknown(project):
    progress = progress_of(make_run(project))
    assert (progress.spent_usd, progress.reserved_usd) == (None, None)


def test_a_waiting_run_without_a_worker_says_so(project):
    run = make_run(project, state=Run.State.QUEUED)
    assert progress_of(run).worker_missing
    now = timezone.now()
    Worker.objects.create(name="w", queues="runs", started_at=now, seen_at=now)
    assert not progress_of(run).worker_missing
    Worker.objects.update(seen_at=now - timedelta(seconds=40))
    assert progress_of(run).worker_missing


def test_the_number_of_queries_does_not_grow(project, django_assert_max_num_queries):
    run = make_run(project, state=Run.State.RUNNING, k=1)
    for example in make_examples(project, 30):
        for part in run.orders:
            record_scores(run, example, part, [(8, 6)])
    with django_assert_max_num_queries(12):
        progress_of(run)


def test_the_time_left_holds_the_wait_that_the_endpoint_asks_for(project):
    run = make_run(project, state=Run.State.RUNNING, k=1, concurrency=1)
    for example in make_examples(project, 2):
        record_scores(run, example, "original", [(8, 6)])
    before = progress_of(run).eta_seconds
    run.progress = {"paused_until": (timezone.now() + timedelta(seconds=90)).isoformat()}
    run.save()
    assert 80 < progress_of(run).eta_seconds - before < 95


def foretold(latencies, at_once):
    """The total time that is foretold after each call of a run with these latencies."""
    free = [0.0] * at_once
    calls = []
    for latency in latencies:
        claimed = heapq.heappop(free)
        calls.append((claimed, claimed + latency))
        heapq.heappush(free, claimed + latency)
    calls.sort(key=lambda call: call[1])
    totals = []
    for done in range(1, len(calls)):
        pace = seconds_per_call(calls[max(0, done - PACED_CALLS) : done], at_once)
        if pace is not None:
            totals.append(calls[done - 1][1] + pace * (len(calls) - done))
    return totals, calls[-1][1]


@pytest.mark.parametrize("at_once", [1, 4, 32])
@pytest.mark.parametrize("seed", range(5))
def test_the_time_left_of_a_steady_run_never_jumps(at_once, seed):
    """What is foretold in all, 20 calls on, is at most a third off what was foretold before."""
    random = Random(seed)
    latencies = [random.lognormvariate(0, 0.5) for _ in range(40 * at_once)]
    totals, took = foretold(latencies, at_once)
    assert len(totals) > 20 * at_once
    settled = totals[4 * at_once :]
    steps = [after / before for before, after in pairwise(settled)]
    assert max(steps) < 1.34
    assert min(steps) > 0.75
    assert all(0.6 < total / took < 1.6 for total in settled)


def test_one_slow_call_and_a_night_of_pause_do_not_change_what_is_foretold():
    calls = [(float(n), n + 1.0) for n in range(60)]
    assert seconds_per_call(calls, 1) == pytest.approx(1.0)
    paused = calls[:30] + [(a + 30_000, b + 30_000) for a, b in calls[30:]]
    assert seconds_per_call(paused, 1) == pytest.approx(1.0)


def test_nothing_is_foretold_before_the_first_wave_is_back():
    assert seconds_per_call([], 1) is None
    wave = [(0.0, 2.0)] * 8
    assert seconds_per_call(wave[:7], 8) is None
    assert seconds_per_call(wave, 8) == pytest.approx(0.25)


def test_a_run_of_many_calls_is_counted_at_intervals_and_exactly_once_it_is_done(
    project, monkeypatch
):
    monkeypatch.setattr(progress_module, "MANY_CALLS", 1)
    monkeypatch.setattr(caching, "COST_SHARE", 10_000)
    run = make_run(project, state=Run.State.RUNNING, ranked_at=None, k=1)
    one, two, three = make_examples(project, 3)
    for example in (one, two):
        record_scores(run, example, "original", [(8, 6)])
    assert progress_of(run).settled == 2
    record_scores(run, three, "original", [(8, 6)])
    assert progress_of(run).settled == 2
    Run.objects.filter(pk=run.pk).update(state=Run.State.DONE, finished_at=timezone.now())
    assert progress_of(run).settled == 3
