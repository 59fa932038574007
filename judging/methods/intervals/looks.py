"""Looking again at growing data without more errors: an alpha-spending plan without an end.

A question that is asked after every batch of votes gets as many chances of a wrong answer as it is
asked. Alpha spending (Lan and DeMets 1983, doi:10.1093/biomet/70.3.659) gives each look a share of
one total error. Their functions spend by the share of the planned data, which nobody knows here,
so the shares go by the number of the look and have a finite sum over all numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from judging.methods.intervals.estimates import Estimate, Figure

ALPHA = 0.05


class Ruling(StrEnum):
    """What an interval says of a bound."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Spending:
    """alpha: the error of all looks together, on each side; above 0, below 1."""

    alpha: float = ALPHA

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError("alpha lies between 0 and 1")

    def tail(self, look: int) -> float:
        """Return the error that a look may spend on each side: alpha / (look (look + 1)).

        The sum over all looks is alpha, since 1/(k (k + 1)) = 1/k - 1/(k + 1). By the union bound
        it holds whatever the looks have in common, and whenever people stop. At 5 % the first look
        has the usual interval of 95 %.

        Args: look: its number, from 1 on.
        Returns: a probability.
        Raises: ValueError for a number below 1."""
        if look < 1:
            raise ValueError("looks are counted from 1")
        return self.alpha / (look * (look + 1))

    def confidence(self, look: int) -> float:
        """Return the level of the two-sided interval of a look.

        Args: look: as in `tail`.
        Returns: 1 - 2 tail(look)."""
        return 1 - 2 * self.tail(look)


def decide(figure: Figure, bound: float, *, at_least: bool) -> Ruling:
    """Say by the interval, never by the point, if a figure keeps a bound.

    Args:
        figure: the figure, with the interval of this look.
        bound, at_least: what it has to reach, or may reach at most.
    Returns: pass if all of the interval keeps the bound, fail if none of it does."""
    if not isinstance(figure, Estimate) or figure.low is None or figure.high is None:
        return Ruling.INCONCLUSIVE
    # A value at the bound keeps it, so only what lies strictly beyond it breaks it.
    kept, broken = figure.low >= bound, figure.high < bound
    if not at_least:
        kept, broken = figure.high <= bound, figure.low > bound
    return Ruling.PASS if kept else Ruling.FAIL if broken else Ruling.INCONCLUSIVE


def examples_needed(
    estimate: Estimate, bound: float, *, at_least: bool, wider: float = 1.0
) -> int | None:
    """Guess how many examples decide, if the value stays as it is.

    The distance from the value to its nearer limit shrinks with the root of n.

    Args:
        estimate: the figure, with the interval of this look.
        bound, at_least: as in `decide`.
        wider: how much wider the next look's interval is for as many examples.
    Returns: n in all, above `estimate.n`; None if the value is at the bound or has no limits."""
    if estimate.low is None or estimate.high is None or estimate.value == bound:
        return None
    keeps = (estimate.value > bound) == at_least
    # The limit that has to pass the bound is the one between it and the value.
    reach = estimate.value - estimate.low if keeps == at_least else estimate.high - estimate.value
    needed = estimate.n * (wider * reach / abs(estimate.value - bound)) ** 2
    # Very close to the bound the number is no plan any more, and may not fit an integer.
    return max(estimate.n + 1, int(needed) + 1) if needed < 1e9 else None
