import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit

from benchmarks.simulations.choices import CONFUSED, ChoiceJudge
from judging.methods.calibration.calibraeval import (
    ALIKE,
    COLLAPSED,
    ONE,
    CalibraEval,
    loss_of_values,
)
from judging.methods.calibration.probabilities import THREE, choice_probabilities
from judging.methods.intervals.estimates import Undefined

probability = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))
samples = st.lists(st.tuples(probability, probability, probability), min_size=1, max_size=15)


def reference(golden, method):
    rows = golden("calibraeval_expected.json")["K100"]
    return next(row for row in rows if row["method"] == method)


def test_the_loss_is_at_or_below_the_best_that_is_known(table, three, golden):
    found = CalibraEval().fit(three(table("calibraeval_K100.csv")))
    assert found.loss <= -0.1382
    assert found.loss == pytest.approx(float(reference(golden, "L-BFGS exact")["loss"]), abs=1e-6)
    start = reference(golden, "init d=z (rank transform)")
    assert found.start == pytest.approx(float(start["loss"]), abs=1e-9)
    raw = reference(golden, "raw probabilities")
    assert found.uncalibrated == pytest.approx(float(raw["loss"]), abs=1e-9)
    assert found.n == 100


@settings(max_examples=40)
@given(samples, st.sampled_from(["both", "tokens", "positions"]), st.sampled_from([0, 0.1, 0.5, 2]))
def test_g_is_increasing_between_0_and_1_or_there_is_a_reason(rows, objective, strength):
    p = choice_probabilities(np.array(rows), THREE)
    found = CalibraEval(objective=objective, strength=strength).fit(p)
    if isinstance(found, Undefined):
        assert found.reason in (ONE, ALIKE, COLLAPSED)
        return
    assert (np.diff(found.g) >= 0).all()
    assert found.g[-1] == 1
    grid = np.linspace(0, 1, 101)
    drawn = found.curve(grid)
    assert np.isfinite(drawn).all()
    assert ((drawn >= 0) & (drawn <= 1)).all()
    assert (np.diff(drawn) >= -1e-12).all()
    assert found.loss <= found.start + 1e-9
    calibrated = found.apply(p).p_t1
    ranks = np.argsort(np.argsort(p.p_t1, axis=None, kind="stable"))
    assert (np.diff(calibrated.reshape(-1)[np.argsort(ranks)]) >= -1e-12).all()


def test_what_is_degenerate_has_a_reason_and_never_nan():
    one = choice_probabilities([[0.9, 0.8, 0.7]], THREE)
    assert CalibraEval().fit(one) == Undefined(ONE)
    alike = choice_probabilities(np.full((5, 3), 0.7), THREE)
    assert CalibraEval().fit(alike) == Undefined(ALIKE)
    rng = np.random.default_rng(1)
    p, _ = CONFUSED.judge(60, rng, THREE)
    assert CalibraEval(strength=0).fit(p) == Undefined(COLLAPSED)
    with pytest.raises(ValueError, match="negative"):
        CalibraEval(strength=-1).fit(p)
    two = choice_probabilities([[0.9, 0.4], [0.2, 0.3]], ("X0", "X2"))
    assert "X0, X1, X2" in CalibraEval().fit(two).reason


def test_the_second_ablation_may_let_t1_win_everywhere(table, three):
    """Equation 20 is lowest where g is 0, or 1, throughout: consistent, and no judge at all."""
    p = three(table("calibraeval_K100.csv"))
    assert CalibraEval(objective="positions").fit(p) == Undefined(COLLAPSED)
    assert CalibraEval(objective="tokens").fit(p).loss < -0.3


def test_swapping_the_responses_does_not_change_the_first_ablation():
    """L1 is symmetric in s0 and s2."""
    p, _ = CONFUSED.judge(100, np.random.default_rng(2), THREE)
    swapped = choice_probabilities(p.columns(("X2", "X1", "X0")), THREE)
    one, other = (CalibraEval(objective="tokens").fit(each) for each in (p, swapped))
    assert one.g == pytest.approx(other.g, abs=1e-12)


@pytest.mark.parametrize("objective", ["both", "tokens", "positions"])
def test_exchanging_the_names_of_the_tokens_mirrors_the_curve(objective):
    """s -> 1 - s and g -> 1 - g(1 - s) leave the objective where it was."""
    p, _ = CONFUSED.judge(200, np.random.default_rng(3), THREE)
    found = CalibraEval().fit(p)
    mirrored = 1 - found.curve(1 - (1 - p.p_t1))
    one = loss_of_values(*found.curve(p.p_t1).T, 0.5, objective)
    assert loss_of_values(*mirrored.T, 0.5, objective) == pytest.approx(one, abs=1e-9)


def test_a_pure_token_bias_is_found_without_a_label():
    """The curve crosses one half where the biased judge is undecided."""
    p, truth = ChoiceJudge(token=1.2).judge(1_000, np.random.default_rng(4), THREE)
    found = CalibraEval().fit(p)
    grid = np.linspace(0.001, 0.999, 999)
    undecided = grid[np.argmin(np.abs(found.curve(grid) - 0.5))]
    assert logit(undecided) == pytest.approx(1.2, abs=0.15)
    right = np.sign(found.apply(p).of_response_1() - 0.5) == truth[:, None]
    assert right.mean() > 0.97


def test_new_examples_are_calibrated_by_the_same_curve():
    rng = np.random.default_rng(5)
    seen, _ = CONFUSED.judge(500, rng, THREE)
    fresh, truth = CONFUSED.judge(500, rng, THREE)
    found = CalibraEval().fit(seen)
    before = np.sign(fresh.of_response_1()[:, 0] - 0.5) == truth
    after = np.sign(found.apply(fresh).of_response_1()[:, 0] - 0.5) == truth
    assert after.mean() > before.mean() + 0.1


@pytest.mark.parametrize("examples", [20, 2_000])
def test_the_drawn_points_are_the_curves_own_and_few_enough_to_draw(examples):
    """A judge that is almost always sure has all its points next to 0 and 1."""
    judge = ChoiceJudge(token=1.0, clear=12.0, noise=1.0)
    p, _ = judge.judge(examples, np.random.default_rng(7), THREE)
    found = CalibraEval().fit(p)
    drawn = found.as_json()
    assert len(drawn["z"]) == len(drawn["g"]) == min(len(found.z), 501)
    assert (drawn["z"][0], drawn["z"][-1], drawn["g"][-1]) == (0, 1, 1)
    assert found.curve(np.array(drawn["z"])) == pytest.approx(drawn["g"])
    outside = [z for z in drawn["z"] if 0.01 < z < 0.99]
    assert len(outside) < len(drawn["z"]) / 2


def test_an_example_without_a_permutation_is_left_out_of_the_fit_and_still_calibrated():
    p, _ = CONFUSED.judge(50, np.random.default_rng(6), THREE)
    present = p.present.copy()
    present[0, 1] = False
    gappy = choice_probabilities(p.p_t1, THREE, present)
    found = CalibraEval().fit(gappy)
    assert found.n == 49
    assert found.g == pytest.approx(CalibraEval().fit(p.rows(np.arange(1, 50))).g)
    applied = found.apply(gappy)
    assert applied.present[0].tolist() == [True, False, True]
