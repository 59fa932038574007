"""What the review that took place achieved, and both conventions for a judge's ties."""

from dataclasses import dataclass

from annotation.results.data.figures import (
    Plot,
    Sentence,
    colour,
    named_lines,
    optional,
    plot,
    short,
    tooltip,
    value_of,
    x_axis,
    y_axis,
)
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.review import Points, ReviewCurves, band, review_of
from judging.core.formatting import number_of, p_value
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
        m=lines.m, accuracy=lines.accuracy, unreviewed_accuracy=lines.unreviewed,
        random=lines.random, gain=lines.gain, audited=audited or None,
        final_accuracy=analysis.after().accuracy_over_all if audited else None,
        errors=errors and ReviewErrors(errors.found, errors.expected, errors.p),
    )  # fmt: skip


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


def answer(done: ReviewDone | NoReview, curves: ReviewCurves) -> Sentence:
    """Say what the review found compared with chance; before one, whether BPDE finds errors."""
    if isinstance(done, ReviewDone) and isinstance(done.errors, ReviewErrors):
        hits, expected = done.errors.found, done.errors.expected
        than = "more than" if hits > expected else "fewer than" if hits < expected else "as many as"
        return Sentence(
            f"People reviewed {number_of(done.m, 'example')} and found "
            f"{number_of(int(hits), 'error') if hits == int(hits) else f'{hits:g} errors'} of the "
            f"judge, {than} the {expected:.1f} that a random choice would find (one-sided p "
            f"{p_value(done.errors.p)}).",
            "review",
            warns=hits <= expected,
        )
    ranking = ranking_sentence(curves)
    if ranking is not None:
        return ranking
    # A review may have figures and still no exact count of errors, as after an audit.
    missing = done.errors if isinstance(done, ReviewDone) else done
    reason = getattr(missing, "reason", "") or getattr(curves.auroc, "reason", "")
    return Sentence(f"What a review achieves isn't known yet: {reason}.", "review")


def ranking_sentence(curves: ReviewCurves) -> Sentence | None:
    """Say whether BPDE finds the judge's errors; None if no error could be found."""
    area = curves.auroc
    if isinstance(area, Undefined):
        return None
    # None says that no label is known, which says nothing about BPDE.
    if curves.bpde_varies is False:
        return Sentence(
            "BPDE is the same for every example that this judge labelled, so it can't rank them. "
            "More samples, or both orders, would show where the judge is unsure.",
            "review",
            warns=True,
        )
    if curves.no_better_than_chance:
        return Sentence(
            f"BPDE finds this judge's errors no better than chance (AUROC {short(area)}). "
            "Reviewing by rank gains no more than reviewing at random.",
            "review",
            warns=True,
        )
    if curves.better_than_chance:
        return Sentence(
            f"BPDE finds the judge's errors better than chance (AUROC {short(area)}).", "review"
        )
    return Sentence(
        "There is not enough data to tell whether BPDE finds the judge's errors better than "
        f"chance (AUROC {short(area)}).",
        "review",
    )


CURVES = {"bpde": "by BPDE", "random": "at random", "oracle": "oracle"}
OTHER_CURVES = {
    "bpde": "by BPDE",
    "one_order": "entropy of one order",
    "margin": "score margin",
    "independent": "independent",
}


def review_plot(curves: ReviewCurves) -> Plot:
    """Draw the accuracy by the share reviewed: by rank, at random, and the best possible."""
    caption = "Reviewed examples count as right. No ranking can beat the oracle."
    return _curves("hitlc", "Accuracy after reviewing the top β %", caption, curves, CURVES)


def other_rankings_plot(curves: ReviewCurves) -> Plot:
    caption = "Reviewed examples count as right."
    if any(not isinstance(point, Undefined) for point in curves.independent):
        caption = "Reviewed examples count as right, except in the independent curve."
    return _curves("rankings", "Accuracy by other rankings", caption, curves, OTHER_CURVES)


def _curves(
    name: str, title: str, caption: str, curves: ReviewCurves, shown: dict[str, str]
) -> Plot:
    rows = [
        {"beta": beta, "ranking": words} | value_of(point)
        for key, words in shown.items()
        for beta, point in zip(curves.beta, getattr(curves, key), strict=True)
        if not isinstance(point, Undefined)
    ]
    # A ranking without a point would still have a place in the legend.
    drawn = list(dict.fromkeys(row["ranking"] for row in rows))
    layers = named_lines(
        rows, x_axis("beta", "β, percent reviewed"), y_axis("value", "accuracy"), "ranking", drawn,
        mark={"point": {"size": 18}}, strokeDash=colour("ranking", drawn),
        tooltip=tooltip("ranking", "beta", "value", "low", "high"),
    )  # fmt: skip
    return plot(name, title, caption, rows, {"layer": layers})
