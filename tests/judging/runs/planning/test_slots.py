from datetime import timedelta

import pytest
from django.utils import timezone

from judging.runs import lifecycle
from judging.runs.models import Call, Parse, Run
from judging.runs.samples import Ask, Everything, asks_about, pages
from tests.factories import make_examples, make_run
from tests.judging.runs.recorded_files import record_sample, record_scores

pytestmark = pytest.mark.django_db


def left(run):
    """What is left: (external id, part, slots, attempt)."""
    everything = Everything(run.parts, run.k)
    asks = [ask for page in pages(run) for ask in asks_about(run, everything, page)]
    return [(a.subject.external_id, a.part, a.slots, a.attempt) for a in asks]


def resumed(run, *statuses):
    """The run after a person resumed it, so that these are asked again."""
    Run.objects.filter(pk=run.pk).update(state=Run.State.DONE)
    assert lifecycle.resume(run, retry=statuses, background=False)
    run.refresh_from_db()
    return run


@pytest.fixture
def run(project):
    return make_run(project, method="ec", k=1, endpoint="local", base_url="http://local/v1")


def record_status(run, example, status, attempt):
    sample = record_sample(record_scores(run, example, "original", []), 0, None, attempt)
    Parse.objects.filter(sample=sample).update(status=status)


def test_a_new_run_asks_for_all_slots_of_both_orders_in_import_order(project):
    make_examples(project, 2)
    assert left(make_run(project, k=2)) == [
        ("e0", "original", (0, 1), 0),
        ("e0", "swapped", (0, 1), 0),
        ("e1", "original", (0, 1), 0),
        ("e1", "swapped", (0, 1), 0),
    ]


def test_pages_do_not_lose_or_repeat_an_example(project, monkeypatch):
    monkeypatch.setattr("judging.runs.samples.PAGE", 2)
    make_examples(project, 5)
    run = make_run(project, method="ec", k=1)
    assert [external_id for external_id, *_ in left(run)] == [f"e{n}" for n in range(5)]


def test_answered_and_claimed_slots_are_not_asked_for(project):
    (example,) = make_examples(project, 1)
    run = make_run(project, k=3)
    record_scores(run, example, "original", [(8, 6), None])
    call = record_scores(run, example, "swapped", [])
    Call.objects.filter(pk=call.pk).update(state="claimed", slots=[0, 1])
    assert left(run) == [("e0", "original", (2,), 0), ("e0", "swapped", (2,), 0)]


def test_slots_of_a_lost_call_are_asked_for_again(project):
    (example,) = make_examples(project, 1)
    run = make_run(project, method="ec", k=1)
    call = record_scores(run, example, "original", [])
    Call.objects.filter(pk=call.pk).update(state="lost", slots=[0])
    assert left(run) == [("e0", "original", (0,), 0)]


def test_only_the_statuses_that_a_person_named_are_asked_again(project, run):
    cut, wrong = make_examples(project, 2)
    record_status(run, cut, "truncated", 0)
    record_status(run, wrong, "error", 0)
    assert left(run) == []
    assert left(resumed(run, "error")) == [("e1", "original", (0,), 1)]


@pytest.mark.parametrize("minutes", [-5, 0, 5])
def test_an_error_after_the_resume_waits_for_the_next_one(project, run, minutes):
    """Whatever the clock says of the machine that records the calls."""
    (example,) = make_examples(project, 1)
    resumed(run, "error")
    record_status(run, example, "error", 0)
    Call.objects.update(finished_at=timezone.now() + timedelta(minutes=minutes))
    assert left(run) == []
    assert left(resumed(run, "error")) == [("e0", "original", (0,), 1)]


def test_the_last_attempt_decides_whether_a_slot_is_asked_again(project, run):
    one, two = make_examples(project, 2)
    record_status(run, one, "truncated", 0)
    record_status(run, one, "error", 1)
    record_status(run, two, "error", 0)
    record_status(run, two, "truncated", 1)
    assert left(resumed(run, "error")) == [("e0", "original", (0,), 2)]


def test_a_server_that_gives_few_choices_gets_pieces(project):
    (example,) = make_examples(project, 1)
    ask = Ask(example, "original", (0, 1, 2, 3, 4))
    assert [piece.slots for piece in ask.split(2)] == [(0, 1), (2, 3), (4,)]
    assert list(ask.split(None)) == [ask]
