"""What judge and people cost, in exact US dollars (FairEval Table 4, arXiv:2305.17926)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from judging.methods.intervals.estimates import Undefined

# FairEval, footnote 1: 7.50 USD an hour, three minutes a label (its Table 4: 30 USD for 80).
DEFAULT_WAGE = Decimal("7.50")
DEFAULT_MINUTES = Decimal(3)
MINUTES_AN_HOUR = 60


@dataclass(frozen=True, slots=True)
class HumanRate:
    """What one vote costs: minutes of work at a wage in USD an hour."""

    minutes: Decimal = DEFAULT_MINUTES
    wage: Decimal = DEFAULT_WAGE

    @property
    def vote_usd(self) -> Decimal:
        return self.minutes * self.wage / MINUTES_AN_HOUR


def human_usd(n_votes: int, rate: HumanRate) -> Decimal:
    """Price votes at the stated minutes and wage.

    Args: n_votes, rate: number of votes, and price of one.
    Returns: exact USD."""
    return n_votes * rate.vote_usd


def human_usd_of_active_time(active_seconds: Decimal, wage: Decimal) -> Decimal:
    """Price the seconds that people were active.

    Args: active_seconds, wage: seconds, and USD an hour.
    Returns: exact USD."""
    return active_seconds * wage / (MINUTES_AN_HOUR * 60)


def affordable(budget: Decimal, votes: int, audit: int, rate: HumanRate, n: int) -> int | Undefined:
    """Return the largest m <= n with (m + audit) votes minutes/60 wage <= budget.

    Args: budget, votes, audit, rate, n: USD, votes per example, size of the audit, price, examples.
    Returns: m, or Undefined if the budget does not even pay for the audit.
    Raises: ValueError without votes or without a price."""
    if votes < 1 or rate.vote_usd <= 0:
        raise ValueError("a round has at least one vote an example, and a vote has a price")
    # Exact fractions: a division of decimals could round a budget for exactly m labels down to m -
    # 1.
    labels = int(Fraction(budget) / (votes * Fraction(rate.minutes) * Fraction(rate.wage) / 60))
    if labels < audit:
        return Undefined(f"the budget pays for {labels} examples, fewer than the audit of {audit}")
    return min(labels - audit, n)


def paper_usd(n: int, m: int, people_usd: Decimal, judge_usd: Decimal | None) -> Decimal | None:
    """Add judge and people as Table 4 does: the judge only on the part that nobody reviewed.

    Args: n, m, people_usd, judge_usd: examples, reviewed ones, and both costs in USD.
    Returns: exact USD; None if the judge's price is unknown: an unknown cost is never 0.
    Raises: ValueError unless 0 <= m <= n and n > 0."""
    if not 0 <= m <= n or n == 0:
        raise ValueError(f"{m} of {n} examples can't be selected")
    return None if judge_usd is None else people_usd + judge_usd * (n - m) / n
