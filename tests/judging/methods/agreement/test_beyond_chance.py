"""Do people agree more often than by chance? A permutation test of each criterion."""

import numpy as np
import pytest

from judging.methods.agreement.votes import MOST_TESTED, PERMUTATIONS, beyond_chance


def p_of(votes, present=None, question=None, seed=1):
    votes = np.asarray(votes)
    present = np.ones(votes.shape, bool) if present is None else present
    question = np.arange(len(votes)) if question is None else question
    return beyond_chance(votes, present, question, np.random.default_rng(seed))


def test_two_who_always_agree_do_so_by_chance_as_seldom_as_counted():
    # Two people call the same 4 of 8 better: 1 of 70 arrangements agrees on all, so that p is .014.
    votes = np.repeat([[1, 1], [-1, -1]], 4, axis=0)
    assert p_of(votes) == pytest.approx(1 / 70, abs=0.01)


@pytest.mark.system
def test_who_answer_apart_from_each_other_are_at_chance():
    rng = np.random.default_rng(4)
    p = [p_of(rng.integers(-1, 2, (20, 3)), seed=seed) for seed in range(40)]
    assert 0.3 < np.mean(p) < 0.7


def test_a_habit_is_no_agreement():
    # Both nearly always say win, so that agreeing on 10 of 12 is chance.
    votes = np.ones((12, 2), int)
    votes[0, 0] = votes[1, 1] = -1
    assert p_of(votes) > 0.5


def test_examples_of_one_question_count_once():
    votes = np.repeat([[1, 1], [-1, -1], [1, 1], [-1, -1]], 10, axis=0)
    # Two wins and two loses of four questions have 6 arrangements, of which 1 agrees on all.
    assert p_of(votes, question=np.arange(40) // 10) == pytest.approx(1 / 6, abs=0.06)
    assert p_of(votes) == 1 / (1 + PERMUTATIONS)


def test_without_two_votes_or_two_answers_there_is_no_test():
    alone = np.array([[True, False], [False, True]])
    assert p_of([[1, 0], [0, 1]], alone) is None
    assert p_of(np.ones((5, 3), int)) is None
    assert p_of(np.zeros((0, 0))) is None


def test_of_very_many_examples_a_part_is_tested():
    votes = np.tile([[1, 1], [-1, -1]], (MOST_TESTED, 1))
    assert p_of(votes) == 1 / (1 + PERMUTATIONS)
