import numpy as np
import pytest

from judging.methods.agreement.accuracy import Design
from judging.methods.intervals.estimates import Undefined
from judging.methods.portia.breakdowns import (
    agreement_with_people,
    agreement_with_reference,
    coverage_by_gap,
    failures_by_category,
    first_position_share,
    human_ties,
    inconsistency_by_gap,
    inconsistency_by_length,
)
from judging.methods.portia.stages import OrderLabels, StageLabels

MISSING = Undefined("no unsplit run")


def stages(unsplit, final):
    """Unsplit labels and those of the last stage, two orders an example; None is missing."""
    n = len(unsplit)
    labels = np.zeros((n, 3, 2), dtype=np.int8)
    there = np.zeros((n, 3, 2), dtype=bool)
    for index, rows in ((0, unsplit), (1, final)):
        for row, pair in enumerate(rows):
            for order, sign in enumerate(pair):
                labels[row, index, order] = sign or 0
                there[row, index, order] = sign is not None
    asked = np.tile([True, True, False], (n, 1))
    return StageLabels(labels, there, asked, np.ones(n, dtype=np.intp))


def everyone(n):
    return Design(np.ones(n, dtype=bool), np.zeros(n, dtype=bool))


def test_failures_by_category_come_as_a_rate_and_as_a_share_of_all_failures():
    final = [(1, -1), (1, 1), (1, -1), (0, 0), (-1, 1), (None, 1)]
    found = failures_by_category(
        stages(final, final), ["math", "math", "code", "code", "code", "x"]
    )
    # x was never judged in both orders.
    assert [(row.category, row.n, row.failures) for row in found] == [
        ("code", 3, 2),
        ("math", 2, 1),
    ]
    assert [row.rate.value for row in found] == [pytest.approx(2 / 3), 0.5]
    assert sum(row.share.value for row in found) == pytest.approx(1)


def test_no_failure_has_no_share():
    (row,) = failures_by_category(stages([(1, 1)], [(1, 1)]), ["a"])
    assert row.rate.value == 0
    assert isinstance(row.share, Undefined)


LENGTHS = np.array([[100, 100], [500, 400], [300, 900], [8000, 10]])


def test_inconsistency_by_length_sums_the_responses_and_by_gap_subtracts_them():
    run = stages([(1, -1), (1, 1), (1, -1), (1, -1)], [(1, 1), (1, 1), (1, -1), (1, 1)])
    by_length = inconsistency_by_length(run, run.unsplit, LENGTHS)
    assert [(row.low, row.high) for row in by_length[:2]] == [(0, 800), (800, 1600)]
    assert (by_length[-1].low, by_length[-1].high) == (6400, None)
    assert [row.frequency.value for row in by_length[:2]] == [0.25, 0.5]
    assert [row.unsplit.value for row in by_length[:2]] == [1, 0.5]
    assert [row.portia.value for row in by_length[:2]] == [0, 0.5]
    assert by_length[2].unsplit == Undefined("no examples")
    by_gap = inconsistency_by_gap(run, MISSING, LENGTHS)
    assert [(row.low, row.portia.value) for row in by_gap[:1]] == [(0, 0)]
    assert by_gap[0].unsplit is MISSING
    # A gap of 600 belongs to the bin that begins there.
    assert by_gap[2].portia.value == 1


def test_fixed_coverage_by_gap_is_over_the_inconsistent_ones():
    run = stages([(1, -1), (1, 1), (1, -1), (1, -1)], [(1, 1), (1, 1), (1, -1), (1, 1)])
    found = coverage_by_gap(run, run.unsplit, LENGTHS)
    assert [row.coverage.value for row in (found[0], found[2], found[-1])] == [1, 0, 1]
    assert found[0].frequency.value == pytest.approx(1 / 3)
    assert coverage_by_gap(run, MISSING, LENGTHS) is MISSING


def test_the_first_position_share_counts_verdicts_of_both_orders():
    # Consistent: one each way. Always first: two. A tie with a win of the second: none of one.
    labels = stages([(1, 1), (1, -1), (-1, 0), (0, 0)], [(1, 1)] * 4).unsplit
    share = first_position_share(labels)
    assert share.value == pytest.approx(3 / 5)
    assert share.n == 4
    assert first_position_share(stages([(0, 0)], [(0, 0)]).unsplit) == Undefined(
        "no verdict but ties"
    )


def test_an_inconsistent_example_disagrees_with_people_before_and_after():
    run = stages([(1, 1), (1, -1), (1, -1), (0, 0)], [(1, 1), (1, 1), (1, -1), (0, 0)])
    human = np.array([1, 1, 1, -1], dtype=np.int8)
    found = agreement_with_people(run, run.unsplit, np.append(human[:3], 0), everyone(4))
    assert (found.unsplit.value, found.portia.value) == (0.5, 0.75)
    assert found.gain.value == pytest.approx(0.25)
    after_only = agreement_with_people(run, MISSING, human, everyone(4))
    assert after_only.unsplit is MISSING


def test_people_who_saw_only_the_contested_examples_say_nothing_of_all():
    run = stages([(1, 1)] * 4, [(1, 1)] * 4)
    design = Design(np.array([True, False, False, False]), np.zeros(4, dtype=bool))
    found = agreement_with_people(run, run.unsplit, np.ones(4, np.int8), design)
    assert isinstance(found.portia, Undefined)


def test_an_audited_example_stands_for_several():
    # One selected and wrong, one of three others audited and right: (1 x 0 + 3 x 1) / 4.
    run = stages([(1, -1), (1, 1), (1, 1), (1, 1)], [(1, -1), (1, 1), (1, 1), (1, 1)])
    design = Design(np.array([True, False, False, False]), np.array([False, True, False, False]))
    found = agreement_with_people(run, run.unsplit, np.ones(4, np.int8), design)
    assert found.portia.value == pytest.approx(0.75)


def test_a_reference_judge_counts_where_it_is_consistent_itself():
    run = stages([(1, -1), (1, 1), (1, 1), (0, 0)], [(1, 1), (1, 1), (1, 1), (0, 0)])
    reference = OrderLabels(
        np.array([[1, 1], [-1, -1], [1, -1], [0, 0]], np.int8), np.ones((4, 2), bool)
    )
    found = agreement_with_reference(run, run.unsplit, reference)
    assert (found.unsplit.value, found.portia.value) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert found.gain.value == pytest.approx(1 / 3)
    unsure = OrderLabels(reference.labels[2:3], reference.there[2:3])
    one = stages([(1, 1)], [(1, 1)])
    assert isinstance(agreement_with_reference(one, one.unsplit, unsure).portia, Undefined)


def test_human_ties_are_compared_where_the_judge_contradicts_itself_and_where_not():
    unsplit = [(1, -1)] * 6 + [(1, 1)] * 6 + [(None, 1)]
    run = stages(unsplit, unsplit)
    human = np.array([0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 0], dtype=np.int8)
    found = human_ties(run.unsplit, human, everyone(13))
    assert found.where_inconsistent.value == pytest.approx(5 / 6)
    assert found.where_consistent.value == pytest.approx(1 / 6)
    # Fisher's exact test on 5, 1; 1, 5: (36 + 1 + 36 + 1) / 924.
    assert found.p == pytest.approx(74 / 924)


def test_human_ties_without_a_contradiction_have_no_test():
    run = stages([(1, 1), (0, 0)], [(1, 1), (0, 0)])
    found = human_ties(run.unsplit, np.zeros(2, np.int8), everyone(2))
    assert isinstance(found.where_inconsistent, Undefined)
    assert found.p is None
