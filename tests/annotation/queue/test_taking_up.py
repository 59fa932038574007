"""Taking up an item by its name: a skip that is undone, a lease that ended."""

import pytest
from django.utils import timezone

from annotation.models import Draft, Slot, Vote
from annotation.people.annotators import assign
from annotation.queue.queue import LEASE, NoItem, claim_next, claim_slot_of, release, skip, unskip
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import take_up
from annotation.votes.voting import NotNeeded, RoundClosed, record_vote
from tests.factories import make_annotator, make_examples, make_project
from tests.together import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
TIE = {"overall": "tie"}


def round_of(project, limit, votes=1):
    make_examples(project, 8)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=votes, seed=5))
    assign(round_, None, [], limit=limit)
    return round_


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


@pytest.fixture
def ben(project):
    return make_annotator(project, "ben")


def of(annotator):
    return Slot.objects.filter(annotator=annotator)


def test_a_vote_whose_lease_ended_still_counts_while_there_is_room(project, ana, ben):
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2))
    mine = claim_next(round_, ana)
    claim_next(round_, ben, now=timezone.now() + LEASE * 2)
    record_vote(mine, {"overall": "left"})
    assert Vote.objects.get().annotator == ana


@pytest.mark.parametrize("limit", [1, 3])
def test_a_skip_that_is_undone_makes_the_pair_taken_up_last_go_back(project, ana, limit):
    round_ = round_of(project, limit)
    skipped = claim_next(round_, ana)
    others = []
    skip(skipped)
    for _ in range(limit):
        others.append(claim_next(round_, ana, ahead_of=others[-1].token if others else None))
        if len(others) < limit:
            record_vote(others[-1], TIE)
    unskip(skipped)
    assert take_up(skipped, timezone.now())
    assert of(ana).count() == limit
    record_vote(skipped, TIE)
    with pytest.raises(RoundClosed, match="as many pairs as were assigned"):
        record_vote(others[-1], TIE)
    # What was entered in it is kept.
    assert Draft.objects.get(pk=others[-1].pk).answer == TIE
    assert Vote.objects.filter(annotator=ana).count() == limit
    assert claim_next(round_, ana) == NoItem("limit")


def test_the_pair_on_the_screen_stays_when_one_fetched_ahead_can_go_back(project, ana):
    round_ = round_of(project, 2)
    skipped = claim_next(round_, ana)
    skip(skipped)
    on_screen = claim_next(round_, ana)
    ahead = claim_next(round_, ana, ahead_of=on_screen.token)
    unskip(skipped)
    assert take_up(skipped, timezone.now())
    assert set(of(ana).values_list("item", flat=True)) == {on_screen.item_id, skipped.item_id}
    assert not Slot.objects.filter(item=ahead.item_id, annotator__isnull=False).exists()


def test_nothing_goes_back_for_a_pair_that_others_have(project, ana, ben):
    round_ = round_of(project, 1)
    skipped = claim_next(round_, ana)
    skip(skipped)
    on_screen = claim_next(round_, ana)
    record_vote(claim_next(round_, ben), TIE)
    unskip(skipped)
    assert not take_up(skipped, timezone.now())
    assert of(ana).get().item_id == on_screen.item_id
    with pytest.raises(NotNeeded):
        record_vote(skipped, TIE)


def test_a_pair_that_was_given_back_is_not_taken_up_beyond_the_limit(project, ana):
    round_ = round_of(project, 1)
    old = claim_next(round_, ana)
    release(old)
    record_vote(claim_next(round_, ana), TIE)
    assert not Slot.objects.filter(item=old.item_id, vote__isnull=False).exists()
    assert claim_slot_of(old.item, ana, timezone.now()) is None


@pytest.mark.django_db(transaction=True)
def test_whoever_takes_up_several_at_once_stays_within_the_limit(transactional_db):
    project = make_project()
    ana = make_annotator(project)
    round_ = round_of(project, 2)
    drafts = []
    for _ in range(5):
        drafts.append(claim_next(round_, ana))
        skip(drafts[-1])
    for draft in drafts:
        unskip(draft)
    outcomes = at_once(lambda n: claim_slot_of(drafts[n].item, ana, timezone.now()))
    assert [one for one in outcomes if isinstance(one, Exception)] == []
    assert 1 <= of(ana).count() <= 2
