"""From samples to a verdict, and from verdicts to an order of review.

FairEval (arXiv:2305.17926), §3. A pair holds the scores of responses 1 and 2 as exact fractions,
already turned back from the order in which the judge saw them."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Any

import numpy as np

from judging.core.enums import LabelledEnum

ScorePair = tuple[Fraction, Fraction]
Number = Fraction | Decimal | int

LIKERT_SUM = 8
HALF = Fraction(1, 2)
SamplesByOrder = Sequence[tuple[Number, Number] | None]
Shares = tuple[Fraction, Fraction, Fraction]
NO_BAND = Fraction(0)


class Label(LabelledEnum):
    """What a sample, a verdict, a vote or a final label says of response 1 (FairEval, 4.1)."""

    WIN = "win"
    TIE = "tie"
    LOSE = "lose"

    @property
    def turned(self) -> Label:
        """The same judgement from the point of view of response 2."""
        return _TURNED[self]

    @property
    def points(self) -> Fraction:
        """Share of a win for response 1: 1, 1/2 or 0."""
        return _POINTS[self]


_TURNED = {Label.WIN: Label.LOSE, Label.TIE: Label.TIE, Label.LOSE: Label.WIN}
_POINTS = {Label.WIN: Fraction(1), Label.TIE: HALF, Label.LOSE: Fraction(0)}


def score_pair_from_scores(score_1: Number, score_2: Number) -> ScorePair:
    """Read the form `score`: the two scores of one completion.

    Args: score_1, score_2: exact numbers.
    Returns: the pair."""
    return Fraction(score_1), Fraction(score_2)


def score_pair_from_outcome(outcome: Label) -> ScorePair:
    """Read the form `relation`, and imports that hold outcomes only.

    Args: outcome: of response 1.
    Returns: (1, 0), (1/2, 1/2) or (0, 1)."""
    return outcome.points, 1 - outcome.points


def score_pair_from_rating(rating: Number) -> ScorePair:
    """Read the form `likert`, turned so that a higher rating favours response 1.

    Args: rating: 1 to 7.
    Returns: (r, 8 - r).
    Raises: ValueError for another rating."""
    exact = Fraction(rating)
    if not 1 <= exact <= 7:
        raise ValueError(f"a likert rating lies between 1 and 7, not {rating}")
    return exact, LIKERT_SUM - exact


def score_pair_from_probability(p_1: Number) -> ScorePair:
    """Read the form `choice`.

    Args: p_1: probability that the judge prefers response 1.
    Returns: (P, 1 - P).
    Raises: ValueError outside 0 to 1."""
    exact = Fraction(p_1)
    if not 0 <= exact <= 1:
        raise ValueError(f"a probability lies between 0 and 1, not {p_1}")
    return exact, 1 - exact


def outcome_of(pair: ScorePair, band: Fraction = Fraction(0)) -> Label:
    """Return the outcome of a pair (FairEval equation 3).

    Args:
        pair: scores of responses 1 and 2.
        band: a difference of at most this is a tie; for P within b of 1/2 it is 2b.
    Returns: win, tie or lose of response 1."""
    if not band:
        # Comparing fractions takes a third of the time of subtracting them.
        return Label.TIE if pair[0] == pair[1] else Label.WIN if pair[0] > pair[1] else Label.LOSE
    difference = pair[0] - pair[1]
    if abs(difference) <= band:
        return Label.TIE
    return Label.WIN if difference > 0 else Label.LOSE


@dataclass(frozen=True, slots=True)
class CriteriaRule:
    """How the overall label follows from the labels on criteria, of people and judges alike.

    Only the direction on each criterion counts, since a judge's scores have no "much better".

    criteria: in the order in which they are asked.
    weights: one for each criterion, 0 or more. Without weights, the first criterion that isn't a
        tie decides.
    margin: the largest difference between the weights for either response that is a tie."""

    criteria: tuple[str, ...]
    weights: tuple[Decimal, ...] = ()
    margin: Decimal = Decimal(0)

    def overall(self, signs: Mapping[str, int]) -> Label:
        """Return the overall label.

        Args: signs: for each criterion above 0 (the first response is better), 0 or below.
        Returns: win, tie or lose of the first response."""
        outcomes = [signs[name] for name in self.criteria]
        if not self.weights:
            return outcome_of((Fraction(next(filter(None, outcomes), 0)), Fraction(0)))
        weights = list(zip(outcomes, map(Fraction, self.weights), strict=True))
        first = sum((weight for sign, weight in weights if sign > 0), Fraction(0))
        second = sum((weight for sign, weight in weights if sign < 0), Fraction(0))
        return outcome_of((first, second), Fraction(self.margin))

    def __str__(self) -> str:
        if not self.weights:
            return f"the first criterion that isn't a tie decides: {', '.join(self.criteria)}"
        more = f" by more than {plain_number(self.margin)}" if self.margin else ""
        both = zip(self.criteria, self.weights, strict=True)
        listed = ", ".join(f"{name} {plain_number(weight)}" for name, weight in both)
        return f"the response with the larger sum of weights wins{more}: {listed}"

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads, with exact numbers as text."""
        if not self.weights:
            return {"rule": "lexicographic", "criteria": list(self.criteria)}
        weights = [plain_number(weight) for weight in self.weights]
        described = {"criteria": list(self.criteria), "weights": weights}
        return {"rule": "weighted", **described, "margin": plain_number(self.margin)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> CriteriaRule | None:
        """Return the stored rule.

        Args: stored: by `to_json`, or empty.
        Returns: the rule; None if the overall answer is asked."""
        if not stored:
            return None
        weights = tuple(map(Decimal, stored.get("weights", ())))
        return cls(tuple(stored["criteria"]), weights, Decimal(stored.get("margin", 0)))


def plain_number(number: Decimal) -> str:
    """Return the number without an exponent or zeros at its end.

    Args: number: exact.
    Returns: such as 0.5 or 20."""
    return f"{number.normalize():f}"


def entropy(shares: Iterable[Fraction]) -> float:
    """Return -sum p ln p (FairEval equation 4), in sorted order: equal shares give equal floats.

    Args: shares: exact, they sum to 1.
    Returns: nats, 0 or more."""
    # Floats add up differently in another order, and equal BPDE must tie in the ranking.
    terms = (float(p) * math.log(float(p)) for p in sorted(shares) if p)
    # Adding 0.0 turns -0.0, the negated empty or zero sum, into 0.0.
    return -sum(terms) + 0.0


def smoothed_entropy(shares: Iterable[Fraction], n: int) -> float:
    """Return the entropy of (n p + 1/3) / (n + 1), by which runs that stop early are ranked.

    Without it an example that stopped after two equal samples would look as certain as one that
    was asked six times.

    Args: shares, n: of win, tie and lose, and number of valid samples behind them.
    Returns: nats, above 0."""
    return entropy((n * p + Fraction(1, 3)) / (n + 1) for p in shares)


class VerdictState(LabelledEnum):
    """How far the judge has come with an example."""

    PENDING = "pending"
    JUDGED = "judged"
    UNJUDGED = "unjudged"
    INCONSISTENT = "inconsistent"


@dataclass(frozen=True, slots=True)
class VerdictFigures:
    """What the samples of one example say.

    outcomes: one tuple per order, None for a sample without a verdict.
    shares: position-balanced shares of win, tie and lose. bpde: in nats.
    Scores, shares, label and BPDE are None if the state is pending or unjudged; an inconsistent
    example lacks only the label. conflict: whether the means of two orders give different labels
    (FairEval, §2.2), if both orders have a valid sample."""

    state: VerdictState
    outcomes: tuple[tuple[Label | None, ...], ...]
    n_valid: int
    n_asked: int
    cs_1: Fraction | None = None
    cs_2: Fraction | None = None
    shares: Shares | None = None
    label: Label | None = None
    bpde: float | None = None
    conflict: bool | None = None

    @property
    def gap(self) -> Fraction | None:
        """|CS1 - CS2|."""
        if self.cs_1 is None or self.cs_2 is None:
            return None
        return abs(self.cs_1 - self.cs_2)

    @property
    def smoothed_bpde(self) -> float | None:
        """The entropy that adaptive runs are ranked by."""
        return None if self.shares is None else smoothed_entropy(self.shares, self.n_valid)


def verdict(
    original: SamplesByOrder,
    swapped: SamplesByOrder | None = None,
    *,
    k: int | None = None,
    band: Fraction = NO_BAND,
    probabilities: bool = False,
    must_agree: bool = False,
) -> VerdictFigures:
    """Return scores, label and BPDE from one example's samples (FairEval equations 2 to 5).

    Args:
        original, swapped: one pair of scores per sample, turned back to responses 1 and 2; None: a
            sample without a verdict. Without `swapped` the method asks one order.
        k: samples that each order shall get; with fewer the example is pending. None: all asked.
        band: largest difference of the scores that is a tie.
        probabilities: the pairs are (P, 1-P), and BPDE is the entropy of the mean P.
        must_agree: an example whose orders give different labels is inconsistent (PORTIA §2.4).
    Returns: the verdict and its state."""
    orders = [_exact(original)] + ([] if swapped is None else [_exact(swapped)])
    outcomes = tuple(
        tuple(None if pair is None else outcome_of(pair, band) for pair in order)
        for order in orders
    )
    valid = [[pair for pair in order if pair is not None] for order in orders]
    n_valid = sum(map(len, valid))
    n_asked = sum(map(len, orders))
    means = [_mean_pair(order) for order in valid if order]
    # PORTIA compares the labels of the two orders, not their scores.
    agree = len({outcome_of(mean, band) for mean in means}) == 1
    conflict = None if len(means) < 2 else not agree
    counts = n_valid, n_asked
    if k is not None and any(len(order) < k for order in orders):
        return VerdictFigures(VerdictState.PENDING, outcomes, *counts, conflict=conflict)
    if not all(valid):
        return VerdictFigures(VerdictState.UNJUDGED, outcomes, *counts)

    cs = _mean_pair(means)
    shares = _balanced_shares(tuple(_counts(order) for order in outcomes))
    judged = agree or not must_agree
    return VerdictFigures(
        VerdictState.JUDGED if judged else VerdictState.INCONSISTENT,
        outcomes,
        *counts,
        *cs,
        shares,
        outcome_of(cs, band) if judged else None,
        entropy(cs if probabilities else shares),
        conflict,
    )


def _exact(samples: SamplesByOrder) -> list[ScorePair | None]:
    return [pair and (_fraction(pair[0]), _fraction(pair[1])) for pair in samples]


# Judges give few different scores, and orders of k samples split in few ways: the same fractions
# would be worked out for every example.
@lru_cache(maxsize=1024)
def _made(number: Number) -> Fraction:
    return Fraction(number)


def _fraction(number: Number) -> Fraction:
    """Looking a fraction up takes longer than to see that it is one."""
    return number if isinstance(number, Fraction) else _made(number)


def _mean_pair(pairs: Sequence[ScorePair]) -> ScorePair:
    return _mean([pair[0] for pair in pairs]), _mean([pair[1] for pair in pairs])


def _mean(numbers: Sequence[Fraction]) -> Fraction:
    """Return the mean over one common denominator: adding one by one would reduce each sum."""
    below = lcm(*(number.denominator for number in numbers))
    above = sum(number.numerator * (below // number.denominator) for number in numbers)
    return Fraction(above, below * len(numbers))


def _counts(order: Sequence[Label | None]) -> tuple[int, int, int]:
    return order.count(Label.WIN), order.count(Label.TIE), order.count(Label.LOSE)


@lru_cache(maxsize=1024)
def _balanced_shares(counts: tuple[tuple[int, int, int], ...]) -> Shares:
    """Shares of win, tie and lose within each order, averaged over the orders.

    counts: of wins, ties and loses, one triple an order; no order is without any."""
    within = [[Fraction(count, sum(order)) for count in order] for order in counts]
    win, tie, lose = map(_mean, zip(*within, strict=True))
    return win, tie, lose


_STATE_ORDER = {VerdictState.UNJUDGED: 0, VerdictState.INCONSISTENT: 1, VerdictState.JUDGED: 2}


@dataclass(frozen=True, slots=True)
class Candidate:
    """What an example is ranked by. `bpde` may be another routing score: larger comes first."""

    external_id: str
    state: VerdictState
    bpde: float | None
    n_valid: int
    gap: Fraction | None


def rank(candidates: Iterable[Candidate], seed: int, *, paper_mode: bool = False) -> list[int]:
    """Order the candidates for review; pending ones are left out.

    Unjudged first, then inconsistent, then larger BPDE, fewer valid samples, smaller gap, and
    the SHA-256 of "{seed}:{external_id}".

    Args:
        candidates, seed: examples, and the run's seed. Only numbers of them are kept in memory.
        paper_mode: let import order decide after BPDE.
    Returns: their places, the first to be reviewed first."""
    places, states, scores = array("q"), array("b"), array("d")
    n_valid, gap_codes, ties = array("q"), array("q"), bytearray()
    gaps: dict[Fraction | None, int] = {}
    for place, candidate in enumerate(candidates):
        if candidate.state is VerdictState.PENDING:
            continue
        places.append(place)
        states.append(_STATE_ORDER[candidate.state])
        scores.append(-math.inf if candidate.bpde is None else candidate.bpde)
        n_valid.append(candidate.n_valid)
        gap_codes.append(gaps.setdefault(candidate.gap, len(gaps)))
        if not paper_mode:
            ties += bytes.fromhex(tie_breaker(seed, candidate.external_id))
    keys = [-np.asarray(scores), np.asarray(states)]
    if not paper_mode:
        by_size = sorted(gaps, key=lambda gap: -1 if gap is None else gap)
        order = {gap: position for position, gap in enumerate(by_size)}
        of_code = np.array([order[gap] for gap in gaps], dtype=np.int64)
        words = np.frombuffer(bytes(ties), dtype=">u8").astype(np.uint64).reshape(-1, 4)
        keys = [*words.T[::-1], of_code[np.asarray(gap_codes)], np.asarray(n_valid), *keys]
    # The last key counts first, and equal candidates stay in their order.
    ranked: list[int] = np.asarray(places)[np.lexsort(keys)].tolist()
    return ranked


def tie_breaker(seed: int, external_id: str) -> str:
    """Return a random order that anyone can repeat.

    Args: seed, external_id: of the run and of the example.
    Returns: 64 hexadecimal digits to sort by."""
    return hashlib.sha256(f"{seed}:{external_id}".encode()).hexdigest()


def cut(n: int, beta: Number) -> int:
    """Return how many of n examples the top beta percent are: floor(beta n / 100 + 1/2).

    Args: n, beta: number of examples, and exact percent.
    Returns: 0 to n.
    Raises: ValueError unless 0 <= beta <= 100."""
    # Before the exact arithmetic, in which 1e9999999 and its inverse have ten million digits.
    if not 0 <= beta <= 100:
        raise ValueError(f"beta lies between 0 and 100 percent, not {beta}")
    # Below 1 / (200 n) percent nothing is cut, and a Fraction of a tiny decimal would be huge.
    exact = Fraction(beta) if 200 * n * beta >= 1 else Fraction(0)
    return math.floor(exact * n / 100 + Fraction(1, 2))
