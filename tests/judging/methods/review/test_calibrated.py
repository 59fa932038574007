"""The judge's labels calibrated by people's: by hand, its laws, and on recorded judges."""

import json

import numpy as np
import pytest
from scipy import optimize, stats

from judging.methods.agreement.accuracy import Design
from judging.methods.intervals.estimates import Estimate, Undefined, narrower
from judging.methods.intervals.win_rate import About, AuditedLabels, expected_width, win_rate
from judging.methods.review.ridge import (
    FOLDS,
    INTERCEPT_RIDGE,
    calibrated_accuracy,
    calibrated_kappa,
    calibrated_labels,
    ridge_fits,
    sigmoid,
)

NOTHING = np.zeros(0)


def made(n=120, audit=40, m=24, seed=0):
    """A judge that is right on three of four, and errs towards the second feature."""
    rng = np.random.default_rng(seed)
    human = rng.choice([1.0, 0.0], n)
    wrong = rng.random(n) < 0.25
    judge = np.where(wrong, 1 - human, human)
    pull = rng.normal(size=n) + 1.5 * wrong * (2 * judge - 1)
    values = np.stack((2 * judge - 1, pull), axis=1)
    selected, audited = np.zeros(n, bool), np.zeros(n, bool)
    selected[:m] = True
    audited[rng.choice(np.arange(m, n), audit, replace=False)] = True
    return values, human, judge, selected, audited


def test_an_audited_label_never_predicts_itself():
    """Turning one label over moves the predictions of its own fold by nothing."""
    values, human, judge, selected, audited = made()
    place = np.flatnonzero(audited)
    before = calibrated_labels(values, human, judge, selected, audited, np.random.default_rng(1))
    fold = np.random.default_rng(1).permutation(len(place)) % FOLDS
    for one in (0, 7):
        turned = human.copy()
        turned[place[one]] = 1 - turned[place[one]]
        weights = np.ones((1, selected.sum() + len(place)))
        weights[0, selected.sum() :] = fold != fold[one]
        rows = np.concatenate((np.flatnonzero(selected), place))
        for labels in (human, turned):
            fit = ridge_fits(
                values[rows], labels[rows], weights, np.array([before.ridge]), np.zeros(2)
            )
            own = sigmoid(fit.linear(values[place[one]][None]))[0, 0]
            assert own == pytest.approx(before.labels.audited_judge[one], abs=1e-6)


def test_the_whole_estimate_is_that_of_another_optimiser():
    """Each fold's fit by L-BFGS on its penalised log loss, then the difference estimator by hand:
    lambda from the audit, two pseudo-residuals at +-1, t of 39 degrees of freedom."""
    values, human, judge, selected, audited = made()
    found = calibrated_labels(values, human, judge, selected, audited, np.random.default_rng(1))
    drawn, rest = np.flatnonzero(audited), np.flatnonzero(~selected)
    fold = np.random.default_rng(1).permutation(len(drawn)) % FOLDS
    rows = np.column_stack((np.ones(len(human)), values))
    everywhere = np.zeros((FOLDS, len(human)))
    for k in range(FOLDS):
        learn = np.concatenate((np.flatnonzero(selected), drawn[fold != k]))

        def loss(b, learn=learn):
            linear = rows[learn] @ b
            penalty = INTERCEPT_RIDGE * b[0] ** 2 + found.ridge * (b[1:] @ b[1:])
            return (np.logaddexp(0, linear) - human[learn] * linear).sum() + penalty / 2

        b = optimize.minimize(loss, np.zeros(3), method="L-BFGS-B", tol=1e-14).x
        everywhere[k] = 1 / (1 + np.exp(-rows @ b))
    g = everywhere.mean(axis=0)
    g[drawn] = everywhere[fold, drawn]
    y, of_audit, n, total, n_rest = human[drawn], g[drawn], len(drawn), len(human), len(rest)
    lam = min(1, np.cov(y, of_audit, ddof=0)[0, 1] / of_audit.var())
    e = y - lam * of_audit
    known = human[selected].sum() + lam * g[rest].sum()
    middle = e.sum() / (n + 2)
    spread = (e @ e + 2) / (n + 2) - middle**2
    error = n_rest / total * np.sqrt((1 - n / n_rest) * spread / (n + 1))
    half = stats.t.ppf(0.975, n - 1) * error
    figure = win_rate(found.labels, about=About.THIS_PROJECT)
    assert figure.value == pytest.approx((known + n_rest * e.mean()) / total, abs=1e-5)
    centre = (known + n_rest * middle) / total
    assert figure.low == pytest.approx(centre - half, abs=1e-5)
    assert figure.high == pytest.approx(centre + half, abs=1e-5)


