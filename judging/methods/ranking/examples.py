"""Which examples people should see first, and how many of them (FairEval §3.3)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from judging.methods.outcomes import Number
from judging.methods.verdicts.verdicts import VerdictState

_STATE_ORDER = {VerdictState.UNJUDGED: 0, VerdictState.INCONSISTENT: 1, VerdictState.JUDGED: 2}


@dataclass(frozen=True, slots=True)
class Candidate:
    """What an example is ranked by.  `bpde` may be another routing score: larger comes first."""

    external_id: str
    state: VerdictState
    bpde: float | None
    n_valid: int
    gap: Fraction | None


def rank(candidates: Sequence[Candidate], seed: int, *, paper_mode: bool = False) -> list[int]:
    """Indices of the candidates, the first to be reviewed first.  Pending ones are left out.

    Unjudged first, then inconsistent, then larger BPDE, fewer valid samples, smaller gap, and
    the SHA-256 of "{seed}:{external_id}".  In paper mode import order decides after BPDE.
    """
    gaps = sorted({c.gap for c in candidates if c.gap is not None})
    gap_order = {gap: position for position, gap in enumerate(gaps)}

    def key(index: int) -> tuple[int, float, int, int, str]:
        candidate = candidates[index]
        state = _STATE_ORDER[candidate.state]
        bpde = -math.inf if candidate.bpde is None else candidate.bpde
        if paper_mode:
            return state, -bpde, index, 0, ""
        gap = -1 if candidate.gap is None else gap_order[candidate.gap]
        return state, -bpde, candidate.n_valid, gap, tie_breaker(seed, candidate.external_id)

    ranked = [i for i, c in enumerate(candidates) if c.state is not VerdictState.PENDING]
    return sorted(ranked, key=key)


def tie_breaker(seed: int, external_id: str) -> str:
    """A random order that anyone can repeat from the run's seed and the example's id."""
    return hashlib.sha256(f"{seed}:{external_id}".encode()).hexdigest()


def cut(n: int, beta: Number) -> int:
    """How many of n examples the top beta percent are: floor(beta n / 100 + 1/2)."""
    # Before the exact arithmetic, in which 1e9999999 and its inverse have ten million digits.
    if not 0 <= beta <= 100:
        raise ValueError(f"beta lies between 0 and 100 percent, not {beta}")
    exact = Fraction(beta) if 200 * n * beta >= 1 else Fraction(0)
    return math.floor(exact * n / 100 + Fraction(1, 2))
