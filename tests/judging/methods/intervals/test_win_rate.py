from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from judging.methods.intervals.bootstrap import design_effect
from judging.methods.intervals.estimates import Undefined
from judging.methods.intervals.win_rate import (
    About,
    AuditedLabels,
    best_lambda,
    difference_estimate,
    everyone_labelled,
    judge_bias,
    vote_noise,
    win_rate,
    win_rate_test,
)


@pytest.fixture(scope="module")
def case(golden):
    return golden("win_rate.json")


@pytest.fixture(scope="module")
def labels(case):
    rest = np.array(case["f_U"], dtype=float)
    return AuditedLabels(
        selected=np.array(case["Y_S"], dtype=float),
        rest=rest,
        audited=np.array(case["Y_A"], dtype=float),
        audited_judge=rest[case["audit_indices_in_U"]],
    )


@pytest.mark.parametrize("lam", [0, 1])
def test_the_reference_estimate_comes_out(case, labels, lam):
    expected = {k: float(v) for k, v in case["expected"][f"lambda_{lam}"].items()}
    parts = difference_estimate(labels, lam)
    assert parts.theta == pytest.approx(expected["theta"], abs=1e-12)
    assert parts.se_this_project == pytest.approx(expected["se_this_project"], abs=1e-12)
    assert parts.plus_two_centre == pytest.approx(expected["plus_two_centre"], abs=1e-12)
    assert parts.plus_two_se_this_project == pytest.approx(
        expected["plus_two_se_this_project"], abs=1e-12
    )
    assert parts.weighted_variance == pytest.approx(expected["weighted_variance_Y"], abs=1e-12)
    assert parts.se_examples_like_these == pytest.approx(
        expected["se_examples_like_these"], abs=1e-12
    )
    assert parts.plus_two_se_examples_like_these == pytest.approx(
        (expected["plus_two_se_this_project"] ** 2 + expected["weighted_variance_Y"] / 20) ** 0.5
    )


def project(random, n=200, m=40, audit=30, error=0.2):
    truth = random.choice([0.0, 0.5, 1.0], n)
    judge = np.where(random.random(n) < error, random.choice([0.0, 0.5, 1.0], n), truth)
    rest = np.arange(m, n)
    drawn = random.choice(rest, audit, replace=False)
    return truth, AuditedLabels(truth[:m], judge[rest], truth[drawn], judge[drawn])


def test_auditing_everything_gives_the_truth_exactly(rng):
    truth, labels = project(rng, audit=160)
    figure = difference_estimate(labels, 1.0)
    assert figure.theta == pytest.approx(truth.mean())
    assert figure.se_this_project == 0


def test_exchanging_the_responses_mirrors_the_win_rate(rng):
    _, labels = project(rng)
    turned = AuditedLabels(
        *(
            1 - np.asarray(values)
            for values in (labels.selected, labels.rest, labels.audited, labels.audited_judge)
        )
    )
    one, other = win_rate(labels, lam=1.0), win_rate(turned, lam=1.0)
    assert one.value == pytest.approx(1 - other.value)
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low))


def test_an_audit_without_a_disagreement_still_has_a_width():
    labels = AuditedLabels(np.ones(10), np.ones(90), np.ones(30), np.ones(30))
    assert difference_estimate(labels, 1.0).se_this_project == 0
    figure = win_rate(labels, lam=1.0, about=About.THIS_PROJECT)
    assert figure.value == 1
    assert figure.low < 0.95
    assert figure.high == 1


def test_fewer_than_ten_audited_examples_have_no_interval(rng):
    _, labels = project(rng, audit=9)
    assert win_rate(labels) == Undefined(
        "9 audited examples are too few for an interval; 10 are needed"
    )


def test_lambda_trusts_a_judge_as_far_as_it_predicts_the_people(rng):
    assert best_lambda(project(rng, n=400, audit=39)[1]) == 1
    good = best_lambda(project(rng, n=4000, audit=2000, error=0.05)[1])
    useless = best_lambda(project(rng, n=4000, audit=2000, error=1.0)[1])
    assert good > 0.9
    assert useless < 0.1
    constant = AuditedLabels(np.ones(5), np.ones(95), rng.random(40), np.ones(40))
    assert best_lambda(constant) == 0


def test_the_judges_bias_is_measured_on_the_audit(rng):
    judge = np.ones(100)
    audited = np.repeat([1.0, 0.0], 20)
    labels = AuditedLabels(np.ones(25), judge, audited, np.ones(40))
    bias = judge_bias(labels)
    assert bias.value == pytest.approx(100 / 125 * 0.5)
    assert bias.low < bias.value < bias.high


def test_votes_that_differ_widen_the_interval(rng):
    _, labels = project(rng)
    noise = vote_noise(np.full(40, 0.05), np.full(30, 0.05), 160, 200)
    assert noise == pytest.approx((160**2 / 30**2 * 30 * 0.05 + 40 * 0.05) / 200**2)
    quiet, noisy = win_rate(labels, lam=1.0), win_rate(labels, lam=1.0, noise=noise)
    assert noisy.low < quiet.low
    assert noisy.high > quiet.high


