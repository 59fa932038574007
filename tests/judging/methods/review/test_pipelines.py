"""The search for the cheapest plan, against counts by hand and independent calculations."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from random import Random

import numpy as np
import pytest
from scipy.stats import beta, binom

from benchmarks.simulations import pipelines as simulation
from judging.methods.agreement.fewer_samples import (
    StoppingRule,
    expected_labels,
    label_is_settled,
    may_stop,
    rounds_needed,
)
from judging.methods.intervals.win_rate import expected_half_widths, expected_width
from judging.methods.review.pipelines import (
    SHARES,
    Asked,
    Chain,
    Goal,
    Plans,
    at_random,
    better_end,
    by_rank,
    choose,
    fewer_samples,
    frontier,
    in_a_row,
    label_loss,
    labels_to_show,
    needed_sample,
    people_alone,
    people_right,
    places_by,
    predicted_right,
    search,
    shared_level,
    stopped_early,
)

N, K = 80, 3


@pytest.fixture
def samples():
    rng = np.random.default_rng(5)
    difference = rng.integers(-9, 10, (N, 2, K))
    return difference, rng.random((N, 2, K)) < 0.9


def ask(goal=Goal.ACCURACY, value=0.9, confidence=0.95, examples=1_000, vote_usd=1.0):
    return Asked(goal, value, confidence, examples, vote_usd)


def test_a_replay_stops_where_the_rule_of_a_run_stops(samples):
    difference, valid = samples
    rules = (StoppingRule(1, 12, 0.95, 60), StoppingRule(2, 20, 0.95, 60))
    for given in ((), rules):
        expected = []
        for row, there in zip(difference, valid, strict=True):
            rounds = K
            for now in range(1, K):
                seen = [
                    [
                        Fraction(int(d))
                        for d, v in zip(row[o, :now], there[o, :now], strict=True)
                        if v
                    ]
                    for o in range(2)
                ]
                lead = sum(map(sum, seen))
                settled = label_is_settled(seen, [K - now] * 2, Fraction(9))
                if settled or (all(seen) and may_stop(given, now, lead)):
                    rounds = now
                    break
            expected.append(rounds)
        assert rounds_needed(difference, valid, 9, given).tolist() == expected
    assert set(rounds_needed(difference, valid, 9, rules)) == {1, 2, 3}
    early = stopped_early(difference, valid, 1, 9)
    whole = fewer_samples(difference, valid, 1, K, np.random.default_rng(0), both_orders=True)
    # Without rules, it stops only where the label can't change any more.
    both = early.judged[0] & whole.judged[0]
    assert (early.sign[0] == whole.sign[0])[both].all()


def test_replays_of_one_order_are_all_its_subsets(samples):
    difference, valid = samples
    for k in range(1, K + 1):
        made = fewer_samples(difference, valid, 1, k, np.random.default_rng(0), both_orders=False)
        assert len(made.sign) == len(list(combinations(range(K), k)))
        shares = expected_labels(difference[:, :1], valid[:, :1], k, both_orders=False)
        for column, sign in enumerate((1, 0, -1)):
            told = ((made.sign == sign) & made.judged).mean(axis=0)
            assert np.allclose(told, shares[:, column])
    many = np.repeat(difference, 3, axis=2), np.repeat(valid, 3, axis=2)
    assert len(fewer_samples(*many, 1, 4, np.random.default_rng(0), both_orders=True).sign) == 8


def test_people_label_the_first_by_rank_and_share_ties():
    score = np.array([0.7, 0.0, 0.7, np.nan, 0.0, 0.7, 0.3, 0.0, 0.0, 0.0])
    place = places_by(score)[None]
    rows, loss = np.arange(10), np.arange(10)[None] / 10.0
    chain = by_rank(place, rows, loss, 0.5)
    assert np.allclose(chain.reviewed.sum(axis=0), 10 * SHARES)
    at = SHARES.tolist().index(0.3)
    # Unlabelled first; then two places are left for three tied ones.
    assert chain.reviewed[:, at] == pytest.approx([2 / 3, 0, 2 / 3, 1, 0, 2 / 3, 0, 0, 0, 0])
    assert chain.lost[:, at] == pytest.approx((1 - chain.reviewed[:, at]) * loss[0])
    # Drawn again and again, broken at random, they come to the same.
    draw, times = Random(1), np.zeros(10)
    for _ in range(4_000):
        order = sorted(range(10), key=lambda i: (place[0][i], draw.random()))
        times[order[:3]] += 1 / 4_000
    assert np.abs(times - chain.reviewed[:, at]).max() < 0.03
    blind = at_random(loss, 0.5)
    assert blind.lost[:, at] == pytest.approx(0.7 * loss[0])


def test_a_learned_rank_follows_a_random_part_and_is_not_tested_on_what_taught_it():
    """Two ranks, each taught by two of the ten examples; the random part is a fifth of all."""
    place = np.array([np.arange(10), np.arange(10)[::-1]])
    taught = np.zeros((2, 10), bool)
    taught[0, [0, 1]], taught[1, [2, 3]] = True, True
    loss = np.broadcast_to(np.linspace(0.1, 1, 10), (2, 10))
    chain = by_rank(place, np.arange(10), loss, 0.5, drawn=0.2, taught=taught)
    # Shares that are random as a whole are plans of another route, and nobody is one of by_rank.
    assert chain.share.tolist() == SHARES[SHARES > 0.2].tolist()
    assert 0 not in at_random(loss, 0.5).share
    at = SHARES.tolist().index(0.5)
    # A fifth is drawn; three eighths of the other eight follow by rank, which is 3.75 of all ten.
    by_first = np.clip(3.75 - np.arange(10), 0, 1)
    for example in range(10):
        ranks = by_first, by_first[::-1]
        tests = [one[example] for one, own in zip(ranks, taught, strict=True) if not own[example]]
        reviewed = 0.2 + 0.8 * np.mean(tests)
        assert chain.reviewed[example, at] == pytest.approx(reviewed)
        assert chain.lost[example, at] == pytest.approx((1 - reviewed) * loss[0, example])


def test_a_learned_rank_is_tested_with_the_votes_that_taught_it():
    chains = [people_alone(100), replace(chain_of((0, 1, 6)), votes=3), chain_of((0, 1, 6))]
    right = {1: np.full(100, 0.9), 3: np.ones(100)}
    found = search(chains, right, ask(), np.arange(100), np.random.default_rng(7))
    assert set(found.votes[found.chain == 1]) == {3}
    assert set(found.votes[found.chain == 2]) == {1, 3}


def test_learned_plans_reach_what_they_promise():
    """A small part of `make simulate`: fresh labels teach the rank of each plan again."""
    case = simulation.Case("won over by length", 300, Goal.ACCURACY, 0.9, learned_only=True)
    kept = simulation.simulate(case, 40, 1)
    assert kept.learned == kept.recommended >= 30
    assert kept.passes()


def test_judges_in_a_row_keep_and_cost_as_counted_one_by_one():
    draw = Random(3)
    unsure = np.array([[draw.choice([0, 0.3, 0.7, np.nan]) for _ in range(40)] for _ in range(3)])
    loss = np.array([[draw.choice([0.0, 0.5, 1.0]) for _ in range(40)] for _ in range(3)])
    rows, usd = np.arange(0, 40, 2), (0.01, 0.1, 1.0)
    chain = in_a_row(unsure, rows, loss[:, rows], usd)
    assert chain.threshold.tolist() == [0, 0.3, 0.7]
    for column, threshold in enumerate(chain.threshold):
        cost, people = 0.0, 0
        lost = np.zeros(40)
        for i in range(40):
            for judge in range(3):
                cost += usd[judge]
                if unsure[judge, i] <= threshold:
                    lost[i] = loss[judge, i]
                    break
            else:
                people += 1
        assert chain.usd[column] == pytest.approx(cost / 40)
        assert chain.share[column] == people / 40
        assert chain.lost[:, column] == pytest.approx(lost[rows])
    assert (np.diff(chain.share) <= 0).all()


def test_fewer_votes_are_right_as_often_as_their_subsets():
    counts = np.array([[3, 2, 0], [5, 0, 0], [1, 2, 2], [0, 1, 0], [2, 2, 1]])
    label = np.array([1, 1, 0, 0, 1], dtype=np.int8)
    for votes in (1, 3, 5):
        told = people_right(counts, label, votes)
        for row, sign, found in zip(counts, label, told, strict=True):
            ballots = [s for s, n in zip((1, 0, -1), row, strict=True) for _ in range(n)]
            if len(ballots) < votes:
                assert np.isnan(found)
                continue
            subsets = list(combinations(ballots, votes))
            right = sum(2 * one.count(sign) > votes for one in subsets)
            assert found == pytest.approx(right / len(subsets))
    # Two people of whom each is right in .9 agree in .82; three of them are right in .972.
    assert predicted_right(0.82, 1) == pytest.approx(0.9)
    assert predicted_right(0.82, 3) == pytest.approx(0.972)
    assert predicted_right(0.4, 3) == pytest.approx(0.5)


def test_what_a_label_loses_by_goal():
    sign, human = np.array([1, 0, -1, 1], np.int8), np.array([1, 1, 1, 0], np.int8)
    there = np.array([True, True, True, False])
    lost = label_loss(Goal.ACCURACY, sign, there, human, knows_ties=True)
    assert lost.tolist() == [0, 1, 1, 1]
    assert label_loss(Goal.ACCURACY, sign, there, human, knows_ties=False)[1] == 0.5
    apart = label_loss(Goal.WIN_RATE, sign, there, human, knows_ties=True)
    assert apart.tolist() == [0, 0.25, 1, 0]


def test_the_level_is_that_of_the_largest_of_correlated_means():
    rng = np.random.default_rng(2)
    apart = (rng.random((400, 50)) < 0.3).astype(float)
    question = np.arange(400)
    level = shared_level(apart, 0.05, question, np.random.default_rng(0))
    # Sidak's level of 50 independent tests, but for the error of the draws.
    assert level == pytest.approx(1 - 0.95 ** (1 / 50), rel=0.25)
    same = np.repeat(apart[:, :1], 50, axis=1)
    assert shared_level(same, 0.05, question, np.random.default_rng(0)) == pytest.approx(
        0.05, rel=0.2
    )
    assert shared_level(np.zeros((400, 50)), 0.05, question, rng) == pytest.approx(0.001)
    assert shared_level(apart[:, :1], 0.05, question, rng) == 0.05


def chain_of(wrong, shares=(0.5, 0.2, 0.0), usd=0.1):
    """Plans whose unreviewed labels of 100 examples are wrong that often."""
    lost = np.zeros((100, len(shares)))
    for column, n in enumerate(wrong):
        lost[:n, column] = 1
    reviewed = np.tile(shares, (100, 1))
    return Chain(np.array(shares), np.full(len(shares), usd), reviewed, lost)


def test_limits_are_exact_at_the_level_that_is_paid():
    chains = [people_alone(100), chain_of((0, 1, 6)), chain_of((2, 30, 0), usd=0.01)]
    right = {1: np.full(100, 0.9), 3: np.ones(100)}
    found = search(chains, right, ask(), np.arange(100), np.random.default_rng(7))
    assert 0.05 / 6 <= found.level < 0.05
    rows = (found.chain == 1) & (found.votes == 3)
    wrong = np.array([0, 1, 6])
    assert found.value[rows] == pytest.approx(1 - wrong / 100)
    # Clopper and Pearson's upper limit, from the other side of the beta distribution.
    high = beta.ppf(1 - found.level, wrong + 1, 100 - wrong)
    assert found.limit[rows] == pytest.approx(1 - high)
    assert binom.cdf(6, 100, high[2]) == pytest.approx(found.level)
    assert found.reached[rows].tolist() == [True, True, False]
    # What fails ends its chain, so a plan after it is never shown to reach the goal.
    beyond = (found.chain == 2) & (found.votes == 3)
    assert found.reached[beyond].tolist() == [True, False, False]
    # A vote costs 1, half of 1,000 are labelled, and the judge costs .1 for each.
    assert found.usd[rows][0] == pytest.approx(1_000 * 0.1 + 500 * 3)
    # One vote is wrong in .1 of what people label: .05 of all.
    assert found.value[(found.chain == 1) & (found.votes == 1)][0] == pytest.approx(0.95)
    alone = (found.chain == 0) & (found.votes == 3)
    assert found.reached[alone].all()
    assert found.limit[alone] == 1
    choice = choose(found, ask())
    assert (found.chain[choice.best], found.share[choice.best]) == (1, 0.2)
    assert found.chain[choice.second] != 1 or found.votes[choice.second] != 3
    assert found.value[choice.hoped] >= 0.9
    assert not found.reached[choice.hoped]
    line = frontier(found, rising=True)
    assert (np.diff(found.usd[line]) >= 0).all()
    assert (np.diff(found.value[line]) > 0).all()
    assert (better_end(found, line, ask()) >= found.value[line]).all()


def test_the_labels_that_would_show_a_plan_do_and_fewer_do_not():
    chains = [people_alone(100), chain_of((0, 1, 6))]
    asked = ask()
    found = search(chains, {3: np.ones(100)}, asked, np.arange(100), np.random.default_rng(7))
    place = int(np.flatnonzero((found.chain == 1) & (found.share == 0))[0])
    n = labels_to_show(found, place, asked)
    for labels, enough in ((n, True), (n - 1, False)):
        high = beta.ppf(1 - found.level, 0.06 * labels + 1, 0.94 * labels)
        assert (high <= 0.1) == enough
    at_even = int(np.flatnonzero((found.chain == 1) & (found.share == 0.5))[0])
    assert labels_to_show(found, at_even, asked) < 100
    lost = search(
        [people_alone(100), chain_of((0, 1, 12))], {3: np.ones(100)}, asked, np.arange(100),
        np.random.default_rng(7),
    )  # fmt: skip
    assert labels_to_show(lost, len(lost) - 1, asked) is None
    # Half of 10 % is wrong, at a twentieth of 5 %.
    n = needed_sample(asked)
    assert (
        beta.ppf(1 - 0.05 / 20, 0.05 * n + 1, 0.95 * n)
        <= 0.1
        < beta.ppf(1 - 0.05 / 20, 0.05 * (n - 10) + 1, 0.95 * (n - 10))
    )


@pytest.mark.parametrize(("goal", "value"), [(Goal.CERTIFICATE, 0.2), (Goal.WIN_RATE, 0.06)])
def test_an_audit_is_in_the_cost_and_reaches_what_is_asked(goal, value):
    chains = [people_alone(100), chain_of((0, 1, 2))]
    asked = ask(goal, value, examples=2_000)
    found = search(chains, {3: np.ones(100)}, asked, np.arange(100), np.random.default_rng(1))
    choice = choose(found, asked)
    best = choice.best
    assert found.chain[best] == 1
    audit, share = int(found.audit[best]), found.share[best]
    assert found.usd[best] == pytest.approx(2_000 * 0.1 + 3 * (2_000 * share + audit))
    wrong = round(found.loss[best] * 100 * (1 - share))
    high = beta.ppf(1 - found.level, wrong + 1, 100 * (1 - share) - wrong)
    unlucky = binom.ppf(0.975, audit, high)
    if goal is Goal.CERTIFICATE:
        assert beta.ppf(0.95, unlucky + 1, audit - unlucky) <= value
    else:
        rest = round(2_000 * (1 - share))
        half = expected_half_widths(
            min(unlucky / audit, 0.25), 0.25, total=2_000, n_rest=rest, audit=audit
        )
        assert half <= value
        wide = expected_width(
            min(unlucky / audit, 0.25), 0.25, total=2_000, n_rest=rest, audit=audit
        )
        assert 2 * half == pytest.approx(wide)
    assert not found.reached[(found.chain == 1) & (found.audit == 10)].any()


def test_repeated_questions_make_limits_wider():
    chains = [people_alone(100), chain_of((5, 5, 5))]
    limits = []
    for question in (np.arange(100), np.arange(100) // 5):
        rng = np.random.default_rng(1)
        found = search(chains, {3: np.ones(100)}, ask(), question, rng)
        limits.append(found.limit[-1])
    assert limits[1] < limits[0] - 0.02


def test_nothing_to_compare_but_people():
    found = search(
        [people_alone(30)], {3: np.ones(30)}, ask(), np.arange(30), np.random.default_rng(0)
    )
    assert isinstance(found, Plans)
    assert choose(found, ask()).best == 0
    assert choose(found, ask()).hoped is None


@pytest.mark.system
@pytest.mark.parametrize("goal", [Goal.ACCURACY, Goal.CERTIFICATE, Goal.WIN_RATE])
def test_promised_goals_are_reached(goal):
    """A small part of `make simulate`."""
    value = {Goal.ACCURACY: 0.9, Goal.CERTIFICATE: 0.2, Goal.WIN_RATE: 0.06}[goal]
    kept = simulation.simulate(simulation.Case("strong and weak", 200, goal, value), 12, 3)
    assert kept.passes()
    assert kept.recommended >= 10
