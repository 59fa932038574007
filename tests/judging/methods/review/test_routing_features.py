"""The columns of learned routing: seen from the verdict, standardised, nothing silently lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.methods.review.routing import (
    Feature,
    Judged,
    features,
    in_favour,
    judged_features,
    jury_agreement,
    smoothed_entropies,
)
from judging.methods.verdicts.verdicts import Label, verdict

PAIRS = {Label.WIN: (1, 0), Label.TIE: (0, 0), Label.LOSE: (0, 1), None: None}
SIGNS = {Label.WIN: 1, Label.TIE: 0, Label.LOSE: -1, None: 0}
ORDER = st.lists(st.sampled_from(list(PAIRS)), min_size=3, max_size=3)


def arrays(original, swapped):
    outcomes = np.array([[[SIGNS[one] for one in original], [SIGNS[one] for one in swapped]]])
    valid = np.array([[[one is not None for one in order] for order in (original, swapped)]])
    return outcomes.astype(np.int8), valid


def judged(n=6, seed=0):
    rng = np.random.default_rng(seed)
    outcomes = rng.integers(-1, 2, (n, 2, 3)).astype(np.int8)
    valid = rng.random((n, 2, 3)) < 0.9
    valid[:, :, 0] = True
    total = np.where(valid, outcomes, 0).sum(axis=(1, 2))
    return Judged(
        sign=np.sign(total).astype(np.int8),
        bpde=smoothed_entropies(outcomes, valid),
        gap=np.abs(total) / 6,
        outcomes=outcomes,
        valid=valid,
        length_1=rng.integers(0, 900, n).astype(float),
        length_2=rng.integers(0, 900, n).astype(float),
        question=rng.integers(1, 90, n).astype(float),
    )


def by_name(columns):
    return {column.name: column.values for column in columns}


@given(ORDER, ORDER)
def test_the_smoothed_entropy_is_that_of_the_exact_verdict(original, swapped):
    found = smoothed_entropies(*arrays(original, swapped))[0]
    exact = verdict([PAIRS[one] for one in original], [PAIRS[one] for one in swapped])
    if exact.smoothed_bpde is None:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(exact.smoothed_bpde, abs=1e-12)


def test_exchanging_the_responses_changes_no_feature():
    one = judged(40)
    # The other response first is the swapped order, and what favoured 1 favours 2.
    other = Judged(
        sign=-one.sign,
        bpde=one.bpde,
        gap=one.gap,
        outcomes=-one.outcomes[:, ::-1],
        valid=one.valid[:, ::-1],
        length_1=one.length_2,
        length_2=one.length_1,
        question=one.question,
    )
    first, second = by_name(judged_features(one)), by_name(judged_features(other))
    assert first.keys() == second.keys()
    for name in first:
        assert first[name] == pytest.approx(second[name], nan_ok=True), name


def test_features_of_an_example_worked_by_hand():
    outcomes, valid = arrays([Label.WIN, Label.WIN, None], [Label.LOSE, Label.LOSE, Label.WIN])
    one = Judged(
        sign=np.array([1], np.int8),
        bpde=smoothed_entropies(outcomes, valid),
        gap=np.array([1.0]),
        outcomes=outcomes,
        valid=valid,
        length_1=np.array([99.0]),
        length_2=np.array([9.0]),
        question=np.array([19.0]),
    )
    found = by_name(judged_features(one))
    # shares within the orders: win 1 and 1/3, lose 0 and 2/3; of 5: (5·2/3 + 1/3)/6 and so on
    p = np.array([(5 * 2 / 3 + 1 / 3) / 6, (1 / 3) / 6, (5 / 3 + 1 / 3) / 6])
    assert found["bpde"] == pytest.approx(-(p * np.log(p)).sum())
    assert found["conflict"] == [1.0]
    # first stood: twice 1 and won, thrice 2, which won twice
    assert found["first position"] == pytest.approx([4 / 5])
    assert found["missing samples"] == [1.0]
    assert found["length in favour"] == pytest.approx([np.log(100 / 10)])
    assert found["question length"] == pytest.approx([np.log(20)])


def test_a_run_of_one_order_has_no_conflict_and_no_first_position():
    full = judged()
    one = Judged(
        full.sign,
        full.bpde,
        full.gap,
        full.outcomes[:, :1],
        full.valid[:, :1],
        full.length_1,
        full.length_2,
        full.question,
    )
    assert not {"conflict", "first position"} & by_name(judged_features(one)).keys()


def test_a_tied_verdict_favours_no_length():
    found = in_favour("likelihood", [3.0, 3.0, 3.0], np.array([1, 0, -1], np.int8))
    assert found.values.tolist() == [3.0, 0.0, -3.0]


def test_the_jury_agrees_contradicts_or_is_missing():
    sign = np.array([1, 1, -1, 1], np.int8)
    everyone = np.ones(4, bool)
    other = (np.array([1, -1, -1, 1], np.int8), np.array([True, True, True, False]))
    tied = (np.array([0, -1, -1, 1], np.int8), np.array([True, True, False, False]))
    assert jury_agreement(sign, [other, tied]).values[:3].tolist() == [0.5, -1.0, 1.0]
    assert np.isnan(jury_agreement(sign, [other, tied]).values[3])
    assert np.isnan(jury_agreement(sign, [(other[0], ~everyone)]).values).all()


def test_columns_are_standardised_over_the_judged_and_missing_ones_are_average():
    values = np.array([1.0, 2.0, 3.0, np.nan, 1000.0])
    there = np.array([True, True, True, True, False])
    columns = [Feature("bpde", np.array([0.0, 0.5, 1.0, 0.2, np.nan])), Feature("x", values)]
    found = features(columns, ["a"] * 5, there)
    sd = np.sqrt(2 / 3)
    assert found.values[:, 1] == pytest.approx([-1 / sd, 0, 1 / sd, 0, 0])
    assert found.missing == (("x", 1),)
    assert found.constant == ("category",)


def test_a_constant_column_is_left_out_by_name_but_bpde_stays():
    same = np.ones(4)
    found = features([Feature("bpde", same), Feature("gap", same)], ["a", "b"] * 2, same > 0)
    assert found.names[0] == "bpde"
    assert not found.values[:, 0].any()
    assert found.constant == ("bpde", "gap")


def test_rare_categories_share_the_average():
    category = ["writing"] * 10 + ["coding"] * 6 + ["rare"] * 2 + [""] * 6
    n = len(category)
    found = features([Feature("bpde", np.arange(n) * 1.0)], category, np.ones(n, bool))
    assert found.names == ("bpde", "category: writing", "category: coding")
    assert found.values[:, 1].mean() == pytest.approx(0, abs=1e-12)
    assert found.values[0, 1] == pytest.approx(1 - 10 / n)
