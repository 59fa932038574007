"""What the log-probabilities of a reply's tokens say.

- `parse_choice` returns P of each option ID from one token of the reply (CalibraEval). P sums over
  the ID's variants, such as "A", " A", "A." and "(A". The probabilities are renormalised over both
  IDs' variants, and the mass that these had together is kept.
- `parse_point` returns the expected score over the scores that the judge could give (Ohi et al.,
  eq. 7).
"""

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from judging.llm.client.messages import LEAST_LOGPROB, TokenLogprobs
from judging.llm.parsing.answer import Parsed, Status, without_thinking
from judging.llm.prompts.marks import fold, visible
from judging.llm.prompts.templates import LEAST_MASS, Scale
from judging.methods.intervals.estimates import Undefined
from judging.methods.likelihood.bias import expected_score

# Rounded logarithms may add up to a little more than 1. More than this is no distribution.
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
    """Raise UnusableIds unless one token of a reply can tell the two IDs apart."""
    first, second = ids
    plain = all(id_ and not set(id_[0] + id_[-1]) & set(AROUND) for id_ in ids)
    if not plain or first.startswith(second) or second.startswith(first):
        raise UnusableIds(ids)


def parse_choice(logprobs: Sequence[TokenLogprobs] | None, ids: tuple[str, str]) -> Parsed | None:
    """Read the token in which the two IDs differ.

    Thinking, white space and what both IDs begin with are skipped.

    Args:
        ids: In the order shown.
    """
    for token, begun in _deciding(logprobs, ids):
        return _probabilities(candidates(token), begun, ids)
    return None


def is_left_over(
    logprobs: Sequence[TokenLogprobs] | None,
    ids: tuple[str, str],
    mass: float,
    least: float = LEAST_MASS,
    *,
    declined: bool,
) -> bool:
    """Return True if the judge wrote no ID where it should, and meant none or wrote one later.

    Then the probabilities there are of what it did not say.
    """
    for token, begun in _deciding(logprobs, ids):
        text = (begun + token.token if begun else _stripped(token.token)).rstrip(AROUND)
        written = "".join(token.token for token in answer_tokens(logprobs or ()))
        if any(_is_variant(text, id_, begun) for id_ in ids):
            return _is_another_word(_stripped(written.translate(_LIKE_SPACE)), ids)
        return (
            declined
            or mass < least
            or any(re.search(rf"(?<![^\W_]){re.escape(id_)}(?![^\W_])", written) for id_ in ids)
        )
    return False


# Letters that go on with a word: of Chinese, "A\u66f4\u597d" is the ID and a word of its own.
_GOES_ON = re.compile(r"[0-9a-zA-Z\u00c0-\u052f]|[.,][0-9]")
_BOTH = r"[\s)\]*\"',]*(?:and|or|vs\.?|und|oder|et|ou|[,/&=])[\s(\[*\"']*"
# "A detailed comparison shows": an article, unless the word is one that can follow a name.
_ARTICLE = re.compile(
    r" (?!(?:and|as|at|based|because|being|better|but|by|can|could|did|due|for|from|gave|given|had"
    r"|if|in|instead|it|just|more|not|on|only|or|over|so|than|that|then|though|although|to|too"
    r"|versus|vs|when|which|while|who|will|win|with|won|would)\b)[a-z]{2,}(?<!s)(?:(?<!ed)|(?<=detailed))(?<!ly)(?![^\W_])"
)


def _is_another_word(written: str, ids: tuple[str, str]) -> bool:
    """Return True if an ID only begins what was written: "Both" by "B", "10" by "1", "A or B"."""
    for id_, other in (ids, ids[::-1]):
        if id_.startswith(written):
            return False
        if written.startswith(id_):
            rest = written[len(id_) :]
            article = id_ in ("A", "a") and _ARTICLE.match(rest)
            both = re.match(rf"{_BOTH}{re.escape(other)}(?![^\W_])", rest)
            return bool(article or both or _GOES_ON.match(rest))
    return True


def is_answered(logprobs: Sequence[TokenLogprobs] | None, ids: tuple[str, str]) -> bool:
    """Return True if the reply has the token that should decide, whatever it says."""
    return any(_deciding(logprobs, ids))


def _deciding(
    logprobs: Sequence[TokenLogprobs] | None, ids: tuple[str, str]
) -> Iterator[tuple[TokenLogprobs, str]]:
    """Yield the token that should tell the two apart, and what came before it of both, if any."""
    begun = ""
    for token in answer_tokens(logprobs or ()):
        if not _could_open(token.token, begun, ids):
            yield token, begun
            return
        begun += _stripped(token.token) if not begun else token.token


