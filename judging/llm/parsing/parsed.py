"""What was read in one reply, and the one place that turns it back to responses 1 and 2."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from judging.core.enums import LabelledEnum
from judging.llm.prompts.templates import JudgeForm, Template
from judging.llm.prompts.variants import PromptVariant
from judging.methods.verdicts.verdicts import (
    Label,
    outcome_of,
    score_pair_from_probability,
    score_pair_from_scores,
)


class Status(LabelledEnum):
    """How a sample ended. All but the first are failures, which have no value."""

    VALID = "valid"
    UNPARSED = "unparsed"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    FILTERED = "filtered"
    TOO_LONG = "too_long"
    ERROR = "error"


class Preferred(StrEnum):
    """The better response, by position."""

    FIRST = "first"
    SECOND = "second"
    TIE = "tie"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was read in a reply, by position as the judge saw it. The form decides what is set.

    Attributes:
        p_first: The probability of the response shown first.
        mass: The probability of both option IDs together, or of all scores on the scale.
        bounded: True if the likeliest tokens left out an ID, so that `p_first` is only a bound, or
            didn't tell two scores apart, so that `rating` is the sampled score.
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
    """What was read in a reply, turned back to responses 1 and 2.

    Only `p_first` stays with the position.
    """

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
    """Return what was read by position as values of responses 1 and 2."""
    if template.form is JudgeForm.POINTWISE:
        return Reading(parsed.status, parsed.evidence, rating=parsed.rating, mass=parsed.mass)
    variant = PromptVariant.parse(part)
    rating, outcome = parsed.rating, _outcome(parsed, template)
    if variant.swapped:
        rating = None if rating is None else template.scale.turned(rating)
        outcome = outcome and outcome.turned
    score_1, score_2 = variant.shown(parsed.first, parsed.second)
    return Reading(
        parsed.status,
        parsed.evidence,
        score_1=score_1,
        score_2=score_2,
        rating=rating,
        p_first=parsed.p_first,
        mass=parsed.mass,
        outcome=outcome,
    )


def _outcome(parsed: Parsed, template: Template) -> Label | None:
    """Return the outcome as if the response shown first were response 1."""
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


# A scale has few scores, and comparing two exactly takes as long as finding them in a reply.
@lru_cache(maxsize=1000)
def _label_of_scores(first: Decimal, second: Decimal) -> Label:
    return outcome_of(score_pair_from_scores(first, second))
