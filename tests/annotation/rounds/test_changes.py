"""What a manager changes while people are at work."""

from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from annotation.models import Item, Round, Seat, Slot
from annotation.people.annotators import assign
from annotation.queue.queue import NoItem, claim_next, skip
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import record_vote
from judging.core.errors import UserError
from tests.factories import make_annotator, make_examples, make_project, make_run, make_verdict

pytestmark = [pytest.mark.databases]


def everything(project, votes=1):
    return open_round(project, None, None, RoundSettings(everything=True, votes=votes, seed=5))


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


@pytest.fixture
def ben(project):
    return make_annotator(project, "ben")


def test_raising_n_does_not_wait_for_people_who_skipped(project, ana, ben):
    make_examples(project, 1)
    round_ = everything(project)
    skip(claim_next(round_, ben))
    record_vote(claim_next(round_, ana), {"overall": "tie"})
    changes.raise_votes(round_, None, 2)
    assert Item.objects.get().state == Item.State.ADJUDICATE


def test_closing_merges_the_votes_on_what_the_others_skipped(project, ana, ben):
    make_examples(project, 1)
    round_ = everything(project, votes=2)
    skip(claim_next(round_, ben))
    record_vote(claim_next(round_, ana), {"overall": "tie"})
    assert Item.objects.get().state == Item.State.ADJUDICATE
    changes.close(round_, None)
    assert Item.objects.get().state == Item.State.COMPLETE


def test_what_everybody_skipped_waits_for_a_decision_after_the_close_too(project, ana):
    make_examples(project, 1)
    round_ = everything(project)
    skip(claim_next(round_, ana))
    changes.close(round_, None)
    assert Item.objects.get().state == Item.State.ADJUDICATE


def test_votes_given_elsewhere_while_a_round_was_closed_count_when_it_reopens(project, ana):
    make_examples(project, 1)
    first, second = everything(project), everything(project)
    changes.close(first, None)
    record_vote(claim_next(second, ana), {"overall": "tie"})
    changes.reopen(first, None)
    assert Slot.objects.get(round=first).vote is not None
    assert claim_next(first, ana) == NoItem("done")


def test_a_second_extension_with_what_it_read_before_the_first_repeats_nothing(project):
    run = make_run(project)
    for example in make_examples(project, 10):
        make_verdict(run, example, example.number / 10)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(10), votes=1, seed=1))
    changes.raise_votes(round_, None, 2)
    round_.votes_per_item = 1
    changes.extend(round_, None, Decimal(20))
    with pytest.raises(UserError, match="adds nothing"):
        changes.extend(round_, None, Decimal(20))
    assert Slot.objects.filter(round=round_).count() == 4


def queries_to_close_and_reopen(n):
    project = make_project()
    make_examples(project, n)
    round_ = everything(project, votes=2)
    for name in ("ana", "ben"):
        record_vote(claim_next(round_, make_annotator(project, f"{name}-{n}")), {"overall": "tie"})
    counts = []
    for change in (changes.close, changes.reopen):
        with CaptureQueriesContext(connection) as captured:
            change(round_, None)
        counts.append(len(captured))
    return counts


def test_closing_a_large_round_takes_no_more_queries_than_closing_a_small_one(db):
    assert queries_to_close_and_reopen(3) == queries_to_close_and_reopen(40)


def test_a_round_that_was_closed_meanwhile_is_not_changed(project, ana):
    run = make_run(project)
    for example in make_examples(project, 4):
        make_verdict(run, example, 0.5)
    looked_at = open_round(project, None, run, RoundSettings(beta=Decimal(50), votes=1))
    changes.close(Round.objects.get(pk=looked_at.pk), None)
    for change in (
        lambda: changes.raise_votes(looked_at, None, 2),
        lambda: changes.extend(looked_at, None, Decimal(100)),
        lambda: assign(looked_at, None, [ana]),
    ):
        with pytest.raises(UserError):
            change()
    assert Slot.objects.count() == 2
    assert not Seat.objects.exists()
