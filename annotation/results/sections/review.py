"""How often labels are right, and how far that goes beyond chance."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from annotation.results.data.figures import Json, lacking, shown
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import Sheet
from judging.methods.agreement.accuracy import Comparison, Ties, accuracy, credit, final_accuracy
from judging.methods.agreement.votes import VoteCounts, final_kappa, kappa
from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.intervals.bootstrap import share
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, joined
from judging.methods.review.auroc import auroc, better_than_chance, no_better_than_chance
from judging.methods.review.curve import (
    CurveBand,
    ErrorsFound,
    IndependentCurve,
    ReviewCurve,
    accuracy_after,
    curve_band,
    errors_found,
    independent_curve,
    oracle_curve,
    random_accuracy,
    review_curve,
    unreviewed_part,
)
from judging.methods.verdicts.arrays import verdict_arrays
from judging.methods.verdicts.verdicts import cut


@dataclass(frozen=True)
class LabelAgreement:
    """Labels against the people's. `over_all` counts an example without a label as not right."""

    accuracy: Figure
    over_all: Figure
    kappa: Figure

    def as_json(self) -> Json:
        return {
            "accuracy": self.accuracy.as_json(),
            "accuracy_over_all": self.over_all.as_json(),
            "kappa": self.kappa.as_json(),
        }


def label_agreement(
    compared: Comparison | Undefined, rng: np.random.Generator, ties: Ties = Ties.HALF
) -> LabelAgreement:
    """Each figure by the draws of the generator as it comes, so that the same labels have the same
    intervals wherever they stand, whatever was drawn before."""
    if isinstance(compared, Undefined):
        return LabelAgreement(compared, compared, compared)
    return LabelAgreement(
        accuracy(compared, ties=ties),
        accuracy(compared, ties=ties, unjudged_wrong=True),
        kappa(compared, deepcopy(rng)),
    )


@dataclass(frozen=True)
class AfterReview:
    """done: reviewed, by their final labels. rest: by the judge's, as many as keep them."""

    done: Comparison
    rest: Comparison

    @property
    def both(self) -> Comparison:
        names = ("judge", "judged", "human", "weight", "stratum", "question")
        columns = {
            name: np.concatenate((getattr(self.done, name), getattr(self.rest, name)))
            for name in names
        }
        return replace(self.done, **columns)


def after_review(sheet: Sheet) -> AfterReview | Undefined:
    final = sheet.comparison(sheet.final, sheet.has_final)
    judge = sheet.comparison(sheet.judge, sheet.judged)
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    if isinstance(final, Undefined) or isinstance(judge, Undefined):
        return Undefined("no label is known")
    reviewed = ((sheet.selected | sheet.audited) & sheet.answered)[known.rows]
    done, left = final.at(reviewed), judge.weight - reviewed
    rest = replace(judge, weight=left).at(left > 1e-9)
    # What stands for itself and for others is here twice, and neither repeats the other's question.
    question = done.question + (1 + judge.question.max() if rest.stratum.any() else 0)
    own = {"weight": np.ones(len(done)), "stratum": np.zeros(len(done), np.intp)}
    return AfterReview(replace(done, question=question, **own), rest)


def agreement_after(sheet: Sheet, rng: np.random.Generator, ties: Ties) -> LabelAgreement:
    found = after_review(sheet)
    if isinstance(found, Undefined):
        return LabelAgreement(found, found, found)
    if not len(found.done):
        return label_agreement(found.rest, rng, ties)

    def reached(*, over_all: bool) -> Figure:
        given = {"ties": ties, "unjudged_wrong": over_all}
        return final_accuracy(found.done, found.rest, **given)

    by_audit = len(found.rest) and found.rest.stratum.all()
    agreed = final_kappa(found.done, found.rest, deepcopy(rng)) if by_audit else None
    return LabelAgreement(
        reached(over_all=False),
        reached(over_all=True),
        kappa(found.both, deepcopy(rng)) if agreed is None else agreed,
    )


BETAS = tuple(range(0, 101, 5))
NOTHING = Undefined("nothing was reviewed for this run")
EVERYTHING = "every example was reviewed"
ROUNDING = 1e-6
WEIGHTED = "counted only where every example has a known label"


@dataclass(frozen=True)
class ReviewGain:
    """What a review of the top m bought, beside the accuracy that it has by construction."""

    m: int
    accuracy: Figure
    unreviewed: Figure
    errors: ErrorsFound | Undefined
    random: Figure
    gain: Figure


