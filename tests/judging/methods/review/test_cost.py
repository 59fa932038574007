from decimal import Decimal

import pytest

from judging.methods.review.cost import (
    HumanRate,
    affordable,
    human_usd,
    human_usd_of_active_time,
    paper_usd,
)

PAPER = HumanRate()


def test_table_4_of_faireval_is_counted_in_full_and_as_the_paper_does():
    people, judge = human_usd(16 * 3, PAPER), Decimal("6.38")
    assert people == 18
    assert people + judge == Decimal("24.38")
    assert paper_usd(80, 16, people, judge) == Decimal("23.104")
    assert (human_usd(80, PAPER), human_usd(80 * 3, PAPER)) == (30, 90)


def test_an_unknown_price_is_unknown_and_never_nothing():
    assert paper_usd(80, 16, Decimal(18), None) is None


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
        affordable(Decimal(10), 3, 0, HumanRate(wage=Decimal(0)), 80)
    with pytest.raises(ValueError, match="81 of 80"):
        paper_usd(80, 81, Decimal(0), None)
