from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.methods.verdicts.verdicts import Candidate, VerdictState, cut, rank


@pytest.fixture(scope="module")
def case(golden):
    return golden("beta_cut.json")


def candidates(case):
    return [
        Candidate(
            row["external_id"],
            VerdictState.UNJUDGED if row["unjudged"] else VerdictState.JUDGED,
            None if row["bpde"] is None else float(row["bpde"]),
            row["n_valid"],
            None if row["gap"] is None else Fraction(row["gap"]),
        )
        for row in case["examples"]
    ]


def test_the_reference_ranking_comes_out(case):
    ids = [row["external_id"] for row in case["examples"]]
    assert [ids[i] for i in rank(candidates(case), case["seed"])] == case["rank"]


def test_the_reference_cut_comes_out(case):
    for beta, m in case["selected_count_by_beta_percent"].items():
        assert cut(len(case["examples"]), Decimal(beta)) == m


def judged(external_id, bpde=0.5, n_valid=6, gap=1, state=VerdictState.JUDGED):
    return Candidate(external_id, state, bpde, n_valid, Fraction(gap))


def test_inconsistent_examples_follow_the_unjudged_whatever_their_entropy():
    rows = [
        judged("sure", bpde=0.0),
        judged("torn", bpde=1.0),
        judged("inconsistent", bpde=0.0, state=VerdictState.INCONSISTENT),
        Candidate("unjudged", VerdictState.UNJUDGED, None, 0, None),
    ]
    assert rank(rows, seed=1) == [3, 2, 1, 0]


def test_pending_examples_are_not_ranked():
    assert rank([Candidate("a", VerdictState.PENDING, None, 2, None), judged("b")], seed=1) == [1]


def test_paper_mode_keeps_the_import_order_after_bpde():
    rows = [judged("a", n_valid=6), judged("b", n_valid=2), judged("c", bpde=0.6)]
    assert rank(rows, seed=1, paper_mode=True) == [2, 0, 1]
    assert rank(rows, seed=1) == [2, 1, 0]


def test_another_seed_draws_another_order_of_what_is_tied():
    rows = [judged(f"q{i}") for i in range(30)]
    assert rank(rows, seed=1) == rank(rows, seed=1)
    assert rank(rows, seed=1) != rank(rows, seed=2)


@given(st.permutations([judged(f"q{i}", gap=i % 3, n_valid=i % 2) for i in range(12)]))
def test_the_order_of_import_does_not_matter(rows):
    expected = rank(sorted(rows, key=lambda row: row.external_id), seed=9)
    names = [f"q{i}" for i in range(12)]
    in_order = sorted(names)
    assert [rows[i].external_id for i in rank(rows, seed=9)] == [in_order[i] for i in expected]


@given(st.integers(0, 10_000), st.integers(0, 99))
def test_the_cut_grows_with_beta_and_ends_at_all(n, beta):
    assert 0 <= cut(n, beta) <= cut(n, beta + 1) <= n
    assert cut(n, 100) == n


def test_half_an_example_is_rounded_up_exactly():
    assert cut(10, Decimal("5")) == 1
    assert cut(1000, Decimal("0.05")) == 1
    assert cut(1000, Decimal("0.0499999999999999999999")) == 0


@pytest.mark.parametrize("beta", [-1, 101])
def test_a_beta_off_the_scale_is_refused(beta):
    with pytest.raises(ValueError, match="between 0 and 100"):
        cut(10, beta)


@pytest.mark.parametrize("beta", [Decimal("1e-9999999"), Decimal("1e-99999999999"), Decimal(0)])
def test_a_beta_with_millions_of_decimals_is_answered_at_once(beta):
    assert cut(80, beta) == 0


def test_a_beta_of_millions_of_digits_is_refused_at_once():
    with pytest.raises(ValueError, match="between 0 and 100"):
        cut(80, Decimal("1e99999999999"))
