"""A share by question: the limits of as many independent examples as it is worth."""

import numpy as np
import pytest
from scipy import stats

from judging.methods.intervals.bootstrap import effective_size, share
from judging.methods.intervals.estimates import Undefined, clopper_pearson, wilson


def test_where_each_question_occurs_once_it_is_the_plain_interval():
    values = [1, 0, 1, 1, 0.5]
    assert share(values, [4, 7, 1, 0, 3]) == share(values) == wilson(3.5, 5)
    assert share(values, exact=True) == clopper_pearson(3.5, 5)
    assert share([], reason="why") == Undefined("why")


def test_copies_of_a_question_say_no_more_than_one_of_it():
    once, question = np.array([1.0, 0, 1, 1, 0, 1]), np.arange(6)
    five = share(np.tile(once, 5), np.tile(question, 5))
    assert (five.value, five.n) == (pytest.approx(4 / 6), 30)
    # n p(1-p)/n over G/(G-1) p(1-p)/G is G-1; Korn and Graubard's t of 5 degrees for z.
    ratio = (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 5)) ** 2
    assert effective_size(np.tile(once, 5), np.tile(question, 5)) == pytest.approx(5 * ratio)
    alone = clopper_pearson(4, 6)
    assert five.low < alone.low < alone.high < five.high


def test_what_agrees_throughout_is_worth_its_questions():
    found = share(np.ones(40), np.repeat(np.arange(8), 5))
    assert (found.low, found.high, found.n) == (clopper_pearson(8, 8).low, 1.0, 40)


def test_one_question_has_no_interval():
    found = share([1.0, 0.0], [3, 3])
    assert (found.value, found.low, found.high) == (0.5, None, None)
    assert "same question" in found.note


def test_the_limits_cover_what_they_should():
    """60 questions of 1 to 9 examples that are right together four times in five."""
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        question = np.repeat(np.arange(60), rng.integers(1, 10, 60))
        common = rng.random(60) < 0.7
        alike = rng.random(len(question)) < 0.8
        values = np.where(alike, common[question], rng.random(len(question)) < 0.7)
        found = share(values, question)
        covered += found.low <= 0.7 <= found.high
    assert covered >= 0.92 * 400
