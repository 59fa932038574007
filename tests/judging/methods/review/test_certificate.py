import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from judging.methods.intervals.estimates import Undefined
from judging.methods.review.certificate import (
    CertificatePlan,
    Escalation,
    Tallies,
    audit_needed,
    certificate_plan,
    certify,
    fewest_audited,
    simultaneous_bounds,
    tallies,
    trust_or_escalate,
    upper_bound,
    wrong_allowed,
)


@pytest.mark.parametrize(
    ("epsilon", "sizes"),
    [
        (0.05, [59, 93, 124, 153, 181, 208]),
        (0.10, [29, 46, 61, 76, 89, 103]),
        (0.20, [14, 22, 30, 37, 44, 50]),
    ],
)
def test_the_planners_table_of_audit_sizes(epsilon, sizes):
    assert [audit_needed(epsilon, wrong) for wrong in range(6)] == sizes
    assert fewest_audited(epsilon, 0.05) == sizes[0]
    assert [wrong_allowed(epsilon, n) for n in sizes] == list(range(6))
    assert isinstance(wrong_allowed(epsilon, sizes[0] - 1), Undefined)


@given(st.integers(1, 60), st.data())
def test_the_bound_is_the_largest_count_that_the_audit_does_not_exclude(size, data):
    audited = data.draw(st.integers(1, size))
    wrong = data.draw(st.integers(0, audited))
    if audited == size:
        assert upper_bound(size, audited, wrong, 0.05) == 0
        return
    allowed = [
        d
        for d in range(wrong, size - audited + wrong + 1)
        if stats.hypergeom.cdf(wrong, size, d, audited) > 0.05
    ]
    expected = (max(allowed) - wrong) / (size - audited)
    assert upper_bound(size, audited, wrong, 0.05) == pytest.approx(expected)


def test_each_threshold_counts_what_lies_at_or_below_it():
    score = np.array([0.0, 0.0, 0.5, 0.5, 1.0, np.nan, 0.0])
    rest = np.array([1, 1, 1, 1, 1, 1, 0], bool)
    audited = np.array([1, 0, 1, 1, 0, 1, 1], bool)
    wrong = np.array([0, 1, 1, 0, 1, 1, 1], bool)
    plan = certificate_plan(score, rest, 0.1, 0.05, (3,))
    assert plan.grid == (0.0, 0.5, 1.0)
    counts = tallies(plan.grid, score, rest, audited, wrong)
    assert counts.size.tolist() == [2, 4, 5]
    assert counts.audited.tolist() == [1, 3, 3]
    assert counts.wrong.tolist() == [0, 1, 1]


def counts(*rows):
    return Tallies(*(np.array(column) for column in zip(*rows, strict=True)))


def test_it_starts_where_the_audit_is_large_enough_and_certifies_the_last_that_passes():
    plan = CertificatePlan(0.1, 0.05, (80,), (0.0, 0.5, 0.8, 1.0))
    certificate = certify(plan, counts((30, 5, 3), (300, 40, 0), (400, 60, 1), (500, 80, 20)), 80)
    assert certificate.threshold == 0.8
    assert (certificate.n_set, certificate.n_audited, certificate.n_wrong) == (400, 60, 1)
    assert certificate.bound <= 0.1
    assert certificate.n_from_judge == 340


def test_it_stops_at_the_first_that_fails_even_if_a_later_one_would_pass():
    plan = CertificatePlan(0.1, 0.05, (200,), (0.0, 0.5))
    refused = certify(plan, counts((300, 30, 6), (900, 200, 8)), 200)
    assert "6 of the 30 most certain audited labels are wrong" in refused.reason
    assert upper_bound(900, 200, 8, 0.05) < 0.1


def test_too_small_an_audit_certifies_nothing():
    plan = CertificatePlan(0.05, 0.05, (40,), (0.0,))
    assert "at least 59 of the judge's labels" in certify(plan, counts((500, 40, 0)), 40).reason


def test_several_looks_share_the_risk():
    plan = CertificatePlan(0.05, 0.05, (60, 120), (0.0,))
    assert plan.alpha_of_a_look == 0.025
    # ln(.025)/ln(.95) = 71.9
    assert "at least 72 of the judge's labels" in certify(plan, counts((500, 60, 0)), 60).reason
    assert certify(plan, counts((500, 120, 0)), 120).n_audited == 120
    with pytest.raises(ValueError, match="no look at 90"):
        certify(plan, counts((500, 90, 0)), 90)


