import json

import numpy as np
import pytest

from benchmarks.calibration import icc_of_table, rstd_of_table
from benchmarks.simulations.choices import CONFUSED, ChoiceJudge
from judging.methods.calibration.comparison import (
    calibrated_apart,
    compare_calibrations,
    estimation_rows,
    split,
)
from judging.methods.calibration.methods import NAMES, USUAL, mean_probability, method_named
from judging.methods.calibration.probabilities import PERMUTATIONS, THREE, choice_probabilities
from judging.methods.calibration.table import (
    FEW_QUESTIONS,
    NO_RECALL,
    NO_SPREAD,
    PERMUTATION_DECIDES,
    credit,
    icc,
    icc_columns,
    icc_figures,
    mean_credit,
    rstd,
    signs,
)
from judging.methods.intervals.estimates import Estimate, Undefined

LABEL_FREE = ("uncalibrated", "mean", "mean_three", "pride", "calibraeval")


def named(*names):
    return [method_named(name) for name in names]


def test_figures_are_those_of_whole_tables(rng):
    p = rng.random((300, 3))
    p[:40] = p[0]
    said, gold = signs(p), rng.choice([1, 0, -1], 300)
    there = np.ones_like(p, dtype=bool)
    sums = icc_columns(p, there).sum(axis=0)
    assert icc(sums) == pytest.approx(icc_of_table(p), abs=1e-9)
    earned = credit(said[:, 0], gold, there[:, 0])[:, None]
    rows = gold != 0
    right = said[rows, 0] == gold[rows]
    assert mean_credit(earned, None).value == pytest.approx(right.mean())
    assert rstd(earned, gold, None).value == pytest.approx(rstd_of_table(said[rows, 0], gold[rows]))


