"""P of each option-ID token, from the log-probabilities of one token of the reply (CalibraEval).

P sums over the ID's variants, such as "A", " A", "A." and "(A". The probabilities are renormalised
over both IDs' variants, and the mass that these had together is kept.
"""

import math
import unicodedata
from collections.abc import Iterator, Sequence

from judging.llm.completions import LEAST_LOGPROB
from judging.llm.folding import visible
from judging.llm.parsing.answer import without_thinking
from judging.llm.parsing.parsed import Parsed, Status
from judging.llm.replies import TokenLogprobs

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