@dataclass(frozen=True)
class Review:
    """The examples with a known label, ready to be reviewed by rank.

    earned: what the judge's label earns. level: what they are ranked by. order: indices, the
    first to be reviewed first. n: how many examples they stand for, which beta is a share of.
    """

    earned: Floats
    level: Floats
    weight: Floats
    stratum: Codes
    question: Codes
    order: Codes
    n: int

    @property
    def plain(self) -> bool:
        """Whether every example stands for itself alone, so that errors can be counted."""
        return bool(np.ptp(self.weight) == 0)

    @cached_property
    def start(self) -> float:
        """Accuracy before anything is reviewed, an example without a label counted as wrong."""
        return float(self.weight @ self.earned / self.weight.sum())

    @cached_property
    def curve(self) -> ReviewCurve:
        return self.curve_by(self.level)

    def curve_by(self, level: Floats) -> ReviewCurve:
        return review_curve(level, self.earned, weight=self.weight)

    @cached_property
    def oracle(self) -> ReviewCurve:
        if self.plain:
            return oracle_curve(self.earned)
        return review_curve(-self.earned, self.earned, weight=self.weight)

    def auroc_of(self, level: Floats) -> Figure:
        weight = None if self.plain else self.weight
        return auroc(level, 1 - self.earned, weight=weight, question=self.question)

    def band(self, rng: np.random.Generator, level: Floats | None = None) -> CurveBand | Undefined:
        return curve_band(
            self.level if level is None else level,
            self.earned,
            np.array(BETAS, dtype=np.float64),
            rng,
            weight=self.weight,
            question=self.question,
            stratum=self.stratum,
        )

    def chosen(self, reviewed: Booleans) -> "Review":
        """With these examples first, which people saw, and all others after them."""
        m, first = int(reviewed.sum()), reviewed[self.order]
        if self.plain and first[:m].all():
            return self
        order = np.concatenate((self.order[first], self.order[~first]))
        return replace(self, level=reviewed.astype(np.float64), order=order)

    def lines(self, m: int) -> ReviewGain | Undefined:
        """The lines (a) to (c) at a review of the m first by rank (FairEval, Figure 4)."""
        if not m:
            return NOTHING
        if not self.plain:
            return self._weighted_lines(m)
        if m > len(self.earned):
            return Undefined("more was reviewed than there are known labels")
        left = self.order[m:]
        right = share(self.earned[left], self.question[left], reason=EVERYTHING)
        reached = joined(m / len(self.earned), Estimate(1.0, m, 1.0, 1.0), right)
        return self._lines(m, reached, right, errors_found(self.order, self.earned, m))

    def after(self, m: float) -> Figure:
        """Accuracy after the m first by level: the point and interval of every table."""
        given = (self.level, self.earned, m, self.weight, self.stratum, self.question)
        return accuracy_after(*given)

    def _weighted_lines(self, m: int) -> ReviewGain:
        """From the selected and an audit of the rest: who was reviewed is known, how many errors
        the whole has is estimated, so that no exact probability can be given."""
        reached = self.after(m)
        left = unreviewed_part(reached, m / self.curve.total, EVERYTHING)
        if isinstance(left, Estimate):
            by_level = self.weight[np.argsort(-self.level, kind="stable")]
            left = replace(left, n=int((np.cumsum(by_level) > m + ROUNDING).sum()))
        return self._lines(m, reached, left, Undefined(WEIGHTED))

    def _lines(
        self, m: int, reached: Estimate, left: Figure, errors: ErrorsFound | Undefined
    ) -> ReviewGain:
        n = len(self.earned)
        chance = float(random_accuracy(m, self.curve.total, self.start))
        return ReviewGain(
            m=m,
            accuracy=replace(reached, n=n),
            unreviewed=left,
            errors=errors,
            random=Estimate(chance, n),
            gain=Estimate(reached.value - chance, n),
        )


def review_of(sheet: Sheet, ties: Ties = Ties.HALF) -> Review | Undefined:
    """Over the examples whose label is known, each with its weight."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    rows = known.rows
    place = np.full(len(sheet), -1)
    place[rows] = np.arange(len(rows))
    ranked = place[sheet.ranking]
    ranked = ranked[ranked >= 0]
    rest = np.setdiff1d(np.arange(len(rows)), ranked)
    return Review(
        earned=credit(
            sheet.judge[rows], sheet.judged[rows], sheet.human[rows], ties, sheet.knows_ties
        ),
        level=sheet.level[rows],
        weight=known.weight,
        stratum=known.stratum,
        question=sheet.question[rows],
        order=np.concatenate((ranked, rest)),
        n=round(known.weight.sum()),
    )


NO_CURVE = Undefined("nothing is reviewed")


def independent_of(sheet: Sheet) -> IndependentCurve | Undefined:
    """One vote is the truth and the others review: a curve with people's agreement as ceiling."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    rows = known.rows
    counts = VoteCounts(sheet.ballots.counts.counts[rows])
    given = (sheet.level[rows], sheet.judge[rows], sheet.judged[rows])
    return independent_curve(*given, counts, known.weight)


def one_order_level(samples: SampleArrays | Undefined) -> Floats | Undefined:
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
    samples: SampleArrays | Undefined,
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
        | {"no_better_than_chance": no_better_than_chance(area)}
        | {"better_than_chance": better_than_chance(area), "bpde_varies": _varies(sheet)}
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
    return [
        one.as_json() | {"lower_band": float(band)}
        for one, band in zip(found.after, found.lower_band, strict=True)
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
    lines = [review.lines(m) if m else NO_CURVE for m in cuts]

    def part(pick: Callable[[ReviewGain], object]) -> list[Json]:
        return [_part(line, pick) for line in lines]

    return {
        "unreviewed_accuracy": part(lambda line: line.unreviewed),
        "errors_found": part(lambda line: line.errors and line.errors.found),
        "errors_expected": part(lambda line: line.errors and line.errors.expected),
        "errors_p": part(lambda line: line.errors and line.errors.p),
        "gain": part(lambda line: line.gain),
    }


def _part(line: ReviewGain | Undefined, pick: Callable[[ReviewGain], object]) -> Json:
    return line.as_json() if isinstance(line, Undefined) else shown(pick(line), line.m)


def _independent(sheet: Sheet) -> Json:
    found = independent_of(sheet)
    if isinstance(found, Undefined):
        return {"independent": [found.as_json() for _ in BETAS], "ceiling": found.as_json()}
    at = np.array(BETAS) / 100 * found.curve.total
    values = [shown(value, found.n) for value in found.curve.accuracy(at)]
    return {"independent": values, "ceiling": shown(found.ceiling, found.n)}
