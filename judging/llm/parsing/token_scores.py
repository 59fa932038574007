"""How a judge's probability is spread over the scores that it could give (Ohi et al., eq. 7)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from judging.llm.folding import fold
from judging.llm.parsing.choice import AROUND, candidates, said
from judging.llm.replies import TokenLogprobs
from judging.llm.templating import Scale

# A first digit with a smaller share is taken for the score of one digit.
NEGLIGIBLE = 0.001


@dataclass(frozen=True, slots=True)
class ScoreProbabilities:
    """Not renormalised: `mass` is what all scores have together.

    `whole` is false where a first digit may belong to two scores, as 1 to 1 and 10, and the reply
    doesn't tell their shares: the sampled scores' mean then stands for the expected one.
    """

    probabilities: dict[int, float]
    whole: bool = True

    @property
    def mass(self) -> float:
        return sum(self.probabilities.values())


def score_probabilities(
    logprobs: Sequence[TokenLogprobs] | None, scale: Scale, sampled: Decimal | None = None
) -> ScoreProbabilities | None:
    """At the first token that says anything; None where no score is among its likeliest.

    Where that token is a word ("Score: 4"), at the one that gave the `sampled` score.
    """
    tokens = [*said(logprobs or ())]
    while tokens and not _plain(tokens[0].token):
        tokens.pop(0)
    if tokens and sampled is not None and not _plain(tokens[0].token).isdigit():
        digits = str(int(sampled))
        while tokens and not _begins(digits, _plain(tokens[0].token)):
            tokens.pop(0)
    if not tokens:
        return None
    found = _shares(tokens[0])
    scores = {score: p for score, p in found.items() if Decimal(score) in scale}
    whole = True
    for first in [score for score, p in found.items() if score and p >= NEGLIGIBLE]:
        longer = [
            score
            for score in range(first * 10, first * 10 + 10)
            if Decimal(score) in scale and score not in found
        ]
        if not longer:
            continue
        if _plain(tokens[0].token) != str(first) or len(tokens) < 2:
            whole = False
            continue
        for score, share in _second_digits(tokens[1], first, longer).items():
            scores[score] = found[first] * share
        stays = found[first] - sum(scores.get(score, 0.0) for score in longer)
        if first in scores:
            scores[first] = max(stays, 0.0)
    return ScoreProbabilities(scores, whole) if scores else None


def _begins(number: str, digits: str) -> bool:
    return digits.isdigit() and number.startswith(digits)


def _shares(token: TokenLogprobs) -> dict[int, float]:
    shares: dict[int, float] = {}
    for text, logprob in candidates(token):
        digits = _plain(text)
        if digits.isascii() and digits.isdigit() and len(digits) <= 4 and math.isfinite(logprob):
            shares[int(digits)] = shares.get(int(digits), 0.0) + math.exp(logprob)
    return shares


def _second_digits(token: TokenLogprobs, first: int, longer: Sequence[int]) -> dict[int, float]:
    """The share of each longer score among the replies that began with the same digit."""
    return {
        first * 10 + digit: math.exp(logprob)
        for text, logprob in candidates(token)
        if text.isdigit() and len(text) == 1
        for digit in [int(text)]
        if first * 10 + digit in longer
    }


def _plain(token: str) -> str:
    return fold(token).strip(AROUND)
