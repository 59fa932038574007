"""Intervals of agreement among people, by question."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import multinomial

from judging.methods.agreement.votes import (
    agreement_interval,
    category_counts,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    percent_agreement,
)
from judging.methods.intervals.bootstrap import ONE_QUESTION
from judging.methods.intervals.estimates import Undefined

STATISTICS = (fleiss_kappa, gwet_ac1, krippendorff_alpha, percent_agreement)


def votes_of(n, seed=0):
    """Three votes an example, a fifth of them given at random."""
    rng = np.random.default_rng(seed)
    votes = np.repeat(rng.choice([1, 0, -1], n)[:, None], 3, axis=1)
    careless = rng.random((n, 3)) < 0.2
    votes[careless] = rng.choice([1, 0, -1], careless.sum())
    return category_counts(votes, np.ones_like(votes), (1, 0, -1))


def interval_of(statistic, counts, question):
    return agreement_interval(statistic, counts, question, np.random.default_rng(5))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_how_often_a_row_occurs_is_the_same_as_writing_it_so_often(statistic):
    counts = votes_of(30)
    times = np.random.default_rng(1).integers(0, 4, 30)
    written = statistic(np.repeat(counts, times, axis=0))
    assert statistic(counts, times.astype(float)) == pytest.approx(written, abs=1e-12)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_the_value_lies_within_and_more_examples_narrow_it(statistic):
    few, many = votes_of(40), votes_of(640)
    narrow = interval_of(statistic, many, np.arange(640))
    wide = interval_of(statistic, few, np.arange(40))
    assert narrow.low < narrow.value < narrow.high
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_question_that_repeats_counts_once(statistic):
    counts = votes_of(60)
    repeated = np.repeat(counts, 9, axis=0)
    once = interval_of(statistic, counts, np.arange(60))
    nine = interval_of(statistic, repeated, np.repeat(np.arange(60), 9))
    apart = interval_of(statistic, repeated, np.arange(540))
    assert nine.high - nine.low == pytest.approx(once.high - once.low, rel=0.25)
    assert apart.high - apart.low < 0.6 * (nine.high - nine.low)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_votes_that_all_agree_have_an_interval_nevertheless(statistic):
    counts = np.array([[3.0, 0, 0]] * 20 + [[0, 0, 3.0]] * 20)
    found = interval_of(statistic, counts, np.arange(40))
    assert found.value == found.high == 1
    assert 0.7 < found.low < 0.99


def test_without_two_votes_there_is_a_reason():
    assert interval_of(fleiss_kappa, np.zeros((0, 3)), []) == Undefined(
        "none of these examples has two votes that count"
    )


def test_votes_that_agree_about_few_questions_bound_less_than_about_many():
    counts = np.array([[3.0, 0, 0]] * 20 + [[0, 0, 3.0]] * 20)
    few = interval_of(percent_agreement, counts, np.repeat(np.arange(8), 5))
    many = interval_of(percent_agreement, counts, np.arange(40))
    assert few.value == few.high == 1
    assert few.low < many.low - 0.1
    one = interval_of(percent_agreement, counts, np.zeros(40))
    assert (one.low, one.high, one.note) == (None, None, ONE_QUESTION)


def test_single_votes_enter_the_chance_term_of_ac1(rng):
    # Three examples with two votes, two of them alike, and two with one vote each. Shares of an
    # example's votes: 1, 0, 1/2, 1, 0 for win, so p = 1/2 and chance = 2 p (1 - p)/(2 - 1) = 1/2.
    counts = np.array([[2.0, 0], [0, 2], [1, 1], [1, 0], [0, 1]])
    found = agreement_interval(gwet_ac1, counts, np.arange(5), rng)
    assert found.value == pytest.approx((2 / 3 - 1 / 2) / (1 - 1 / 2))
    assert found.n == 3


@pytest.mark.parametrize(
    ("statistic", "alone"),
    [(fleiss_kappa, 0), (gwet_ac1, 0), (krippendorff_alpha, 0), (krippendorff_alpha, 30)],
)
def test_no_limit_is_above_perfect_agreement_if_votes_meet_on_two_examples(statistic, alone):
    # Alpha's correction divides by the votes less one: of less than one vote, it was 15.
    counts = np.array([[2.0, 0, 0], [1, 0, 1], *[[1.0, 0, 0]] * alone])
    found = interval_of(statistic, counts, np.arange(len(counts)))
    assert -1 <= found.low <= found.value <= found.high <= 1
    assert found.n == 2


@pytest.mark.long
@pytest.mark.parametrize("chance", [(0.9, 0.09, 0.01), (0.3, 0.5, 0.2)])
def test_every_outcome_of_twenty_examples_is_counted(chance):
    """How probable those are whose interval holds the truth. chance: of 3, 2 and 0 equal votes."""
    n, truth, covered = 20, chance[0] + chance[1] / 3, 0.0
    kinds = np.array([[3.0, 0, 0], [2, 1, 0], [1, 1, 1]])
    for alike, two in product(range(n + 1), repeat=2):
        often = [alike, two, n - alike - two]
        if often[2] >= 0 and (probable := multinomial.pmf(often, n, chance)) > 1e-5:
            found = interval_of(percent_agreement, np.repeat(kinds, often, axis=0), np.arange(n))
            covered += probable * (found.low - 1e-9 <= truth <= found.high + 1e-9)
    assert covered >= 0.945