def test_the_bounds_of_a_slider_are_wider():
    several = counts((300, 40, 0), (400, 60, 1), (500, 80, 2))
    at_once = simultaneous_bounds(several, 0.05, looks=2)
    rows = zip(several.size, several.audited, several.wrong, strict=True)
    alone = [upper_bound(*map(int, row), 0.05) for row in rows]
    assert (at_once > alone).all()


@pytest.mark.parametrize("looks", [(), (0,), (30, 20), (20, 20)])
def test_a_plan_without_proper_looks_is_refused(looks):
    with pytest.raises(ValueError, match="ascending"):
        CertificatePlan(0.05, 0.05, looks, (0.0,))


def kept_by(scores, threshold):
    """Whose label each example has at a threshold, by the words of the docstring; -1 for people."""
    sure = [np.flatnonzero(column <= threshold) for column in scores.T]
    return np.array([places[0] if len(places) else -1 for places in sure])


@pytest.mark.parametrize("judges", [1, 2, 3])
def test_a_cascade_is_tested_along_one_path_of_thresholds(judges):
    """Against each threshold tried by itself, with scores that tie and labels that are missing."""
    rng = np.random.default_rng(judges)
    for _ in range(60):
        n = int(rng.integers(40, 90))
        scores = rng.integers(0, 6, (judges, n)) / 5
        scores[rng.random((judges, n)) < 0.2] = np.nan
        wrong = rng.random((judges, n)) < 0.4 * np.nan_to_num(scores, nan=1.0)
        sample = np.zeros(n, bool)
        sample[rng.choice(n, n // 2, replace=False)] = True
        best = None
        for threshold in np.unique(scores[np.isfinite(scores)]):
            judge = kept_by(scores, threshold)
            kept = judge >= 0
            bad = kept & wrong[judge, np.arange(n)]
            audited = int((kept & sample).sum())
            if audited < 11:  # ln .1 / ln .8
                continue
            if upper_bound(int(kept.sum()), audited, 0, 0.1) > 0.2:
                continue
            bound = upper_bound(int(kept.sum()), audited, int((bad & sample).sum()), 0.1)
            if bound > 0.2:
                break
            best = threshold, judge, audited, int((bad & sample).sum()), bound
        found = trust_or_escalate(scores, wrong, sample, 0.2, 0.1)
        if best is None:
            assert isinstance(found, Undefined)
            continue
        threshold, judge, audited, n_wrong, bound = best
        kept = tuple(int(((judge == one) & ~sample).sum()) for one in range(judges))
        people = int(((judge < 0) & ~sample).sum())
        assert found == Escalation(threshold, kept, people, audited, n_wrong, pytest.approx(bound))


def test_a_second_judge_keeps_what_the_first_is_unsure_of():
    scores = np.array([[0.0] * 50 + [1.0] * 50, [1.0] * 20 + [0.0] * 40 + [1.0] * 40])
    sample = np.arange(100) % 2 == 0
    found = trust_or_escalate(scores, np.zeros((2, 100), bool), sample, 0.1, 0.1)
    assert (found.threshold, found.people) == (1.0, 0)
    assert found.kept == (50, 0)
    hard = np.arange(100) >= 60
    found = trust_or_escalate(scores, np.broadcast_to(hard, (2, 100)), sample, 0.1, 0.1)
    assert (found.threshold, found.kept, found.people) == (0.0, (25, 5), 20)


def test_without_labels_of_people_nothing_is_kept():
    nothing, unlabelled = np.zeros((1, 30), bool), np.full((1, 30), np.nan)
    for scores, sample in ((np.zeros((1, 30)), nothing[0]), (unlabelled, ~nothing[0])):
        found = trust_or_escalate(scores, nothing, sample, 0.1, 0.1)
        assert found == Undefined("no example has both a judge's label and one by people")
    found = trust_or_escalate(np.zeros((1, 30)), nothing, np.arange(30) < 5, 0.1, 0.1)
    assert "at least 22" in found.reason
