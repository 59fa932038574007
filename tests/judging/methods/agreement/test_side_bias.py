import numpy as np
import pytest
from scipy import stats

from judging.methods.agreement.annotators import pooled_side_bias, side_bias, side_table
from judging.methods.intervals.estimates import Undefined


def voter(random, n, lean):
    """Votes for the better response, or with chance `lean` for the left one."""
    left = random.random(n) < 0.5
    vote = np.where(random.random(n) < 0.7, 1, -1)
    return side_table(np.where(random.random(n) < lean, np.where(left, 1, -1), vote), left)


def test_the_table_counts_decided_votes_only():
    vote = [1, 1, -1, 0, -1, 1]
    left = [True, False, True, True, False, True]
    assert side_table(vote, left).tolist() == [[2, 1], [1, 1]]


def test_an_annotator_who_leans_left_is_found_and_a_fair_one_is_not(rng):
    tables = {"leaning": voter(rng, 300, 0.4), "fair": voter(rng, 300, 0.0)}
    result = side_bias(tables)
    assert result["leaning"].p_holm < 0.01
    assert result["leaning"].left_rate > 0.6
    assert result["fair"].p_holm > 0.05
    assert result["fair"].p == stats.fisher_exact(tables["fair"]).pvalue
    assert result["leaning"].p_holm == pytest.approx(2 * result["leaning"].p)


def test_one_arrangement_only_can_not_be_tested():
    result = side_bias({"a": np.array([[5, 3], [0, 0]])})
    assert result["a"] == Undefined("response 1 was on one side in every decided vote")


def test_imported_votes_without_sides_are_said_to_be_that():
    nothing = np.zeros((2, 2), dtype=np.int64)
    assert "known sides" in side_bias({"a": nothing})["a"].reason
    assert "known sides" in pooled_side_bias([nothing]).reason


def test_mantel_and_haenszel_pool_the_annotators():
    # 1st: 20 votes, excess 8 - 5 = 3, variance 10*10*10*10/(400*19); 2nd likewise with 2
    tables = [np.array([[8, 2], [2, 8]]), np.array([[7, 3], [3, 7]])]
    pooled = pooled_side_bias(tables)
    chi2 = (3 + 2) ** 2 / (2 * 10_000 / (400 * 19))
    assert pooled.p == pytest.approx(stats.chi2.sf(chi2, 1))
    assert pooled.odds_ratio == pytest.approx((64 / 20 + 49 / 20) / (4 / 20 + 9 / 20))


def test_pooling_keeps_its_level(rng):
    rejected = sum(
        pooled_side_bias([voter(rng, 60, 0.0) for _ in range(3)]).p < 0.05 for _ in range(500)
    )
    # 500 repeats of 5 %: three standard errors are 2.9 %
    assert 0.021 <= rejected / 500 <= 0.079


def test_pooling_without_votes_is_undefined():
    assert isinstance(pooled_side_bias([]), Undefined)
    assert isinstance(pooled_side_bias([np.array([[5, 0], [5, 0]])]), Undefined)
    one_way = pooled_side_bias([np.array([[5, 0], [0, 5]])])
    assert isinstance(one_way.odds_ratio, Undefined)
    assert one_way.p < 0.01
