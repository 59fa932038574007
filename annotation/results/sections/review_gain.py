"""What the review that took place has bought, and what either convention for ties makes of it."""

from annotation.results.data.figures import Json
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.review import band, review_of
from judging.methods.agreement.accuracy import Ties
from judging.methods.intervals.estimates import Undefined


def review(analysis: Analysis) -> Json:
    """The honest lines (a) to (c), beside the accuracy that a review has by construction."""
    lines = analysis.lines()
    if isinstance(lines, Undefined):
        return {"m": analysis.reviewed, "reason": lines.reason}
    errors = lines.errors
    found: Json = {
        "m": lines.m,
        "accuracy": lines.accuracy.as_json(),
        "unreviewed_accuracy": lines.unreviewed.as_json(),
        "random": lines.random.as_json(),
        "gain": lines.gain.as_json(),
    }
    if audited := analysis.audited:
        found |= {"audited": audited, "final_accuracy": analysis.after().over_all.as_json()}
    if isinstance(errors, Undefined):
        return found | {"errors": errors.as_json()}
    counted = {"found": errors.found, "expected": errors.expected, "p": errors.p}
    return found | {"errors": counted}


def ties(analysis: Analysis) -> Json:
    """A judge's tie against gold without ties: half right, or wrong."""
    return {str(convention): _under(analysis, convention) for convention in Ties}


def _under(analysis: Analysis, convention: Ties) -> Json:
    accuracy = analysis.before(convention).accuracy.as_json()
    reviewed = review_of(analysis.sheet, convention)
    if isinstance(reviewed, Undefined):
        return {"accuracy": accuracy, "hitlc": [], "auroc": reviewed.as_json()}
    area = reviewed.auroc_of(reviewed.level).as_json()
    return {
        "accuracy": accuracy,
        "hitlc": band(reviewed, reviewed.band(analysis.rng)),
        "auroc": area,
    }
