"""Strengths at equal style, ranks that are shared, and the pairs to compare next."""

import numpy as np
import pytest
from scipy.optimize import minimize

from judging.methods.intervals.estimates import Undefined
from judging.methods.ranking import (
    SAME_STYLE,
    STYLE_DECIDES,
    STYLE_OF_MODELS,
    bradley_terry,
    next_pairs,
    style_controlled,
)

TRUTH = np.array([0.6, 0.0, -0.6])


@pytest.fixture(scope="module")
def games():
    """Model 0 writes longer responses, and people like them."""
    rng = np.random.default_rng(5)
    first = rng.integers(0, 3, 1500)
    second = (first + rng.integers(1, 3, 1500)) % 3
    style = rng.normal(size=1500) + 1.0 * (first == 0) - (second == 0)
    chance = 1 / (1 + np.exp(-(TRUTH[first] - TRUTH[second] + 0.8 * style)))
    return first, second, np.where(rng.random(1500) < chance, 1, -1), style


def test_the_strengths_are_those_of_a_logistic_regression_with_style(games):
    first, second, sign, style = games
    scaled = style / style.std()

    def loss(b):
        linear = b[first] - b[second] + b[3] * scaled
        return np.logaddexp(0, -sign * linear).sum() + b[:3].mean() ** 2

    best = minimize(loss, np.zeros(4), tol=1e-10).x
    found = style_controlled("abc", first, second, sign, style[:, None])
    strengths = {one.model: one.strength.value for one in found.ranked}
    assert [strengths[name] for name in "abc"] == pytest.approx(best[:3], abs=1e-5)
    assert found.effects[0].value == pytest.approx(best[3], abs=1e-5)
    assert found.effects[0].low < 0.8 * style.std() < found.effects[0].high


def test_what_length_earned_is_no_strength(games):
    first, second, sign, style = games
    plain = bradley_terry("abc", first, second, sign)[0]
    fair = style_controlled("abc", first, second, sign, style[:, None]).ranked[0]
    assert plain.strength.low > TRUTH[0]
    assert fair.strength.low < TRUTH[0] < fair.strength.high


def test_exchanging_the_responses_changes_nothing(games):
    first, second, sign, style = games
    one = style_controlled("abc", first, second, sign, style[:, None])
    other = style_controlled("abc", second, first, -sign, -style[:, None])
    assert one.effects[0].value == pytest.approx(other.effects[0].value)
    assert [r.strength.low for r in one.ranked] == pytest.approx(
        [r.strength.low for r in other.ranked]
    )


def test_a_style_that_never_differs_says_so(games):
    first, second, sign, _ = games
    found = style_controlled("abc", first, second, sign, np.zeros((1500, 1)))
    assert isinstance(found, Undefined)


def test_a_newcomer_with_one_label_leaves_the_style_ranking_of_the_others(games):
    first, second, sign, style = (
        np.append(one, more) for one, more in zip(games, (0, 3, 1, 0.5), strict=True)
    )
    found = style_controlled("abcd", first, second, sign, style[:, None])
    assert [one.model for one in found.ranked] == list("abc")


def test_a_style_that_each_model_always_has_is_not_told_apart_from_it(games):
    first, second, sign, style = games
    of_model = np.array([1.0, 2.0, 4.0])
    own = of_model[first] - of_model[second]
    assert style_controlled("abc", first, second, sign, own[:, None]) == STYLE_OF_MODELS
    twice = np.column_stack((style, 3 * style))
    assert style_controlled("abc", first, second, sign, twice) == STYLE_OF_MODELS


@pytest.mark.parametrize("label", [1, 0])
def test_an_effect_that_no_label_contradicts_has_no_limit(games, label):
    """The longer response always wins, also if the others, of equal length, say what they like."""
    first, second, sign, style = games
    ahead = np.where(style > 0, 1, -1)
    assert style_controlled("abc", first, second, ahead, style[:, None]) == STYLE_DECIDES
    some = np.where(np.arange(1500) < 50, style, 0)
    mixed = np.where(some == 0, label * sign, ahead)
    assert style_controlled("abc", first, second, mixed, some[:, None]) == STYLE_DECIDES


def test_ties_everywhere_limit_an_effect(games):
    first, second, sign, style = games
    found = style_controlled("abc", first, second, 0 * sign, style[:, None])
    assert found.effects[0].value == pytest.approx(0)


def test_a_style_that_only_a_model_without_a_rank_has_does_not_differ(games):
    given = (np.append(one, more) for one, more in zip(games[:3], (0, 3, 1), strict=True))
    only = np.append(np.zeros(1500), 1.0)
    assert style_controlled("abcd", *given, only[:, None]) == SAME_STYLE


def test_models_share_a_rank_unless_they_are_shown_to_differ():
    """a beats b and c in 45 of 50 labels each; b and c win half of theirs."""
    rows = [(0, k, 1 if n < 45 else -1) for k in (1, 2) for n in range(50)]
    rows += [(1, 2, 1 if n % 2 else -1) for n in range(50)]
    ranked = bradley_terry("abc", *zip(*rows, strict=True))
    assert [one.ranks for one in ranked] == [(1, 1), (2, 3), (2, 3)]


def test_labels_of_one_question_show_no_rank():
    ranked = bradley_terry("ab", [0] * 40, [1] * 40, [1] * 39 + [-1], question=[1] * 40)
    assert [one.ranks for one in ranked] == [(1, 2), (1, 2)]


def test_the_model_that_is_known_least_is_compared_next():
    rows = [(n % 3, (n + 1) % 3, 1 if n % 2 else -1) for n in range(60)]
    chosen = next_pairs("abcd", *zip(*rows, strict=True), most=6)
    assert chosen[0].model_2 == "d"
    assert chosen[0].n == 0
    gains = [one.information for one in chosen]
    assert gains == sorted(gains, reverse=True)
    # After a few labels of d, other pairs tell as much again; no pair is always the first.
    assert len({(one.model_1, one.model_2) for one in chosen}) > 1


def test_the_first_gain_can_be_written_down():
    """Without a label each strength has variance 4, and a label p (1 - p) = 1/4 of information on
    a difference with variance 8: log(1 + 2)/2."""
    (first, *_) = next_pairs("abc", [], [], [])
    assert first.information == pytest.approx(np.log(3) / 2)
    assert next_pairs("ab", [0], [1], [1]) == []
