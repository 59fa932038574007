import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from benchmarks.simulations.choices import ChoiceJudge
from judging.methods.calibration.methods import (
    CERTAIN,
    NAMES,
    THREE_PERMUTATION_MEAN,
    USUAL,
    ContentFreeCalibration,
    PermutationMean,
    Pride,
    method_named,
    random_inputs,
)
from judging.methods.calibration.probabilities import PERMUTATIONS, THREE, choice_probabilities
from judging.methods.intervals.estimates import Undefined


def exactly(values):
    return pytest.approx([float(value) for value in values], abs=1e-9)


@pytest.mark.parametrize(("name", "arithmetic"), [("pride_geo", False), ("pride_arith", True)])
def test_pride_is_the_references(table, three, golden, name, arithmetic):
    probabilities = three(table("prior_input.csv"))
    expected = golden("prior_expected.json")[name]
    calibration = Pride(arithmetic=arithmetic).fit(probabilities)
    assert calibration.prior == pytest.approx(float(expected["prior"][0]), abs=1e-9)
    calibrated = calibration.apply(probabilities)
    for permutation in THREE:
        assert calibrated.column(permutation) == exactly(expected[f"debiased_t1_{permutation}"])


def test_cc_and_dc_are_the_references(table, three, golden):
    probabilities = three(table("prior_input.csv"))
    expected = golden("prior_expected.json")
    random = table("prior_dc_random_inputs.csv")[:, 0]
    nothing = [float(expected["content_free_p_t1"])]
    for name, answers, softmax in (
        ("cc", nothing, False),
        ("cc", nothing, True),
        ("dc", random, False),
    ):
        calibration = ContentFreeCalibration(name, answers, softmax).fit(probabilities)
        assert calibration.prior == pytest.approx(float(expected[name]["prior"][0]), abs=1e-9)
        wanted = expected[name]["softmax_t1_X0" if softmax else "normalised_t1_X0"]
        assert calibration.apply(probabilities).column("X0") == exactly(wanted)


@given(
    st.lists(st.floats(-6, 6), min_size=1, max_size=20),
    st.floats(-3, 3),
    st.floats(-3, 3),
    st.booleans(),
)
def test_the_mean_of_a_balanced_set_leaves_a_biased_judges_verdicts_fair(q, token, position, all4):
    """Each bias adds to one half of the set what it takes from the other half."""
    better = np.array(q)
    logits = {
        "X0": better + token + position,
        "X1": better + token - position,
        "X2": -better + token + position,
        "X3": -better + token - position,
    }
    names = PERMUTATIONS if all4 else ("X0", "X2")
    p = choice_probabilities(expit(np.stack([logits[n] for n in names], axis=1)), names)
    calibrated = PermutationMean().fit(p).apply(p).of_response_1()
    assert np.ptp(calibrated, axis=1) == pytest.approx(0, abs=1e-12)
    clear = np.abs(better) > 1e-6
    assert (np.sign(calibrated[clear, 0] - 0.5) == np.sign(better[clear])).all()
    even = np.abs(better) < 1e-12
    assert calibrated[even, 0] == pytest.approx(0.5, abs=1e-9)


def test_three_permutations_favour_response_1_where_two_do_not():
    """A pure token bias of 1.2 logits on responses that are alike (SCIENCE: 64 % and 36 %)."""
    rng = np.random.default_rng(1)
    for judge, share in (
        (ChoiceJudge(token=1.2, clear=0, noise=2), 0.64),
        (ChoiceJudge(position=1.2, clear=0, noise=2), 0.36),
    ):
        p, _ = judge.judge(20_000, rng)
        balanced = PermutationMean().fit(p).apply(p).of_response_1()[:, 0]
        skewed = THREE_PERMUTATION_MEAN.fit(p)
        assert not skewed.balanced
        assert (balanced > 0.5).mean() == pytest.approx(0.5, abs=0.015)
        assert (skewed.apply(p).of_response_1()[:, 0] > 0.5).mean() == pytest.approx(
            share, abs=0.03
        )


def test_an_example_without_all_of_the_set_has_no_mean():
    p = choice_probabilities([[0.9, np.nan], [0.9, 0.4]], ("X0", "X2"))
    calibrated = PermutationMean().fit(p).apply(p)
    assert calibrated.present.tolist() == [[False, False], [True, True]]
    assert calibrated.of_response_1()[1] == pytest.approx([0.75, 0.75])


