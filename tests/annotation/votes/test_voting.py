"""Votes where rounds overlap, and votes that arrive at the same moment."""

import threading

import pytest
from django.db import connection
from django.utils import timezone

from annotation.models import Draft, Item, Round, Slot, Vote
from annotation.queue.drafts import save_draft
from annotation.queue.queue import LEASE, NoItem, claim_next, claim_slot_of, skip
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import NotNeeded, RoundClosed, edit_vote, record_vote
from tests.factories import make_annotator, make_examples, make_project

pytestmark = [pytest.mark.databases]


def everything(project, votes=1):
    return open_round(project, None, None, RoundSettings(everything=True, votes=votes, seed=5))


def filled(round_):
    return Slot.objects.filter(round=round_, vote__isnull=False).count()


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


@pytest.fixture
def ben(project):
    return make_annotator(project, "ben")


def test_a_vote_counts_where_the_same_person_holds_the_example_in_another_round(project, ana):
    make_examples(project, 1)
    first, second = everything(project), everything(project)
    in_first, in_second = claim_next(first, ana), claim_next(second, ana)
    vote = record_vote(in_first, {"overall": "tie"})
    assert filled(second) == 1
    # The other page is still open, and is sent off as well.
    with pytest.raises(NotNeeded, match="counts here as well"):
        record_vote(in_second, {"overall": "left"})
    assert Vote.objects.get() == vote
    assert vote.label == "tie"
    assert set(Item.objects.values_list("state", flat=True)) == {Item.State.COMPLETE}


def test_a_vote_that_found_no_room_counts_when_the_round_is_closed(project, ana, ben):
    make_examples(project, 1)
    first, second = everything(project), everything(project)
    claim_next(second, ben)
    record_vote(claim_next(first, ana), {"overall": "tie"})
    assert filled(second) == 0
    changes.close(second, None)
    assert filled(second) == 1
    assert Item.objects.get(round=second).state == Item.State.COMPLETE


def test_a_vote_that_found_no_room_counts_when_its_holder_skips(project, ana, ben):
    make_examples(project, 1)
    first, second = everything(project), everything(project)
    in_hand = claim_next(second, ben)
    record_vote(claim_next(first, ana), {"overall": "tie"})
    skip(in_hand)
    assert filled(second) == 1
    assert Item.objects.get(round=second).state == Item.State.COMPLETE


def test_a_lease_that_ended_leaves_its_room_to_a_vote_from_another_round(project, ana, ben):
    make_examples(project, 1)
    first, second = everything(project), everything(project)
    claim_next(second, ben, now=timezone.now() - 2 * LEASE)
    record_vote(claim_next(first, ana), {"overall": "tie"})
    assert filled(second) == 1
    assert claim_next(second, ben) == NoItem("done")


def test_nobody_takes_up_an_example_that_they_voted_on_in_another_round(project, ana):
    make_examples(project, 1)
    first, second = everything(project, votes=2), everything(project, votes=2)
    in_second = claim_next(second, ana)
    record_vote(claim_next(first, ana), {"overall": "tie"})
    assert filled(second) == 1
    assert claim_slot_of(in_second.item, ana, timezone.now()) is None


def test_a_round_closed_while_the_page_was_open_takes_neither_vote_nor_edit(project, ana):
    make_examples(project, 2)
    round_ = everything(project)
    vote = record_vote(claim_next(round_, ana), {"overall": "tie"})
    stale_vote = Vote.objects.select_related("item__round", "protocol").get()
    in_hand = claim_next(round_, ana)
    in_hand.item.round = Round.objects.get(pk=round_.pk)
    changes.close(round_, None)
    with pytest.raises(RoundClosed):
        record_vote(in_hand, {"overall": "left"})
    with pytest.raises(RoundClosed):
        edit_vote(stale_vote, {"overall": "left"}, "")
    assert Vote.objects.get() == vote
    assert Vote.objects.get().label == "tie"


@pytest.mark.django_db(transaction=True)
def test_votes_on_one_example_at_once_wait_for_each_other_and_none_is_lost(transactional_db):
    project = make_project()
    people = [make_annotator(project) for _ in range(6)]
    make_examples(project, 8)
    first, second = everything(project, votes=6), everything(project, votes=6)
    barrier = threading.Barrier(len(people))
    errors = []

    def work(number, person):
        try:
            for _ in range(8):
                draft = claim_next((first, second)[number % 2], person)
                barrier.wait()
                record_vote(draft, {"overall": "left"})
        except Exception as error:
            errors.append(error)
            barrier.abort()
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=each) for each in enumerate(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert Vote.objects.count() == 48
    assert filled(first) == filled(second) == 48
    assert set(Item.objects.values_list("state", flat=True)) <= {"complete", "adjudicate"}


def test_a_draft_that_was_deleted_meanwhile_is_not_kept_silently(project):
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    draft = claim_next(round_, make_annotator(project, "zoe"))
    Draft.objects.all().delete()
    with pytest.raises(Draft.DoesNotExist):
        save_draft(draft, {"overall": "left"}, "", 1.0)


def test_of_earlier_votes_the_first_count_and_the_rest_find_no_room(project, ana, ben):
    make_examples(project, 1)
    first = everything(project, votes=2)
    for person, choice in ((ben, "left"), (ana, "right")):
        record_vote(claim_next(first, person), {"overall": choice})
    second = everything(project)
    assert Slot.objects.get(round=second).vote.annotator == ben
    # It is the time of the vote that counts, not when it was stored.
    Vote.objects.filter(annotator=ana).update(submitted_at=timezone.now() - 2 * LEASE)
    third = everything(project)
    assert Slot.objects.get(round=third).vote.annotator == ana


def test_whoever_voted_is_asked_again_where_another_question_is_asked(project, ana):
    make_examples(project, 1)
    record_vote(claim_next(everything(project), ana), {"overall": "left"})
    assert claim_next(everything(project), ana) == NoItem("done")
    project.question_asked = "Which one is kinder?"
    project.save()
    assert isinstance(claim_next(everything(project), ana), Draft)
