"""Totals over a project from its selected examples and an audit of the rest."""

import numpy as np
import pytest

from judging.methods.intervals.estimates import Undefined, design_total


def test_a_total_worked_by_hand():
    found = design_total([1, 0, 1], [0.5, 0, 0, 1], 12)
    # 2 in S, 1.5 in A, and 8 unseen with a mean of 1.5/4
    assert found.value == pytest.approx(2 + 1.5 + 8 * 0.375)
    assert found.n == 7
    assert found.low < found.value < found.high <= 3.5 + 8


def test_what_was_seen_whole_is_certain():
    found = design_total([1, 0], [1, 1], 2)
    assert (found.low, found.value, found.high) == (3, 3, 3)


def test_without_an_audit_there_is_none():
    assert isinstance(design_total([1, 0], [], 5), Undefined)


def test_its_interval_holds_the_total():
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(400):
        rest = (rng.random(80) < 0.1).astype(float)
        audit = rng.choice(80, 20, replace=False)
        found = design_total(np.ones(10), rest[audit], 80)
        inside += found.low <= 10 + rest.sum() <= found.high
    # three standard errors of 95 % below it
    assert inside >= 400 * (0.95 - 3 * (0.95 * 0.05 / 400) ** 0.5)
