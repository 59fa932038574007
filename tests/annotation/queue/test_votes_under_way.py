"""Votes that are being given while a round comes: they count there, whoever is first."""

import threading
from contextlib import contextmanager
from decimal import Decimal

import pytest
from django.db import connection, transaction

from annotation.models import Round, Selection, Slot
from annotation.queue.queue import claim_next
from annotation.rounds import changes
from annotation.rounds.growing import _insert_items, rows_of
from annotation.rounds.opening import RoundSettings, open_round
from annotation.rounds.selecting import Ranked
from annotation.votes import voting
from judging.dataset.models import Example
from tests.factories import make_annotator, make_examples, make_project, make_run, make_verdict

pytestmark = [pytest.mark.databases, pytest.mark.django_db(transaction=True)]
EVERYTHING = RoundSettings(everything=True, votes=2)


@pytest.fixture
def project(transactional_db):
    return make_project()


def in_thread(action):
    def act():
        try:
            action()
        finally:
            connection.close()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


@contextmanager
def being_given(draft):
    """A vote that is stored, and that nobody else sees before the block ends."""
    stored, go_on = threading.Event(), threading.Event()

    def vote():
        with transaction.atomic():
            voting.record_vote(draft, {"overall": "left"})
            stored.set()
            go_on.wait(20)

    voter = in_thread(vote)
    assert stored.wait(20)
    yield
    go_on.set()
    voter.join()


def filled(round_):
    return Slot.objects.filter(round=round_, vote__isnull=False).count()


def opened(project):
    """What is asked for while the vote is given, and what it counts in afterwards."""
    return (
        lambda: open_round(project, None, None, EVERYTHING),
        lambda: Round.objects.get(project=project, number=2),
    )


def extended(project):
    """By the example that is not in the cut yet, which is the one of the draft."""
    run = make_run(project)
    make_verdict(run, Example.objects.get(project=project), 0.1)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.9)
    other = open_round(project, None, run, RoundSettings(beta=Decimal(50), votes=2, seed=1))
    return lambda: changes.extend(other, None, Decimal(100)), lambda: other


def reopened(project):
    other = open_round(project, None, None, EVERYTHING)
    changes.close(other, None)
    return lambda: changes.reopen(Round.objects.get(pk=other.pk), None), lambda: other


@pytest.mark.parametrize("come", [opened, extended, reopened])
def test_a_vote_under_way_counts_where_its_example_comes_meanwhile(project, come):
    make_examples(project, 1)
    first = open_round(project, None, None, EVERYTHING)
    draft = claim_next(first, make_annotator(project))
    act, found = come(project)
    with being_given(draft):
        acting = in_thread(act)
        # It waits for the vote; one that does not is over before.
        acting.join(1)
    acting.join()
    assert filled(found()) == filled(first) == 1


def test_a_vote_counts_in_a_round_that_came_after_it_had_looked(project, monkeypatch):
    make_examples(project, 1)
    first = open_round(project, None, None, EVERYTHING)
    draft = claim_next(first, make_annotator(project))
    store = voting.insert_one

    def come():
        """As by somebody who had waited for votes just before this one held its items."""
        with transaction.atomic():
            second = Round.objects.get(pk=first.pk)
            second.pk, second.number, second.nonce = None, 2, "another"
            second.save(force_insert=True)
            selection = Selection.objects.create(
                round=second, kind=Selection.Kind.ALL, seed=1, frame_size=1
            )
            _insert_items(second, rows_of(selection, [Ranked(draft.item.example_id, 0, None)], [0]))

    def insert_one(row):
        if connection.features.has_select_for_update:
            in_thread(come).join()
        store(row)

    if not connection.features.has_select_for_update:
        # One writer at a time: it cannot come in between.
        come()
    monkeypatch.setattr(voting, "insert_one", insert_one)
    voting.record_vote(draft, {"overall": "left"})
    assert filled(Round.objects.get(number=2)) == 1
