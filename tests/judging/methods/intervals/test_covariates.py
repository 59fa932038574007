import numpy as np
import pytest
from scipy import optimize, stats

from judging.methods.intervals.covariates import covariate_bias, covariate_effect
from judging.methods.intervals.estimates import Undefined


def simulated(random, n, alpha, gamma):
    difference = random.normal(0, 100, n)
    x = np.tanh(difference / difference.std(ddof=1))
    chance = 1 / (1 + np.exp(-(alpha + gamma * x)))
    return difference, x, (random.random(n) < chance).astype(float)


def by_scipy(x, y, jeffreys=0.0):
    """The largest likelihood times the root of the information's determinant, if asked."""
    rows = np.column_stack((np.ones_like(x), x))

    def loss(theta):
        z = rows @ theta
        chance = 1 / (1 + np.exp(-z))
        information = rows.T @ (rows * (chance * (1 - chance))[:, None])
        prior = jeffreys / 2 * np.linalg.slogdet(information)[1] if jeffreys else 0
        return np.sum(np.logaddexp(0, z) - y * z) - prior

    return optimize.minimize(loss, [0, 0], tol=1e-12).x


def test_the_fit_is_the_maximum_of_the_likelihood(rng):
    difference, x, y = simulated(rng, 300, 0.4, 1.2)
    y[:40] = 0.5
    effect = covariate_effect(difference, y)
    alpha, gamma = by_scipy(x, y)
    assert effect.slope.value == pytest.approx(gamma, abs=1e-5)
    assert effect.equal.value == pytest.approx(1 / (1 + np.exp(-alpha)), abs=1e-6)
    assert effect.raw.value == pytest.approx(y.mean())
    assert effect.slope.low < effect.slope.value < effect.slope.high
    assert not effect.separated


def test_many_examples_have_the_same_fit_in_steps(rng):
    difference, x, y = simulated(rng, 20_000, 0.2, 0.8)
    effect = covariate_effect(difference, y)
    assert effect.slope.value == pytest.approx(by_scipy(x, y)[1], abs=1e-5)
    assert effect.slope.low <= 0.8 <= effect.slope.high
    assert effect.slope.high - effect.slope.low < 0.2


def test_a_preference_that_people_share_is_no_bias(rng):
    difference, _, human = simulated(rng, 2000, 0.0, 1.0)
    judge = np.where(rng.random(2000) < 0.1, 1 - human, human)
    result = covariate_bias(difference, judge, human)
    assert result.judge.slope.low > 0.5
    assert result.bias.high < 0.1

    x = np.tanh(difference / difference.std(ddof=1))
    longer = (rng.random(2000) < 1 / (1 + np.exp(-3 * x))).astype(float)
    biased = covariate_bias(difference, longer, human)
    assert biased.bias.low > 1
    assert biased.bias.value == pytest.approx(biased.judge.slope.value - biased.human.slope.value)


def test_separated_data_stay_finite_and_say_so(rng):
    difference = np.arange(-20, 20) + 0.5
    longer = (difference > 0).astype(float)
    effect = covariate_effect(difference, longer)
    assert effect.separated
    x = np.tanh(difference / difference.std(ddof=1))
    assert effect.slope.value == pytest.approx(by_scipy(x, longer, jeffreys=1)[1], rel=1e-4)
    one_sided = covariate_effect(difference, np.ones(40))
    assert one_sided.separated
    assert 0.9 < one_sided.equal.value < 1


def test_few_comparable_pairs_are_warned_of(rng):
    difference = rng.choice([-1.0, 1.0], 100) * (100 + rng.random(100))
    assert covariate_effect(difference, rng.choice([0.0, 1.0], 100)).few_comparable
    assert not covariate_effect(rng.normal(size=100), rng.choice([0.0, 1.0], 100)).few_comparable


def test_pairs_that_are_all_alike_say_nothing(rng):
    assert isinstance(covariate_effect(np.zeros(9), np.ones(9)), Undefined)


def test_weights_count_like_repeated_examples(rng):
    difference, _, y = simulated(rng, 200, 0.1, 0.9)
    weight = rng.integers(1, 4, 200)
    sd = difference.std(ddof=1)
    repeated_x = np.repeat(np.tanh(difference / sd), weight)
    expected = by_scipy(repeated_x, np.repeat(y, weight))[1]
    assert covariate_effect(difference, y, weight=weight).slope.value == pytest.approx(
        expected, abs=1e-5
    )


