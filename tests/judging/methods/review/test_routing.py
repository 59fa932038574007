"""Learned routing: what it learns, when it is not used, and what it says then."""

import time

import numpy as np
import pytest

from judging.methods.intervals.estimates import Estimate, Undefined
from judging.methods.review.auroc import auroc
from judging.methods.review.ridge import cross_validated, sigmoid
from judging.methods.review.routing import Feature, expected_errors, features, routing, wrongness


def made(n=600, of_bpde=0.0, of_length=1.5, shift=-1.0, seed=1, extra=()):
    """Examples whose errors follow BPDE and length in these log odds a standard deviation."""
    rng = np.random.default_rng(seed)
    bpde, length = rng.gamma(2, 0.3, n), rng.normal(size=n)
    logit = shift + of_bpde * (bpde - bpde.mean()) / bpde.std() + of_length * length
    wrong = (rng.random(n) < sigmoid(logit)).astype(float)
    columns = [Feature("bpde", bpde), Feature("length in favour", length), *extra]
    columns += [Feature(f"noise {i}", rng.normal(size=n)) for i in range(4)]
    return features(columns, [""] * n, np.ones(n, bool)), bpde, wrong


def learned(columns, level, wrong, n=60, judged=None, seed=0):
    sample = np.arange(n)
    there = np.ones(len(level), bool) if judged is None else judged
    return routing(columns, level, there, sample, wrong[:n], np.random.default_rng(seed))


def test_a_judges_tie_is_half_wrong_unless_people_say_tie():
    judge = np.array([1, 1, 1, 0, 0, 0, -1], np.int8)
    human = np.array([1, 0, -1, 1, 0, -1, -1], np.int8)
    assert wrongness(judge, human).tolist() == [0, 1, 1, 0.5, 0, 0.5, 0]


def test_it_learns_where_the_judge_is_surely_wrong():
    columns, bpde, wrong = made()
    found = learned(columns, bpde, wrong)
    assert found.used
    assert found.reason == ""
    rest = slice(60, None)
    assert auroc(found.probability[rest], wrong[rest]).value > 0.75
    assert auroc(bpde[rest], wrong[rest]).value < 0.6
    ratios = {one.name: one.odds_ratio for one in found.coefficients}
    assert ratios["length in favour"].low > 1
    assert ratios["noise 0"].low < 1 < ratios["noise 0"].high


def test_the_probability_is_calibrated_on_examples_it_never_saw():
    columns, bpde, wrong = made(n=8000, of_length=1.0)
    found = learned(columns, bpde, wrong, n=2000)
    rest = np.arange(2000, 8000)
    high = rest[found.probability[rest] > 0.5]
    # a share of about 1,000 examples: three standard errors and the fit's own error
    assert wrong[high].mean() == pytest.approx(found.probability[high].mean(), abs=0.06)


def test_where_only_bpde_tells_errors_bpde_routes():
    columns, bpde, wrong = made(of_bpde=1.5, of_length=0.0)
    found = learned(columns, bpde, wrong)
    assert not found.used
    assert "BPDE" in found.reason
    # As AUROC is written beside it.
    assert "0." not in found.reason
    assert found.names == ("bpde",)
    assert np.array_equal(np.argsort(found.probability), np.argsort(bpde))


def test_noise_alone_is_rarely_taken_for_a_signal():
    used = [
        learned(*made(of_bpde=0.8, of_length=0.0, seed=seed), seed=seed).used for seed in range(30)
    ]
    # half a standard error is a weak bar; under no advantage it is passed in under a third
    assert sum(used) <= 11


def test_fewer_than_five_errors_teach_nothing():
    columns, bpde, wrong = made(shift=-6.0, of_length=0.1)
    wrong[:60] = 0
    wrong[:3] = 1
    found = learned(columns, bpde, wrong)
    assert not found.used
    assert "in the 60 labelled examples, the judge was wrong on 3 and right on 57" in found.reason
    assert isinstance(found.trial.learned, Undefined)
    assert isinstance(found.trial.bpde, Estimate)


def test_fewer_than_five_right_labels_teach_nothing_either():
    columns, bpde, _ = made()
    found = learned(columns, bpde, np.ones(len(bpde)))
    assert not found.used
    assert "wrong on 60 and right on 0" in found.reason
    assert isinstance(found.trial.bpde, Undefined)


def test_with_fewer_than_ten_errors_bpde_must_be_beaten_by_a_whole_standard_error():
    columns, bpde, wrong = made(n=600, of_length=3.0, shift=-4.0)
    order = np.concatenate((np.flatnonzero(wrong)[:8], np.flatnonzero(wrong == 0)))
    columns = type(columns)(columns.names, columns.values[order], (), ())
    found = learned(columns, bpde[order], wrong[order])
    assert any("a whole standard error" in note for note in found.notes)
    assert found.used
    assert found.trial.advantage.value > found.trial.advantage.standard_error


