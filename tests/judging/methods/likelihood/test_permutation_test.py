import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.methods.intervals.estimates import Undefined
from judging.methods.likelihood.bias import likelihood_bias, of_mean_0_and_range_1
from judging.methods.likelihood.permutation_test import (
    Swaps,
    before_after,
    bias_test,
    correlations,
    correlations_by_sorting,
    performance_test,
)


def test_the_exact_test_is_the_references(reference, expected, rng):
    wanted = expected["exact_permutation_first14"]
    found = bias_test(*reference.first(14), rng)
    assert found.exact
    assert found.repeats == wanted["N"]
    assert abs(found.difference) == pytest.approx(float(wanted["obs_abs_diff"]), abs=1e-9)
    assert found.p == pytest.approx(float(wanted["p"]), abs=1e-9)


def test_the_randomised_test_is_near_the_references(reference, expected):
    wanted = expected["monte_carlo_n30_R10000"]
    found = bias_test(*reference.columns, np.random.default_rng(1))
    assert not found.exact
    assert found.repeats == 100_000
    assert abs(found.difference) == pytest.approx(float(wanted["obs_abs_diff"]), abs=1e-9)
    # Of 10,000 draws 15 counted: their share is known to four standard errors.
    share = float(wanted["p_plain"])
    assert found.p == pytest.approx(share, abs=4 * (share / wanted["R"]) ** 0.5)


numbers = st.integers(0, 6).map(float)


@given(
    st.lists(st.tuples(numbers, numbers, numbers, numbers), min_size=2, max_size=12),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_counting_ranks_gives_what_sorting_gives(rows, of_bias, seed):
    """With many ties; whole numbers scaled by powers of two, so that ties are exact in both."""
    target, before, after, human = np.array(rows).T
    swapped = np.random.default_rng(seed).random((40, len(rows))) < 0.5
    if of_bias:
        # A range of 8 throughout.
        before, after = (np.append(side, [0.0, 8.0]) for side in (before, after))
        target, human = np.append(target, [1.0, 2.0]), np.append(human, [0.0, 8.0])
        swapped = np.append(swapped, np.zeros((40, 2), bool), axis=1)
    problem = Swaps(target, before, after, human / 8 if of_bias else None)
    fast = correlations(problem, swapped)
    if of_bias:
        scores = np.where(swapped, after, before) / 8 - problem.human
        problem, swapped = Swaps(target, scores, scores, None), np.zeros_like(swapped)
    slow = correlations_by_sorting(problem, swapped)
    assert fast == pytest.approx(slow, abs=1e-9, nan_ok=True)


def test_counting_ranks_follows_the_range_of_each_draw(judged, rng):
    ls, before, human, _ = judged(40, 0.5, rng)
    after = before + rng.normal(0, 1, 40)
    swapped = rng.random((300, 40)) < 0.5
    problem = Swaps(ls, before, after, of_mean_0_and_range_1(human))
    slow = correlations_by_sorting(problem, swapped)
    assert correlations(problem, swapped) == pytest.approx(slow, abs=1e-9)


def test_a_mitigated_bias_is_seen_and_none_is_not(judged):
    rng = np.random.default_rng(4)
    ls, before, human, _ = judged(200, 0.6, rng)
    after = before - 0.5 * (ls - ls.mean()) / ls.std()
    found = bias_test(ls, before, after, human, rng, repeats=2_000)
    assert found.after < found.before
    assert found.p < 0.01
    assert found.before == pytest.approx(likelihood_bias(ls, before, human, rng).bias.value)
    ls, before, human = ls[:60], before[:60], human[:60]
    p = [
        bias_test(ls, first, second, human, rng, repeats=300).p
        for first, second in (
            (before + rng.normal(0, 0.3, 60), before + rng.normal(0, 0.3, 60)) for _ in range(60)
        )
    ]
    # Under the null hypothesis p is uniform: at most 9 of 60 below .05 but in 1 of 1,000 runs.
    assert sum(value < 0.05 for value in p) <= 9
    assert 0.3 < np.mean(p) < 0.7


def test_performance_is_tested_without_any_scaling(judged):
    rng = np.random.default_rng(5)
    _, before, human, _ = judged(150, 0.0, rng)
    worse = before + rng.normal(0, 1.5, 150)
    found = performance_test(worse, before, human, rng, repeats=2_000)
    assert found.difference > 0
    assert found.p < 0.01
    same = performance_test(before, before, human, rng, repeats=200)
    assert same.p == 1
    assert same.difference == 0


def test_before_and_after_of_each_criterion_and_of_the_total(judged):
    rng = np.random.default_rng(6)
    ls, before, human, _ = judged(60, 0.6, rng)
    after = before - 0.5 * (ls - ls.mean()) / ls.std()
    gap = human.copy()
    gap[:5] = np.nan
    found = before_after(
        ls,
        {"fluency": before, "grammar": before, "style": before},
        {"fluency": after, "grammar": after},
        {"fluency": human, "grammar": gap},
        rng,
        repeats=500,
    )
    assert list(found) == ["fluency", "grammar", "total"]
    assert found["fluency"].bias.n == found["fluency"].performance.n == 60
    assert found["total"].bias.n == 55
    assert found["total"].nearer_to_zero
    assert found["fluency"].as_json()["bias"]["p"] < 0.05


def test_tests_without_an_order_say_so(rng):
    ones, rise = np.ones(5), np.arange(5.0)
    assert "no rank correlation" in bias_test(rise, rise, rise, ones, rng).reason
    assert "no rank correlation" in bias_test(ones, rise, -rise, rise, rng).reason
    assert "no rank correlation" in performance_test(ones, rise, rise, rng).reason
    assert "fewer than 2" in performance_test([1.0], [1.0], [1.0], rng).reason
    assert isinstance(bias_test([], [], [], [], rng), Undefined)


def test_a_seed_gives_the_same_p(reference):
    one, other = (
        bias_test(*reference.columns, np.random.default_rng(7), repeats=3_000) for _ in range(2)
    )
    assert one == other
