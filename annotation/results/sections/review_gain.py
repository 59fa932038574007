"""What the review that took place achieved, and both conventions for a judge's ties."""

from dataclasses import dataclass

from annotation.results.data.figures import optional
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.review import Points, band, review_of
from judging.methods.agreement.accuracy import Ties
from judging.methods.intervals.estimates import Figure, Undefined


@dataclass(frozen=True)
class NoReview:
    """m: examples that people reviewed so far."""

    m: int
    reason: str


@dataclass(frozen=True)
class ReviewErrors:
    """Errors among those reviewed, and what a random choice would find: line (b)."""

    found: float
    expected: float
    p: float


@dataclass(frozen=True, kw_only=True)
class ReviewDone:
    """The lines (a) to (c) of the review that took place, and the accuracy after it, which it has
    by construction. final_accuracy: with the labels of the `audited`; absent without an audit."""

    m: int
    accuracy: Figure
    unreviewed_accuracy: Figure
    random: Figure
    gain: Figure
    audited: int | None = optional()
    final_accuracy: Figure | None = optional()
    errors: ReviewErrors | Undefined


def review(analysis: Analysis) -> ReviewDone | NoReview:
    lines = analysis.lines()
    if isinstance(lines, Undefined):
        return NoReview(analysis.reviewed, lines.reason)
    audited, errors = analysis.audited, lines.errors
    return ReviewDone(
        m=lines.m,
        accuracy=lines.accuracy,
        unreviewed_accuracy=lines.unreviewed,
        random=lines.random,
        gain=lines.gain,
        audited=audited or None,
        final_accuracy=analysis.after().accuracy_over_all if audited else None,
        errors=errors and ReviewErrors(errors.found, errors.expected, errors.p),
    )


@dataclass(frozen=True)
class TieConvention:
    """hitlc: the curve by rank, one entry a beta."""

    accuracy: Figure
    hitlc: Points
    auroc: Figure


@dataclass(frozen=True)
class TieConventions:
    """What a judge's tie earns where the known labels have none: half, or nothing."""

    half: TieConvention
    wrong: TieConvention


def ties(analysis: Analysis) -> TieConventions:
    return TieConventions(_under(analysis, Ties.HALF), _under(analysis, Ties.WRONG))


def _under(analysis: Analysis, convention: Ties) -> TieConvention:
    accuracy = analysis.before(convention).accuracy
    reviewed = review_of(analysis.sheet, convention)
    if isinstance(reviewed, Undefined):
        return TieConvention(accuracy, (), reviewed)
    area = reviewed.auroc_of(reviewed.level)
    return TieConvention(accuracy, band(reviewed, reviewed.band(analysis.rng)), area)
