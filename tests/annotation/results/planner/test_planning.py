"""The plan says what a round would ask for, in the figures of the round that then opens."""

from decimal import Decimal

import pytest

from annotation.models import Item, Slot
from annotation.results.planner.planning import (
    audit_for,
    errors_allowed,
    measured_minutes,
    plan,
    problems,
)
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.errors import UserError
from judging.methods.review.cost import HumanRate
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote


@pytest.fixture
def run(project):
    run = make_run(project)
    for example in make_examples(project, 20):
        make_verdict(run, example, max(0, example.number - 10) / 10, rank=20 - example.number)
    return run


def test_the_plan_is_what_the_round_becomes(project, run):
    make_annotator(project)
    settings = RoundSettings(beta=Decimal(20), votes=2, audit=3, seed=1)
    planned = plan(project, run, settings)
    assert (planned.m, planned.items, planned.n_frame) == (4, 7, 20)
    # 14 votes of three minutes, at 7.50 an hour.
    assert planned.hours == Decimal("0.7")
    assert planned.usd == Decimal("5.25")
    # Nine examples have a BPDE above 0; the four with the largest are selected.
    assert planned.disputed == pytest.approx(4 / 9, abs=1e-12)
    assert planned.last_bpde == pytest.approx(0.6, abs=1e-12)
    assert planned.people == 1
    assert (planned.new_votes, planned.all_usd) == (14, Decimal(15))
    assert planned.usd_at(50) == Decimal("9.75")
    round_ = open_round(project, None, run, settings)
    assert Item.objects.filter(round=round_).count() == planned.items
    assert Slot.objects.filter(round=round_).count() == planned.items * 2
    cut = Item.objects.filter(round=round_, selection__kind="top").order_by("-rank").first()
    assert cut.bpde == planned.last_bpde


def test_a_round_opens_with_the_rate_that_was_planned(project, run):
    settings = RoundSettings(beta=Decimal(20), votes=2, rate=HumanRate(Decimal(1), Decimal(30)))
    # 8 votes of a minute at half a dollar.
    assert plan(project, run, settings).usd == Decimal(4)
    round_ = open_round(project, None, run, settings)
    assert (round_.minutes_per_vote, round_.wage_usd) == (1, 30)
    assert project.wage_usd == Decimal("7.5")


def test_the_pace_on_the_screen_is_measured_over_the_votes_given_there(project, run):
    assert measured_minutes(project) == (None, 0)
    open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1, seed=1))
    person = make_annotator(project)
    for item, seconds in zip(Item.objects.all(), (60.0, 120.0, None, 30.0), strict=True):
        make_vote(item, person, "win", active_seconds=seconds)
    assert measured_minutes(project) == (pytest.approx(70 / 60), 3)


def test_a_plan_that_makes_no_round_says_why(project, run):
    with pytest.raises(UserError, match="smaller audit"):
        plan(project, run, RoundSettings(beta=Decimal(90), audit=5))
    with pytest.raises(UserError, match="run to rank by"):
        plan(project, None, RoundSettings(beta=Decimal(20)))


def vote_on_first(project, run, ranks, votes):
    """Votes of one person on these ranks, in a round of the same protocol."""
    ana = make_annotator(project)
    earlier = open_round(project, None, run, RoundSettings(everything=True, votes=votes, seed=3))
    for item in earlier.items.filter(rank__in=ranks).select_related("example", "round__protocol"):
        make_vote(item, ana, "win")


def test_votes_that_exist_cost_nothing_by_rank_and_for_everything(project, run):
    vote_on_first(project, run, (1, 2, 9), votes=2)
    planned = plan(project, run, RoundSettings(beta=Decimal(20), votes=2))
    # Four items of two votes; of the three votes two are on ranks 1 to 4.
    assert (planned.known_votes, planned.new_votes, planned.is_exact) == (2, 6, True)
    assert planned.usd == Decimal("2.25")
    assert planned.usd_at(10) == Decimal("0.75")
    # Everything: 40 votes, of which all three exist.
    assert planned.all_usd == 37 * Decimal("0.375")
    everything = plan(project, run, RoundSettings(everything=True, votes=2))
    assert (everything.new_votes, everything.usd) == (37, planned.all_usd)
    opened = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=2, seed=2))
    assert Slot.objects.filter(round=opened, vote=None).count() == planned.new_votes


def test_votes_beyond_what_a_round_asks_for_save_nothing_more(project, run):
    earlier = open_round(project, None, run, RoundSettings(everything=True, votes=3, seed=3))
    item = earlier.items.select_related("example", "round__protocol").get(rank=1)
    for _ in range(3):
        make_vote(item, make_annotator(project), "win")
    planned = plan(project, run, RoundSettings(beta=Decimal(20), votes=2))
    assert (planned.known_votes, planned.new_votes) == (2, 6)


def test_what_an_audit_finds_of_existing_votes_is_an_expectation_and_called_so(project, run):
    vote_on_first(project, run, range(5, 21), votes=1)
    planned = plan(project, run, RoundSettings(beta=Decimal(20), votes=1, audit=4))
    # Whatever is drawn from ranks 5 to 20 has its vote.
    assert (planned.known_votes, planned.new_votes, planned.is_exact) == (4, 4, False)


def test_every_mistake_is_found_at_once_and_at_its_setting(project, run):
    project.runs.filter(pk=run.pk).update(state="running")
    run.refresh_from_db()
    settings = RoundSettings(beta=Decimal(90), votes=0, audit=5, learn=60, looks=(9,), epsilon=0.1)
    found = dict(problems(project, run, settings))
    assert sorted(found) == ["audit", "learn", "looks", "partial", "votes"]
    assert problems(project, run, RoundSettings(beta=Decimal(20), partial=True)) == []
    nothing = problems(project, run, RoundSettings(beta=Decimal(1), partial=True))
    assert [name for name, _ in nothing] == ["beta"]
    assert problems(project, None, RoundSettings(beta=Decimal(20)))[0][0] == "run"
    little = RoundSettings(budget=Decimal("0.01"), partial=True)
    assert [name for name, _ in problems(project, run, little)] == ["budget"]


def test_the_recommended_audit_is_the_smallest_that_can_certify(project):
    run = make_run(project)
    for example in make_examples(project, 100):
        make_verdict(run, example, 0.0, rank=example.number + 1)
    # 0.9^29 < 0.05 < 0.9^28.
    assert audit_for(0.1) == 29
    assert (
        errors_allowed(plan(project, run, RoundSettings(beta=Decimal(20), audit=28)), 0.1) is None
    )
    assert errors_allowed(plan(project, run, RoundSettings(beta=Decimal(20), audit=29)), 0.1) == 0
    larger = errors_allowed(plan(project, run, RoundSettings(beta=Decimal(20), audit=60)), 0.1)
    # Of 80, 60 are audited: with d errors found, at most a tenth of the other 20 may be wrong.
    assert larger is not None
    assert larger > 0