def test_separated_labels_are_said_and_stay_finite():
    columns, bpde, _ = made()
    wrong = (columns.values[:, 1] > 0).astype(float)
    found = learned(columns, bpde, wrong)
    assert found.used
    assert any("separate errors and right labels completely" in note for note in found.notes)
    assert all(np.isfinite(one.odds_ratio.high) for one in found.coefficients)


def test_what_is_constant_or_missing_is_said():
    lacking = np.where(np.arange(600) < 20, np.nan, np.linspace(0, 1, 600))
    extra = (Feature("margin", lacking), Feature("conflict", np.zeros(600)))
    found = learned(*made(extra=extra))
    assert "20 examples lack “margin” and count as average in it" in found.notes
    assert any("conflict, category" in note for note in found.notes)


def test_where_bpde_never_differs_nothing_is_said_of_it():
    """A run of one sample, or PORTIA's consistent examples: its coefficient is the prior."""
    rng = np.random.default_rng(0)
    for name in ("length in favour", "noise"):
        x = rng.normal(size=600)
        columns = features(
            [Feature("bpde", np.zeros(600)), Feature(name, x)], [""] * 600, np.ones(600, bool)
        )
        wrong = (x > 0 if name != "noise" else rng.random(600) < 0.4).astype(float)
        found = learned(columns, np.zeros(600), wrong)
        assert found.used == (name != "noise")
        assert "bpde" not in [one.name for one in found.coefficients]
        assert any("BPDE is the same for all examples" in note for note in found.notes)


def test_what_the_judge_gave_no_label_teaches_nothing():
    columns, bpde, wrong = made()
    judged = np.arange(600) >= 10
    found = learned(columns, bpde, wrong, judged=judged)
    assert found.n == 50
    assert np.isnan(found.probability[:10]).all()
    assert np.isfinite(found.probability[10:]).all()
    assert any("10 examples of the learning sample" in note for note in found.notes)


def test_the_same_seed_gives_the_same_score():
    first, second = (learned(*made(), seed=7) for _ in range(2))
    assert np.array_equal(first.probability, second.probability)


def test_ties_taken_as_half_keep_the_fit_from_learning_the_opposite():
    # The judge says tie where BPDE is high; there it is half wrong, elsewhere nearly always.
    rng = np.random.default_rng(3)
    n = 400
    tie = rng.random(n) < 0.4
    bpde = np.where(tie, 0.6, 0.1) + rng.normal(0, 0.02, n)
    wrong = np.where(tie, 0.5, (rng.random(n) < 0.85).astype(float))
    columns = features([Feature("bpde", bpde), Feature("gap", 1 - bpde)], [""] * n, wrong >= 0)
    found = routing(columns, bpde, wrong >= 0, np.arange(80), wrong[:80], rng)
    assert found.used
    assert auroc(found.probability[80:], wrong[80:]).value > 0.6


def test_the_cross_validated_score_does_not_flatter_noise():
    areas = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(60, 6)), (rng.random(60) < 0.4).astype(float)
        found = cross_validated(x, y, np.zeros(6), rng)
        areas.append(auroc(found.scores + rng.normal(0, 1e-12, 60), y).value)
    # the mean of 40 areas, each with a standard deviation of about .08
    assert np.mean(areas) == pytest.approx(0.5, abs=0.04)


def test_the_next_labels_find_about_what_was_expected():
    columns, bpde, wrong = made(n=3000, of_length=1.0)
    expected_of_all = found_of_all = 0.0
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(3000)
        mixed = type(columns)(columns.names, columns.values[order], (), ())
        found = learned(mixed, bpde[order], wrong[order], n=100, seed=seed)
        top = 100 + np.argsort(-found.probability[100:])[:20]
        expected = expected_errors(found, top)
        assert (expected.n, expected.low) == (20, None)
        expected_of_all += expected.value
        found_of_all += wrong[order][top].sum()
    # The top is chosen by the very fit that predicts it, which flatters.
    assert 0.75 * expected_of_all < found_of_all < 1.1 * expected_of_all


def test_a_hundred_thousand_examples_take_less_than_a_second():
    n = 100_000
    rng = np.random.default_rng(0)
    columns = [Feature("bpde", rng.random(n))]
    columns += [Feature(f"feature {i}", rng.normal(size=n)) for i in range(8)]
    table = features(columns, rng.choice(list("abcdefgh"), n).tolist(), np.ones(n, bool))
    wrong = (rng.random(n) < sigmoid(columns[1].values)).astype(float)
    started = time.process_time()
    found = learned(table, columns[0].values, wrong, n=200)
    assert time.process_time() - started < 1
    assert found.used
