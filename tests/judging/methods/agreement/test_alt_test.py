import numpy as np
import pytest
from scipy import stats

from judging.methods.agreement.annotators import Expertise, alternative_annotator_test
from judging.methods.intervals.estimates import Undefined

NAMES = ["Ada", "Ben", "Cy"]


def answers(random, truth, skill, size):
    noise = random.choice([-1, 0, 1], size)
    return np.where(random.random(size) < skill, truth, noise).astype(np.int8)


@pytest.fixture
def crowd(rng):
    truth = rng.choice([-1, 0, 1], 200).astype(np.int8)
    votes = answers(rng, truth[:, None], 0.7, (200, 3))
    return truth, votes, np.ones((200, 3), bool)


def test_a_judge_as_good_as_the_truth_passes_and_a_coin_does_not(crowd, rng):
    truth, votes, present = crowd
    judged = np.ones(200, bool)
    good = alternative_annotator_test(truth, judged, votes, present, NAMES)
    assert good.passes
    assert good.omega == 1
    assert [row.annotator for row in good.annotators] == NAMES
    coin = rng.choice([-1, 0, 1], 200).astype(np.int8)
    bad = alternative_annotator_test(coin, judged, votes, present, NAMES)
    assert not bad.passes
    assert bad.omega == 0
    assert bad.mean_rho < good.mean_rho


def test_one_annotators_figures_by_hand():
    """Four kinds of example, 10 each; person 1 against the others, who agree on win."""
    votes = np.tile(np.array([[1, 1, 1], [-1, 1, 1], [1, 1, 1], [-1, 1, 1]], np.int8), (10, 1))
    judge = np.tile(np.array([1, 1, -1, -1], np.int8), 10)
    result = alternative_annotator_test(
        judge, np.ones(40, bool), votes, np.ones_like(votes, bool), NAMES, Expertise.CROWD
    )
    # judge right on 1, 2; person 1 right on 1, 3: each at least as good on three of the four
    first = result.annotators[0]
    assert (first.rho_judge, first.rho_human) == (0.75, 0.75)
    difference = np.tile([0.0, -1, 1, 0], 10) - 0.1
    assert first.p == pytest.approx(stats.ttest_1samp(difference, 0, alternative="less").pvalue)


def test_an_annotator_with_few_examples_is_not_tested(crowd):
    truth, votes, present = crowd
    votes, present = np.column_stack((votes, votes[:, 0])), np.ones((200, 4), bool)
    present[29:, 0] = False
    names, judged = [*NAMES, "Di"], np.ones(200, bool)
    result = alternative_annotator_test(truth, judged, votes, present, names)
    assert [row.annotator for row in result.annotators] == ["Ben", "Cy", "Di"]
    present[29:, 1] = False
    few = alternative_annotator_test(truth, judged, votes, present, names)
    assert few == Undefined("only 2 annotators share 30 examples with others; this needs 3")


def test_a_judge_at_the_bound_passes_seldom(rng):
    """Others always agree; the judge is wrong and the person right in 15 % of the examples."""
    passed = 0
    for _ in range(300):
        votes = np.ones((40, 3), np.int8)
        judge = np.where(rng.random(40) < Expertise.SKILLED, -1, 1).astype(np.int8)
        every = np.ones((40, 3), bool)
        found = alternative_annotator_test(judge, every[:, 0], votes, every, NAMES)
        passed += found.passes
    # three standard errors above 5 %
    assert passed / 300 <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


def test_too_little_is_undefined_with_the_reason(crowd):
    truth, votes, present = crowd
    judged = np.ones(200, bool)
    two = alternative_annotator_test(truth, judged, votes[:, :2], present[:, :2], NAMES[:2])
    assert two == Undefined("this needs three annotators who share examples")
    few = alternative_annotator_test(truth[:29], judged[:29], votes[:29], present[:29], NAMES)
    assert few == Undefined("only 29 examples have two votes; this needs 30")


def test_a_judge_that_is_always_better_is_not_undefined():
    votes = np.tile(np.array([[1, -1, 0]], np.int8), (40, 1))
    result = alternative_annotator_test(
        votes[:, 0], np.ones(40, bool), votes, np.ones_like(votes, bool), NAMES, Expertise.CROWD
    )
    # against persons 2 and 3 the judge agrees with person 1, and they with nobody
    assert [row.judge_is_as_good for row in result.annotators] == [True, True, True]
