from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.methods.verdicts.arrays import verdict_arrays
from judging.methods.verdicts.verdicts import VerdictState, verdict

SIGN = {"win": 1, "tie": 0, "lose": -1}


def as_arrays(examples):
    """examples: a list of orders, each a list of pairs in tenths or None."""
    valid = np.array([[[p is not None for p in order] for order in ex] for ex in examples])
    scores = np.array([[[p or (99, 1) for p in order] for order in ex] for ex in examples])
    return scores, valid


def in_tenths(order):
    return [
        None if pair is None else (Decimal(pair[0]) / 10, Decimal(pair[1]) / 10) for pair in order
    ]


@st.composite
def example_sets(draw):
    orders, k = draw(st.integers(1, 2)), draw(st.integers(1, 7))
    pair = st.none() | st.tuples(st.integers(10, 100), st.integers(10, 100))
    close = st.none() | st.tuples(st.integers(10, 12), st.integers(10, 12))
    order = st.lists(pair | close, min_size=k, max_size=k)
    return draw(st.lists(st.lists(order, min_size=orders, max_size=orders), min_size=1, max_size=8))


@given(example_sets())
def test_arrays_equal_the_exact_verdict_to_the_last_bit(examples):
    arrays = verdict_arrays(*as_arrays(examples), scale=10)
    for i, orders in enumerate(examples):
        exact = verdict(*map(in_tenths, orders))
        assert arrays.judged[i] == (exact.state is VerdictState.JUDGED)
        assert arrays.n_valid[i] == exact.n_valid
        if exact.state is VerdictState.JUDGED:
            assert arrays.sign[i] == SIGN[exact.label]
            assert arrays.bpde[i] == exact.bpde
            assert arrays.cs_1[i] == float(exact.cs_1)
            assert arrays.cs_2[i] == float(exact.cs_2)
            assert arrays.gap[i] == float(exact.gap)
        else:
            assert np.isnan([arrays.cs_1[i], arrays.bpde[i], arrays.gap[i]]).all()


def test_many_samples_take_the_path_without_a_table_and_agree():
    random = np.random.default_rng(5)
    scores = random.integers(1, 11, (40, 2, 30, 2))
    valid = random.random((40, 2, 30)) < 0.9
    arrays = verdict_arrays(scores, valid)
    for i in range(40):
        orders = [
            [tuple(map(int, scores[i, o, j])) if valid[i, o, j] else None for j in range(30)]
            for o in (0, 1)
        ]
        exact = verdict(*orders)
        assert (arrays.bpde[i], arrays.cs_2[i]) == (exact.bpde, float(exact.cs_2))


def test_small_integer_types_do_not_overflow():
    scores = np.full((1, 2, 3, 2), 100, dtype=np.int8)
    scores[..., 1] = -100
    arrays = verdict_arrays(scores, np.ones((1, 2, 3), dtype=bool))
    assert arrays.cs_1[0] == 100
    assert arrays.sign[0] == 1


def test_scores_too_large_to_be_exact_are_refused():
    scores = np.full((1, 2, 3, 2), 2**50)
    with pytest.raises(ValueError, match="too large to be exact"):
        verdict_arrays(scores, np.ones((1, 2, 3), dtype=bool))
