from fractions import Fraction
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from judging.methods.agreement.fewer_samples import (
    StoppingRule,
    agreement_with_full_run,
    calibrated_rules,
    label_is_settled,
    may_stop,
)
from judging.methods.intervals.estimates import Undefined

orders = st.lists(st.integers(-1, 1), min_size=0, max_size=3)


def sign_of(orders_of_samples):
    means = [Fraction(sum(order), len(order)) for order in orders_of_samples]
    return (sum(means) > 0) - (sum(means) < 0)


@given(orders, orders, st.integers(0, 2), st.integers(0, 2))
def test_a_settled_label_is_the_same_whatever_the_rest_says_or_fails_to_say(
    original, swapped, more_original, more_swapped
):
    settled = label_is_settled(
        [list(map(Fraction, original)), list(map(Fraction, swapped))],
        [more_original, more_swapped],
        Fraction(1),
    )
    if not (original and swapped):
        assert settled == (more_original == more_swapped == 0)
        return
    futures = product(*[(-1, 0, 1, None)] * (more_original + more_swapped))
    signs = set()
    for future in futures:
        first, second = future[:more_original], future[more_original:]
        kept = [v for v in first if v is not None], [v for v in second if v is not None]
        signs.add(sign_of([original + kept[0], swapped + kept[1]]))
    if settled:
        assert len(signs) == 1
    else:
        assert len(signs) > 1 or signs == {0}


def test_with_equal_orders_it_is_the_lead_against_what_remains():
    lead_of_four = [[Fraction(2)], [Fraction(2)]]
    # |2 + 2| > 9 * 2 is false on scores of 1 to 10, and true with a reach of 1
    assert not label_is_settled(lead_of_four, [1, 1], Fraction(9))
    assert label_is_settled(lead_of_four, [1, 1], Fraction(1))


def test_rules_from_a_pilot_save_calls_and_keep_the_label(rng):
    strength = rng.choice([-0.95, -0.3, 0.3, 0.95], 2000)
    difference = np.where(rng.random((2000, 2, 3)) < (1 + strength[:, None, None]) / 2, 1, -1)
    valid = np.ones(difference.shape, bool)
    rules = calibrated_rules(difference[:500], valid[:500], confidence=0.9)
    assert rules
    assert all(rule.lower >= 0.9 for rule in rules)
    label, calls = [], []
    for sample in difference[500:]:
        rounds = next((r for r in (1, 2) if may_stop(rules, r, int(sample[:, :r].sum()))), 3)
        label.append(np.sign(sample[:, :rounds].sum()))
        calls.append(2 * rounds)
    full = np.sign(difference[500:].sum(axis=(1, 2)))
    assert np.mean(calls) < 0.9 * 6
    assert agreement_with_full_run(np.array(label), full).value >= 0.9


def test_a_rule_is_for_its_own_number_of_rounds_and_its_lead_or_more():
    rules = [StoppingRule(rounds=1, lead=3.0, lower=0.96, n_pilot=80)]
    assert [may_stop(rules, 1, lead) for lead in (2, 3, -3, 4)] == [False, True, True, True]
    assert not may_stop(rules, 2, 9)


def test_a_small_pilot_calibrates_nothing(rng):
    difference = rng.integers(-1, 2, (29, 2, 3))
    assert isinstance(calibrated_rules(difference, np.ones((29, 2, 3), bool)), Undefined)


def test_a_judge_that_only_guesses_gets_no_rule(rng):
    difference = rng.choice([-1, 1], (500, 2, 3))
    assert calibrated_rules(difference, np.ones((500, 2, 3), bool)) == []


def test_a_large_difference_settles_what_a_small_one_leaves_open(rng):
    """Scores: the size of the differences tells apart what their signs do not."""
    strength = rng.choice([-6, -1, 1, 6], 1500)
    difference = strength[:, None, None] + rng.integers(-3, 4, (1500, 2, 3))
    valid = np.ones(difference.shape, bool)
    (first, *_) = calibrated_rules(difference, valid, confidence=0.99)
    assert first.rounds == 1
    assert first.lead > 2
    signs = calibrated_rules(np.sign(difference), valid, confidence=0.99)
    assert all(rule.rounds > 1 for rule in signs)


def test_a_pilot_that_can_not_reach_the_confidence_gives_no_rule():
    always = np.ones((58, 2, 3), int)
    valid = np.ones(always.shape, bool)
    assert calibrated_rules(always, valid, confidence=0.95) == []
    assert calibrated_rules(np.ones((59, 2, 3), int), valid=np.ones((59, 2, 3), bool))
