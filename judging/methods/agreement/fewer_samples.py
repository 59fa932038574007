"""What fewer samples give: every subset of k' samples (FairEval Table 4), and early stopping.

All subsets are used instead of random ones, so the result is exact and has no seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import lcm

import numpy as np
from numpy.typing import NDArray

from judging.methods.agreement.votes import cohen_kappa
from judging.methods.arrays import Booleans, Counts, Floats, Integers, Signs
from judging.methods.intervals.estimates import Figure, Undefined, exact_lower_limit, wilson

CHUNK = 4_000_000
FEWEST_PILOT = 30
LEVEL = 0.95


def expected_labels(
    difference: Integers, valid: Booleans, k_prime: int, *, both_orders: bool, band: int = 0
) -> Floats:
    """Return how often k' of the k samples would give each label.

    Args:
        difference: (N, orders, k) score 1 - score 2 as integers on one scale.
        valid: (N, orders, k) bool, which samples count.
        k_prime: size of the subsets, 1 to k.
        both_orders: True: k' samples of each order together, MEC(k') + BPC(k'); False: MEC(k'),
            each order alone, then the mean of the two.
        band: the largest mean difference that is a tie.
    Returns: (N, 4) float64 shares of the subsets that give win, tie, lose and no label.
    Raises: ValueError if k' is out of range or the run has one order only."""
    n, orders, k = valid.shape
    if not 1 <= k_prime <= k:
        raise ValueError(f"k' lies between 1 and {k}, not {k_prime}")
    if both_orders and orders != 2:
        raise ValueError("both orders are asked for, and the run has one")
    # Means are kept as whole numbers on this denominator, so that a tie is never decided by
    # rounding.
    tie = band * lcm(*range(1, k_prime + 1))
    means, there = _subset_means(np.where(valid, difference, 0), valid, k_prime)
    if not both_orders:
        per_order = [_label_shares(means[:, o], there[:, o], tie) for o in range(orders)]
        return np.asarray(np.mean(per_order, axis=0))
    subsets = means.shape[2]
    # Every subset of one order meets every subset of the other, so memory grows with their square.
    step = max(1, CHUNK // subsets**2)
    parts = []
    for start in range(0, n, step):
        rows = slice(start, start + step)
        total = means[rows, 0, :, None] + means[rows, 1, None, :]
        both = there[rows, 0, :, None] & there[rows, 1, None, :]
        flat = total.reshape(len(total), -1), both.reshape(len(both), -1)
        # The sum of two orders' means has twice the band of their mean.
        parts.append(_label_shares(*flat, 2 * tie))
    return np.vstack(parts) if parts else np.zeros((0, 4))


def expected_right(shares: Floats, human: Signs, *, knows_ties: bool) -> Floats:
    """Return how often k' samples would give the right label.

    Args:
        shares: (N, 4) from `expected_labels`.
        human: (N,) human signs.
        knows_ties: whether people could say tie; if not, a judge's tie earns 1/2.
    Returns: (N,) float64, 0 to 1; no label earns nothing."""
    right = shares[np.arange(len(human)), 1 - human.astype(int)]
    return np.asarray(right if knows_ties else right + shares[:, 1] / 2)


def kappa_of_expected_table(shares: Floats, human: Signs, weight: Floats) -> float | Undefined:
    """Return kappa of the expected confusion table, which is not the mean of the subsets' kappas.

    Args:
        shares: (N, 4) from `expected_labels`.
        human, weight: (N,) human signs, and how many examples each one represents.
    Returns: kappa, at most 1, or Undefined as in `cohen_kappa`."""
    table = np.zeros((3, 3))
    for column, sign in enumerate((1, 0, -1)):
        rows = human == sign
        table[:, column] = weight[rows] @ shares[rows, :3]
    return cohen_kappa(table)


def _subset_means(
    difference: Integers, valid: Booleans, k_prime: int
) -> tuple[NDArray[np.int64], Booleans]:
    """(N, orders, subsets): each subset's mean on a common denominator; whether it has a sample."""
    k = valid.shape[2]
    members = np.zeros((k, len(list(combinations(range(k), k_prime)))), dtype=np.int64)
    for column, subset in enumerate(combinations(range(k), k_prime)):
        members[list(subset), column] = 1
    # Invalid samples leave subsets with 1 to k' values, and this is divisible by all these sizes.
    common = lcm(*range(1, k_prime + 1))
    counts = valid.astype(np.int64) @ members
    factor = common // np.maximum(counts, 1)
    return (difference.astype(np.int64) @ members) * factor, counts > 0


def _label_shares(values: NDArray[np.int64], there: Booleans, tie: int) -> Floats:
    won, lost = values > tie, values < -tie
    signs = [won & there, ~won & ~lost & there, lost & there, ~there]
    return np.stack([sign.mean(axis=1) for sign in signs], axis=1)


def label_is_settled(
    differences: Sequence[Sequence[Fraction]], remaining: Sequence[int], reach: Fraction
) -> bool:
    """Return whether the remaining samples can no longer change the sign of the calibrated gap.

    Args:
        differences: for each order, score 1 - score 2 of its valid samples.
        remaining: samples still to be asked in each order; any number of them may fail.
        reach: largest |difference| of one sample: b - a for scores on [a, b], 1 for verdicts.
    Returns: True if no outcome of the remaining samples changes the label."""
    if not any(remaining):
        return True
    if not all(differences):
        return False
    limits = [_mean_limits(d, r, reach) for d, r in zip(differences, remaining, strict=True)]
    lowest = sum((low for low, _ in limits), Fraction(0))
    highest = sum((high for _, high in limits), Fraction(0))
    # A lead of exactly 0 is a tie that a further sample can still break.
    return lowest > 0 or highest < 0


def _mean_limits(
    differences: Sequence[Fraction], remaining: int, reach: Fraction
) -> tuple[Fraction, Fraction]:
    """Smallest and largest mean that an order can still reach.

    Each further valid sample can only move the limits outwards, so those without a failure hold
    for every number of samples that may yet fail."""
    total, n = sum(differences, Fraction(0)), len(differences) + remaining
    return (total - remaining * reach) / n, (total + remaining * reach) / n


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """Stop after `rounds` if |sum of the differences of both orders| is at least `lead`.

    lower: lower 95 % limit of P(label now = label at full k), from n_pilot pilot examples."""

    rounds: int
    lead: float
    lower: float
    n_pilot: int


def calibrated_rules(
    difference: Integers, valid: Booleans, confidence: float = 0.95
) -> list[StoppingRule] | Undefined:
    """Find stopping rules whose label agreed with the full run's on a pilot.

    The sum of the differences tells more than their signs: a judge that sees a large difference
    once seldom changes its mind.

    Args:
        difference, valid: (N, 2, k) as in `expected_labels`, pilot examples with all k samples.
        confidence: what the lower 95 % limit of the agreement has to reach.
    Returns: at most one rule per number of rounds, or Undefined below 30 pilot examples."""
    n, _, k = valid.shape
    if n < FEWEST_PILOT:
        return Undefined(f"a pilot of {FEWEST_PILOT} examples is needed, this one has {n}")
    full = _labels(difference, valid)
    # At least this many examples have to agree without an exception to reach the limit.
    enough = math.ceil(math.log(1 - LEVEL) / math.log(confidence))
    rules = []
    for rounds in range(1, k):
        now = _labels(difference[:, :, :rounds], valid[:, :, :rounds])
        lead = np.abs(np.where(valid, difference, 0)[:, :, :rounds].sum(axis=(1, 2)))
        usable = np.isfinite(now) & np.isfinite(full)
        # From the strictest lead down, stopping at the first that fails: a fixed sequence, so
        # that trying several does not spoil the limit. Where it starts depends on no label.
        rule = None
        for needed in np.unique(lead[usable & (lead > 0)])[::-1].tolist():
            rows = usable & (lead >= needed)
            n_rows = int(rows.sum())
            if n_rows < enough:
                continue
            agreeing = int((now[rows] == full[rows]).sum())
            lower = float(exact_lower_limit(agreeing, n_rows, 1 - LEVEL))
            if lower < confidence:
                break
            rule = StoppingRule(rounds, needed, lower, n_rows)
        rules += [rule] if rule else []
    return rules


def may_stop(rules: Sequence[StoppingRule], rounds: int, lead: float | Fraction) -> bool:
    """Return whether a calibrated rule allows stopping now.

    Args:
        rules: from `calibrated_rules`.
        rounds, lead: samples so far in each order, and the sum of their differences.
    Returns: True if a rule for this number of rounds has a lead of at most |lead|."""
    return any(rule.rounds == rounds and abs(float(lead)) >= rule.lead for rule in rules)


def rounds_needed(
    difference: Integers, valid: Booleans, reach: int, rules: Sequence[StoppingRule] = ()
) -> Counts:
    """Return after how many samples in each order an adaptive run would have stopped.

    Args:
        difference, valid: (N, 2, k) as in `expected_labels`, all k samples.
        reach: as in `label_is_settled`, in the units of `difference`.
        rules: from `calibrated_rules`, in these units.
    Returns: (N,) 1 to k."""
    n, _, k = valid.shape
    needed = np.full(n, k, dtype=np.int64)
    summed = np.where(valid, difference, 0).astype(np.int64).cumsum(axis=2)
    counted = valid.astype(np.int64).cumsum(axis=2)
    # The loop runs down, so that the smallest number of rounds that settles is the one that stays.
    for rounds in range(k - 1, 0, -1):
        total, there = summed[:, :, rounds - 1], counted[:, :, rounds - 1]
        both = there + (k - rounds)
        # Both orders on one denominator, as whole numbers.
        low, high = (
            ((total + side * (k - rounds) * reach) * both[:, ::-1]).sum(axis=1) for side in (-1, 1)
        )
        lead = np.abs(total.sum(axis=1))
        clear = (low > 0) | (high < 0)
        for rule in rules:
            if rule.rounds == rounds:
                clear |= lead >= rule.lead
        needed[clear & (there > 0).all(axis=1)] = rounds
    return needed


def agreement_with_full_run(adaptive: Integers, full: Integers) -> Figure:
    """Return how often early stopping gave the full run's label.

    Args: adaptive, full: (N,) signs of the same examples.
    Returns: share, 0 to 1, with Wilson's interval."""
    return wilson(int((adaptive == full).sum()), len(full))


def _labels(difference: Integers, valid: Booleans) -> Floats:
    """Sign of the position-balanced mean difference; NaN without a sample in each order."""
    n = valid.sum(axis=2)
    total = np.where(valid, difference, 0).sum(axis=2)
    # The sum of both means times n1 n2 has the same sign and stays a whole number.
    balanced = total[:, 0] * n[:, 1] + total[:, 1] * n[:, 0]
    return np.where((n > 0).all(axis=1), np.sign(balanced), np.nan)