def test_the_estimate_is_known_labels_predictions_and_the_mean_residual():
    """theta = (1/N) [sum_S Y + sum_A Y + sum of the other predictions + (N_U - n) mean e]."""
    values, human, judge, selected, audited = made()
    found = calibrated_labels(values, human, judge, selected, audited, np.random.default_rng(1))
    labels = found.labels
    rest = np.flatnonzero(~selected)
    other = ~audited[rest]
    residual = labels.audited - labels.audited_judge
    by_hand = (
        human[selected].sum()
        + human[audited].sum()
        + labels.rest[other].sum()
        + other.sum() * residual.mean()
    ) / len(human)
    assert win_rate(labels, lam=1).value == pytest.approx(by_hand, abs=1e-12)


def test_what_says_where_the_judge_errs_narrows_the_interval():
    values, human, judge, selected, audited = made(n=600, audit=100)
    raw = AuditedLabels(human[selected], judge[~selected], human[audited], judge[audited])
    found = calibrated_labels(values, human, judge, selected, audited, np.random.default_rng(1))
    assert found.ridge is not None
    widths = [one.high - one.low for one in map(win_rate, (raw, found.labels))]
    assert widths[1] < 0.95 * widths[0]


def test_a_judge_that_is_always_right_predicts_itself():
    values, human, _, selected, audited = made()
    found = calibrated_labels(values, human, human, selected, audited, np.random.default_rng(1))
    assert found.ridge is None
    assert np.array_equal(found.labels.rest, human[~selected])


def test_questions_stay_in_one_fold_and_count_as_one():
    values, human, judge, selected, audited = made()
    question = np.arange(len(human)) // 4
    alone = calibrated_labels(values, human, judge, selected, audited, np.random.default_rng(1))
    found = calibrated_labels(
        values, human, judge, selected, audited, np.random.default_rng(1), question=question
    )
    assert (alone.labels.questions, found.labels.questions) == (None, 30)
    assert found.labels.effect >= 1


def test_kappa_is_that_of_the_table_if_the_prediction_says_nothing():
    """With features that are all 0 the influence's mean is the audit's, weighted as always."""
    values, human, judge, selected, audited = made()
    signs = [(2 * one - 1).astype(np.int8) for one in (judge, human)]
    design = Design(selected, audited)
    found = calibrated_kappa(0 * values, *signs, design, np.random.default_rng(1))
    weight = design.weights()
    table = np.array([[weight[(judge == j) & (human == h)].sum() for h in (1, 0)] for j in (1, 0)])
    table /= table.sum()
    agreed, chance = np.trace(table), judge.mean() * table[:, 0].sum()
    chance += (1 - judge.mean()) * table[:, 1].sum()
    assert found.value == pytest.approx((agreed - chance) / (1 - chance), abs=0.03)
    assert found.low < found.value < found.high


def test_accuracy_needs_an_audit():
    values, human, judge, selected, audited = made(audit=8)
    right = (human == judge).astype(float)
    found = calibrated_accuracy(values, right, Design(selected, audited), np.random.default_rng(1))
    assert isinstance(found, Undefined)
    assert "10 are needed" in found.reason


