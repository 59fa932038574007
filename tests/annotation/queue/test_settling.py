"""When an item is settled, and when it needs a person's decision."""

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from annotation.models import Annotator, Item
from annotation.people.annotators import come_back, leave_round
from annotation.people.invitations import Terms, accept_invitation, invite
from annotation.queue.queue import claim_next, skip
from annotation.queue.settling import settle, settle_all
from annotation.rounds.changes import raise_votes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import decide
from judging.projects.models import Membership
from tests.factories import make_annotator, make_examples, make_project, make_user, make_vote

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


@pytest.fixture
def ben(project):
    return make_annotator(project, "ben")


def item_of(project, **fields):
    """The only item of a round that asks for two votes."""
    make_examples(project, 1, **fields)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=1))
    return round_.items.select_related("example", "round__protocol").get()


def check_of(project):
    """The attention check of a round, beside one example."""
    make_examples(project, 1, is_check=True, gold_label="win")
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=1))
    return round_.items.select_related("example", "round__protocol").get(selection__kind="check")


def state_of(item):
    return Item.objects.get(pk=item.pk).state


def skip_it(item, annotator):
    while (draft := claim_next(item.round, annotator)).item != item:
        skip(draft)
    skip(draft)


def test_who_is_told_of_items_before_they_are_settled_can_keep_them(project, ana, ben):
    item = item_of(project)
    for person in (ana, ben):
        make_vote(item, person, "win")
    Item.objects.update(state="open")

    def cancelled(rows):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        settle_all(Item.objects.all(), cancelled)
    assert state_of(item) == "open"
    settle_all(Item.objects.all())
    assert state_of(item) == "complete"


@pytest.mark.parametrize(
    ("labels", "state"), [("win win", "complete"), ("win lose", "adjudicate"), ("win", "open")]
)
def test_votes_settle_an_item_or_leave_it_to_a_person(project, ana, ben, labels, state):
    item = item_of(project)
    for person, label in zip((ana, ben), labels.split(), strict=False):
        make_vote(item, person, label)
    assert state_of(item) == state


def test_an_attention_check_never_needs_a_decision(project, ana, ben):
    check = check_of(project)
    make_vote(check, ana, "win")
    make_vote(check, ben, "lose")
    assert state_of(check) == Item.State.COMPLETE


def test_an_attention_check_that_all_skipped_is_done_with(project, ana):
    check = check_of(project)
    skip_it(check, ana)
    assert state_of(check) == Item.State.COMPLETE


def test_whoever_voted_is_not_waited_for_where_all_others_skipped(project, ana, ben):
    item = item_of(project)
    skip_it(item, ben)
    assert state_of(item) == Item.State.OPEN
    make_vote(item, ana, "win")
    assert state_of(item) == Item.State.ADJUDICATE


@pytest.mark.parametrize(
    "gone",
    [
        lambda ben: Membership.objects.filter(user=ben.user).update(project=make_project()),
        lambda ben: Annotator.objects.filter(pk=ben.pk).update(left_at=timezone.now()),
        lambda ben: User.objects.filter(pk=ben.user_id).update(is_active=False),
    ],
    ids=["in another project only", "left", "no login any more"],
)
def test_only_those_who_can_still_vote_in_the_project_are_waited_for(project, ana, ben, gone):
    item = item_of(project)
    skip_it(item, ana)
    assert settle(item) == Item.State.OPEN
    gone(ben)
    assert settle(item) == Item.State.ADJUDICATE


def test_what_all_skipped_is_asked_again_when_somebody_joins(project, ana):
    item = item_of(project)
    skip_it(item, ana)
    assert state_of(item) == Item.State.ADJUDICATE
    accept_invitation(invite(project, None, Terms()), make_user())
    assert state_of(item) == Item.State.OPEN


def test_a_check_that_all_skipped_stays_done_with_when_somebody_joins(project, ana):
    check = check_of(project)
    skip_it(check, ana)
    accept_invitation(invite(project, None, Terms()), make_user())
    assert state_of(check) == Item.State.COMPLETE


def test_whoever_leaves_the_round_is_not_waited_for_until_they_are_back(project, ana, ben):
    item = item_of(project)
    skip_it(item, ana)
    leave_round(item.round, ben)
    assert state_of(item) == Item.State.ADJUDICATE
    come_back(item.round, ben)
    assert state_of(item) == Item.State.OPEN


def test_what_was_decided_stays_decided_when_somebody_joins(project, owner, ana):
    item = item_of(project)
    skip_it(item, ana)
    item.refresh_from_db()
    decide(item, owner, "win", "obvious")
    accept_invitation(invite(project, None, Terms()), make_user())
    assert state_of(item) == Item.State.COMPLETE


def test_when_the_last_who_could_vote_leaves_the_rest_is_decided(client, project, owner, ana, ben):
    item = item_of(project)
    skip_it(item, ana)
    assert state_of(item) == Item.State.OPEN
    client.force_login(owner)
    member = Membership.objects.get(user=ben.user)
    client.post(reverse("member", args=[project.slug, member.pk]), {"remove": ""})
    assert state_of(item) == Item.State.ADJUDICATE


def test_what_was_decided_before_more_votes_were_asked_for_waits_for_nobody_who_left(
    project, owner, ana, ben
):
    item = item_of(project)
    make_vote(item, ana, "win")
    make_vote(item, ben, "lose")
    item.refresh_from_db()
    decide(item, owner, "win", "obvious")
    raise_votes(item.round, None, 3)
    cleo, dora = make_annotator(project), make_annotator(project)
    skip_it(item, cleo)
    assert state_of(item) == Item.State.OPEN
    leave_round(item.round, dora)
    assert state_of(item) == Item.State.COMPLETE
