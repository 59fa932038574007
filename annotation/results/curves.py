"""What a review of the top β % buys: HITLC curves by several rankings, as the report has them."""

from collections.abc import Callable

import numpy as np

from annotation.results.figures import Json, lacking, shown
from annotation.results.review import BETAS, HonestLines, Review
from annotation.results.samples_array import Samples
from annotation.results.sheet import Sheet
from judging.methods.arrays import Floats
from judging.methods.auroc import no_better_than_chance
from judging.methods.bands import CurveBand
from judging.methods.estimates import Undefined
from judging.methods.hitlc import ReviewCurve, random_accuracy
from judging.methods.independent import IndependentCurve, independent_curve
from judging.methods.ranking import cut
from judging.methods.verdict_arrays import verdict_arrays
from judging.methods.votes import VoteCounts

NOTHING = Undefined("nothing is reviewed")


def independent_of(sheet: Sheet) -> IndependentCurve | Undefined:
    """One vote is the truth and the others review: a curve with people's agreement as ceiling."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    rows = known.rows
    counts = VoteCounts(sheet.ballots.counts.counts[rows])
    given = (sheet.level[rows], sheet.judge[rows], sheet.judged[rows])
    return independent_curve(*given, counts, known.weight)


def one_order_level(samples: Samples | Undefined) -> Floats | Undefined:
    """Entropy of the first order's outcomes alone: what half the calls would have ranked by."""
    if isinstance(samples, Undefined):
        return samples
    if samples.orders < 2:
        return Undefined("this run asked in one order only, by which it is ranked")
    scores = np.zeros((*samples.valid[:, :1].shape, 2), dtype=np.int64)
    scores[..., 0] = samples.signs[:, :1]
    found = verdict_arrays(scores, samples.valid[:, :1])
    return np.where(found.judged, found.bpde, np.inf)


def margin_level(sheet: Sheet) -> Floats:
    """The smaller the gap between the calibrated scores, the sooner reviewed."""
    return np.where(np.isnan(sheet.gap), np.inf, -sheet.gap)


def hitlc(
    sheet: Sheet,
    samples: Samples | Undefined,
    review: Review | Undefined,
    found: CurveBand | Undefined,
) -> Json:
    """The `hitlc` of the report; each list has one entry a beta."""
    if isinstance(review, Undefined):
        names = ("auroc", "auroc_one_order", "auroc_margin", "ceiling")
        empty = {name: [] for name in _LISTS}
        return {"beta": [], "reason": review.reason} | empty | lacking(review, *names)
    cuts = [cut(review.n, beta) for beta in BETAS]
    levels = {"one_order": one_order_level(samples), "margin": margin_level(sheet)}
    known = sheet.known
    rows = known.rows if not isinstance(known, Undefined) else np.zeros(0, np.intp)
    others = {
        name: level if isinstance(level, Undefined) else level[rows]
        for name, level in levels.items()
    }
    area = review.auroc_of(review.level)
    return (
        {"beta": list(BETAS), "bpde": band(review, found), "auroc": area.as_json()}
        | {"random": [shown(_chance(review, m), len(review.earned)) for m in cuts]}
        | {"oracle": _values(review.oracle, cuts, len(review.earned))}
        | {name: _curve_by(review, level, cuts) for name, level in others.items()}
        | {f"auroc_{name}": _auroc(review, level) for name, level in others.items()}
        | _honest(review, cuts)
        | _independent(sheet)
        | {"no_better_than_chance": no_better_than_chance(area), "bpde_varies": _varies(sheet)}
    )


def _varies(sheet: Sheet) -> bool:
    """Of one sample BPDE is always 0: then only the examples without a label come first."""
    return len(np.unique(sheet.bpde[sheet.judged & ~np.isnan(sheet.bpde)])) > 1


_LISTS = (
    "bpde",
    "random",
    "oracle",
    "one_order",
    "margin",
    "unreviewed_accuracy",
    "errors_found",
    "errors_expected",
    "errors_p",
    "gain",
    "independent",
)


def band(review: Review, found: CurveBand | Undefined) -> list[Json]:
    """The curve with its limits at each beta, and the lower band that holds at all of them."""
    if isinstance(found, Undefined):
        return [found.as_json()] * len(BETAS)
    n = len(review.earned)
    return [
        found.at(place, n).as_json() | {"lower_band": float(band)}
        for place, band in enumerate(found.lower_band)
    ]


def _chance(review: Review, m: int) -> float:
    return float(random_accuracy(m, review.n, review.start))


def _values(curve: ReviewCurve, cuts: list[int], n: int) -> list[Json]:
    at = np.array(cuts) * curve.total / max(cuts[-1], 1)
    return [shown(value, n) for value in curve.accuracy(at)]


def _curve_by(review: Review, level: Floats | Undefined, cuts: list[int]) -> list[Json]:
    if isinstance(level, Undefined):
        return [level.as_json() for _ in cuts]
    return _values(review.curve_by(level), cuts, len(review.earned))


def _auroc(review: Review, level: Floats | Undefined) -> Json:
    return level.as_json() if isinstance(level, Undefined) else review.auroc_of(level).as_json()


def _honest(review: Review, cuts: list[int]) -> Json:
    lines = [review.lines(m) if m else NOTHING for m in cuts]

    def part(pick: Callable[[HonestLines], object]) -> list[Json]:
        return [_part(line, pick) for line in lines]

    return {
        "unreviewed_accuracy": part(lambda line: line.unreviewed),
        "errors_found": part(lambda line: line.errors and line.errors.found),
        "errors_expected": part(lambda line: line.errors and line.errors.expected),
        "errors_p": part(lambda line: line.errors and line.errors.p),
        "gain": part(lambda line: line.gain),
    }


def _part(line: HonestLines | Undefined, pick: Callable[[HonestLines], object]) -> Json:
    return line.as_json() if isinstance(line, Undefined) else shown(pick(line), line.m)


def _independent(sheet: Sheet) -> Json:
    found = independent_of(sheet)
    if isinstance(found, Undefined):
        return {"independent": [found.as_json() for _ in BETAS], "ceiling": found.as_json()}
    at = np.array(BETAS) / 100 * found.curve.total
    values = [shown(value, found.n) for value in found.curve.accuracy(at)]
    return {"independent": values, "ceiling": shown(found.ceiling, found.n)}
