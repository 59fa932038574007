"""Which readings of a run count."""

import pytest
from django.utils import timezone

from judging.dataset.models import PointItem
from judging.runs.models import Call, Form, Parse, Sample
from tests.factories import make_examples, make_import, make_run
from tests.judging.runs.recorded_files import record_sample, record_scores

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


COLUMNS = ("sample__attempt", "status")


def rows(run, subjects=None):
    """Part, slot, attempt and status; by the query over the run, or over a page of it."""
    if subjects is None:
        place = "sample__call__part", "sample__slot"
        return sorted(Parse.objects.that_count(run).values_list(*place, *COLUMNS))
    found = Parse.objects.rows_that_count(run, subjects, *COLUMNS)
    return sorted(row[1:] for row in found)


def test_the_last_attempt_at_a_slot_counts_and_no_other_slot_is_touched(project):
    run, other_run = make_run(project, k=2), make_run(project, k=2)
    example, other = make_examples(project, 2)
    for each in (example, other):
        record_scores(run, each, "original", [None, (8, 6)])
    record_sample(record_scores(run, example, "original", []), 0, (8, 6), attempt=1)
    record_sample(record_scores(other_run, example, "original", []), 1, (8, 6), attempt=3)
    again = ("original", 0, 1, "valid")
    untouched = [("original", 0, 0, "unparsed"), ("original", 1, 0, "valid")]
    assert rows(run, [example.pk]) == [again, untouched[1]]
    assert rows(run, [other.pk]) == untouched
    assert rows(run) == sorted([again, untouched[1], *untouched])


def test_a_failed_last_attempt_counts_though_an_earlier_one_can_be_read(project):
    run = make_run(project, k=1)
    (example,) = make_examples(project, 1)
    record_scores(run, example, "swapped", [(8, 6)])
    record_sample(record_scores(run, example, "swapped", []), 0, None, attempt=1)
    assert rows(run) == [("swapped", 0, 1, "unparsed")]


def test_an_older_version_of_a_reading_does_not_count(project):
    run = make_run(project, k=1)
    (example,) = make_examples(project, 1)
    record_scores(run, example, "original", [None])
    older = Parse.objects.get()
    Parse.objects.filter(pk=older.pk).update(current=False)
    Parse.objects.create(sample=older.sample, version=2, status="valid")
    assert rows(run) == [("original", 0, 0, "valid")]


def asked(run, part, attempt, **about):
    call = Call.objects.create(
        run=run, part=part, seq=attempt, slots=[0], claimed_at=timezone.now(), **about
    )
    sample = Sample.objects.create(call=call, index=0, slot=0, attempt=attempt)
    Parse.objects.create(sample=sample, version=1, status="valid")


def test_single_responses_and_content_free_inputs_have_slots_too(project):
    run = make_run(project, form=Form.POINTWISE, k=1)
    source = make_import(project)
    one, two = (
        PointItem.objects.create(project=project, source=source, external_id=f"p{n}", number=n)
        for n in range(2)
    )
    asked(run, "item:fluency", 0, point_item=one)
    asked(run, "item:fluency", 1, point_item=one)
    asked(run, "item:fluency", 0, point_item=two)
    asked(run, "cc:X0", 0)
    asked(run, "cc:X0", 1)
    asked(run, "dc:0:X0", 0)
    of_items = [("item:fluency", 0, 0, "valid"), ("item:fluency", 0, 1, "valid")]
    assert rows(run) == of_items
    assert rows(run, [one.pk, two.pk]) == of_items
    assert Parse.objects.rows_that_count(run, None, *COLUMNS) == [
        (None, "cc:X0", 0, 1, "valid"),
        (None, "dc:0:X0", 0, 0, "valid"),
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"state": "running"}, "is not ranked yet. Wait until it is done, or pause it."),
        ({"state": "cancelling"}, "is not ranked yet. Wait until it has stopped."),
        ({"state": "paused"}, "was paused before it was ranked. Resume it first."),
        ({"state": "cancelled"}, "was stopped before it was ranked. Resume it first."),
        ({"state": "failed"}, "failed before it was ranked. Resume it first."),
        ({"state": "running", "method": "imported"}, "Wait until it is imported."),
        ({"state": "failed", "method": "imported"}, "was cut off. Import its file again."),
        ({"state": "done", "form": "pointwise"}, "Its figures are on the page of the run."),
        ({"state": "paused", "ranked_at": timezone.now()}, ""),
    ],
)
def test_a_run_without_figures_says_what_can_still_be_done(project, fields, said):
    # Only what the state allows is advised: a run that failed is not waited for.
    why = make_run(project, **{"ranked_at": None, **fields}).why_unranked
    assert why.endswith(said)
    assert bool(why) == bool(said)
