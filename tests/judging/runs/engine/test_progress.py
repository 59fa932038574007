from datetime import timedelta

import pytest
from django.utils import timezone

from judging.core.models import Worker
from judging.runs.engine.progress import OrderCounts, progress_of
from judging.runs.models import Run
from tests.factories import make_examples, make_run
from tests.judging.runs.recorded_files import record_sample, record_scores

pytestmark = pytest.mark.django_db


def test_progress_counts_slots_by_order_and_status(project):
    run = make_run(project, state=Run.State.RUNNING, k=2)
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
    with django_assert_max_num_queries(10):
        progress_of(run)


def test_the_time_left_holds_the_wait_that_the_endpoint_asks_for(project):
    run = make_run(project, state=Run.State.RUNNING, k=1)
    (example,) = make_examples(project, 1)
    record_scores(run, example, "original", [(8, 6)])
    before = progress_of(run).eta_seconds
    run.progress = {"paused_until": (timezone.now() + timedelta(seconds=90)).isoformat()}
    run.save()
    assert 80 < progress_of(run).eta_seconds - before < 95