def test_pride_takes_a_pure_token_prior_out_completely():
    rng = np.random.default_rng(2)
    p, truth = ChoiceJudge(token=1.2).judge(500, rng)
    calibration = Pride().fit(p)
    assert logit(calibration.prior) == pytest.approx(1.2, abs=1e-9)
    said = np.sign(calibration.apply(p).of_response_1() - 0.5)
    assert (said == truth[:, None]).all()


def test_pride_moves_a_pure_position_bias_from_x0_to_x1():
    """X0 and X2 show t1 first, so a position bias looks like a prior of t1; under X1 it isn't."""
    rng = np.random.default_rng(3)
    p, truth = ChoiceJudge(position=1.2).judge(2_000, rng)
    calibrated = Pride().fit(p).apply(p)
    right = np.sign(calibrated.of_response_1() - 0.5) == truth[:, None]
    assert right[:, [0, 2]].all()
    before = np.sign(p.of_response_1()[:, 1] - 0.5) == truth
    assert right[:, 1].mean() < before.mean() - 0.1


def test_swapping_the_responses_turns_every_mean_around():
    rng = np.random.default_rng(4)
    p, _ = ChoiceJudge(0.7, 0.4, noise=0.5).judge(50, rng)
    partner = {"X0": "X2", "X2": "X0", "X1": "X3", "X3": "X1"}
    swapped = choice_probabilities(p.columns([partner[n] for n in PERMUTATIONS]), PERMUTATIONS)
    for method in (PermutationMean(), Pride(), Pride(arithmetic=True)):
        one = method.fit(p).apply(p).of_response_1()
        other = method.fit(swapped).apply(swapped).of_response_1()
        turned = other[:, [PERMUTATIONS.index(partner[n]) for n in PERMUTATIONS]]
        assert one == pytest.approx(1 - turned, abs=1e-12)


def test_what_cannot_be_fitted_says_why():
    two = choice_probabilities([[0.9, 0.8]], ("X0", "X1"))
    assert "balanced set" in PermutationMean().fit(two).reason
    assert "X0 and X2" in Pride().fit(two).reason
    assert "X0, X1, X2" in THREE_PERMUTATION_MEAN.fit(two).reason
    assert "not asked" in ContentFreeCalibration("cc", []).fit(two).reason
    assert "not asked" in ContentFreeCalibration("dc", [None, np.nan]).fit(two).reason
    assert ContentFreeCalibration("cc", [1.0]).fit(two) == Undefined(CERTAIN)
    none = choice_probabilities([[0.9, np.nan]], ("X0", "X2"))
    assert "no example" in Pride().fit(none).reason


def test_probabilities_of_0_and_1_survive_every_prior():
    p = choice_probabilities([[0.0, 1.0], [1.0, 0.0], [0.7, 0.6]], ("X0", "X2"))
    for method in (
        Pride(),
        Pride(arithmetic=True),
        ContentFreeCalibration("cc", [0.7], softmax=True),
    ):
        calibrated = method.fit(p).apply(p).p_t1
        assert np.isfinite(calibrated).all()
        assert ((calibrated >= 0) & (calibrated <= 1)).all()


def test_every_name_gives_the_method_of_that_name():
    assert [method_named(name).name for name in NAMES] == list(NAMES)
    assert set(USUAL) <= set(NAMES)
    with pytest.raises(ValueError, match="no calibration 'none'"):
        method_named("none")


def test_random_inputs_are_made_of_the_tasks_own_words_and_are_repeatable():
    questions, responses = ["who wrote it", "why"], ["the cat sat down", "dogs run"]
    one = random_inputs(questions, responses, np.random.default_rng(5), count=20)
    again = random_inputs(questions, responses, np.random.default_rng(5), count=20)
    assert one == again
    assert len(set(one)) > 10
    for made in one:
        assert set(made.question.split()) <= set("who wrote it why".split())
        assert len(made.question.split()) == 2
        for response in (made.response_1, made.response_2):
            assert set(response.split()) <= set("the cat sat down dogs run".split())
            assert len(response.split()) == 3


def test_texts_without_spaces_are_drawn_by_character():
    text = "这是一个没有空格的句子它很长而且还在继续下去直到有人把它停下来为止"
    made = random_inputs([text], [text], np.random.default_rng(6), count=1)[0]
    assert len(made.response_1) == len(text)
    assert set(made.response_1) <= set(text)
    with pytest.raises(ValueError, match="no words"):
        random_inputs([" "], ["word"], np.random.default_rng(7))
