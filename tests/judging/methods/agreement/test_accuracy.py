import numpy as np
import pytest

from judging.methods.agreement.accuracy import (
    ONLY_CONTESTED,
    Design,
    Ties,
    accuracy,
    comparison,
    credit,
)
from judging.methods.agreement.votes import cohen_kappa, confusion, kappa
from judging.methods.intervals.estimates import Undefined, wilson


def signs(*values):
    return np.array(values, dtype=np.int8)


def everyone(n):
    return Design(np.ones(n, bool), np.zeros(n, bool))


@pytest.fixture
def routed():
    """A judge right on 80 % of the rest and on 25 % of the selected fifth."""
    n = 1000
    selected = np.arange(n) < 200
    human = np.ones(n, dtype=np.int8)
    right = np.where(selected, np.arange(n) % 4 == 0, np.arange(n) % 5 != 0)
    judge = np.where(right, 1, -1).astype(np.int8)
    audited = ~selected & (np.arange(n) % 8 == 0)
    return judge, human, Design(selected, audited)


def test_weights_let_the_audit_stand_for_the_rest(routed, rng):
    judge, human, design = routed
    weights = design.weights()
    assert weights.sum() == pytest.approx(1000)
    compared = comparison(judge, np.ones(1000, bool), human, design)
    figure = accuracy(compared)
    assert figure.value == pytest.approx((50 + 800 * 0.8) / 1000)
    assert figure.low < figure.value < figure.high
    assert figure.n == 300


def test_without_an_audit_nothing_is_said_of_all_examples(routed):
    judge, human, design = routed
    contested = Design(design.selected, np.zeros(1000, bool))
    assert comparison(judge, np.ones(1000, bool), human, contested) == Undefined(ONLY_CONTESTED)


def test_audited_examples_that_were_selected_later_weigh_one():
    selected = np.array([True, True, False, False, False])
    audited = np.array([False, True, True, False, False])
    assert Design(selected, audited).weights().tolist() == [1, 1, 3, 0, 0]


def test_an_unjudged_example_is_left_out_or_counts_as_not_right(rng):
    judged = np.array([True, True, True, False])
    compared = comparison(signs(1, 1, -1, 0), judged, signs(1, -1, -1, 0), everyone(4))
    assert accuracy(compared).value == pytest.approx(2 / 3)
    assert accuracy(compared, unjudged_wrong=True).value == pytest.approx(2 / 4)


def test_full_labels_have_wilsons_interval(rng):
    judge, human = np.ones(50, np.int8), np.where(np.arange(50) < 40, 1, -1).astype(np.int8)
    compared = comparison(judge, np.ones(50, bool), human, everyone(50))
    assert accuracy(compared) == wilson(40, 50)


def test_repeated_questions_widen_the_interval(rng):
    human = np.where(np.arange(200) < 150, 1, -1).astype(np.int8)
    judge, judged = np.ones(200, np.int8), np.ones(200, bool)
    apart = accuracy(comparison(judge, judged, human, everyone(200)))
    repeated = comparison(judge, judged, human, everyone(200), np.arange(200) // 10)
    together = accuracy(repeated)
    assert together.value == apart.value
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_both_conventions_for_ties_where_people_never_tie():
    judge, human = signs(0, 1, -1), signs(1, 1, 1)
    judged = np.ones(3, bool)
    assert credit(judge, judged, human).tolist() == [0.5, 1, 0]
    assert credit(judge, judged, human, Ties.WRONG).tolist() == [0, 1, 0]
    assert credit(judge, judged, signs(1, 1, 0)).tolist() == [0, 1, 0]
    assert credit(judge, np.zeros(3, bool), human).tolist() == [0, 0, 0]


def test_weighted_kappa_is_that_of_the_weighted_table(routed, rng):
    judge, human, design = routed
    human = np.where(np.arange(1000) % 3 == 0, -1, human).astype(np.int8)
    compared = comparison(judge, np.ones(1000, bool), human, design)
    figure = kappa(compared, rng)
    table = confusion(compared.judge, compared.human, compared.weight)
    assert figure.value == pytest.approx(cohen_kappa(table))
    assert figure.low < figure.value < figure.high


def test_kappa_of_one_label_throughout_is_undefined(rng):
    ones = np.ones(5, np.int8)
    figure = kappa(comparison(ones, np.ones(5, bool), ones, everyone(5)), rng)
    assert "the same label" in figure.reason
    none = kappa(comparison(ones, np.zeros(5, bool), ones, everyone(5)), rng)
    assert none == Undefined("the judge has given no label")


def test_a_part_is_counted_by_the_convention_of_the_whole(rng):
    """People know ties, though in none of these two: the judge's tie is wrong here as elsewhere."""
    judge, human = signs(0, 1, 1, 0), signs(1, 1, 0, 0)
    whole = comparison(judge, np.ones(4, bool), human, everyone(4))
    part = whole.at(np.array([True, True, False, False]))
    assert accuracy(part).value == 0.5
    assert accuracy(whole).value == 0.75 - 0.25


def test_an_audit_alone_has_the_limits_of_an_audit(rng):
    judge, human = signs(1, 1, 1, -1), signs(1, 1, 1, 1)
    design = Design(np.zeros(8, bool), np.arange(8) < 4)
    padded = [np.concatenate((one, np.ones(4, np.int8))) for one in (judge, human)]
    found = accuracy(comparison(padded[0], np.ones(8, bool), padded[1], design))
    # Three are right and one is wrong; of the four that nobody saw all may be one or the other.
    assert (found.low, found.high) == (3 / 8, 7 / 8)
