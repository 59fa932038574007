"""What was read in one reply, by position, and the one place that turns it back to responses 1, 2.

Failure is a status and never a value.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from judging.llm.prompts.parts import is_swapped
from judging.llm.prompts.templates import Form, Template
from judging.methods.outcomes import (
    Label,
    outcome_of,
    score_pair_from_probability,
    score_pair_from_scores,
)


class Status(StrEnum):
    """How a sample ended."""

    VALID = "valid"
    UNPARSED = "unparsed"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    FILTERED = "filtered"
    TOO_LONG = "too_long"
    ERROR = "error"


class Preferred(StrEnum):
    """The better one of two, by position."""

    FIRST = "first"
    SECOND = "second"
    TIE = "tie"


@dataclass(frozen=True, slots=True)
class Parsed:
    """By position, as the judge saw it; which values are set depends on the form.

    `p_first` is the probability of the response shown first; `mass` is what both option IDs had
    together; `bounded` marks that one ID was missing among the likeliest tokens.
    """

    status: Status
    evidence: str = ""
    first: Decimal | None = None
    second: Decimal | None = None
    verdict: Preferred | None = None
    rating: Decimal | None = None
    p_first: float | None = None
    mass: float | None = None
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The same of responses 1 and 2. `p_first` stays with the position."""

    status: Status
    evidence: str = ""
    score_1: Decimal | None = None
    score_2: Decimal | None = None
    rating: Decimal | None = None
    p_first: float | None = None
    mass: float | None = None
    outcome: Label | None = None


_LABELS = {Preferred.FIRST: Label.WIN, Preferred.SECOND: Label.LOSE, Preferred.TIE: Label.TIE}


def turn_back(parsed: Parsed, template: Template, part: str) -> Reading:
    if template.form is Form.POINTWISE:
        return Reading(parsed.status, parsed.evidence, rating=parsed.rating, mass=parsed.mass)
    swapped = is_swapped(part)
    rating = parsed.rating
    if rating is not None and swapped:
        rating = template.scale.turned(rating)
    scores = (parsed.second, parsed.first) if swapped else (parsed.first, parsed.second)
    label = _label(parsed, template)
    return Reading(
        parsed.status,
        parsed.evidence,
        score_1=scores[0],
        score_2=scores[1],
        rating=rating,
        p_first=parsed.p_first,
        mass=parsed.mass,
        outcome=label.turned if label is not None and swapped else label,
    )


def _label(parsed: Parsed, template: Template) -> Label | None:
    """The outcome as if the first were response 1."""
    if parsed.verdict is not None:
        return _LABELS[parsed.verdict]
    if parsed.first is not None and parsed.second is not None:
        return _label_of_scores(parsed.first, parsed.second)
    if parsed.p_first is not None:
        pair = score_pair_from_probability(Fraction(parsed.p_first))
        return outcome_of(pair, 2 * template.band)
    if parsed.rating is not None:
        rating = parsed.rating
        return outcome_of(score_pair_from_scores(rating, template.scale.turned(rating)))
    return None


# There are few scores on a scale, and their exact comparison takes as long as finding them.
@lru_cache(maxsize=1000)
def _label_of_scores(first: Decimal, second: Decimal) -> Label:
    return outcome_of(score_pair_from_scores(first, second))
