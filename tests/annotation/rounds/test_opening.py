"""Opening a round: what is selected, and what is refused."""

from decimal import Decimal

import pytest

from annotation.models import Item
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.errors import UserError
from judging.dataset.models import Example
from tests.factories import make_examples, make_run, make_verdict

pytestmark = [pytest.mark.databases]


def test_the_cut_follows_bpde_and_extends_without_repeating(project):
    examples = make_examples(project, 10)
    run = make_run(project)
    for example in examples:
        make_verdict(run, example, example.number / 10)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), audit=3, seed=1))
    top = Item.objects.filter(round=round_, selection__kind="top")
    audit = Item.objects.filter(round=round_, selection__kind="audit")
    assert {item.example.external_id for item in top} == {"e8", "e9"}
    assert {item.probability for item in audit} == {3 / 8}
    assert sorted(item.audit_order for item in audit) == [0, 1, 2]
    before = set(Item.objects.filter(round=round_).values_list("example_id", flat=True))
    joined = changes.extend(round_, None, Decimal(50))
    items = Item.objects.filter(round=round_)
    assert items.count() == len(before) + joined
    selected = {f"e{number}" for number in range(5, 10)}
    assert selected <= set(items.values_list("example__external_id", flat=True))


def test_a_budget_buys_what_it_pays_for(project):
    make_run(project)
    run = project.runs.get()
    for example in make_examples(project, 40):
        make_verdict(run, example, 0.1)
    # 3 minutes at 7.50 an hour are 0.375 a vote, 1.125 for three votes: 9 items of 10.5 dollars.
    settings = RoundSettings(budget=Decimal("10.5"), votes=3, audit=4)
    round_ = open_round(project, None, run, settings)
    assert Item.objects.filter(round=round_, selection__kind="top").count() == 5
    with pytest.raises(UserError, match="Raise the budget"):
        open_round(project, None, run, RoundSettings(budget=Decimal("4.5"), votes=3, audit=4))


@pytest.mark.parametrize("seed", [-1, 2**62, 10**30])
def test_a_seed_that_no_column_holds_is_refused(project, seed):
    with pytest.raises(UserError, match="seed must be between"):
        open_round(project, None, None, RoundSettings(everything=True, seed=seed))


def test_an_unfinished_run_needs_partial(project):
    run = make_run(project, state="paused")
    make_verdict(run, make_examples(project, 2)[0], 0.5)
    with pytest.raises(UserError, match="partial"):
        open_round(project, None, run, RoundSettings(beta=Decimal(50)))
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(50), partial=True))
    assert round_.frame_size == 2


@pytest.mark.parametrize("wrong", [{"epsilon": 1e7}, {"alpha": 1.0}, {"alpha": 0.0}])
def test_a_certificate_that_says_nothing_is_refused(project, wrong):
    make_examples(project, 2)
    with pytest.raises(UserError, match="between 0 and 100"):
        open_round(project, None, None, RoundSettings(everything=True, **wrong))


def test_check_examples_are_mixed_in_and_counted_nowhere(project):
    make_examples(project, 3)
    Example.objects.filter(external_id="e1").update(is_check=True, gold_label="win")
    round_ = open_round(project, None, None, RoundSettings(everything=True))
    assert round_.frame_size == 2
    assert Item.objects.get(selection__kind="check").example.external_id == "e1"