def test_the_planner_s_width_is_that_of_the_interval():
    _, human, judge, selected, audited = made(n=600, audit=100)
    labels = AuditedLabels(human[selected], judge[~selected], human[audited], judge[audited])
    error = labels.audited - labels.audited_judge
    found = win_rate(labels, lam=1)
    expected = expected_width(error.var(), 0.25, total=600, n_rest=576, audit=100)
    assert expected == pytest.approx(found.high - found.low, rel=0.02)
    assert expected_width(0.25, 0.25, total=600, n_rest=576, audit=9) is None


def test_of_two_figures_the_one_with_limits_is_narrower():
    plain, wide = Estimate(0.5, 9, 0.4, 0.6), Estimate(0.5, 9, 0.3, 0.7)
    assert narrower(wide, plain) is plain
    assert narrower(plain, plain) is plain
    assert narrower(plain, Undefined("why")) is plain
    assert narrower(Undefined("why"), wide) is wide


@pytest.mark.parametrize(("judge", "most"), [("GPT-4", 0.90), ("ChatGPT", 0.88)])
def test_recorded_judges_save_labels_once_they_are_calibrated(test_data, judge, most):
    """100 labels of the 234 pairs of two subsets of LLMBar, two prompts as samples.

    Means over 100 draws are .155 (people alone), .116 (GPT-4's verdict) and .102 wide; ChatGPT
    errs more often than chance does, so its verdict leaves .155, and .133 once it is calibrated."""
    outcomes, gold, length = recorded(test_data, judge)
    mean = outcomes.mean(axis=(1, 2))
    sign = np.sign(mean)
    torn = (outcomes != sign[:, None, None]).mean(axis=(1, 2))
    conflict = np.sign(outcomes[:, 0].sum(axis=1)) != np.sign(outcomes[:, 1].sum(axis=1))
    columns = [sign, mean, sign * (torn - torn.mean()), sign * (conflict - conflict.mean()), length]
    values = np.stack([(one - one.mean()) / one.std() for one in columns], axis=1)
    verdict, nobody, rng = (1 + sign) / 2, np.zeros(len(gold), bool), np.random.default_rng(0)
    ratios, held = [], 0
    for _ in range(20):
        audited = nobody.copy()
        audited[rng.choice(len(gold), 100, replace=False)] = True
        raw = AuditedLabels(NOTHING, verdict, gold[audited], verdict[audited])
        found = calibrated_labels(values, gold, verdict, nobody, audited, rng).labels
        both = [win_rate(one, about=About.THIS_PROJECT) for one in (raw, found)]
        ratios.append((both[1].high - both[1].low) / (both[0].high - both[0].low))
        held += both[1].low <= gold.mean() <= both[1].high
    assert np.mean(ratios) < most
    assert held >= 16


def recorded(test_data, judge):
    """Outcomes (N, 2, 2), gold labels from 0 to 1, and the difference of log lengths."""
    outcomes, gold, length = [], [], []
    for subset in ("Natural", "Adversarial/Neighbor"):
        folder = test_data / "llmbar" / subset / judge
        prompts = [
            json.loads((folder / name / "result.json").read_text(encoding="utf-8"))
            for name in ("Swap", "Swap_CoT")
        ]
        for rows in zip(*prompts, strict=True):
            outcomes.append(
                [
                    [
                        {"1": 1, "2": -1}.get(row["results"][0][f"swap = {swap}"]["winner"], 0)
                        for row in rows
                    ]
                    for swap in (False, True)
                ]
            )
            gold.append(float(rows[0]["label"] == 1))
            sizes = [len(rows[0][name]) for name in ("output_1", "output_2")]
            length.append(np.log1p(sizes[0]) - np.log1p(sizes[1]))
    return np.array(outcomes), np.array(gold), np.array(length)