def test_where_everyone_is_labelled_only_sampling_is_uncertain(rng):
    values = rng.choice([0.0, 1.0], 80)
    here = everyone_labelled(values, about=About.THIS_PROJECT)
    assert here.low == here.value == here.high == values.mean()
    like_these = everyone_labelled(values)
    assert like_these.low < values.mean() < like_these.high
    labels = AuditedLabels(values, np.array([]), np.array([]), np.array([]))
    assert win_rate(labels) == like_these


def test_a_nearly_complete_audit_leaves_little_doubt(rng):
    for _ in range(200):
        truth, labels = project(rng, n=80, m=16, audit=60, error=0.7)
        parts = difference_estimate(labels, 0.0)
        unaudited = 4 / 80
        assert abs(parts.finite_centre - truth.mean()) <= unaudited
        figure = win_rate(labels, lam=0.0, about=About.THIS_PROJECT)
        half = stats.t.ppf(0.975, 59) * parts.plus_two_se_this_project
        assert figure.low <= parts.finite_centre - half
        assert figure.high >= parts.finite_centre + half


def test_copies_of_a_question_are_no_new_examples(rng):
    """Ten examples five times over have the interval of ten, whoever labelled them."""
    values, copies = rng.choice([0, 0.5, 1], 10), 5
    effect, questions = design_effect(np.tile(values, copies), np.tile(np.arange(10), copies))
    # 50 q(1-q) over G/(G-1) times the sums of five: 5 G/(G-1)
    assert (effect, questions) == (pytest.approx(copies * 10 / 9), 10)
    five = everyone_labelled(np.tile(values, copies), effect=copies, questions=10)
    once = everyone_labelled(values)
    assert five.n == 50
    assert (five.low, five.high) == pytest.approx((once.low, once.high))
    labels = AuditedLabels(np.tile(values, copies), *[np.zeros(0)] * 3, copies, 10)
    assert win_rate(labels).low == pytest.approx(once.low)
    routed = AuditedLabels(values, np.ones(30), np.ones(20), np.ones(20))
    worth = replace(routed, effect=4.0, questions=12)
    assert win_rate(worth).high - win_rate(worth).low > win_rate(routed).high - win_rate(routed).low
    assert design_effect(values, np.arange(10)) == (1, 10)
    assert everyone_labelled(values, effect=10, questions=1).low is None


def test_the_win_rate_covers_where_questions_repeat():
    """40 questions of five examples that mostly agree. As 200 of their own, 75 % were covered."""
    random, question, covered = np.random.default_rng(1), np.repeat(np.arange(40), 5), 0
    for _ in range(400):
        common, own = (random.choice([0, 0.5, 1], n, p=[0.3, 0.2, 0.5]) for n in (40, 200))
        values = np.where(random.random(200) < 0.7, common[question], own)
        effect, questions = design_effect(values, question)
        found = everyone_labelled(values, effect=effect, questions=questions)
        covered += found.low <= 0.6 <= found.high
    assert covered >= 0.92 * 400


def test_an_audit_without_an_error_does_not_exclude_a_bias():
    # R = 1, so the plus-two variance is 2/32, over 31 and with 1 - 30/80 of the 80 unseen.
    scores = np.tile([0.0, 1.0], 15)
    labels = AuditedLabels(np.ones(20), np.tile([0.0, 1.0], 40), scores, scores)
    bias = judge_bias(labels)
    half = stats.t.ppf(0.975, 29) * (0.8**2 * (1 - 30 / 80) * (2 / 32) / 31) ** 0.5
    assert (bias.value, bias.low, bias.high) == pytest.approx((0, -half, half))
    few = AuditedLabels(np.ones(20), np.ones(80), scores[:9], scores[:9])
    assert "10 are needed" in judge_bias(few).reason


@pytest.mark.parametrize("seed", range(40))
def test_p_is_below_five_percent_exactly_if_the_interval_leaves_one_half_out(seed):
    random = np.random.default_rng(seed)
    human = random.choice([1.0, 0.5, 0.0], 120, p=(0.5, 0.2, 0.3))
    judge = np.where(random.random(120) < 0.1, 1 - human, human)
    labels = AuditedLabels(human[:30], judge[30:], human[30:60], judge[30:60])
    if seed % 4 == 0:
        labels = AuditedLabels(human, *[np.zeros(0)] * 3)
    found = win_rate(labels)
    assert (win_rate_test(labels) < 0.05) == (not found.low <= 0.5 <= found.high)


def test_p_of_eight_wins_in_ten_by_hand():
    """With one win and one lose more: centre 9/12, variance (9/12)(3/12)/10, t with 9 degrees."""
    labels = AuditedLabels(np.repeat([1.0, 0.0], [8, 2]), *[np.zeros(0)] * 3)
    t = 0.25 / np.sqrt(0.1875 / 10)
    assert win_rate_test(labels) == pytest.approx(2 * stats.t.sf(t, 9))


def test_too_few_audited_labels_have_no_p():
    few = AuditedLabels(np.ones(3), np.ones(20), np.ones(5), np.ones(5))
    assert win_rate_test(few) is None