def test_a_judge_whose_kin_is_always_response_1_still_has_a_self_preference(rng):
    """One pair of models, one of them the judge's: the commonest project."""
    human = np.repeat([1.0, 0.5, 0.0], [50, 20, 50])
    judge = np.repeat([1.0, 0.5, 0.0], [75, 20, 25])
    one = covariate_bias(np.ones(120), judge, human)
    share = (75 + 10) / 120
    slope = np.log(share / (1 - share)) / np.tanh(1)
    assert one.judge.slope.value == pytest.approx(slope, abs=1e-6)
    assert one.human.slope.value == pytest.approx(0, abs=1e-9)
    assert one.bias.value == pytest.approx(slope, abs=1e-6)
    assert 0 < one.bias.low < one.bias.value < one.bias.high
    assert "the result for equal responses is unknown" in one.judge.equal.reason
    other = covariate_bias(-np.ones(120), 1 - judge, 1 - human)
    assert other.bias.value == pytest.approx(one.bias.value, abs=1e-9)


def test_a_judge_that_always_prefers_its_kin_has_a_finite_slope(rng):
    effect = covariate_effect(np.ones(40), np.ones(40))
    assert effect.separated
    assert 1 < effect.slope.value < 15
    assert "one pair" in covariate_effect([1.0], [1.0]).reason
    assert covariate_effect(np.zeros(5), np.ones(5)) == Undefined(
        "the two responses are equal in this respect in every pair"
    )


def test_kin_on_either_side_is_told_from_the_responses_numbers(rng):
    """Response 1 wins more often by 0.5, kin by 1.0 of log-odds, in a judge that knows both."""
    kin = rng.choice([1.0, 0.0, -1.0], 6_000)
    chance = 1 / (1 + np.exp(-(0.5 + 1.0 * kin)))
    effect = covariate_effect(kin, (rng.random(6_000) < chance).astype(float))
    assert effect.slope.value * np.tanh(1 / kin.std(ddof=1)) == pytest.approx(1.0, abs=0.1)
    assert effect.equal.value == pytest.approx(1 / (1 + np.exp(-0.5)), abs=0.03)


def test_likelihood_differences_are_a_covariate_like_any_other(rng):
    """Log-probabilities in the hundreds, negative, with people who don't share the preference."""
    difference = rng.normal(0, 80, 800)
    quality = rng.normal(0, 1, 800)
    human = (quality > 0).astype(float)
    judge = (quality + difference / 80 > 0).astype(float)
    found = covariate_bias(difference, judge, human)
    assert found.bias.low > 0.5
    assert found.human.slope.low < 0 < found.human.slope.high


def test_the_limits_of_pairs_that_all_differ_alike_can_be_written_down():
    """Four wins and one lose, x = tanh(1) everywhere: Firth's odds are 4.5 to 1.5.

    Information of the log odds 5 (3/4)(1/4) = 15/16; leverage 1/5 each. Squared residuals
    (4/16 + 9/16)/(1 - 1/5) = 65/64, and 1/16 + 9/16 of the two pseudo-observations."""
    found = covariate_effect(np.ones(5), [1, 1, 1, 1, 0]).slope
    half = stats.t.ppf(0.975, 4) * np.sqrt(65 / 64 + 10 / 16) / (15 / 16)
    assert found.value == pytest.approx(np.log(4) / np.tanh(1), abs=1e-6)
    assert found.low == pytest.approx((np.log(3) - half) / np.tanh(1), abs=1e-6)
    assert found.high == pytest.approx((np.log(3) + half) / np.tanh(1), abs=1e-6)


def test_thirty_labels_that_agree_do_not_exclude_a_bias(rng):
    difference, _, human = simulated(rng, 30, 0.0, 1.0)
    bias = covariate_bias(difference, human, human).bias
    assert bias.value == 0
    assert bias.low < -0.2
    assert bias.high > 0.2


def test_exchanging_the_responses_keeps_the_slope_and_turns_the_rate(rng):
    difference, _, score = simulated(rng, 60, 0.4, 1.0)
    one, other = covariate_effect(difference, score), covariate_effect(-difference, 1 - score)
    limits = [(found.slope.low, found.slope.value, found.slope.high) for found in (one, other)]
    assert limits[0] == pytest.approx(limits[1], abs=1e-7)
    assert one.equal.low == pytest.approx(1 - other.equal.high, abs=1e-7)


def test_each_pair_twice_under_one_question_tells_hardly_more(rng):
    difference, _, score = simulated(rng, 60, 0.4, 1.0)
    alone = covariate_effect(difference, score).slope
    twice = covariate_effect(
        np.repeat(difference, 2), np.repeat(score, 2), question=np.repeat(np.arange(60), 2)
    ).slope
    width = alone.high - alone.low
    assert twice.high - twice.low == pytest.approx(width, rel=0.1)


def test_one_question_has_no_interval(rng):
    difference, _, score = simulated(rng, 60, 0.4, 1.0)
    found = covariate_effect(difference, score, question=np.zeros(60, int)).slope
    assert found.low is None
    assert "same question" in found.note
