import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.methods.verdicts.verdicts import CriteriaRule, Label, VerdictState, verdict

scores = st.decimals(min_value=1, max_value=10, places=1)
samples = st.lists(st.none() | st.tuples(scores, scores), min_size=1, max_size=5)


def pairs(order):
    return [None if pair is None else (pair[0], pair[1]) for pair in order]


@pytest.fixture(scope="module")
def cases(golden):
    return golden("faireval_cases.json")


def test_the_reference_cases_of_faireval_come_out(cases):
    assert len(cases) == 8
    for case in cases:
        result = verdict(pairs(case["original"]), pairs(case["swapped"]), k=case["k"])
        assert [list(order) for order in result.outcomes] == case["outcomes"], case["name"]
        if case["label"] is None:
            assert result.state is VerdictState.UNJUDGED
            assert (result.cs_1, result.label, result.bpde) == (None, None, None)
            continue
        exact = [Fraction(text) for text in case["calibrated_score_exact"]]
        assert [result.cs_1, result.cs_2] == exact, case["name"]
        assert result.label == case["label"], case["name"]
        assert result.bpde == pytest.approx(float(case["bpde"]), abs=1e-12), case["name"]
        assert result.n_valid == case["n_valid_original"] + case["n_valid_swapped"]


@given(samples, samples)
def test_exchanging_the_responses_mirrors_everything(original, swapped):
    def mirrored(order):
        return [None if pair is None else pair[::-1] for pair in order]

    one, other = verdict(original, swapped), verdict(mirrored(original), mirrored(swapped))
    assert (one.cs_1, one.cs_2) == (other.cs_2, other.cs_1)
    assert one.bpde == other.bpde
    assert one.state == other.state
    if one.label is not None:
        assert one.label.turned == other.label


@given(samples, samples, st.randoms(use_true_random=False))
def test_neither_the_order_of_samples_nor_of_orders_matters(original, swapped, random):
    shuffled = random.sample(original, len(original))
    one, other = verdict(original, swapped), verdict(swapped, shuffled)
    assert (one.cs_1, one.label, one.bpde) == (other.cs_1, other.label, other.bpde)


@given(samples, samples)
def test_bpde_lies_between_zero_and_ln_3(original, swapped):
    result = verdict(original, swapped)
    if result.bpde is not None:
        assert 0 <= result.bpde <= math.log(3) + 1e-15
        assert 0 < result.smoothed_bpde <= math.log(3) + 1e-15


def test_equal_shares_are_equal_floats_whichever_outcome_they_belong_to():
    win, tie, lose = (9, 1), (5, 5), (1, 9)
    one = verdict([win, win, tie], [win, lose, lose])
    other = verdict([tie, lose, lose], [win, tie, tie])
    assert sorted(one.shares) == sorted(other.shares)
    assert one.shares != other.shares
    assert one.bpde == other.bpde


def test_an_example_is_pending_until_each_order_has_its_samples():
    assert verdict([(9, 8)] * 2, [(9, 8)] * 3, k=3).state is VerdictState.PENDING
    assert verdict([(9, 8)] * 3, [], k=3).state is VerdictState.PENDING
    assert verdict([(9, 8)] * 3, [(9, 8)] * 3, k=3).state is VerdictState.JUDGED
    assert verdict([None] * 3, [(9, 8)] * 3, k=3).state is VerdictState.UNJUDGED


def test_a_method_of_one_order_needs_no_other():
    result = verdict([(9, 8), (8, 9), (9, 7)])
    assert result.label is Label.WIN
    assert result.cs_1 == Fraction(26, 3)
    assert result.bpde == pytest.approx(-(2 / 3) * math.log(2 / 3) - (1 / 3) * math.log(1 / 3))


def test_orders_that_contradict_each_other_have_scores_but_no_label_where_they_must_agree():
    result = verdict([(1, 0)], [(0, 1)], must_agree=True)
    assert result.state is VerdictState.INCONSISTENT
    assert result.label is None
    assert (result.cs_1, result.cs_2) == (Fraction(1, 2), Fraction(1, 2))
    assert result.bpde == pytest.approx(math.log(2))
    assert verdict([(1, 0)], [(1, 0)], must_agree=True).label is Label.WIN


def test_with_probabilities_bpde_is_the_entropy_of_the_mean():
    first, second = Decimal("0.9"), Decimal("0.5")
    result = verdict([(first, 1 - first)], [(second, 1 - second)], probabilities=True)
    assert result.bpde == pytest.approx(-0.7 * math.log(0.7) - 0.3 * math.log(0.3))


def test_the_smoothed_entropy_of_few_samples_is_larger():
    few = verdict([(9, 8)], [(9, 8)])
    many = verdict([(9, 8)] * 3, [(9, 8)] * 3)
    assert few.bpde == many.bpde == 0
    assert few.smoothed_bpde > many.smoothed_bpde > 0
    # (2*1 + 1/3)/3 = 7/9 and twice 1/9
    assert few.smoothed_bpde == pytest.approx(-7 / 9 * math.log(7 / 9) - 2 / 9 * math.log(1 / 9))


amounts = st.decimals(min_value=0, max_value=100, places=4)
answers = st.lists(st.tuples(st.sampled_from([-2, -1, 0, 1, 2]), amounts), min_size=1, max_size=12)


@given(answers, st.one_of(st.none(), amounts))
def test_a_rule_about_criteria_has_no_favourite_and_keeps_itself(answers, margin):
    """Swapped answers give the swapped label. Without a margin the rule is lexicographic."""
    names = tuple(f"c{number}" for number in range(len(answers)))
    weights = () if margin is None else tuple(weight for _, weight in answers)
    rule = CriteriaRule(names, weights, margin or Decimal(0))
    signs = {name: sign for name, (sign, _) in zip(names, answers, strict=True)}
    label = rule.overall(signs)
    assert rule.overall({name: -sign for name, sign in signs.items()}) == label.turned
    # Only the direction counts.
    assert rule.overall({name: (s > 0) - (s < 0) for name, s in signs.items()}) == label
    kept = CriteriaRule.from_json(rule.to_json())
    assert kept is not None
    assert kept.overall(signs) == label


def test_a_margin_is_a_tie_up_to_and_with_it():
    rule = CriteriaRule(("a", "b"), (Decimal("0.3"), Decimal("0.2")), Decimal("0.1"))
    # In binary fractions, 0.3 - 0.2 is not 0.1.
    assert rule.overall({"a": 1, "b": -1}) is Label.TIE
    assert rule.overall({"a": 0, "b": -1}) is Label.LOSE
    assert CriteriaRule.from_json({}) is None
