"""P of each option-ID token, from the log-probabilities of one token of the reply (CalibraEval).

P sums over the ID's variants, such as "A", " A", "A." and "(A". The probabilities are renormalised
over both IDs' variants, and the mass that these had together is kept.
"""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from judging.llm.client.messages import TokenLogprobs
from judging.llm.client.transport import LEAST_LOGPROB
from judging.llm.parsing.answer import Parsed, Status, without_thinking
from judging.llm.prompts.marks import fold, visible
from judging.llm.prompts.templates import Scale
from judging.methods.intervals.estimates import Undefined
from judging.methods.likelihood.bias import expected_score

# Rounded logarithms add up to a little more than 1; what adds up to more is no distribution.
MOST_MASS = 1.05
AROUND = " \t\r\n\u0120\u010a\u2581()[]{}<>*_`\"'.,:;"


class UnusableIds(ValueError):
    """Option IDs that no token tells apart."""

    def __init__(self, ids: tuple[str, str]) -> None:
        super().__init__(
            f"The option IDs {ids[0]!r} and {ids[1]!r} can't be told apart: they must differ, be "
            "letters or digits, and neither may begin with the other."
        )


def check_ids(ids: tuple[str, str]) -> None:
    one, other = ids
    plain = all(id_ and not set(id_[0] + id_[-1]) & set(AROUND) for id_ in ids)
    if not plain or one.startswith(other) or other.startswith(one):
        raise UnusableIds(ids)


def parse_choice(logprobs: Sequence[TokenLogprobs] | None, ids: tuple[str, str]) -> Parsed | None:
    """`ids` in the order shown. The token in which the two differ decides; thinking, white space
    and what both IDs begin with are passed over."""
    for token, begun in _deciding(logprobs, ids):
        return _probabilities(candidates(token), begun, ids)
    return None


def is_answered(logprobs: Sequence[TokenLogprobs] | None, ids: tuple[str, str]) -> bool:
    """Whether the reply came as far as a token that should have told, whatever it says."""
    return any(_deciding(logprobs, ids))


def _deciding(
    logprobs: Sequence[TokenLogprobs] | None, ids: tuple[str, str]
) -> Iterator[tuple[TokenLogprobs, str]]:
    """The token that should tell the two apart, with what both begin with before it, if any."""
    begun = ""
    for token in said(logprobs or ()):
        if not _could_open(token.token, begun, ids):
            yield token, begun
            return
        begun += _stripped(token.token) if not begun else token.token


def said(logprobs: Sequence[TokenLogprobs]) -> Sequence[TokenLogprobs]:
    """The tokens behind those of a thought."""
    text = "".join(token.token for token in logprobs)
    thought = len(text) - len(without_thinking(text))
    if not thought or not text.endswith(without_thinking(text)):
        return logprobs
    length = 0
    for index, token in enumerate(logprobs):
        if length >= thought:
            return logprobs[index:]
        length += len(token.token)
    return ()


def candidates(token: TokenLogprobs) -> tuple[tuple[str, float], ...]:
    """The likeliest tokens and, where a server leaves it out of them, the sampled one."""
    if any(text == token.token for text, _ in token.top):
        return token.top
    return (*token.top, (token.token, token.logprob))


def _could_open(token: str, begun: str, ids: tuple[str, str]) -> bool:
    """Whether the token says nothing yet: white space or punctuation, or what both IDs share."""
    text = begun + token if begun else _stripped(token)
    return all(id_.startswith(text) and id_ != text for id_ in ids)


def _probabilities(
    top: Sequence[tuple[str, float]], begun: str, ids: tuple[str, str]
) -> Parsed | None:
    found: tuple[list[float], list[float]] = ([], [])
    for token, logprob in top:
        text = begun + token if begun else _stripped(token)
        text = text.rstrip(AROUND)
        fits = [_is_variant(text, id_, begun) for id_ in ids]
        if fits[0] != fits[1] and math.isfinite(logprob):
            found[0 if fits[0] else 1].append(logprob)
    if not any(found) or max(map(max, filter(None, found))) <= LEAST_LOGPROB:
        return None
    bounded = not all(found)
    mass = sum(math.exp(_log_sum_exp(logprobs)) for logprobs in found if logprobs)
    if mass > MOST_MASS:
        return None
    bound = _bound(top, [*found[0], *found[1]])
    first, second = (_log_sum_exp(logprobs or [bound]) for logprobs in found)
    p_first = 1 / (1 + math.exp(min(second - first, 700)))
    return Parsed(Status.VALID, p_first=p_first, mass=min(mass, 1.0), bounded=bounded)


def _bound(top: Sequence[tuple[str, float]], found: Sequence[float]) -> float:
    """The most that an ID can have which is not among the likeliest: no more than the smallest of
    them and, where that is the other ID itself, no more than what all of them leave."""
    seen = [logprob for _, logprob in top if math.isfinite(logprob)]
    smallest = min(seen)
    if smallest < min(found):
        return smallest
    left = 1 - sum(math.exp(logprob) for logprob in seen)
    return min(smallest, math.log(left)) if left > 0 else LEAST_LOGPROB


def _is_variant(text: str, id_: str, begun: str) -> bool:
    """The ID, its beginning, or the ID with more behind it that is no letter or digit."""
    if len(text) <= len(begun):
        return False
    if id_.startswith(text):
        return True
    return text.startswith(id_) and not text[len(id_)].isalnum()


def _stripped(token: str) -> str:
    """Without what stands around, and a full-width letter as the letter."""
    return unicodedata.normalize("NFKC", visible(token)).strip(AROUND)


def _log_sum_exp(logprobs: Sequence[float]) -> float:
    highest = max(logprobs)
    return highest + math.log(sum(math.exp(logprob - highest) for logprob in logprobs))


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


PLACES = Decimal("0.0000000001")


def parse_point(
    logprobs: Sequence[TokenLogprobs] | None, scale: Scale, sampled: Parsed | None
) -> Parsed | None:
    """The expected score; where the reply doesn't tell the shares of two scores that begin alike,
    as 1 and 10, the sampled one, marked `bounded`."""
    found = score_probabilities(logprobs, scale, sampled.rating if sampled else None)
    if found is None:
        return sampled
    if not found.whole:
        if sampled is None or sampled.rating is None:
            return None
        mass = min(found.mass, 1.0)
        return Parsed(Status.VALID, rating=sampled.rating, mass=mass, bounded=True)
    expected = expected_score(found.probabilities)
    if isinstance(expected, Undefined):
        return sampled
    rating = Decimal(str(expected)).quantize(PLACES)
    return Parsed(Status.VALID, rating=rating, mass=min(found.mass, 1.0))
