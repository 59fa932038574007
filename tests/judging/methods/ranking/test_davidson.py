"""Davidson's model: the maximum of its likelihood, and what has no maximum."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from judging.methods.ranking import davidson

STRENGTH, TIE = np.array([0.8, 0.2, -0.3, -0.7]), 0.6


@pytest.fixture(scope="module")
def games():
    """Two thousand labels drawn from the model, each pair in both directions."""
    rng = np.random.default_rng(3)
    first = rng.integers(0, 4, 2000)
    second = (first + rng.integers(1, 4, 2000)) % 4
    half = (STRENGTH[first] - STRENGTH[second]) / 2
    total = np.exp(half) + np.exp(-half) + TIE
    drawn = rng.random(2000)
    sign = np.where(drawn < np.exp(half) / total, 1, -1)
    sign[(drawn >= np.exp(half) / total) & (drawn < (np.exp(half) + TIE) / total)] = 0
    return first, second, sign


def fitted(*games, **options):
    return davidson("abcd", *games, **options)


def test_the_strengths_are_those_of_the_largest_likelihood(games):
    first, second, sign = games

    def loss(parameters):
        half = (parameters[first] - parameters[second]) / 2
        total = np.logaddexp(np.logaddexp(half, -half), parameters[4])
        earned = np.where(sign == 0, parameters[4], sign * half)
        return (total - earned).sum() + parameters[:4].mean() ** 2

    best = minimize(loss, np.zeros(5), tol=1e-10).x
    found = fitted(*games)
    assert [one.model for one in found.ranked] == list("abcd")
    strengths = [one.strength.value for one in found.ranked]
    assert strengths == pytest.approx(best[:4] - best[:4].mean(), abs=1e-5)
    assert found.tie.value == pytest.approx(np.exp(best[4]), abs=1e-5)


def test_the_intervals_hold_what_the_labels_were_drawn_from(games):
    found = fitted(*games)
    for one, true in zip(found.ranked, STRENGTH, strict=True):
        assert one.strength.low < true < one.strength.high
    assert found.tie.low < TIE < found.tie.high
    assert sum(one.n for one in found.ranked) == 2 * 2000


def test_the_order_in_which_two_models_stand_changes_nothing(games):
    first, second, sign = games
    turned = fitted(second, first, -sign)
    for one, other in zip(fitted(*games).ranked, turned.ranked, strict=True):
        assert one.strength.value == pytest.approx(other.strength.value, abs=1e-9)


def test_repeated_questions_widen_the_interval(games):
    alone = fitted(*games).ranked[0].strength
    # Two hundred questions of ten equal labels each.
    few = [np.repeat(one[:200], 10) for one in games]
    repeated = fitted(*few, question=np.repeat(np.arange(200), 10)).ranked[0].strength
    assert repeated.high - repeated.low > 2 * (alone.high - alone.low)


@pytest.mark.parametrize(
    ("sign", "reason"),
    [
        ([1, -1, 1, -1], "no label is a tie"),
        ([0, 0, 0, 0], "every label is a tie"),
        ([1, 1, 0, 1], "no label compares"),
    ],
)
def test_what_has_no_largest_likelihood_says_why(sign, reason):
    found = fitted([0, 0, 0, 0], [1, 1, 1, 1], sign)
    assert reason in found.reason


def test_two_models_of_one_kind_each_have_limits_by_hand():
    """Two wins, two ties, two losses: nothing tells the models apart, and v = 1 by symmetry.

    A game's T is +-1/2 for a win or a lose, with chance 1/3 each: information 6 (2/3)/4 = 1 for the
    log odds. Each game's leverage is the trace over both parameters, 2/6. The tie parameter does
    not move with the strengths. Squared residuals 4 (1/4)/(1 - 1/3) = 3/2, and 1/2 of one more win
    and one more loss."""
    found = davidson("ab", [0] * 6, [1] * 6, [1, 1, 0, 0, -1, -1]).ranked[0].strength
    half = stats.t.ppf(0.975, 6 - 2) * np.sqrt(3 / 2 + 1 / 2)
    assert found.value == pytest.approx(0, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((-half / 2, half / 2), abs=1e-6)
