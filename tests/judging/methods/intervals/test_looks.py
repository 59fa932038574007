"""An error that is spread over looks without an end, and verdicts by interval."""

import pytest

from judging.methods.intervals.estimates import Estimate, Undefined, wilson
from judging.methods.intervals.looks import Ruling, Spending, decide, examples_needed


def test_all_looks_together_spend_the_error_and_the_first_is_at_95_percent():
    spending = Spending()
    assert spending.confidence(1) == pytest.approx(0.95)
    # 1/(k (k + 1)) telescopes: after n looks 1 - 1/(n + 1) of the error is spent.
    assert sum(map(spending.tail, range(1, 11))) == pytest.approx(0.05 * (1 - 1 / 11))
    assert sum(map(spending.tail, range(1, 10_001))) < 0.05
    levels = [spending.confidence(look) for look in range(1, 20)]
    assert levels == sorted(levels)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2])
def test_an_error_that_is_none_is_refused(alpha):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Spending(alpha)
    with pytest.raises(ValueError, match="from 1"):
        Spending().tail(0)


@pytest.mark.parametrize(
    ("low", "high", "at_least", "at_most"),
    [
        (0.51, 0.9, "pass", "fail"),
        (0.5, 0.9, "pass", "inconclusive"),
        (0.4, 0.6, "inconclusive", "inconclusive"),
        (0.1, 0.5, "inconclusive", "pass"),
        (0.1, 0.49, "fail", "pass"),
    ],
)
def test_the_whole_interval_has_to_keep_the_bound(low, high, at_least, at_most):
    # The point is far above the bound in each, and says nothing.
    found = Estimate(0.99, 10, low, high)
    assert decide(found, 0.5, at_least=True) == at_least
    assert decide(found, 0.5, at_least=False) == at_most


def test_without_an_interval_nothing_is_decided():
    for found in (Undefined("no labels"), Estimate(0.9, 3), Estimate(0.9, 3, low=0.8)):
        assert decide(found, 0.5, at_least=True) is Ruling.INCONCLUSIVE


@pytest.mark.parametrize(("share", "bound"), [(0.6, 0.5), (0.9, 0.8), (0.7, 0.8), (0.3, 0.5)])
def test_as_many_examples_as_it_asks_for_decide(share, bound):
    found = wilson(share * 50, 50)
    n = examples_needed(found, bound, at_least=True)
    later = wilson(share * n * 1.15, n * 1.15)
    expected = Ruling.PASS if share > bound else Ruling.FAIL
    assert decide(later, bound, at_least=True) is expected
    if decide(found, bound, at_least=True) is Ruling.INCONCLUSIVE:
        fewer = wilson(share * n * 0.7, n * 0.7)
        assert decide(fewer, bound, at_least=True) is Ruling.INCONCLUSIVE


def test_a_value_at_the_bound_is_not_decided_by_any_number():
    assert examples_needed(Estimate(0.5, 10, 0.3, 0.7), 0.5, at_least=True) is None
    assert examples_needed(Estimate(0.5, 10), 0.4, at_least=True) is None
