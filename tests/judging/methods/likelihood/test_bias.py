import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judging.methods.intervals.estimates import Estimate, Undefined, to_json
from judging.methods.likelihood.bias import (
    TOTAL,
    likelihood_bias,
    likelihood_biases,
    partial_correlation,
    ranks_of_counts,
    spearman_of_counts,
    with_total,
)


def test_bias_and_performance_are_the_references(reference, expected, rng):
    for side, scores in (("before", reference.before), ("after", reference.after)):
        found = likelihood_bias(reference.log_likelihood, scores, reference.human, rng)
        wanted = float(expected[f"BiasScore_{side}"])
        assert found.bias.value == pytest.approx(wanted, abs=1e-9)
        wanted = float(expected[f"performance_spearman_{side}"])
        assert found.performance.value == pytest.approx(wanted, abs=1e-9)
        assert found.bias.low < found.bias.value < found.bias.high


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=15),
    st.integers(0, 2**32 - 1),
)
def test_the_correlation_of_counts_is_that_of_the_repeated_rows(pairs, seed):
    x, y = np.array(pairs, dtype=float).T
    counts = np.random.default_rng(seed).integers(0, 4, (3, len(x))).astype(float)
    found = spearman_of_counts(counts, x, y)
    ranks = ranks_of_counts(counts, x)
    for row, value in enumerate(found):
        times = counts[row].astype(int)
        first, second = np.repeat(x, times), np.repeat(y, times)
        if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
            assert np.isnan(value)
            continue
        assert value == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-9)
        assert np.repeat(ranks[row], times) == pytest.approx(stats.rankdata(first))


def test_a_partial_correlation_is_that_of_what_ranks_leave_over(rng):
    x, y, z = rng.normal(size=(3, 200))
    x, y = x + z, y - z
    ranks = [stats.rankdata(values) for values in (x, y, z)]
    design = np.column_stack((np.ones(200), ranks[2]))
    left = [r - design @ np.linalg.lstsq(design, r, rcond=None)[0] for r in ranks[:2]]
    wanted = np.corrcoef(*left)[0, 1]
    xy, xz, yz = (np.array(stats.spearmanr(*pair).statistic) for pair in ((x, y), (x, z), (y, z)))
    assert partial_correlation(xy, xz, yz) == pytest.approx(wanted, abs=1e-9)


def test_a_bias_that_is_but_the_length_goes_away_given_the_length(rng):
    n = 800
    length = rng.integers(5, 80, n).astype(float)
    ls = -3 * length + rng.normal(0, 4, n)
    quality = rng.normal(0, 1, n)
    model = quality - 0.5 * length / 20 + rng.normal(0, 0.2, n)
    found = likelihood_bias(ls, model, quality, rng, length=length, tokens=length)
    assert found.bias.low > 0.5
    assert found.length.high < -0.9
    assert abs(found.given_length.value) < 0.15
    assert abs(found.length_per_token.value) < abs(found.length.value)


def test_a_judge_without_the_bias_is_not_charged_with_it(judged):
    """The interval holds 0 in about 95 of 100 such projects."""
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(60):
        ls, model, human, _ = judged(80, 0.0, rng)
        bias = likelihood_bias(ls, model, human, rng).bias
        held += bias.low <= 0 <= bias.high
    assert held >= 52


def test_questions_that_repeat_widen_the_interval(judged, rng):
    ls, model, human, _ = judged(100, 0.3, rng)
    columns = [np.tile(column, 4) for column in (ls, model, human)]
    question = np.tile(np.arange(100), 4)
    apart = likelihood_bias(*columns, np.random.default_rng(1)).bias
    together = likelihood_bias(*columns, np.random.default_rng(1), question=question).bias
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_total_is_of_averaged_scores_and_not_an_average_of_correlations(judged, rng):
    ls, fluency, human_fluency, length = judged(120, 0.4, rng)
    _, grammar, human_grammar, _ = judged(120, 0.0, rng)
    grammar[:20] = np.nan
    found = likelihood_biases(
        ls,
        {"fluency": (fluency, human_fluency), "grammar": (grammar, human_grammar)},
        rng,
        length=length,
    )
    assert list(found) == ["fluency", "grammar", TOTAL]
    assert [found[name].n for name in found] == [120, 100, 100]
    alone = likelihood_bias(
        ls[20:],
        (fluency[20:] + grammar[20:]) / 2,
        (human_fluency[20:] + human_grammar[20:]) / 2,
        rng,
    )
    assert found[TOTAL].bias.value == pytest.approx(alone.bias.value, abs=1e-12)
    assert list(likelihood_biases(ls, {"fluency": (fluency, human_fluency)}, rng)) == ["fluency"]


def test_what_people_call_total_themselves_stays_theirs(judged, rng):
    _, fluency, people, _ = judged(20, 0.4, rng)
    given = {"fluency": (fluency, people), TOTAL: (people, people)}
    assert with_total(given) == given


def test_what_has_no_order_is_undefined_with_the_reason(rng):
    ls = np.arange(6.0)
    found = likelihood_bias(ls, np.full(6, 3.0), ls, rng)
    assert "same for all items" in found.bias.reason
    assert "same for all items" in found.performance.reason
    assert found.length == Undefined("the lengths are not known")
    assert found.per_token == Undefined("the numbers of tokens are not known")
    no_tokens = likelihood_bias(ls, ls, -ls, rng, tokens=np.zeros(6))
    assert no_tokens.per_token == Undefined("an output has no tokens")
    impossible = likelihood_bias([-np.inf, *ls[1:]], ls, -ls, rng)
    assert impossible.n == 5
    few = likelihood_bias(ls[:3], ls[:3], ls[:3], rng)
    assert "fewer than 4" in few.bias.reason
    nothing = likelihood_bias([np.nan] * 5, ls[:5], ls[:5], rng)
    assert nothing.n == 0
    assert "fewer than 4" in nothing.bias.reason


def test_a_report_of_it_is_plain_json(judged, rng):
    ls, model, human, length = judged(50, 0.4, rng)
    found = likelihood_bias(ls, model, human, rng, length=length, tokens=length)
    assert all(
        isinstance(getattr(found, name), Estimate) for name in found.__slots__ if name != "n"
    )
    text = json.dumps(to_json(found), allow_nan=False)
    assert json.loads(text)["bias"]["n"] == 50
