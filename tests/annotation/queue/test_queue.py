"""The queue: exactly n votes an item, whatever comes at once."""

import threading
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from annotation.models import Draft, Item, Round, Skip, Slot, Vote
from annotation.queue.queue import LEASE, NoItem, claim_next, heartbeat, release, skip
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import NotNeeded, RoundClosed, edit_vote, record_vote
from judging.core.errors import UserError
from tests.factories import make_annotator, make_examples, make_project

pytestmark = [pytest.mark.databases]


def round_of(project, n=3, votes=2, **settings) -> Round:
    make_examples(project, n)
    return open_round(project, None, None, RoundSettings(everything=True, votes=votes, **settings))


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


@pytest.fixture
def ben(project):
    return make_annotator(project, "ben")


def test_items_come_in_the_rounds_order_and_each_once(project, ana):
    round_ = round_of(project, n=5)
    seen = []
    while isinstance(draft := claim_next(round_, ana), Draft):
        seen.append(draft.item.position)
        record_vote(draft, {"overall": "tie"})
    assert draft == NoItem("done")
    assert seen == sorted(seen)
    assert len(set(seen)) == 5


def test_the_item_in_hand_comes_again_until_it_is_voted_on(project, ana):
    round_ = round_of(project)
    first, again = claim_next(round_, ana), claim_next(round_, ana)
    assert first.token == again.token
    assert first.left_response == again.left_response


def test_the_next_item_can_be_fetched_beside_the_one_in_hand(project, ana):
    round_ = round_of(project)
    first = claim_next(round_, ana)
    ahead = claim_next(round_, ana, ahead_of=first.token)
    assert ahead.token != first.token
    record_vote(first, {"overall": "left"})
    assert claim_next(round_, ana).token == ahead.token


def test_posting_twice_stores_one_vote(project, ana):
    draft = claim_next(round_of(project), ana)
    one = record_vote(draft, {"overall": "left"})
    two = record_vote(draft, {"overall": "right"})
    assert one.pk == two.pk
    assert Vote.objects.get().answer == {"overall": "left"}


def test_an_incomplete_answer_is_refused_and_the_draft_kept(project, ana):
    draft = claim_next(round_of(project), ana)
    with pytest.raises(UserError):
        record_vote(draft, {"overall": "north"})
    assert not Vote.objects.exists()
    assert heartbeat(draft)


def test_a_lease_that_ended_goes_to_somebody_else(project, ana, ben):
    round_ = round_of(project, n=1, votes=1)
    mine = claim_next(round_, ana)
    later = timezone.now() + LEASE + timedelta(seconds=1)
    blocked = claim_next(round_, ben)
    assert blocked.reason == "in_work"
    assert blocked.until is not None
    theirs = claim_next(round_, ben, now=later)
    assert isinstance(theirs, Draft)
    assert not heartbeat(mine)
    with pytest.raises(UserError, match="are working on this pair, so your vote was not stored"):
        record_vote(mine, {"overall": "right"})
    record_vote(theirs, {"overall": "left"})
    with pytest.raises(NotNeeded, match="got all the votes it needs"):
        record_vote(mine, {"overall": "left"})
    assert Vote.objects.count() == 1


def test_skip_hides_it_from_me_and_returns_it_to_others(project, ana, ben):
    round_ = round_of(project, n=1, votes=1)
    draft = claim_next(round_, ana)
    skip(draft, "I know the author")
    assert claim_next(round_, ana) == NoItem("done")
    assert isinstance(claim_next(round_, ben), Draft)


def test_skipped_by_all_who_could_vote_needs_a_decision(project, ana, ben):
    round_ = round_of(project, n=1, votes=1)
    skip(claim_next(round_, ana))
    assert Item.objects.get().state == Item.State.OPEN
    skip(claim_next(round_, ben))
    assert Item.objects.get().state == Item.State.ADJUDICATE
    assert Skip.objects.count() == 2


def test_released_items_come_back_to_the_same_person(project, ana):
    round_ = round_of(project)
    draft = claim_next(round_, ana)
    record_vote(claim_next(round_, ana, ahead_of=draft.token), {"overall": "tie"})
    release(draft)
    left = {claim_next(round_, ana).token}
    while isinstance(one := claim_next(round_, ana), Draft):
        left.add(one.token)
        record_vote(one, {"overall": "tie"})
    assert draft.token in left