def test_a_distance_of_recalls_that_may_be_none_has_0_for_its_lower_limit():
    gold = np.repeat([1, -1], 20)
    alike = np.tile([1.0, 1, 1, 0], 10)[:, None]
    apart = np.where(gold == 1, 1.0, 0.0)[:, None]
    near, far = rstd(alike, gold, None), rstd(apart, gold, None)
    assert (near.value, near.low) == (0, 0)
    assert 5 < near.high < 20
    assert far.value == far.high == 50
    # Each recall of 22 values is 1/22 from its end, and has a variance of (1/22)(21/22)/20.
    half = 2.0930 * np.sqrt(2 * 21 / 22**2 / 20)
    assert far.low == pytest.approx(50 * (20 / 22 - half), abs=0.01)
    # Two columns are averaged, and questions that repeat widen.
    both = rstd(np.hstack((alike, apart)), gold, None)
    assert (both.value, both.low) == (25, pytest.approx(far.low / 2))
    assert rstd(alike, gold, np.arange(40) // 4).high > near.high
    assert rstd(alike[:20], gold[:20], None) == Undefined(NO_RECALL)


def test_where_the_permutation_decides_nearly_all_consistency_has_no_interval(rng):
    def figures(of_permutation):
        p = 0.5 + of_permutation * np.array([-1, 1]) + rng.normal(0, 0.05, (400, 2))
        p[:, 1] += p[:, 0] - 0.5 + of_permutation
        return icc_figures(icc_columns(p, np.ones(p.shape, bool)), None)

    agreeing, consistent = figures(0.02)
    assert None not in (agreeing.low, consistent.low)
    agreeing, consistent = figures(0.2)
    assert agreeing.low is not None
    assert (consistent.low, consistent.note) == (None, PERMUTATION_DECIDES)


def test_without_a_whole_example_there_is_no_icc():
    p, there = np.full((3, 2), 0.5), np.array([[True, False]] * 3)
    assert icc_figures(icc_columns(p, there), None) == (Undefined(NO_SPREAD),) * 2


def test_an_icc_that_few_examples_carry_has_no_interval(rng):
    quality = rng.normal(size=(200, 1))
    p = 1 / (1 + np.exp(-quality - rng.normal(0, 0.5, (200, 2))))
    there = np.ones(p.shape, bool)
    found = icc_figures(icc_columns(p, there), None)
    assert all(one.low < one.value < one.high < 1 for one in found)
    wider = icc_figures(
        icc_columns(np.tile(p, (3, 1)), np.tile(there, (3, 1))), np.tile(range(200), 3)
    )
    once = icc_figures(icc_columns(np.tile(p, (3, 1)), np.tile(there, (3, 1))), None)
    assert wider[1].high - wider[1].low > 1.4 * (once[1].high - once[1].low)
    p[1:] = 0.5 + 1e-6 * quality[1:]
    for one in icc_figures(icc_columns(p, there), None):
        assert (one.low, one.high, one.note) == (None, None, FEW_QUESTIONS)


def test_figures_are_the_references(table, golden):
    """choice_probabilities.csv has three raters' P(A), all about contents: no column is turned."""
    rows = table("choice_probabilities.csv")
    expected = golden("choice_probabilities_expected.json")
    p = choice_probabilities(np.column_stack((rows[:, :2], 1 - rows[:, 2])), THREE)
    gold = np.where(rows[:, 3] == 0, 1, -1)
    found = compare_calibrations(p, named("uncalibrated"), np.random.default_rng(0), gold=gold).row(
        "uncalibrated"
    )
    assert found.kappa.value == pytest.approx(float(expected["fleiss_kappa"]), abs=1e-9)
    assert found.icc_2k.value == pytest.approx(float(expected["icc"]["ICC(A,k)"]), abs=1e-9)
    assert found.icc_3k.value == pytest.approx(float(expected["icc"]["ICC(C,k)"]), abs=1e-9)
    for place, name in enumerate(THREE):
        quality = found.by_permutation[name]
        assert quality.accuracy.value == pytest.approx(
            float(expected["accuracy_per_rater"][place]), abs=1e-9
        )
        assert quality.rstd.value == pytest.approx(
            float(expected["rstd_percent_per_rater_ddof0"][place]), abs=1e-9
        )


@pytest.mark.parametrize(
    ("name", "method"), [("raw probabilities", "uncalibrated"), ("L-BFGS exact", "calibraeval")]
)
def test_the_papers_way_of_judging_gives_the_references_figures(table, three, golden, name, method):
    rows = table("calibraeval_K100.csv")
    gold = np.where(rows[:, 3] == 1, 1, -1)
    found = compare_calibrations(
        three(rows), named(method), np.random.default_rng(0), gold=gold, apart=False
    ).row(method)
    wanted = next(
        row for row in golden("calibraeval_expected.json")["K100"] if row["method"] == name
    )
    # How near the optimum is to the reference's own run moves the ICC by 1e-4.
    near = 1e-9 if method == "uncalibrated" else 2e-3
    assert found.kappa.value == pytest.approx(float(wanted["fleiss"]), abs=near)
    assert found.icc_2k.value == pytest.approx(float(wanted["icc2k"]), abs=near)
    assert found.icc_3k.value == pytest.approx(float(wanted["icc3k"]), abs=near)
    assert found.average.accuracy.value == pytest.approx(float(wanted["acc_mean3"]), abs=near)
    for permutation in THREE:
        accuracy = found.by_permutation[permutation].accuracy.value
        assert accuracy == pytest.approx(float(wanted[f"acc_{permutation}"]), abs=near)


def test_noa_makes_x0_better_and_x1_worse_and_the_plain_mean_is_best():
    """The finding that the recommendation rests on, at K = 1,000."""
    p, truth = CONFUSED.judge(1_000, np.random.default_rng(20230529), THREE)
    found = compare_calibrations(p, named(*LABEL_FREE), np.random.default_rng(1), gold=truth)
    raw, noa = found.row("uncalibrated"), found.row("calibraeval")

    def right(row, name):
        return row.by_permutation[name].accuracy.value

    assert right(raw, "X0") < 0.73
    assert right(noa, "X0") > 0.88
    assert noa.kappa.value > raw.kappa.value + 0.2
    assert right(raw, "X1") > 0.88
    assert right(noa, "X1") < 0.78
    mean = found.row("mean").mean.accuracy
    assert mean.low < 0.938 < mean.high
    assert mean.value > max(right(noa, name) for name in THREE) + 0.02
    assert found.recommended == "mean"
    assert "No calibration is more accurate" in found.because


class TrustX0:
    """A calibration that takes X0's word for X2 too."""

    name = method = "trust X0"

    def fit(self, probabilities):
        return self

    def apply(self, probabilities):
        x0 = probabilities.column("X0")
        return probabilities.with_p_t1(np.stack((x0, 1 - x0), axis=1))

    def as_json(self):
        return {"method": self.method}


def test_a_calibration_is_recommended_where_it_beats_the_mean_beyond_chance():
    rng = np.random.default_rng(3)
    p, truth = ChoiceJudge(clear=2.0, noise=0.5).judge(400, rng, ("X0", "X2"))
    noisy = p.with_p_t1(np.stack((p.column("X0"), rng.random(400)), axis=1))
    methods = [TrustX0(), *named("uncalibrated", "mean", "pride")]
    found = compare_calibrations(noisy, methods, rng, gold=truth)
    assert found.recommended == "trust X0"
    assert found.row("trust X0").gain.low > 0
    assert "beyond chance" in found.because
    few = compare_calibrations(noisy.rows(np.arange(12)), methods, rng, gold=truth[:12])
    assert few.recommended == "mean"
    one_question = compare_calibrations(noisy, methods, rng, gold=truth, question=["q"] * 400)
    assert one_question.recommended == "mean"


def test_an_unbalanced_mean_is_never_recommended_for_its_own_bias():
    """With labels that favour response 1 it gains by favouring response 1."""
    rng = np.random.default_rng(25)
    p, truth = ChoiceJudge(token=1.5, clear=1.0, noise=1.0).judge(2_000, rng, THREE)
    rows = (truth == 1) | (rng.random(2_000) < 0.1)
    found = compare_calibrations(p.rows(rows), named("mean", "mean_three"), rng, gold=truth[rows])
    assert found.row("mean_three").gain.low > 0
    assert found.recommended == "mean"


def test_the_recommendation_needs_labels_and_a_balanced_set():
    rng = np.random.default_rng(4)
    p, truth = CONFUSED.judge(60, rng, THREE)
    without = compare_calibrations(p, named(*LABEL_FREE), rng)
    assert without.recommended == "mean"
    assert without.because.startswith("Without labels")
    assert without.labelled == 0
    assert isinstance(without.row("pride").mean.accuracy, Undefined)
    assert isinstance(without.row("pride").kappa, Estimate)
    skewed = choice_probabilities(p.columns(("X0", "X1")), ("X0", "X1"))
    found = compare_calibrations(skewed, named("uncalibrated", "mean"), rng, gold=truth)
    assert found.because.startswith("Ask a balanced set")
    assert "balanced" in found.row("uncalibrated").mean.accuracy.reason
    assert "balanced" in found.row("mean").kappa.reason


def test_no_example_is_calibrated_by_a_fit_that_saw_it():
    """Each part's curve is that of a fit on the others alone."""
    p, _ = CONFUSED.judge(40, np.random.default_rng(5), THREE)
    parts = split(40, 100, np.random.default_rng(6))
    method = method_named("calibraeval")
    _, calibrated = calibrated_apart(method, p, parts)
    for part in range(parts.folds):
        rows = parts.fold == part
        own = method.fit(p.rows(~rows)).apply(p.rows(rows))
        assert calibrated.p_t1[rows] == pytest.approx(own.p_t1)


def test_a_share_is_fitted_and_the_rest_is_judged():
    p, truth = CONFUSED.judge(100, np.random.default_rng(7), THREE)
    found = compare_calibrations(p, named("pride"), np.random.default_rng(8), gold=truth, share=30)
    assert found.split == "fitted on 30 examples, judged on the other 70"
    assert found.n == 70
    assert found.row("pride").calibration.n == 30


def test_the_estimation_set_is_seeded_and_keeps_questions_whole():
    question = np.repeat(np.arange(20), 3)
    one = estimation_rows(60, 25, np.random.default_rng(9), question=question)
    again = estimation_rows(60, 25, np.random.default_rng(9), question=question)
    assert (one == again).all()
    assert one.reshape(20, 3).sum(axis=1).tolist().count(3) == 5
    assert set(one.reshape(20, 3).sum(axis=1)) == {0, 3}
    parts = split(60, 100, np.random.default_rng(10), question=question)
    assert (np.ptp(parts.fold.reshape(20, 3), axis=1) == 0).all()
    assert sorted(set(parts.fold)) == [0, 1, 2, 3, 4]
    for share in (0, -5, 101):
        with pytest.raises(ValueError, match="more than 0 %"):
            estimation_rows(60, share, np.random.default_rng(11))


def test_gold_ties_are_left_out_and_a_judges_tie_is_half_right():
    p = choice_probabilities([[0.9, 0.1], [0.9, 0.1], [0.5, 0.5], [0.2, 0.8]], ("X0", "X2"))
    found = compare_calibrations(
        p, named("uncalibrated"), np.random.default_rng(12), gold=[1, 0, 1, -1]
    )
    quality = found.row("uncalibrated").mean
    assert found.labelled == 3
    assert quality.accuracy.value == pytest.approx(2.5 / 3)
    # recalls 3/4 and 1
    assert quality.rstd.value == pytest.approx(12.5)
    banded = compare_calibrations(
        p, named("uncalibrated"), np.random.default_rng(12), gold=[1, 0, 1, -1], band=0.45
    )
    assert banded.row("uncalibrated").mean.accuracy.value == pytest.approx(0.5)


def test_methods_that_cannot_be_fitted_stand_in_the_table_with_their_reason():
    p, truth = CONFUSED.judge(3, np.random.default_rng(13), THREE)
    found = compare_calibrations(p, named(*USUAL), np.random.default_rng(14), gold=truth)
    assert [row.method for row in found.rows] == list(USUAL)
    assert "not asked" in found.row("cc").calibration.reason
    assert found.row("cc").as_json()["kappa"]["value"] is None
    one = compare_calibrations(p.rows([0]), named(*NAMES), np.random.default_rng(15))
    assert "at least two" in one.row("calibraeval").calibration.reason
    with pytest.raises(ValueError, match="no example"):
        compare_calibrations(p.rows(np.arange(0)), named("mean"), np.random.default_rng(16))


def test_missing_probabilities_are_left_out_of_what_they_would_enter():
    p, truth = CONFUSED.judge(80, np.random.default_rng(17))
    present = p.present.copy()
    present[:10, 3] = False
    present[10:15, 0] = False
    gappy = choice_probabilities(p.p_t1, PERMUTATIONS, present)
    found = compare_calibrations(
        gappy, named("uncalibrated", "mean", "calibraeval"), np.random.default_rng(18), gold=truth
    )
    row = found.row("uncalibrated")
    assert row.kappa.n == 65
    assert row.by_permutation["X3"].accuracy.n == 70
    assert row.by_permutation["X0"].accuracy.n == 75
    assert row.mean.accuracy.n == 65
    _, there = mean_probability(gappy, PERMUTATIONS)
    assert there.sum() == 65


def test_a_comparison_is_plain_json_and_the_same_for_the_same_seed():
    p, truth = CONFUSED.judge(50, np.random.default_rng(19), THREE)
    texts = [
        json.dumps(
            compare_calibrations(p, named(*NAMES), np.random.default_rng(20), gold=truth).as_json(),
            allow_nan=False,
        )
        for _ in range(2)
    ]
    assert texts[0] == texts[1]
