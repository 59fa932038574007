"""Agreement corrected for people's noise, and what explains a disagreement."""

import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import scipy

from judging.methods.agreement.noise import (
    NO_PAIRS,
    ONLY_CHANCE,
    over_represented,
    pulled,
    said_as_people,
    split,
    without_noise,
)
from judging.methods.intervals.estimates import Undefined, holm

ROOT = Path(__file__).parents[4]


def corrected(judge, counts, weight=None, question=None, stratum=None):
    n = len(judge)
    return without_noise(
        np.array(judge, np.int8),
        np.ones(n, bool),
        np.array(counts),
        np.random.default_rng(1),
        weight=np.ones(n) if weight is None else np.array(weight, float),
        stratum=np.zeros(n, np.intp) if stratum is None else np.array(stratum),
        question=np.arange(n) if question is None else np.array(question),
    )


# 25 examples by what the two votes say and the judge says. Votes say each label equally often, and
# so does the judge: kappa of judge and vote .4, of two votes .64, as in docs/methods/people.md.
def worked_example():
    judge, counts = [], []
    labels = np.eye(3, dtype=int)
    # Of 25 examples per label, two votes agree on 19, and judge and vote on .6 of their pairs.
    for label in range(3):
        for example in range(25):
            other = (label + 1 + example % 2) % 3
            agree = example < 19
            counts.append(labels[label] * 2 if agree else labels[label] + labels[other])
            # 15 of 25 with one vote: of those that agree 13, and half of 4 that don't.
            right = example < 13 or 19 <= example < 23
            judge.append(1 - (label if right else (label + 1 + (example // 2) % 2) % 3))
    return judge, counts


def test_the_figures_follow_from_the_shares_by_the_formula():
    judge, counts = worked_example()
    found = corrected(judge, counts)
    table, said = np.array(counts), np.eye(3)[1 - np.array(judge)]
    share = table / 2
    a, b = (share * said).sum(axis=1).mean(), (table == 2).any(axis=1).mean()
    people, judges = share.mean(axis=0), said.mean(axis=0)
    kappa = (a - people @ judges) / (1 - people @ judges)
    reliability = (b - people @ people) / (1 - people @ people)
    true = kappa / reliability**0.5
    expected = true + (1 - true) * (people @ judges)
    assert found.with_one_vote.value == pytest.approx(a)
    assert found.between_votes.value == pytest.approx(b) == pytest.approx(0.76)
    assert found.corrected.value == pytest.approx(expected)
    assert found.share.value == pytest.approx((expected - a) / (1 - a))
    assert found.corrected.low < expected < found.corrected.high
    assert a < expected


def test_a_judge_that_says_what_careful_people_say_has_nothing_to_correct():
    labels = [1, 0, -1] * 20
    found = corrected(labels, [3 * np.eye(3, dtype=int)[1 - one] for one in labels])
    assert (found.corrected.value, found.share.value) == (1.0, 0.0)
    # Sixty examples that agree don't prove that all others do.
    assert 0.9 < found.corrected.low < 1


def test_examples_weigh_what_they_represent_and_questions_are_drawn_together():
    judge, counts = worked_example()
    twice = corrected(judge * 2, counts * 2, question=list(range(75)) * 2)
    once = corrected(judge, counts)
    assert twice.corrected.value == pytest.approx(once.corrected.value)
    width = [one.corrected.high - one.corrected.low for one in (once, twice)]
    assert width[1] > 0.85 * width[0]
    heavy = corrected(judge, counts, weight=[3.0] * 25 + [1.0] * 50)
    tripled = corrected(judge[:25] * 3 + judge[25:], counts[:25] * 3 + counts[25:])
    assert heavy.with_one_vote.value == pytest.approx(tripled.with_one_vote.value)
    assert heavy.corrected.value == pytest.approx(tripled.corrected.value)


def test_without_pairs_or_beyond_chance_there_is_a_reason():
    alone = corrected([1, -1], [[1, 0, 0], [0, 0, 1]])
    assert alone.corrected == alone.with_one_vote == Undefined(NO_PAIRS)
    apart = corrected([1, -1, 1, -1], [[1, 0, 1]] * 4)
    assert apart.corrected == Undefined(ONLY_CHANCE)
    assert apart.with_one_vote.value == 0.5


def test_what_samples_say_is_parted_into_noise_and_position():
    # By example: coin flips alike in both orders; right in one order only; one sample of six;
    # one order without samples. People say win.
    signs = np.array(
        [
            [[1, 1, -1, -1], [-1, 1, 1, -1]],
            [[1, 1, 1, 1], [-1, -1, -1, -1]],
            [[-1, -1, -1, -1], [-1, -1, 1, -1]],
            [[1, -1, -1, -1], [-1, -1, -1, -1]],
        ],
        np.int8,
    )
    valid = np.ones(signs.shape, bool)
    valid[3, 1] = False
    noise, position = said_as_people(signs, valid, np.ones(4, np.int8))
    assert noise.tolist() == pytest.approx([0.5, 0.0, 0.125, 0.25])
    assert position.tolist() == pytest.approx([0.0, 1.0, 0.0, 0.0])
    # 4 and 2 of four samples: 6 of 8 dealt at random differ by |p1 - p2| of 0.2857 in the mean.
    partly = np.array([[[1, 1, 1, 1], [1, 1, -1, -1]]], np.int8)
    chance = sum(
        math.comb(4, inside) * math.comb(4, 6 - inside) / math.comb(8, 6) * abs(2 * inside - 6) / 4
        for inside in range(2, 5)
    )
    expected = (0.5 - chance) / (1 - chance)
    noise, position = said_as_people(partly, valid[:1], np.ones(1, np.int8))
    assert position[0] == pytest.approx(expected)
    assert noise[0] == pytest.approx(0.75 * (1 - expected) + 0.5 * expected)
    # One sample in each order: nothing tells noise from position. One order: no position.
    single = np.array([[[1], [-1]]], np.int8)
    assert said_as_people(single, single != 0, np.ones(1, np.int8))[1].tolist() == [1.0]
    first = partly[:, 1:]
    assert [one.tolist() for one in said_as_people(first, first != 0, np.ones(1, np.int8))] == [
        [0.5],
        [0.0],
    ]


def test_a_preference_that_people_do_not_share_explains_what_goes_its_way():
    x = np.array([0.8, -0.8, 0.8, 0.0])
    found = pulled(x, np.array([1, 1, 0, 1], np.int8), 0.0, 1.5, 1.0)
    with_bias, without = 1 / (1 + math.exp(-1.2)), 1 / (1 + math.exp(-0.4))
    assert found.tolist() == pytest.approx([1 - without / with_bias, 0.0, 0.0, 0.0])


def test_the_parts_of_each_disagreement_add_up_and_no_order_is_preferred(rng):
    assert split(np.array([[0.5, 0.0, 0.0, 0.5]])).tolist()[0] == pytest.approx(
        [0.375, 0, 0, 0.375, 0.25]
    )
    explained = rng.random((50, 4))
    parts = split(explained)
    assert np.allclose(parts.sum(axis=1), 1)
    # The mean over all orders, one by one.
    expected = np.zeros((50, 4))
    for order in permutations(range(4)):
        left = np.ones(50)
        for one in order:
            expected[:, one] += left * explained[:, one] / 24
            left = left * (1 - explained[:, one])
    assert np.allclose(parts[:, :4], expected)
    assert np.allclose(split(explained[:, [2, 0, 3, 1]])[:, :4], parts[:, [2, 0, 3, 1]])
    sure = explained.copy()
    sure[:, 1] = 1.0
    assert (split(sure)[:, -1] == 0).all()


def test_groups_with_more_gaps_than_chance_gives_are_found_by_fishers_test():
    gap = np.zeros(60, bool)
    gap[:8] = True
    gap[30:32] = True
    groups = np.zeros((60, 3), bool)
    groups[:10, 0] = groups[10:40, 1] = groups[::7, 2] = True
    found = over_represented(groups, gap)
    p = [
        scipy.stats.fisher_exact(
            [
                [(column & gap).sum(), (column & ~gap).sum()],
                [(~column & gap).sum(), (~column & ~gap).sum()],
            ],
            "greater",
        ).pvalue
        for column in groups.T
    ]
    assert [one.p_holm for one in found] == pytest.approx(holm(p).tolist())
    assert (found[0].gaps, found[0].inside, found[0].expected) == (8, 10, pytest.approx(10 / 6))
    assert found[0].p_holm < 0.001 < 0.5 < found[1].p_holm


@pytest.mark.parametrize(
    ("people", "judge", "points"), [(0.45, 0.9, -1.9), (0.45, 0.45, 1.9), (0.0, 0.9, -9)]
)
def test_hard_examples_move_the_correction_as_documented(people, judge, points):
    """On 30 % of the examples, people and the judge know the answer less often than in 90 %."""
    rng, n, shares = np.random.default_rng(8), 30_000, [0.4, 0.2, 0.4]
    label, hard = rng.choice(3, n, p=shares), rng.random(n) < 0.3
    chance = np.where(hard[:, None], [people] * 3 + [judge], 0.9)
    random = rng.choice(3, (n, 4), p=shares)
    said = np.where(rng.random((n, 4)) < chance, label[:, None], random)
    counts = np.stack([(said[:, :3] == one).sum(axis=1) for one in range(3)], axis=1)
    found = corrected(1 - said[:, 3], counts)
    true = float((said[:, 3] == label).mean())
    assert 100 * (found.corrected.value - true) == pytest.approx(points, abs=1)
    page = (ROOT / "docs/methods/people.md").read_text(encoding="utf-8")
    assert f"{abs(points):g} points too" in " ".join(page.split())
