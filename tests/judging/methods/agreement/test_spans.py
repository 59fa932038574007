"""Overlap of marked text: by hand, against sets of characters, and against chance by simulation."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.methods.agreement.spans import NOBODY_MARKED, overlap, span_overlap
from judging.methods.agreement.votes import (
    agreement_interval,
    category_counts,
    krippendorff_alpha,
    ordinal_alpha,
)


def overlap_of(votes, spans, lengths, question=None, **options):
    """One question an example, unless said."""
    n = len(lengths)
    code = np.arange(n) if question is None else np.array(question)
    rows = np.array(spans, dtype=int).reshape(-1, 4)
    return span_overlap(np.array(votes, dtype=np.intp), rows, np.array(lengths), code, **options)


def test_a_worked_example():
    """Marks of 10 and 20 of 100 characters that share 5: F1 is 2·5/30. By chance 2·10·20/(100·30).

    The second example: the same 4 characters, F1 1, by chance 2·4·4/(100·8)."""
    spans = [(0, 1, 0, 10), (1, 1, 5, 25), (2, 2, 6, 10), (3, 2, 6, 10)]
    found = overlap_of([0, 0, 1, 1], spans, [(60, 40), (50, 50)])
    assert found.f1.value == pytest.approx((1 / 3 + 1) / 2)
    assert found.by_chance == pytest.approx((400 / 3000 + 32 / 800) / 2)
    assert (found.pairs, found.unmarked, found.f1.n) == (2, 0, 2)


def test_responses_are_apart_and_what_nobody_marked_is_left_out():
    """The same places in response 1 and in response 2 are other words."""
    spans = [(0, 1, 3, 9), (1, 2, 3, 9)]
    found = overlap_of([0, 0, 0, 1, 1], spans, [(20, 20), (20, 20)])
    # Of the three pairs on the first example two have one person who marked nothing.
    assert (found.f1.value, found.pairs, found.unmarked) == (0, 3, 1)
    nothing = overlap_of([0, 0, 1], [], [(20, 20), (20, 20)])
    assert (nothing.f1, nothing.by_chance, nothing.pairs) == (NOBODY_MARKED, None, 0)
    kept = overlap_of([0, 0], [(0, 1, 0, 4)], [(9, 9)], kept=np.array([False]))
    assert kept.f1 == NOBODY_MARKED


INTERVALS = st.lists(st.integers(0, 60), max_size=10, unique=True).map(
    lambda ends: list(zip(sorted(ends)[::2], sorted(ends)[1::2], strict=False))
)


@given(INTERVALS, INTERVALS)
def test_the_overlap_is_that_of_sets_of_characters(one, other):
    def characters(spans):
        return {place for start, end in spans for place in range(start, end)}

    assert overlap(one, other) == len(characters(one) & characters(other)) == overlap(other, one)


@given(st.lists(INTERVALS, min_size=2, max_size=4))
def test_f1_is_that_of_sets_of_characters(people):
    spans = [(v, 1, *span) for v, mine in enumerate(people) for span in mine]
    found = overlap_of([0] * len(people), spans, [(60, 7)])
    sets = [{place for span in mine for place in range(*span)} for mine in people]
    expected = [
        2 * len(a & b) / (len(a) + len(b)) for a, b in combinations(sets, 2) if len(a) + len(b)
    ]
    if not expected:
        assert found.f1 == NOBODY_MARKED
    else:
        assert found.f1.value == pytest.approx(np.mean(expected))


def test_chance_is_what_marks_at_random_come_to():
    """Single characters drawn at random, 12 by one person and 30 by the other, of 200."""
    rng = np.random.default_rng(4)
    spans = []
    for example in range(600):
        for vote, size in ((2 * example, 12), (2 * example + 1, 30)):
            places = rng.choice(200, size, replace=False)
            spans += [(vote, 1, place, place + 1) for place in places.tolist()]
    found = overlap_of(np.repeat(np.arange(600), 2), spans, [(200, 0)] * 600)
    assert found.by_chance == pytest.approx(2 * 12 * 30 / (200 * 42))
    assert found.f1.low < found.by_chance < found.f1.high


@pytest.mark.parametrize("n", [15, 60])
def test_the_interval_covers_the_mean_over_many_examples(n):
    """People mark 8 characters from places that differ by 0 to 8: F1 is 1 - d/8, 1/2 on average."""
    rng = np.random.default_rng(n)
    covered = 0
    for _ in range(400):
        shift = rng.integers(0, 9, n)
        spans = [
            row
            for example, d in enumerate(shift.tolist())
            for row in ((2 * example, 1, 0, 8), (2 * example + 1, 1, d, d + 8))
        ]
        f1 = overlap_of(np.repeat(np.arange(n), 2), spans, [(50, 0)] * n).f1
        covered += f1.low <= 0.5 <= f1.high
    assert covered / 400 > 0.93


def coincidences(votes):
    """Krippendorff's alpha with the ordinal metric from its definition, by loops over pairs."""
    values = sorted({one for row in votes for one in row if one is not None})
    table = dict.fromkeys([(c, k) for c in values for k in values], 0.0)
    for row in votes:
        there = [one for one in row if one is not None]
        for i, c in enumerate(there):
            for j, k in enumerate(there):
                if i != j:
                    table[c, k] += 1 / (len(there) - 1)
    total = {c: sum(table[c, k] for k in values) for c in values}
    n = sum(total.values())

    def distance(c, k):
        low, high = min(c, k), max(c, k)
        between = sum(total[g] for g in values if low <= g <= high)
        return (between - (total[low] + total[high]) / 2) ** 2 if c != k else 0.0

    observed = sum(table[c, k] * distance(c, k) for c in values for k in values) / n
    expected = sum(total[c] * total[k] * distance(c, k) for c in values for k in values)
    return 1 - observed / (expected / (n * (n - 1)))


def test_near_agreement_in_order_has_a_wider_interval_than_without():
    """With two columns both alphas are one, and only the pseudo-observation differs."""
    counts = np.array([[2, 0]] * 40 + [[0, 2]] * 39 + [[1, 1]])
    nominal, ordinal = (
        agreement_interval(statistic, counts, np.arange(80), np.random.default_rng(0))
        for statistic in (krippendorff_alpha, ordinal_alpha)
    )
    assert ordinal.value == pytest.approx(nominal.value)
    assert ordinal.high - ordinal.low > 1.03 * (nominal.high - nominal.low)


def test_ordinal_alpha_is_that_of_its_definition_and_inside_its_interval():
    rng = np.random.default_rng(2)
    votes = rng.integers(0, 3, (40, 3))
    votes[:, 1] = np.clip(votes[:, 0] + rng.integers(-1, 2, 40), 0, 2)
    present = rng.random((40, 3)) < 0.8
    listed = [
        [int(v) if there else None for v, there in zip(row, seen, strict=True)]
        for row, seen in zip(votes, present, strict=True)
    ]
    counts = category_counts(votes, present, (0, 1, 2))
    twice = [row for row in listed if sum(one is not None for one in row) > 1]
    assert ordinal_alpha(counts) == pytest.approx(coincidences(twice))
    found = agreement_interval(ordinal_alpha, counts, np.arange(40), np.random.default_rng(0))
    assert found.low < found.value < found.high


def test_a_neighbour_is_nearer_than_the_other_end_of_a_scale():
    near = np.array([[1, 1, 0], [0, 1, 1], [2, 0, 0], [0, 0, 2]], float)
    far = np.array([[1, 0, 1], [0, 1, 1], [2, 0, 0], [0, 0, 2]], float)
    assert ordinal_alpha(near) > ordinal_alpha(far)
