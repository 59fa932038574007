"""Which criteria explain the overall vote: the ordinal logistic regression and its reasons."""

import numpy as np
import pytest
from scipy.optimize import minimize

from judging.methods.intervals.covariates import (
    ALIKE,
    COPIED,
    MANY_CELLS,
    ONE_OVERALL,
    explained_by,
)
from judging.methods.intervals.estimates import Undefined


def explained(answers, overall, question=None, seed=1):
    question = np.arange(len(overall)) if question is None else question
    return explained_by(answers, overall, question, np.random.default_rng(seed))


def test_of_one_criterion_without_ties_half_a_vote_is_added_to_each_cell():
    # Firth's estimate of a saturated 2 x 2 table is the log odds ratio with 1/2 in each cell more.
    # From a lose to a win the answer moves by 2, so the slope is half of it:
    # log(30.5 * 25.5 / (5.5 * 10.5)) / 2 = 1.3003.
    answers = np.repeat([1, 1, -1, -1], [30, 10, 5, 25])[:, None]
    overall = np.repeat([1, -1, 1, -1], [30, 10, 5, 25])
    (found,) = explained(answers, overall)
    assert found.slope.value == pytest.approx(np.log(30.5 * 25.5 / (5.5 * 10.5)) / 2, abs=1e-7)
    assert found.slope.low > 0
    assert found.p < 0.001
    assert found.slope.n == 70


def penalised(theta, answers, overall):
    """The likelihood with Jeffreys' prior, written down anew: no code of the product."""
    tables, total = [], 0.0
    for x, y in zip(answers, overall, strict=True):
        rows = {1: [0.5, *(x / 2), 0], 0: [0.0, *(0 * x), 1], -1: [-0.5, *(-x / 2), 0]}
        table = np.array([rows[1], rows[0], rows[-1]])
        chance = np.exp(table @ theta)
        total += np.log(chance[1 - y] / chance.sum())
        chance /= chance.sum()
        mean = chance @ table
        tables.append((chance[:, None] * table).T @ table - np.outer(mean, mean))
    return -total - np.linalg.slogdet(np.sum(tables, axis=0))[1] / 2


def test_with_ties_it_is_the_mode_that_an_optimiser_finds():
    rng = np.random.default_rng(3)
    answers = rng.integers(-2, 3, (60, 3)) / 2
    eta = answers @ [2.0, 0.5, 0.0] + 0.2
    overall = np.sign(np.rint(eta + rng.logistic(size=60))).astype(int)
    assert set(overall) == {-1, 0, 1}
    best = minimize(penalised, np.zeros(5), (answers, overall), method="BFGS", tol=1e-10).x
    found = [one.slope.value for one in explained(answers, overall)]
    assert found == pytest.approx(best[1:4].tolist(), abs=1e-4)


def test_a_criterion_that_always_says_the_same_as_the_overall_vote_has_a_finite_slope():
    overall = np.tile([1, -1, 1, -1], 10)
    other = np.tile([1, 1, -1, -1], 10)
    first, second = explained(np.column_stack((overall, other)), overall)
    assert 3 < first.slope.value < 10
    assert first.slope.low > 0
    assert second.slope.low < 0 < second.slope.high


def test_votes_of_one_question_are_resampled_together():
    rng = np.random.default_rng(0)
    answers = rng.integers(-1, 2, (60, 1))
    overall = np.where(rng.random(60) < 0.8, np.where(answers[:, 0] >= 0, 1, -1), -1)
    (once,) = explained(answers, overall)
    thrice = np.repeat(answers, 3, axis=0), np.repeat(overall, 3)
    (alone,) = explained(*thrice)
    (together,) = explained(*thrice, np.arange(180) // 3)
    width = [one.slope.high - one.slope.low for one in (once, alone, together)]
    # Three copies of each vote say nothing new.
    assert width[1] < 0.7 * width[0]
    assert width[2] == pytest.approx(width[0], rel=0.15)


def test_swapping_the_responses_turns_nothing_over():
    rng = np.random.default_rng(5)
    answers, overall = rng.integers(-1, 2, (80, 2)), rng.integers(-1, 2, 80)
    before, after = explained(answers, overall), explained(-answers, -overall)
    for one, other in zip(before, after, strict=True):
        assert one.slope.value == pytest.approx(other.slope.value, abs=1e-7)


def test_reasons_stand_in_place_of_slopes():
    votes = np.tile([1, -1, 1, -1, 0], 12)
    other = np.tile([1, 1, -1, 0, 1], 12)
    table = np.column_stack((votes, np.ones(60), other, -other))
    reasons = [
        one.slope.reason if isinstance(one.slope, Undefined) else ""
        for one in explained(table, votes)
    ]
    assert reasons == ["", ALIKE, COPIED, COPIED]
    assert explained(votes[:, None], np.ones(60, int))[0].slope.reason == ONE_OVERALL
    few = explained(votes[:12, None], votes[:12])[0].slope
    assert few.reason == "votes on 12 questions are too few; 15 are needed"
    assert explained(np.zeros((0, 2)), np.zeros(0, int))[1].slope.reason == ONE_OVERALL


def test_many_different_answers_move_by_one_step_to_the_same_place():
    rng = np.random.default_rng(2)
    answers = rng.integers(-2, 3, (4_000, 6)) / 2
    overall = np.where(rng.random(4_000) < 1 / (1 + np.exp(-2 * answers[:, 0])), 1, -1)
    assert len(np.unique(np.column_stack((answers, overall)), axis=0)) > MANY_CELLS
    first, *others = explained(answers, overall)
    assert first.slope.low < 2 < first.slope.high
    # The inverse of Fisher's information says the same of the width.
    chance = 1 / (1 + np.exp(-2 * answers[:, 0]))
    rows = np.column_stack((np.ones(4_000), answers)) * np.sqrt(chance * (1 - chance))[:, None]
    error = np.sqrt(np.linalg.inv(rows.T @ rows)[1, 1])
    assert (first.slope.high - first.slope.low) / 2 == pytest.approx(1.96 * error, rel=0.1)
    assert sum(one.p < 0.05 for one in others) <= 1
