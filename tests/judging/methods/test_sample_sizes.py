"""Sizes are held against enumeration, simulation and formulas that don't share their code."""

import math

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from judging.methods.intervals.estimates import Undefined, wilson
from judging.methods.intervals.win_rate import everyone_labelled
from judging.methods.review.certificate import upper_bound
from judging.methods.sample_sizes import (
    MOST,
    size_for_accuracy,
    size_for_better,
    size_for_certificate,
    size_for_kappa,
    size_for_win_rate,
)


def mean_half_width(n, share):
    found = [wilson(right, n) for right in range(n + 1)]
    chance = scipy.stats.binom.pmf(range(n + 1), n, share)
    return sum((one.high - one.low) / 2 * p for one, p in zip(found, chance, strict=True))


@pytest.mark.parametrize(("share", "within"), [(0.8, 0.1), (0.5, 0.07), (0.97, 0.05), (1.0, 0.1)])
def test_accuracy_needs_the_first_size_whose_mean_interval_is_narrow_enough(share, within):
    found = size_for_accuracy(share, within)
    assert mean_half_width(found.n, share) == pytest.approx(found.reached, abs=1e-8)
    assert found.reached <= within < mean_half_width(found.n - 1, share)


def probability_to_tell(n, rate, ties):
    wins, total = rate - ties / 2, 0.0
    for won in range(n + 1):
        for tied in range(n + 1 - won):
            values = np.repeat([1.0, 0.5, 0.0], [won, tied, n - won - tied])
            if everyone_labelled(values).low > 0.5:
                chances = [wins, ties, 1 - wins - ties]
                total += scipy.stats.multinomial.pmf([won, tied, n - won - tied], n, chances)
    return total


@pytest.mark.parametrize(("rate", "ties"), [(0.9, 0.1), (0.85, 0.0), (0.8, 0.35)])
def test_better_is_told_by_the_interval_of_the_report(rate, ties):
    found = size_for_better(rate, 0.8, ties)
    assert probability_to_tell(found.n, rate, ties) == pytest.approx(found.reached, abs=1e-9)
    # A test of whole numbers loses some power now and then, so the one before may be enough.
    before = min(probability_to_tell(n, rate, ties) for n in range(found.n - 3, found.n))
    assert found.reached >= 0.8 > before


def test_a_win_rate_below_one_half_is_told_as_well_and_equal_models_never():
    assert size_for_better(0.35, ties=0.1) == size_for_better(0.65, ties=0.1)
    assert "equally good" in size_for_better(0.5).reason
    assert "can't be so far" in size_for_better(0.9, ties=0.3).reason
    assert f"{MOST:,}" in size_for_better(0.5001).reason


def test_a_study_of_that_size_tells_as_often_as_promised():
    found, rng = size_for_better(0.6, 0.9, 0.2), np.random.default_rng(5)
    drawn = rng.choice([1.0, 0.5, 0.0], (2_000, found.n), p=[0.5, 0.2, 0.3])
    told = np.mean([everyone_labelled(values).low > 0.5 for values in drawn])
    assert told == pytest.approx(0.9, abs=4 * math.sqrt(0.09 / 2_000))


@pytest.mark.parametrize(("kappa", "within", "ties"), [(0.6, 0.1, 0.1), (0.8, 0.07, 0.0)])
def test_kappa_needs_about_what_its_large_sample_variance_says(kappa, within, ties):
    # Fleiss, Cohen and Everitt 1969, doi:10.1037/h0028106.
    margin = np.array([(1 - ties) / 2, ties, (1 - ties) / 2])
    table = kappa * np.diag(margin) + (1 - kappa) * np.outer(margin, margin)
    chance = float(margin @ margin)
    apart = (margin[:, None] + margin[None, :]) * (1 - kappa)
    same = np.diag(table) @ (1 - np.diag(apart)) ** 2
    off = (1 - kappa) ** 2 * (table * (margin[:, None] + margin[None, :]) ** 2).sum()
    off -= (1 - kappa) ** 2 * (np.diag(table) @ np.diag(margin[:, None] + margin) ** 2)
    variance = (same + off - (kappa - chance * (1 - kappa)) ** 2) / (1 - chance) ** 2
    expected = 1.96**2 * variance / within**2
    found = size_for_kappa(kappa, within, ties)
    assert found.n == pytest.approx(expected, rel=0.08)
    assert found.reached == pytest.approx(within, rel=0.04)
    assert size_for_kappa(kappa, within, ties) == found


def test_a_win_rate_with_a_judge_needs_fewer_labels_and_never_more_than_all():
    alone, helped = (size_for_win_rate(0.05, 2_000, accuracy) for accuracy in (None, 0.9))
    assert helped.n < alone.n / 2
    assert helped.reached <= 0.05
    # A judge that is always wrong is as good as none.
    assert size_for_win_rate(0.05, 2_000, 0.0) == alone
    assert "even if all 100 examples" in size_for_win_rate(0.01, 100).reason
    # One less than all leaves a rest of which an audit speaks; all of them need no audit.
    assert size_for_win_rate(0.04, 610).n <= 610


@pytest.mark.parametrize(
    ("epsilon", "wrong", "expected"), [(0.05, 0.0, 59), (0.1, 0.0, 29), (0.2, 0.0, 14)]
)
def test_a_faultless_audit_is_that_of_the_published_table(epsilon, wrong, expected):
    assert size_for_certificate(epsilon, wrong).n == expected


def issued(n, rest, wrong, epsilon):
    n_wrong, total = math.ceil(wrong * rest), 0.0
    for found in range(n + 1):
        if upper_bound(rest, n, found, 0.05) <= epsilon:
            total += scipy.stats.hypergeom.pmf(found, rest, n_wrong, n)
    return total


@pytest.mark.system
def test_the_certificate_of_a_small_rest_is_exact():
    found = size_for_certificate(0.1, 0.03, 0.8, 90)
    assert issued(found.n, 90, 0.03, 0.1) == pytest.approx(found.reached, abs=1e-9)
    assert all(issued(n, 90, 0.03, 0.1) < 0.8 for n in range(1, found.n))
    assert isinstance(size_for_certificate(0.1, 0.1), Undefined)
    assert "no audit of these 12 labels" in size_for_certificate(0.01, 0.0, rest=12).reason
    assert "10,000" in size_for_certificate(0.05, 0.049).reason


@settings(max_examples=25)
@given(
    st.floats(0, 1), st.floats(0.002, 0.5), st.floats(0, 0.99), st.floats(0.5, 0.999),
    st.floats(0.001, 0.5), st.one_of(st.none(), st.integers(1, 5_000)),
)  # fmt: skip
def test_every_study_has_sizes_or_reasons(share, within, ties, power, epsilon, rest):
    sizes = [
        size_for_accuracy(share, within),
        size_for_better(share, power, ties),
        size_for_win_rate(within, rest or 100, share),
        size_for_certificate(epsilon, share * epsilon, power, rest),
    ]
    for size in sizes:
        assert size.reason if isinstance(size, Undefined) else 1 <= size.n <= MOST


@pytest.mark.parametrize(("kappa", "within"), [(0.3, 0.15), (0.5, 0.05), (0.8, 0.1)])
def test_the_width_that_was_asked_for_is_reached(kappa, within):
    size = size_for_kappa(kappa, within)
    assert 0.97 * within < size.reached <= within
