import itertools

import numpy as np
import pytest

from judging.llm.prompts.templates import PromptVariant
from judging.methods.calibration.probabilities import (
    PERMUTATIONS,
    balanced_set,
    bears_t1,
    choice_probabilities,
    content_probability,
    is_balanced,
)


@pytest.mark.parametrize("name", PERMUTATIONS)
def test_a_judge_sure_of_response_1_says_so_under_every_permutation(name):
    """The judge client turns by position and then by token; both roads must lead to one place."""
    p_of_first_shown = 0.0 if PromptVariant.parse(name).swapped else 1.0
    assert (
        content_probability(PromptVariant.parse(name).token_probability(p_of_first_shown), name)
        == 1
    )
    assert bears_t1(name) == (
        PromptVariant.parse(name).first_bears_first_token != PromptVariant.parse(name).swapped
    )


def test_balance_is_what_equal_shares_of_places_and_tokens_mean():
    for size in range(1, 5):
        for names in itertools.combinations(PERMUTATIONS, size):
            first = [not PromptVariant.parse(name).swapped for name in names]
            bearing = [bears_t1(name) for name in names]
            assert is_balanced(names) == (2 * sum(first) == size == 2 * sum(bearing)), names
    assert not is_balanced(("X0", "X1", "X2"))
    assert not is_balanced(())


def test_the_largest_balanced_set_is_used():
    assert balanced_set(("X3", "X1", "X0", "X2")) == PERMUTATIONS
    assert balanced_set(("X0", "X1", "X2")) == ("X0", "X2")
    assert balanced_set(("X1", "X3")) == ("X1", "X3")
    assert balanced_set(("X0", "X1")) is None


def test_turning_back_twice_changes_nothing():
    p = np.array([0.0, 0.2, 1.0])
    for name in PERMUTATIONS:
        assert content_probability(content_probability(p, name), name) == pytest.approx(p)


@pytest.mark.parametrize(
    ("p", "names", "sentence"),
    [
        ([[0.2, 1.2]], ("X0", "X1"), "between 0 and 1"),
        ([[0.2, -0.1]], ("X0", "X1"), "between 0 and 1"),
        ([[0.2]], ("X0", "X1"), "column per permutation"),
        ([0.2, 0.3], ("X0", "X1"), "column per permutation"),
        ([[0.2, 0.3]], ("X0", "X0"), "twice"),
        ([[0.2, 0.3]], ("X0", "X7"), "no permutation 'X7'"),
        ([[]], (), "column per permutation"),
    ],
)
def test_what_is_no_probability_is_refused(p, names, sentence):
    with pytest.raises(ValueError, match=sentence):
        choice_probabilities(p, names)


def test_what_is_missing_stays_missing():
    given = choice_probabilities([[0.2, np.nan], [0.4, 0.9]], ("X0", "X2"))
    assert given.present.tolist() == [[True, False], [True, True]]
    assert np.isfinite(given.p_t1).all()
    assert given.complete(("X0", "X2")).tolist() == [False, True]
    masked = choice_probabilities([[0.2, 7.0]], ("X0", "X2"), [[True, False]])
    assert masked.present.tolist() == [[True, False]]
    with pytest.raises(ValueError, match="shape"):
        choice_probabilities([[0.2, 0.3]], ("X0", "X2"), [True])
