from decimal import Decimal

import pytest

from judging.methods.cost import (
    Rate,
    affordable,
    human_usd,
    human_usd_of_active_time,
    method_cost,
)

PAPER = Rate()


def test_table_4_of_faireval_is_counted_in_full_and_as_the_paper_does():
    cost = method_cost(80, 16, 3, PAPER, Decimal("6.38"))
    assert cost.human_usd == 18
    assert cost.total_usd == Decimal("24.38")
    assert cost.paper_usd == Decimal("23.104")
    assert cost.by_hand_one_vote == 30
    assert cost.by_hand_same_votes == 90


def test_an_unknown_price_is_unknown_and_never_nothing():
    cost = method_cost(80, 16, 3, PAPER, None)
    assert cost.human_usd == 18
    assert (cost.judge_usd, cost.total_usd, cost.paper_usd) == (None, None, None)


def test_the_audit_is_paid_for_too():
    assert method_cost(80, 16, 3, PAPER, Decimal(0), audit=10).human_usd == Decimal("29.25")


def test_active_time_is_paid_by_the_second():
    assert human_usd_of_active_time(Decimal(7200), Decimal("7.50")) == 15


@pytest.mark.parametrize("budget", ["0", "11.24", "11.25", "29.24", "29.25", "1000"])
def test_a_budget_buys_the_largest_round_that_it_pays_for(budget):
    m = affordable(Decimal(budget), votes=3, audit=10, rate=PAPER, n=80)
    if not isinstance(m, int):
        assert human_usd(3 * 10, PAPER) > Decimal(budget)
        assert "fewer than the audit" in m.reason
        return
    assert human_usd(3 * (m + 10), PAPER) <= Decimal(budget)
    assert m == 80 or human_usd(3 * (m + 11), PAPER) > Decimal(budget)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="a vote has a price"):
        affordable(Decimal(10), 3, 0, Rate(wage=Decimal(0)), 80)
    with pytest.raises(ValueError, match="81 of 80"):
        method_cost(80, 81, 3, PAPER, None)
