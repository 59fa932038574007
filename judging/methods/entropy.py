"""Entropy of outcome shares, natural logarithm (FairEval eqs. 4-5)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction


def entropy(shares: Iterable[Fraction]) -> float:
    """-sum p ln p over the exact shares, in sorted order so that equal shares are equal floats."""
    terms = (float(p) * math.log(float(p)) for p in sorted(shares) if p)
    return -sum(terms) + 0.0


def smoothed_entropy(shares: Iterable[Fraction], n: int) -> float:
    """Entropy of (n p + 1/3) / (n + 1): what runs that stop early are ranked by.

    `n` is the number of valid samples behind the shares.  Without it an example that stopped
    after two equal samples would look as certain as one that was asked six times.
    """
    return entropy((n * p + Fraction(1, 3)) / (n + 1) for p in shares)
