"""Several runs as one panel: its verdict, how far its members disagree, and a cascade of two.

A jury of cheaper judges of different families can be worth more than one large judge (Verga et
al. 2024, arXiv:2404.18796). Members weigh the same, or by the log odds of being right, which is
the best weight of independent voters (Nitzan and Paroush 1982, doi:10.2307/2526438)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.bootstrap import ratio

# Weights and scores are floats, so a tie may miss 0 by rounding.
EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class Panel:
    """sign: (N,), meaningless if `judged` is False, since no member has a label there.

    disagreement: (N,) entropy of the members' verdicts in nats, 0 to ln 3; NaN if not judged."""

    sign: Signs
    judged: Booleans
    disagreement: Floats


def panel(
    signs: Signs, there: Booleans, weights: Floats, preference: Floats | None = None
) -> Panel:
    """Combine the members' verdicts.

    Scores are divided by their root mean square, so that a scale of 1 to 10 has no louder voice
    than one of 0 and 1.

    Args:
        signs, there: (R, N) each member's verdict, and whether it has one.
        weights: (R,) or (R, N).
        preference: (R, N) CS1 - CS2 for the mean of scores; None: the mean of verdicts.
    Returns: the panel's verdicts."""
    weigh = np.broadcast_to(weights if weights.ndim == 2 else weights[:, None], signs.shape)
    weigh = np.where(there, weigh, 0.0)
    voices = signs.astype(np.float64) if preference is None else _one_scale(preference, there)
    mean = (weigh * np.where(there, voices, 0.0)).sum(axis=0)
    total = weigh.sum(axis=0)
    judged = total > 0
    mean = ratio(mean, total, empty=0.0)
    sign = np.where(np.abs(mean) < EXACT, 0, np.sign(mean)).astype(np.int8)
    return Panel(sign, judged, np.where(judged, _entropy(signs, weigh, total), np.nan))


def equal_weights(members: int) -> Floats:
    """Return weights that sum to 1.

    Args: members: R.
    Returns: (R,) float64."""
    return np.full(members, 1.0 / members)


def accuracy_weights(right: Floats, labelled: Booleans, *, leave_out: bool = False) -> Floats:
    """Weigh members by the log odds of being right (Nitzan, Paroush 1982, doi:10.2307/2526438).

    Args:
        right, labelled: (R, N) what each member's label earns, 0 to 1; (N,) the learning sample.
        leave_out: leave each example's own label out, to measure the panel by.
    Returns: (R,), or (R, N) with `leave_out`; they sum to 1, all equal if nobody beats even odds.
    """
    earned = (right[:, labelled]).sum(axis=1, keepdims=True)
    n = np.full(earned.shape, float(labelled.sum()))
    if leave_out:
        earned = earned - np.where(labelled, right, 0.0)
        n = n - labelled[None, :]
    # One pseudo-label right and one wrong keep the log odds finite. A member worse than even odds
    # gets no weight instead of a reversed vote.
    odds = np.maximum(np.log((earned + 1) / (n - earned + 1)), 0.0)
    total = odds.sum(axis=0)
    weights = np.where(total > 0, odds / np.where(total > 0, total, 1.0), 1.0 / len(right))
    return weights if leave_out else weights[:, 0]


@dataclass(frozen=True, slots=True)
class Cascade:
    """The first judge about all examples, the second about the m most contested.

    usd: None if a price is unknown. right: what all labels earn."""

    m: int
    usd: Decimal | None
    right: float


def cascade(
    ranking: Codes,
    first: Floats,
    second: Floats,
    m: int,
    costs: tuple[Decimal | None, Decimal | None],
) -> Cascade:
    """Ask a second judge about the most contested examples.

    Args:
        ranking: (N,) places, the first to be asked again first.
        first, second: (N,) what each judge's label earns (times the example's weight).
        m, costs: how many are asked again, and USD of each judge for all N, None if unknown.
    Returns: cost and earnings."""
    again, kept = ranking[:m], ranking[m:]
    right = float(second[again].sum() + first[kept].sum())
    cheap, expensive = costs
    if cheap is None or expensive is None or not len(ranking):
        return Cascade(m, None, right)
    return Cascade(m, cheap + expensive * m / len(ranking), right)


def _one_scale(preference: Floats, there: Booleans) -> Floats:
    squares = np.where(there, preference, 0.0) ** 2
    # The spread is around 0 and not the mean: a tie has to stay at 0, and signs must not turn.
    spread = np.sqrt(squares.sum(axis=1) / np.maximum(there.sum(axis=1), 1))
    return np.asarray(preference / np.where(spread > 0, spread, 1.0)[:, None])


def _entropy(signs: Signs, weigh: Floats, total: Floats) -> Floats:
    entropy = np.zeros(signs.shape[1])
    for sign in (1, 0, -1):
        share = (weigh * (signs == sign)).sum(axis=0) / np.where(total > 0, total, 1.0)
        # The term p ln p goes to 0 with p; log 1 = 0 avoids the logarithm of 0.
        entropy -= share * np.log(np.where(share > 0, share, 1.0))
    # A single verdict's entropy may round to just below 0.
    return np.maximum(entropy, 0.0)
