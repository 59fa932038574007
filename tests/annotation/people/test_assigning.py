"""Who labels in a round, and how much each."""

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from django.urls import reverse

from annotation.models import Draft, Item, Round, Seat, Slot, Vote
from annotation.people.annotators import assign, leave_round
from annotation.queue.drafts import SeatGone, draft_of
from annotation.queue.queue import NoItem, claim_next, seat_of, skip
from annotation.queue.settling import possible_voters
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes import aside
from annotation.votes.voting import RoundClosed, record_vote
from judging.core.errors import UserError
from tests.factories import make_annotator, make_examples, make_project

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


@pytest.fixture
def ben(project):
    return make_annotator(project, "ben")


@pytest.fixture
def round_(project):
    make_examples(project, 4)
    return open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))


def test_whoever_is_not_named_gets_nothing_more_and_keeps_what_they_gave(round_, ana, ben):
    record_vote(claim_next(round_, ben), {"overall": "tie"})
    in_hand = claim_next(round_, ben)
    assign(round_, None, [ana])
    in_hand.item.round.refresh_from_db()
    assert claim_next(round_, ben) == NoItem("not_assigned")
    # The page that was open meanwhile is sent off as well.
    with pytest.raises(RoundClosed, match="assigned to other people now"):
        record_vote(in_hand, {"overall": "tie"})
    assert not Slot.objects.filter(annotator=ben, vote=None).exists()
    assert Vote.objects.filter(annotator=ben).count() == 1
    assert isinstance(claim_next(round_, ana), Draft)
    assign(round_, None, [])
    assert isinstance(claim_next(round_, ben), Draft)


def test_a_limit_holds_for_everybody_those_who_come_later_too(round_, ana, ben):
    claim_next(round_, ana)
    assign(round_, None, [], limit=1)
    for person in (ana, ben):
        record_vote(claim_next(round_, person), {"overall": "tie"})
        assert claim_next(round_, person) == NoItem("limit")


def test_what_all_who_are_named_skipped_needs_a_decision(round_, ana, ben):
    draft = claim_next(round_, ana)
    skip(draft)
    assign(round_, None, [ana])
    assert Item.objects.get(pk=draft.item_id).state == Item.State.ADJUDICATE
    assign(round_, None, [])
    assert Item.objects.get(pk=draft.item_id).state == Item.State.OPEN


def test_nobody_waits_for_a_person_who_has_reached_the_limit(
    round_, ana, ben, django_capture_on_commit_callbacks
):
    assign(round_, None, [], limit=1)
    hers = claim_next(round_, ana)
    for _ in range(2):
        skip(claim_next(round_, ben))
    skipped_item = Item.objects.filter(skips__annotator=ben).exclude(pk=hers.item_id)
    assert skipped_item.get().state == Item.State.OPEN
    with django_capture_on_commit_callbacks(execute=True):
        record_vote(hers, {"overall": "tie"})
    assert possible_voters(round_) == {ben.pk}
    assert skipped_item.get().state == Item.State.ADJUDICATE
    assign(round_, None, [], limit=2)
    assert possible_voters(round_) == {ana.pk, ben.pk}
    assert skipped_item.get().state == Item.State.OPEN


def test_what_the_last_person_below_the_limit_skips_needs_a_decision(round_, ana, ben):
    assign(round_, None, [], limit=1)
    record_vote(claim_next(round_, ana), {"overall": "tie"})
    draft = claim_next(round_, ben)
    skip(draft)
    assert Item.objects.get(pk=draft.item_id).state == Item.State.ADJUDICATE


def test_an_item_in_hand_does_not_reach_the_limit(round_, ana, ben):
    assign(round_, None, [], limit=1)
    claim_next(round_, ana)
    draft = claim_next(round_, ben)
    skip(draft)
    assert Item.objects.get(pk=draft.item_id).state == Item.State.OPEN


def test_whoever_left_by_their_own_wish_is_not_called_back(round_, ana, ben):
    leave_round(round_, ana)
    assign(round_, None, [ana, ben])
    assign(round_, None, [ben])
    assert Seat.objects.get(annotator=ana).left_at is not None
    assert claim_next(round_, ana) == NoItem("left")


def test_a_closed_round_is_not_assigned(round_, ana):
    changes.close(round_, None)
    with pytest.raises(UserError, match="hands out no items"):
        assign(round_, None, [ana])


def test_the_page_assigns_members_of_the_project_alone(client, researcher, project, round_, ana):
    client.force_login(researcher)
    url = reverse("round_people", args=[project.slug, round_.number])
    page = client.post(url, {"people": [ana.pk], "limit": "2"}, follow=True).text
    assert "Only the people selected below get items, at most 2 per person" in page
    seat = Seat.objects.get()
    assert (seat.annotator, seat.limit) == (ana, 2)
    stranger = make_annotator(make_project())
    for wrong in ({"people": [stranger.pk]}, {"limit": "0"}):
        assert client.post(url, wrong).status_code == 422
    assert Seat.objects.get() == seat


def test_the_command_opens_a_round_for_named_people(project, ana, ben, capsys):
    make_examples(project, 3)
    asked = ["open_round", project.slug, "--all", "--votes", "1"]
    # Named twice is named.
    call_command(*asked, "--annotator", "ana", "--annotator", "ana", "--limit", "2")
    opened = project.rounds.get()
    assert claim_next(opened, ben) == NoItem("not_assigned")
    assert Seat.objects.get(annotator=ana).limit == 2
    with pytest.raises(CommandError, match="not a member"):
        call_command(*asked, "--annotator", "nobody")
    for limit in ("0", "99999999999"):
        with pytest.raises(CommandError, match="from 1 to 1000000 items per person"):
            call_command(*asked, "--limit", limit)
    assert project.rounds.count() == 1


@pytest.mark.parametrize("what", ["named", "left", "stopped"])
def test_a_seat_that_goes_while_an_item_is_handed_out_takes_it_back(round_, ana, ben, what):
    # What a request that is under way has read before.
    seat = seat_of(round_, ben)
    if what == "named":
        assign(Round.objects.get(pk=round_.pk), None, [ana])
    elif what == "stopped":
        aside.carry_out(aside._stop(round_, ben, None, "Votes left on every pair."))
    else:
        leave_round(round_, ben)
    item = round_.items.first()
    with pytest.raises(SeatGone), transaction.atomic():
        draft_of(item, ben, seat, cursor=0)
    assert not Draft.objects.filter(annotator=ben).exists()


def test_sides_stay_balanced_for_whoever_is_taken_off_and_called_back(project, ana, ben):
    make_examples(project, 24)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))
    lefts = []
    for _ in range(8):
        for _ in range(3):
            draft = claim_next(round_, ana)
            lefts.append(draft.left_response)
            record_vote(draft, {"overall": "tie"})
        assign(round_, None, [ben])
        assign(round_, None, [])
    assert abs(lefts.count(1) - lefts.count(2)) <= 2
