import numpy as np
import pytest
from scipy import stats

from judging.methods.intervals.estimates import Undefined
from judging.methods.ranking import bradley_terry, comparable, davidson, pairwise_results

MODELS = ["a", "b", "c"]


def test_two_models_differ_by_the_log_odds_of_their_results():
    # 6 wins and 4 ties in 12 games: 8 to 4
    sign = np.array([1] * 6 + [0] * 4 + [-1] * 2)
    best, worst = bradley_terry(["a", "b"], np.zeros(12, int), np.ones(12, int), sign)
    assert best.model == "a"
    assert best.strength.value - worst.strength.value == pytest.approx(np.log(2))
    assert best.win_rate == pytest.approx(8 / 12)
    assert best.n == 12


def test_strengths_come_back_from_simulated_results(rng):
    truth = np.array([1.0, 0.0, -1.0])
    first, second = rng.integers(0, 3, 6000), rng.integers(0, 3, 6000)
    keep = first != second
    first, second = first[keep], second[keep]
    chance = 1 / (1 + np.exp(truth[second] - truth[first]))
    sign = np.where(rng.random(len(first)) < chance, 1, -1)
    ranked = bradley_terry(MODELS, first, second, sign)
    assert [row.model for row in ranked] == MODELS
    for row, strength in zip(ranked, truth, strict=True):
        assert row.strength.low <= strength <= row.strength.high
        assert row.strength.high - row.strength.low < 0.3
    assert sum(row.strength.value for row in ranked) == pytest.approx(0, abs=1e-9)


def test_exchanging_the_responses_changes_nothing(rng):
    first, second = rng.integers(0, 3, 200), (rng.integers(1, 3, 200))
    second = (first + second) % 3
    sign = rng.integers(-1, 2, 200)
    one = bradley_terry(MODELS, first, second, sign)
    other = bradley_terry(MODELS, second, first, -sign)
    assert [r.strength.value for r in one] == pytest.approx([r.strength.value for r in other])


def test_models_that_never_met_are_named():
    first, second = np.array([0, 0, 2, 2]), np.array([1, 1, 3, 3])
    sign = np.array([1, -1, 1, -1])
    refused = bradley_terry(["a", "b", "c", "d"], first, second, sign)
    assert "with each other: {a, b} and {c, d}" in refused.reason


def test_a_model_that_won_everything_has_no_finite_strength():
    refused = bradley_terry(MODELS, [0, 0, 1, 1], [1, 2, 2, 2], [1, 1, 1, -1])
    assert "won every comparison" in refused.reason
    assert isinstance(bradley_terry(["a"], [], [], []), Undefined)


def test_the_limits_of_five_games_can_be_written_down():
    """Four to one: Firth's odds are 4.5 to 1.5, chance 3/4, information 15/16, leverage 1/5.

    Squared residuals (4/16 + 9/16)/(1 - 1/5) = 65/64, and 1/16 + 9/16 of one more win and one
    more loss. A strength is half of the two models' log odds."""
    best, worst = bradley_terry(["a", "b"], [0] * 5, [1] * 5, [1, 1, 1, 1, -1])
    half = stats.t.ppf(0.975, 4) * np.sqrt(65 / 64 + 10 / 16) / (15 / 16)
    assert best.strength.value == pytest.approx(np.log(4) / 2)
    assert best.strength.low == pytest.approx((np.log(3) - half) / 2, abs=1e-6)
    assert best.strength.high == pytest.approx((np.log(3) + half) / 2, abs=1e-6)
    assert worst.strength.low == pytest.approx(-best.strength.high, abs=1e-6)


def test_one_question_leaves_no_interval():
    best, _ = bradley_terry(["a", "b"], [0] * 5, [1] * 5, [1, 1, 1, 1, -1], question=[7] * 5)
    assert best.strength.low is None
    assert "same question" in best.strength.note


def test_the_pairwise_table_is_from_the_first_models_view():
    (row,) = pairwise_results(["a", "b"], [0, 1, 0, 1], [1, 0, 1, 0], [1, -1, 0, 1])
    assert (row.wins, row.ties, row.losses) == (2, 1, 1)
    assert row.win_rate == 0.625


def test_models_that_met_are_not_said_to_be_uncompared():
    """a beat b 5:0, c and d 1:1."""
    games = [0] * 5 + [2, 2], [1] * 5 + [3, 3], [1] * 5 + [1, -1]
    reason = bradley_terry(["a", "b", "c", "d"], *games).reason
    assert reason == ("no label compares these groups of models with each other: {a, b} and {c, d}")


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ([(3, 2, 1)], ["d", "it won every comparison with a ranked model (n = 1)"]),
        ([(2, 3, 1), (3, 1, -1)], ["d", "it lost every comparison with a ranked model (n = 2)"]),
    ],
)
def test_a_model_without_a_place_keeps_no_others_from_theirs(extra, said):
    rows = [(n % 3, (n + 1) % 3, (1, -1, 0)[n % 5 % 3]) for n in range(30)]
    alone = bradley_terry(MODELS, *zip(*rows, strict=True))
    games = tuple(zip(*(rows + extra), strict=True))
    names = [*MODELS, "d"]
    ranked = bradley_terry(names, *games)
    assert [(one.model, one.strength.value, one.n) for one in ranked] == [
        (one.model, one.strength.value, one.n) for one in alone
    ]
    assert [list(one) for one in comparable(names, *games).apart] == [said]
    with_ties = davidson(names, *games)
    assert {one.model for one in with_ties.ranked} == set(MODELS)


def test_a_chain_of_wins_has_no_ranking():
    refused = bradley_terry(MODELS, [0, 1], [1, 2], [1, 1])
    assert refused.reason.endswith("won every comparison with another: {a}, {b}, {c}")
