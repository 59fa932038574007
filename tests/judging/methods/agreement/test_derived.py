from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging.methods.agreement.fewer_samples import (
    expected_labels,
    expected_right,
    kappa_of_expected_table,
)
from judging.methods.agreement.votes import cohen_kappa, confusion
from judging.methods.verdicts.verdicts import verdict

COLUMN = {"win": 0, "tie": 1, "lose": 2, None: 3}


def brute_force(orders, k_prime, both_orders, band=0):
    """Shares of win, tie, lose and none, by asking the exact verdict for every subset."""
    shares = np.zeros(4)
    subsets = [[list(s) for s in combinations(order, k_prime)] for order in orders]
    if both_orders:
        results = [verdict(a, b, band=Fraction(band)).label for a, b in product(*subsets)]
        for label in results:
            shares[COLUMN[label]] += 1 / len(results)
        return shares
    for order in subsets:
        for subset in order:
            shares[COLUMN[verdict(subset, band=Fraction(band)).label]] += (
                1 / len(order) / len(subsets)
            )
    return shares


@st.composite
def runs(draw):
    k = draw(st.integers(1, 4))
    sample = st.none() | st.integers(-3, 3)
    order = st.lists(sample, min_size=k, max_size=k)
    examples = draw(st.lists(st.lists(order, min_size=2, max_size=2), min_size=1, max_size=3))
    return examples, draw(st.integers(1, k)), draw(st.booleans()), draw(st.integers(0, 2))


@given(runs())
@settings(max_examples=60)
def test_the_mean_over_subsets_is_what_asking_for_each_subset_gives(run):
    examples, k_prime, both, band = run
    difference = np.array([[[d or 0 for d in o] for o in ex] for ex in examples])
    valid = np.array([[[d is not None for d in o] for o in ex] for ex in examples])
    shares = expected_labels(difference, valid, k_prime, both_orders=both, band=band)
    for row, example in zip(shares, examples, strict=True):
        pairs = [[None if d is None else (d, 0) for d in order] for order in example]
        assert row == pytest.approx(brute_force(pairs, k_prime, both, band))


def test_all_samples_of_both_orders_give_the_verdict_itself():
    random = np.random.default_rng(3)
    difference = random.integers(-2, 3, (50, 2, 3))
    shares = expected_labels(difference, np.ones((50, 2, 3), bool), 3, both_orders=True)
    labels = np.sign(difference.sum(axis=(1, 2)))
    assert (shares[np.arange(50), 1 - labels] == 1).all()
    human = random.integers(-1, 2, 50).astype(np.int8)
    weight = random.random(50)
    expected = weight @ (labels == human) / weight.sum()
    assert weight @ expected_right(shares, human, knows_ties=True) / weight.sum() == pytest.approx(
        expected
    )
    table = confusion(labels.astype(np.int8), human, weight)
    assert kappa_of_expected_table(shares, human, weight) == pytest.approx(cohen_kappa(table))


def test_a_tie_earns_half_only_if_people_cannot_tie():
    shares = np.array([[0.0, 1, 0, 0], [1, 0, 0, 0]])
    human = np.array([1, 1], dtype=np.int8)
    assert expected_right(shares, human, knows_ties=False).tolist() == [0.5, 1]
    assert expected_right(shares, human, knows_ties=True).tolist() == [0, 1]


def test_what_has_no_label_earns_nothing():
    shares = np.array([[1.0, 0, 0, 0], [0, 0, 0, 1]])
    assert expected_right(shares, np.ones(2, np.int8), knows_ties=True).tolist() == [1, 0]


def test_more_samples_than_there_are_can_not_be_taken():
    with pytest.raises(ValueError, match="between 1 and 3"):
        expected_labels(np.zeros((1, 2, 3), int), np.ones((1, 2, 3), bool), 4, both_orders=True)
    with pytest.raises(ValueError, match="the run has one"):
        expected_labels(np.zeros((1, 1, 3), int), np.ones((1, 1, 3), bool), 1, both_orders=True)
