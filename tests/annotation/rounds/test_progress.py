"""How far a round is, counted in the database."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from annotation.models import Flag, Skip
from annotation.people.annotators import annotator_named
from annotation.queue.queue import claim_next, skip
from annotation.rounds.changes import close
from annotation.rounds.opening import RoundSettings, open_round
from annotation.rounds.progress import round_progress, rounds_with_counts
from judging.projects.models import Project
from tests.factories import make_annotator, make_examples, make_project, make_vote

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def ana(project):
    return make_annotator(project, "ana")


@pytest.fixture
def ben(project):
    return make_annotator(project, "ben")


def open_on(project, n, **settings):
    make_examples(project, n)
    return open_round(project, None, None, RoundSettings(everything=True, **settings))


def by_number(round_):
    return round_.items.select_related("example", "round__protocol").order_by("example__number")


def test_items_are_done_undecided_in_work_or_open(project, ana, ben):
    round_ = open_on(project, 5, votes=2)
    done, split, begun, *_ = by_number(round_)
    for item, labels in ((done, ("win", "win")), (split, ("win", "lose")), (begun, ("tie",))):
        for person, label in zip((ana, ben), labels, strict=False):
            make_vote(item, person, label)
    claim_next(round_, ana)
    found = round_progress(round_)
    assert (found.n_items, found.done, found.undecided) == (5, 1, 1)
    assert (found.in_work, found.open) == (2, 1)
    assert (found.votes_given, found.votes_asked) == (5, 10)
    row = rounds_with_counts(project).get()
    assert (row.n_items, row.n_done, row.n_undecided) == (5, 1, 1)
    assert (row.n_given, row.n_asked) == (5, 10)


def test_what_somebody_left_lying_is_open_again(project, ana):
    round_ = open_on(project, 1, votes=1)
    claim_next(round_, ana)
    assert round_progress(round_).in_work == 1
    assert round_progress(round_, timezone.now() + timedelta(hours=1)).in_work == 0


def test_people_are_listed_with_their_votes_hands_and_pace(project, ana, ben):
    round_ = open_on(project, 4, votes=2)
    first, second, *_ = by_number(round_)
    make_vote(first, ana, "win", active_seconds=10)
    make_vote(second, ana, "win", active_seconds=30)
    make_vote(first, ben, "win", active_seconds=None)
    claim_next(round_, ben)
    one, two = round_progress(round_).people
    assert (one.annotator, one.n_votes, one.in_hand, one.pace) == (ana, 2, 0, 20)
    assert (two.annotator, two.n_votes, two.in_hand, two.pace) == (ben, 1, 1, None)


@pytest.mark.parametrize(
    ("basis", "so_far"),
    # Two votes at 3 minutes of 7.50 USD an hour; or 72 s of one, and 3 minutes for the other.
    [("assumed", Decimal("0.75")), ("measured", Decimal("0.15") + Decimal("0.375"))],
)
def test_cost_follows_the_basis_of_the_round(project, ana, ben, basis, so_far):
    Project.objects.update(cost_basis=basis)
    project.refresh_from_db()
    round_ = open_on(project, 2, votes=2)
    item = by_number(round_)[0]
    make_vote(item, ana, "win", active_seconds=72.0)
    make_vote(item, ben, "win", active_seconds=None)
    found = round_progress(round_)
    assert found.cost == so_far
    assert found.cost_left == Decimal("0.75")
    assert found.seconds == 72


def test_nothing_is_left_to_pay_where_nobody_will_be_asked(project, ana, ben):
    round_ = open_on(project, 2, votes=2)
    item = by_number(round_)[0]
    make_vote(item, ana, "win")
    assert round_progress(round_).cost_left == Decimal("1.125")
    skip(claim_next(round_, ben))
    skip(claim_next(round_, ben))
    # One waits for a decision now, and the other for two votes.
    assert round_progress(round_).undecided == 1
    assert round_progress(round_).cost_left == Decimal("0.75")
    close(round_, None)
    assert round_progress(round_).cost_left == 0


def test_only_what_those_who_can_vote_cannot_finish_is_out_of_reach(project, ana, ben):
    # Votes of somebody who cannot vote here leave less to do for those who can.
    round_ = open_on(project, 4, votes=3)
    kim = annotator_named(project, "kim")
    first, second, *_ = by_number(round_)
    assert round_progress(round_).out_of_reach == 4
    make_vote(first, kim, "win")
    make_vote(second, ana, "win")
    skip(claim_next(round_, ben))
    skipped = Skip.objects.get().item
    expected = {item.pk for item in by_number(round_)} - {first.pk, skipped.pk}
    assert round_progress(round_).out_of_reach == len(expected)
    make_annotator(project)
    assert round_progress(round_).out_of_reach == 0


def test_each_persons_time_and_cost_are_their_own(project, ana, ben):
    Project.objects.update(cost_basis="measured")
    project.refresh_from_db()
    round_ = open_on(project, 2, votes=2)
    first, second = by_number(round_)
    make_vote(first, ana, "win", active_seconds=72.0)
    make_vote(second, ana, "win", active_seconds=48.0)
    make_vote(first, ben, "win", active_seconds=None)
    one, two = round_progress(round_).people
    # Two minutes of 7.50 USD an hour; and the three minutes that are assumed.
    assert (one.seconds, one.cost) == (120, Decimal("0.25"))
    assert (two.seconds, two.cost) == (None, Decimal("0.375"))


def test_a_flag_counts_until_it_is_settled(project, ana):
    round_ = open_on(project, 1, votes=1)
    flag = Flag.objects.create(item=round_.items.get(), annotator=ana, reason="odd")
    assert round_progress(round_).n_flags == 1
    Flag.objects.filter(pk=flag.pk).update(settled_at=timezone.now())
    assert round_progress(round_).n_flags == 0


def test_other_rounds_and_projects_count_for_nothing(project, ana):
    other = make_project()
    open_on(other, 3, votes=2)
    round_ = open_on(project, 1, votes=1)
    assert round_progress(round_).n_items == 1
    assert [one.number for one in rounds_with_counts(project)] == [round_.number]


def test_the_cost_is_told_as_assumed_and_as_measured(project, ana, ben):
    round_ = open_on(project, 2, votes=1)
    assert round_progress(round_).cost_measured is None
    one, two = by_number(round_)
    make_vote(one, ana, "win", active_seconds=36.0)
    make_vote(two, ben, "win", active_seconds=None)
    found = round_progress(round_)
    # Two votes of three minutes at $7.50 an hour; one of 36 seconds, and one without a time.
    assert found.cost == Decimal("0.75")
    assert found.cost_measured == Decimal("0.075") + Decimal("0.375")
