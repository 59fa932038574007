"""Whether categories differ: against all permutations, and how often chance is taken for more."""

from itertools import permutations

import numpy as np
import pytest

from judging.methods.intervals.bootstrap import categories_differ
from judging.methods.intervals.estimates import Undefined, holm


def test_the_test_is_that_of_all_permutations(rng):
    values, category = np.array([1, 1, 1, 0, 0, 1, 0]), np.array([0, 0, 0, 1, 1, 2, 2])

    def distance(codes):
        means = [values[codes == one].mean() for one in range(3)]
        sizes = np.bincount(codes)
        every = sum(n * (m - values.mean()) ** 2 for n, m in zip(sizes, means, strict=True))
        return every, [abs(m - values[codes != c].mean()) for c, m in enumerate(means)]

    seen = distance(category)
    dealt = [distance(np.array(codes)) for codes in permutations(category.tolist())]
    together = np.mean([one[0] >= seen[0] - 1e-9 for one in dealt])
    each = [np.mean([one[1][c] >= seen[1][c] - 1e-9 for one in dealt]) for c in range(3)]
    found = categories_differ(values, category, rng)
    # 1,999 of 5,040 permutations: three standard errors are .034.
    assert found.p == pytest.approx(together, abs=0.034)
    assert list(found.p_holm.values()) == pytest.approx(list(holm(each)), abs=0.1)


def test_a_category_that_is_worse_is_found(rng):
    category = np.repeat(np.arange(5), 40)
    values = (rng.random(200) < np.where(category == 3, 0.4, 0.9)).astype(float)
    found = categories_differ(values, category, rng)
    assert found.p < 0.01
    assert min(found.p_holm, key=lambda name: found.p_holm[name]) == 3
    assert found.p_holm[3] < 0.01


def test_chance_is_rarely_taken_for_a_difference(rng):
    """Of twenty categories of ten examples, one in twenty tests may say that any differs."""
    category, false = np.repeat(np.arange(20), 10), np.zeros(2)
    for _ in range(60):
        found = categories_differ((rng.random(200) < 0.8).astype(float), category, rng)
        false += [found.p <= 0.05, min(found.p_holm.values()) <= 0.05]
    # 60 repeats of 5 %: three standard errors are 8.4 %
    assert (false / 60 <= 0.134).all()


def test_questions_stay_together(rng):
    """Two questions tell nothing, however many examples each has."""
    category = question = np.repeat([0, 1], 50)
    found = categories_differ(1 - question, category, rng, question=question)
    assert found.p == 1


def test_examples_stay_in_their_stratum(rng):
    """All wins are selected and all losses audited, so permuting within each changes nothing."""
    stratum = np.repeat([0, 1], 20)
    found = categories_differ(stratum, np.arange(40) % 4, rng, stratum=stratum)
    assert found.p == 1


def test_examples_that_are_all_alike_show_no_difference(rng):
    category = np.repeat([0, 1], [1, 23])
    assert categories_differ(np.ones(24), category, rng).p == 1
    # Beside a stratum of such examples, what counts is how the others are dealt.
    values, stratum = np.repeat([1, 0, 1], 10), np.repeat([0, 0, 1], 10)
    category = np.repeat([0, 1, 0, 1], [10, 10, 5, 5])
    found = categories_differ(values, category, rng, stratum=stratum)
    assert found.p < 0.01


def test_one_category_has_no_test(rng):
    assert isinstance(categories_differ([1, 0], [3, 3], rng), Undefined)
    assert isinstance(categories_differ([], [], rng), Undefined)