def answer_tokens(logprobs: Sequence[TokenLogprobs]) -> Sequence[TokenLogprobs]:
    """Return the tokens after the thinking."""
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


_LIKE_SPACE = str.maketrans("\u0120\u010a\u2581", " \n ")
_SIGNS_ONLY = re.compile(r"(?:\s|<[^<>\n]{1,30}>)*")


def spelled_from(logprobs: Sequence[TokenLogprobs], text: str) -> int | None:
    """Return where the text begins in its tokens, or None if they spell another text.

    Thinking may come before the text, and white space and signs such as <|im_end|> around it.
    """
    tokens = "".join(token.token for token in logprobs).translate(_LIKE_SPACE)
    wanted = text.translate(_LIKE_SPACE).strip()
    start = tokens.rfind(wanted)
    while start >= 0 and not _SIGNS_ONLY.fullmatch(tokens, start + len(wanted)):
        start = tokens.rfind(wanted, 0, start + len(wanted) - 1)
    before = tokens[: max(start, 0)]
    if start < 0 or not (_SIGNS_ONLY.fullmatch(before) or not without_thinking(before).strip()):
        return None
    return start - (len(text) - len(text.lstrip()))


def is_spelled(logprobs: Sequence[TokenLogprobs], text: str) -> bool:
    """Return True if the tokens spell the text, or as much of it as there are tokens."""
    tokens = "".join(token.token for token in logprobs).translate(_LIKE_SPACE).strip()
    begun = bool(tokens) and text.translate(_LIKE_SPACE).strip().startswith(tokens)
    return begun or spelled_from(logprobs, text) is not None


def candidates(token: TokenLogprobs) -> tuple[tuple[str, float], ...]:
    """Return the likeliest tokens and the sampled one, which some servers leave out of them."""
    if any(text == token.token for text, _ in token.top):
        return token.top
    return (*token.top, (token.token, token.logprob))


def _could_open(token: str, begun: str, ids: tuple[str, str]) -> bool:
    """Return True if the token decides nothing yet: punctuation, or what both IDs begin with."""
    text = begun + token if begun else _stripped(token)
    return all(id_.startswith(text) and id_ != text for id_ in ids)


def _probabilities(
    top: Sequence[tuple[str, float]], begun: str, ids: tuple[str, str]
) -> Parsed | None:
    variants: tuple[list[float], list[float]] = ([], [])
    for token, logprob in top:
        text = begun + token if begun else _stripped(token)
        text = text.rstrip(AROUND)
        fits = [_is_variant(text, id_, begun) for id_ in ids]
        # What fits both IDs tells nothing about which one was meant.
        if fits[0] != fits[1] and math.isfinite(logprob):
            variants[0 if fits[0] else 1].append(logprob)
    if not any(variants) or max(map(max, filter(None, variants))) <= LEAST_LOGPROB:
        return None
    bounded = not all(variants)
    mass = sum(math.exp(_log_sum_exp(logprobs)) for logprobs in variants if logprobs)
    if mass > MOST_MASS:
        return None
    bound = _bound(top, [*variants[0], *variants[1]])
    first, second = (_log_sum_exp(logprobs or [bound]) for logprobs in variants)
    # exp of more than about 709 overflows.
    p_first = 1 / (1 + math.exp(min(second - first, 700)))
    return Parsed(Status.VALID, p_first=p_first, mass=min(mass, 1.0), bounded=bounded)


def _bound(top: Sequence[tuple[str, float]], of_other: Sequence[float]) -> float:
    """Return an upper bound of an ID's logarithm that is not among the likeliest tokens.

    It is at most the smallest of these and, if that is the other ID itself, at most what all of
    them leave.
    """
    seen = [logprob for _, logprob in top if math.isfinite(logprob)]
    smallest = min(seen)
    if smallest < min(of_other):
        return smallest
    left = 1 - sum(math.exp(logprob) for logprob in seen)
    return min(smallest, math.log(left)) if left > 0 else LEAST_LOGPROB


def _is_variant(text: str, id_: str, begun: str) -> bool:
    """Return True for the ID, its beginning, or the ID followed by no letter or digit."""
    if len(text) <= len(begun):
        return False
    if id_.startswith(text):
        return True
    return text.startswith(id_) and not text[len(id_)].isalnum()


def _stripped(token: str) -> str:
    """Strip what surrounds an ID, and turn full-width letters into plain ones."""
    return unicodedata.normalize("NFKC", visible(token)).strip(AROUND)


