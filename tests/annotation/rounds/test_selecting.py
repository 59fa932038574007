from decimal import Decimal

import pytest

from annotation.results.data.sheet import sheet_of
from annotation.rounds.opening import RoundSettings, open_round
from annotation.rounds.selecting import Ranked, draw, ranked_examples, size_for_budget
from judging.core.errors import UserError
from judging.methods.review.cost import HumanRate
from judging.runs.models import Verdict
from tests.factories import make_examples, make_run, make_verdict


@pytest.mark.parametrize(
    ("budget", "m"), [("8.99", 7), ("9", 8), ("29", 28), ("30", 29), ("1e9999999999", 29)]
)
def test_a_budget_buys_whole_items_beside_the_audit_and_no_more_than_there_are(budget, m):
    # Two votes of a minute at 30 USD an hour are 1 USD an item; 30 examples, 1 audited.
    assert size_for_budget(Decimal(budget), 1, 2, HumanRate(Decimal(1), Decimal(30)), 30) == m


@pytest.mark.parametrize("budget", ["1.99", "0", "-1", "1e-9999999999"])
def test_a_budget_that_buys_nothing_beside_the_audit_says_so(budget):
    with pytest.raises(UserError, match="leaves nothing to select"):
        size_for_budget(Decimal(budget), 1, 2, HumanRate(Decimal(1), Decimal(30)), 30)


def test_the_audit_is_drawn_from_those_that_are_not_selected():
    order = [Ranked(number, number, 0.5) for number in range(1, 9)]
    # Two are pending: not ranked, and part of the rest.
    found = draw(order, range(1, 11), 4, 6, seed=3)
    assert [one.example_id for one in found.top] == [1, 2, 3, 4]
    assert sorted(one.example_id for one in found.audit) == [5, 6, 7, 8, 9, 10]
    assert (found.frame_size, found.n_rest) == (10, 6)
    with pytest.raises(UserError, match="An audit of 7 is more than the 6 examples"):
        draw(order, range(1, 11), 4, 7, seed=3)


def test_an_adaptive_run_is_ranked_by_its_smoothed_entropy(project):
    run = make_run(project, parameters={"adaptive": 0.95})
    first, second = make_examples(project, 2)
    # Stopped early: no outcome differs, though few were seen.
    make_verdict(run, first, 0.0, routing_score=0.9, rank=1)
    make_verdict(run, second, 0.4, routing_score=0.7, rank=2)
    order = ranked_examples(run)
    assert [one.example_id for one in order] == [first.pk, second.pk]
    assert [(one.bpde, one.routing_score) for one in order] == [(0.0, 0.9), (0.4, 0.7)]
    sheet = sheet_of(project, run)
    assert (sheet.level.tolist(), sheet.bpde.tolist()) == ([0.9, 0.7], [0.0, 0.4])


def write_ranks(run, ids):
    for place, key in enumerate(ids, start=1):
        Verdict.objects.filter(run=run, example=key).update(rank=place)


def test_the_ranks_as_they_were_written_are_the_ranks_that_would_be_computed(project):
    run = make_run(project)
    for number, example in enumerate(make_examples(project, 12)):
        make_verdict(run, example, None if number == 5 else number % 3 / 4)
    computed = ranked_examples(run)
    write_ranks(run, [one.example_id for one in computed])
    assert ranked_examples(run) == computed
    assert ranked_examples(run, first=4) == computed[:4]
    assert (
        ranked_examples(run, first=4, paper_mode=True)
        == (ranked_examples(run, paper_mode=True)[:4])
    )
    # What is stored is read: another order is given back as it is.
    write_ranks(run, [one.example_id for one in reversed(computed)])
    assert [one.example_id for one in ranked_examples(run)] == [
        one.example_id for one in reversed(computed)
    ]


def test_a_cut_without_an_audit_reads_what_it_selects_and_no_more(
    project, django_assert_max_num_queries
):
    run = make_run(project, state="done")
    for number, example in enumerate(make_examples(project, 10)):
        make_verdict(run, example, 0.5, rank=number + 1)
    settings = RoundSettings(beta=Decimal(20), votes=1, seed=1)
    with django_assert_max_num_queries(80) as asked:
        round_ = open_round(project, None, run, settings)
    assert sorted(round_.items.values_list("rank", flat=True)) == [1, 2]
    texts = [one["sql"].partition("FROM") for one in asked]
    in_order = [rest for *_, rest in texts if 'ORDER BY "judging_example"."number"' in rest]
    ranked = [rest for *_, rest in texts if 'ORDER BY "judging_verdict"."rank"' in rest]
    assert in_order == []
    assert [rest.endswith("LIMIT 2") for rest in ranked] == [True]
