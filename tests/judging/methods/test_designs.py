"""Designs of pairs: balance, connectedness, and that a later model adds only pairs of its own."""

from collections import Counter
from itertools import combinations
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judging.methods.designs import (
    Balance,
    against_baseline,
    all_pairs,
    block_pairs,
    cyclic_blocks,
    random_opponents,
)

models = st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=9, unique=True)
seeds = st.integers(0, 2**31 - 1)


def check_pairs(pairs, names):
    """No pair twice in either order, none of a model with itself, and no other models."""
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    assert all(a != b and {a, b} <= set(names) for a, b in pairs)


def connected(pairs, names):
    balance = Balance()
    balance.add(pairs)
    return len(balance.groups(names)) == 1


@given(models)
def test_all_pairs_are_all(names):
    pairs = all_pairs(names)
    check_pairs(pairs, names)
    assert len(pairs) == comb(len(names), 2)
    assert all_pairs(reversed(names)) == pairs


@given(models)
def test_a_baseline_meets_each_other_model_once(names):
    pairs = against_baseline(names, names[0])
    check_pairs(pairs, names)
    assert len(pairs) == len(names) - 1
    assert all(names[0] in pair for pair in pairs)
    assert connected(pairs, names)


@settings(deadline=None)
@given(models, st.integers(1, 5), seeds)
def test_random_opponents_are_enough_for_each_and_connect_all(names, r, seed):
    pairs = random_opponents(names, r, seed, "q")
    check_pairs(pairs, names)
    n = len(names)
    assert len(pairs) == (r * n - r * (r + 1) // 2 if n > r else comb(n, 2))
    degrees = Counter(model for pair in pairs for model in pair)
    assert min(degrees.values()) >= min(r, n - 1)
    assert connected(pairs, names)
    assert random_opponents(names[::-1], r, seed, "q") == pairs


@settings(deadline=None)
@given(models, st.integers(1, 4), seeds)
def test_a_later_model_is_in_every_pair_that_it_adds(names, r, seed):
    *before, later = names
    added = set(random_opponents(names, r, seed, "q")) - set(random_opponents(before, r, seed, "q"))
    assert all(later in pair for pair in added)
    assert added


def test_the_first_models_are_drawn_anew_for_each_question():
    names = [f"m{n}" for n in range(8)]
    degrees = Counter()
    for question in range(2000):
        for pair in random_opponents(names, 2, 7, str(question)):
            degrees.update(pair)
    # 13 pairs a question: 3.25 for each model on average, with a deviation of about 0.03.
    assert all(abs(n / 2000 - 3.25) < 0.15 for n in degrees.values())


@pytest.mark.parametrize(("n", "size"), [(2, 2), (5, 2), (6, 2), (5, 3), (6, 3), (8, 4), (4, 4)])
def test_all_blocks_together_are_balanced(n, size):
    blocks = cyclic_blocks(n, size)
    assert len(set(blocks)) == len(blocks) == comb(n, size)
    times = Counter(pair for block in blocks for pair in combinations(block, 2))
    assert set(times.values()) == {comb(n - 2, size - 2)}
    assert len(times) == comb(n, 2)
    if (n, size) != (4, 4) and n != 2:
        # Each base block gives every model as many places.
        assert set(Counter(one for block in blocks[:n] for one in block).values()) == {size}


@pytest.mark.parametrize(("n", "size"), [(7, 3), (13, 4), (3, 2)])
def test_a_perfect_difference_set_comes_first(n, size):
    # Fano's plane and the projective plane of order 3: each two models meet once in n blocks.
    times = Counter(pair for block in cyclic_blocks(n, size)[:n] for pair in combinations(block, 2))
    assert set(times.values()) == {1}
    assert len(times) == comb(n, 2)


@settings(deadline=None)
@given(st.integers(2, 9), st.integers(2, 4), seeds, st.integers(0, 200))
def test_blocks_have_the_pairs_of_their_models(n, size, seed, number):
    names = [f"m{one}" for one in range(n)]
    pairs = block_pairs([names], size, seed, number)
    check_pairs(pairs, names)
    assert len(pairs) == comb(min(size, n), 2)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 9), seeds)
def test_blocks_of_two_meet_equally_often_up_to_one_and_connect_all(n, seed):
    names = [f"m{one}" for one in range(n)]
    balance = Balance()
    for number in range(3 * n):
        balance.add(block_pairs([names], 2, seed, number))
        times = [balance.of_pair[pair] for pair in all_pairs(names)]
        assert max(times) - min(times) <= 1
    assert len(balance.groups(names)) == 1


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 7), st.integers(2, 4), seeds)
def test_blocks_stay_and_a_later_model_meets_the_others_by_turns(n, size, seed):
    names = [f"m{one}" for one in range(n)]
    opponents = Counter()
    for number in range(4 * n):
        before = set(block_pairs([names], size, seed, number))
        after = set(block_pairs([names, ["new"]], size, seed, number))
        assert before <= after
        assert all("new" in pair for pair in after - before)
        check_pairs(sorted(after), [*names, "new"])
        opponents.update(one for pair in after - before for one in pair if one != "new")
    assert max(opponents.values()) - min(opponents[name] for name in names) <= 1


def test_groups_that_are_never_compared_are_found():
    balance = Balance()
    balance.add([("a", "b"), ("c", "d")])
    assert balance.groups("abcde") == [["a", "b"], ["c", "d"], ["e"]]
