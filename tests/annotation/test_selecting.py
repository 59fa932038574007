from decimal import Decimal

import pytest

from annotation.selecting import size_for_budget
from judging.errors import UserError
from judging.methods.cost import Rate


@pytest.mark.parametrize(
    ("budget", "m"), [("8.99", 7), ("9", 8), ("29", 28), ("30", 29), ("1e9999999999", 29)]
)
def test_a_budget_buys_whole_items_beside_the_audit_and_no_more_than_there_are(budget, m):
    # Two votes of a minute at 30 USD an hour are 1 USD an item; 30 examples, 1 audited.
    assert size_for_budget(Decimal(budget), 1, 2, Rate(Decimal(1), Decimal(30)), 30) == m


@pytest.mark.parametrize("budget", ["1.99", "0", "-1", "1e-9999999999"])
def test_a_budget_that_buys_nothing_beside_the_audit_says_so(budget):
    with pytest.raises(UserError, match="leaves nothing to select"):
        size_for_budget(Decimal(budget), 1, 2, Rate(Decimal(1), Decimal(30)), 30)