def _log_sum_exp(logprobs: Sequence[float]) -> float:
    highest = max(logprobs)
    # The highest is subtracted, as the exponentials of very small logarithms would all be 0.
    return highest + math.log(sum(math.exp(logprob - highest) for logprob in logprobs))


# A first digit with a smaller share counts as a score of one digit.
NEGLIGIBLE = 0.001


@dataclass(frozen=True, slots=True)
class ScoreProbabilities:
    """P of each score, not renormalised; `mass` is what all scores have together.

    `whole` is false if a first digit may belong to two scores, as 1 to 1 and 10, and the reply
    doesn't tell their shares. Then the mean of the sampled scores replaces the expected score.
    """

    probabilities: dict[int, float]
    whole: bool = True

    @property
    def mass(self) -> float:
        return sum(self.probabilities.values())


def score_probabilities(
    logprobs: Sequence[TokenLogprobs] | None, scale: Scale, place: int | None = None
) -> ScoreProbabilities | None:
    """Read the token at this place of the text that the tokens spell. None if it has no score.

    Without a place, read the first token that is a word or number.
    """
    tokens = [*(answer_tokens(logprobs or ()) if place is None else logprobs or ())]
    if place is None:
        while tokens and not _plain(tokens[0].token):
            tokens.pop(0)
    else:
        while tokens and place >= len(tokens[0].token):
            place -= len(tokens.pop(0).token)
        if tokens and not _digits(tokens[0].token):
            return None
    scores: dict[int, float] = {}
    # The digits that the judge wrote so far, and their probability.
    whole, begun, reached = True, "", 1.0
    while tokens:
        token = tokens.pop(0)
        shares = _shares(token, begun, reached, scale)
        if begun and Decimal(begun) in scale:
            scores[int(begun)] = max(reached - sum(shares.values()), 0.0)
        written = begun + (_digits(token.token, begun) or " ")
        begun = ""
        for score, share in shares.items():
            goes_on = share >= NEGLIGIBLE and any(n not in shares for n in _longer(score, scale))
            if goes_on and score == written and tokens:
                begun, reached = score, share
                continue
            whole = whole and not goes_on
            if Decimal(score) in scale:
                scores[int(score)] = share
        if not begun:
            break
    return ScoreProbabilities(scores, whole) if scores else None


def _shares(token: TokenLogprobs, begun: str, reached: float, scale: Scale) -> dict[str, float]:
    """Return the probability of each score, or beginning of one, that this token goes on to."""
    shares: dict[str, float] = {}
    for text, logprob in candidates(token):
        score = begun + _digits(text, begun)
        if score == begun or not math.isfinite(logprob):
            continue
        if Decimal(score) in scale or any(_longer(score, scale)):
            shares[score] = shares.get(score, 0.0) + reached * math.exp(logprob)
    return shares


def _longer(score: str, scale: Scale) -> Iterator[str]:
    """Yield the scores on the scale whose digits begin with these."""
    for power in () if score == "0" else (10, 100, 1000):
        first = int(score) * power
        for longer in range(first, min(first + power, int(scale.high) + 1)):
            if longer >= scale.low:
                yield str(longer)


def _digits(token: str, begun: str = "") -> str:
    """Return the whole number that a token is. After other digits, nothing may come before it."""
    digits = fold(token).rstrip(AROUND) if begun else _plain(token)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 4):
        return ""
    return digits if begun else str(int(digits))


def _plain(token: str) -> str:
    return fold(token).strip(AROUND)


PLACES = Decimal("0.0000000001")


def parse_point(
    logprobs: Sequence[TokenLogprobs] | None, scale: Scale, sampled: Parsed, place: int | None
) -> Parsed:
    """Return the expected score at the token where the judge states its score.

    If that token doesn't tell the shares of two scores, as of 1 and 10, or if the tokens don't
    spell the reply, return the sampled score, marked `bounded`.

    Args:
        place: Where the score begins in the text that the tokens spell; None if they don't.
    """
    if not logprobs or sampled.rating is None:
        return sampled
    scores = None if place is None else score_probabilities(logprobs, scale, place)
    if scores is None or sampled.rating % 1:
        return replace(sampled, bounded=True)
    mass = min(scores.mass, 1.0)
    expected = expected_score(scores.probabilities)
    if not scores.whole or isinstance(expected, Undefined):
        return replace(sampled, mass=mass, bounded=True)
    rating = Decimal(str(expected)).quantize(PLACES)
    return Parsed(Status.VALID, rating=rating, mass=mass)