def test_a_limit_ends_a_persons_work(project, ana):
    round_ = round_of(project, annotators=[ana], limit=1)
    record_vote(claim_next(round_, ana), {"overall": "tie"})
    assert claim_next(round_, ana) == NoItem("limit")


def test_others_are_not_assigned_to_a_round_of_named_people(project, ana, ben):
    round_ = round_of(project, annotators=[ana])
    assert claim_next(round_, ben) == NoItem("not_assigned")


def test_paused_and_closed_rounds_say_so(project, ana, ben):
    round_ = round_of(project, votes=1)
    in_hand = claim_next(round_, ana)
    waiting = claim_next(round_, ben)
    changes.pause(round_, None)
    assert claim_next(round_, ben) == NoItem("paused")
    record_vote(in_hand, {"overall": "left"})
    changes.resume(round_, None)
    changes.close(round_, None)
    waiting.item.round.refresh_from_db()
    assert claim_next(round_, ana) == NoItem("closed")
    with pytest.raises(RoundClosed):
        record_vote(waiting, {"overall": "left"})


def test_an_edit_keeps_what_the_vote_was(project, ana):
    draft = claim_next(round_of(project, n=1, votes=1), ana)
    vote = record_vote(draft, {"overall": "left"}, "sure")
    before = vote.label
    edit_vote(vote, {"overall": "right"}, "on second thought")
    vote.refresh_from_db()
    assert {before, vote.label} == {"win", "lose"}
    revision = vote.revisions.get()
    assert (revision.label, revision.comment) == (before, "sure")


def test_no_majority_waits_for_a_decision(project, ana, ben):
    round_ = round_of(project, n=1, votes=2)
    for person, side in ((ana, 1), (ben, 2)):
        draft = claim_next(round_, person)
        choice = "left" if draft.left_response == side else "right"
        record_vote(draft, {"overall": choice})
    assert Item.objects.get().state == Item.State.ADJUDICATE


def test_earlier_votes_under_the_same_protocol_count(project, ana, ben):
    first = round_of(project, n=2, votes=1)
    record_vote(claim_next(first, ana), {"overall": "left"})
    second = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    assert Slot.objects.filter(round=second, vote__isnull=False).count() == 1
    assert Item.objects.filter(round=second, state=Item.State.COMPLETE).count() == 1
    # And a later vote in one round counts in the other too.
    record_vote(claim_next(first, ben), {"overall": "left"})
    assert Slot.objects.filter(round=second, vote=None).count() == 0


def test_raising_n_asks_for_one_more_and_repeats_nobody(project, ana, ben):
    round_ = round_of(project, n=2, votes=1)
    while isinstance(draft := claim_next(round_, ana), Draft):
        record_vote(draft, {"overall": "tie"})
    changes.raise_votes(round_, None, 2)
    round_.refresh_from_db()
    assert claim_next(round_, ana) == NoItem("done")
    assert isinstance(claim_next(round_, ben), Draft)


@pytest.mark.system
@pytest.mark.django_db(transaction=True)
def test_fifty_people_at_once_give_exactly_n_votes(transactional_db):
    project = make_project()
    people = [make_annotator(project) for _ in range(50)]
    round_ = round_of(project, n=30, votes=3)
    barrier = threading.Barrier(len(people))
    errors = []

    def work(person):
        try:
            barrier.wait()
            while isinstance(draft := claim_next(round_, person), Draft):
                record_vote(draft, {"overall": "left"})
        except Exception as error:  # reported below
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    votes = Counter(Vote.objects.values_list("item", flat=True))
    assert set(votes.values()) == {3}
    assert len(votes) == 30
    assert not Slot.objects.filter(vote=None).exists()
    assert set(Item.objects.values_list("state", flat=True)) <= {"complete", "adjudicate"}


def test_a_vote_that_found_no_room_counts_once_the_lease_of_another_has_ended(project, ana, ben):
    first, second = round_of(project, n=1, votes=1), round_of(project, n=0, votes=1)
    claim_next(second, ben)
    vote = record_vote(claim_next(first, ana), {"overall": "left"})
    assert not Slot.objects.filter(round=second, vote=vote).exists()
    Slot.objects.filter(round=second).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert claim_next(second, ana) == NoItem("done")
    assert Slot.objects.get(round=second).vote == vote
    assert Item.objects.get(round=second).state == Item.State.COMPLETE
