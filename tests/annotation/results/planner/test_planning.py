"""The plan says what a round would ask for, in the figures of the round that then opens."""

from decimal import Decimal

import pytest

from annotation.models import Item, Slot
from annotation.results.planner.planning import measured_minutes, plan
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
    assert (planned.usd_an_item, planned.all_usd) == (Decimal("0.75"), Decimal(15))
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
