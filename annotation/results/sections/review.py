"""How often labels are right, before and after people review the first of them by rank."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from annotation.results.data.figures import BandEstimate, extended, optional
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
    """Labels against the people's; `accuracy_over_all` counts one that is missing as not right."""

    accuracy: Figure
    accuracy_over_all: Figure
    kappa: Figure


def label_agreement(
    compared: Comparison | Undefined,
    rng: np.random.Generator,
    ties: Ties = Ties.HALF,
    confidence: float = 0.95,
) -> LabelAgreement:
    """Compare labels with people's, by draws from a copy of the generator.

    So the same labels have the same intervals in every table, whatever was drawn before.
    """
    if isinstance(compared, Undefined):
        return LabelAgreement(compared, compared, compared)
    return LabelAgreement(
        accuracy(compared, ties=ties, confidence=confidence),
        accuracy(compared, ties=ties, unjudged_wrong=True, confidence=confidence),
        kappa(compared, deepcopy(rng), confidence=confidence),
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
    # An audited example represents several. Its own label is people's, and the others keep the
    # judge's.
    done, left = final.at(reviewed), judge.weight - reviewed
    # A weight is a quotient, so that what is left of it may be a rounding error instead of 0.
    rest = replace(judge, weight=left).at(left > 1e-9)
    # Audited examples are here twice, for themselves and for others; neither repeats a question.
    question = done.question + (1 + judge.question.max() if rest.stratum.any() else 0)
    own = {"weight": np.ones(len(done)), "stratum": np.zeros(len(done), np.intp)}
    return AfterReview(replace(done, question=question, **own), rest)


def agreement_after(
    sheet: Sheet, rng: np.random.Generator, ties: Ties = Ties.HALF, confidence: float = 0.95
) -> LabelAgreement:
    after = after_review(sheet)
    if isinstance(after, Undefined):
        return LabelAgreement(after, after, after)
    if not len(after.done):
        return label_agreement(after.rest, rng, ties, confidence)

    def reached(*, over_all: bool) -> Figure:
        counting = {"ties": ties, "unjudged_wrong": over_all}
        return final_accuracy(after.done, after.rest, **counting, confidence=confidence)

    by_audit = len(after.rest) and after.rest.stratum.all()
    agreed = None
    if by_audit:
        # Only the labels that the audit represents are uncertain; those of reviewed examples are
        # known.
        agreed = final_kappa(after.done, after.rest, deepcopy(rng), confidence)
    return LabelAgreement(
        reached(over_all=False),
        reached(over_all=True),
        kappa(after.both, deepcopy(rng), confidence=confidence) if agreed is None else agreed,
    )


BETAS = tuple(range(0, 101, 5))
NOTHING = Undefined("nothing was reviewed for this run")
EVERYTHING = "every example was reviewed"
ROUNDING = 1e-6
WEIGHTED = "known only if every example has a known label"


@dataclass(frozen=True)
class ReviewGain:
    """What reviewing the top m achieved, besides the accuracy that it has by construction."""

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
        """Return True if every example represents only itself, so that errors can be counted."""
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
            self.level if level is None else level, self.earned, np.array(BETAS, dtype=np.float64),
            rng, weight=self.weight, question=self.question, stratum=self.stratum,
        )  # fmt: skip

    def chosen(self, reviewed: Booleans) -> "Review":
        """Return the review with these examples, which people saw, before all others."""
        m, first = int(reviewed.sum()), reviewed[self.order]
        # They are the first by rank already, so the order can stay.
        if self.plain and first[:m].all():
            return self
        order = np.concatenate((self.order[first], self.order[~first]))
        return replace(self, level=reviewed.astype(np.float64), order=order)

    def lines(self, m: int) -> ReviewGain | Undefined:
        """Return the lines (a) to (c) at a review of the m first by rank (FairEval, Figure 4)."""
        if not m:
            return NOTHING
        if not self.plain:
            return self._weighted_lines(m)
        if m > len(self.earned):
            return Undefined("more examples were reviewed than have a known label")
        left = self.order[m:]
        right = share(self.earned[left], self.question[left], reason=EVERYTHING)
        # Reviewed examples count as right by construction, so their part has no error.
        reached = joined(m / len(self.earned), Estimate(1.0, m, 1.0, 1.0), right)
        return self._lines(m, reached, right, errors_found(self.order, self.earned, m))

    def after(self, m: float) -> Figure:
        """Accuracy after the m first by level: the point and interval of every table."""
        columns = (self.level, self.earned, m, self.weight, self.stratum, self.question)
        return accuracy_after(*columns)

    def _weighted_lines(self, m: int) -> ReviewGain:
        """Return the lines by the selected examples and an audit of the rest.

        The audit only estimates how many errors there are, so no exact probability can be given.
        """
        reached = self.after(m)
        left = unreviewed_part(reached, m / self.curve.total, EVERYTHING)
        if isinstance(left, Estimate):
            by_level = self.weight[np.argsort(-self.level, kind="stable")]
            # The n are the labelled examples beyond the first m. Sums of weights are off by
            # rounding.
            left = replace(left, n=int((np.cumsum(by_level) > m + ROUNDING).sum()))
        return self._lines(m, reached, left, Undefined(WEIGHTED))

    def _lines(
        self, m: int, reached: Estimate, left: Figure, errors: ErrorsFound | Undefined
    ) -> ReviewGain:
        n = len(self.earned)
        chance = float(random_accuracy(m, self.curve.total, self.start))
        return ReviewGain(
            m=m, accuracy=replace(reached, n=n), unreviewed=left, errors=errors,
            random=Estimate(chance, n), gain=Estimate(reached.value - chance, n),
        )  # fmt: skip


def review_of(sheet: Sheet, ties: Ties = Ties.HALF) -> Review | Undefined:
    """Return the review of the examples whose label is known, each with its weight."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    rows = known.rows
    place = np.full(len(sheet), -1)
    place[rows] = np.arange(len(rows))
    ranked = place[sheet.ranking]
    ranked = ranked[ranked >= 0]
    # An example without a rank is reviewed last.
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
    """Take one vote for the truth and let the others review: people's agreement is the ceiling."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    rows = known.rows
    counts = VoteCounts(sheet.ballots.counts.counts[rows])
    columns = (sheet.level[rows], sheet.judge[rows], sheet.judged[rows])
    return independent_curve(*columns, counts, known.weight)


def one_order_level(samples: SampleArrays | Undefined) -> Floats | Undefined:
    """Return the entropy of the first order's outcomes: half the calls would rank by it."""
    if isinstance(samples, Undefined):
        return samples
    if samples.orders < 2:
        return Undefined("this run asked in one order only, so this is its own ranking")
    scores = np.zeros((*samples.valid[:, :1].shape, 2), dtype=np.int64)
    # The entropy is of outcomes, so the sign of a sample's scores is enough.
    scores[..., 0] = samples.signs[:, :1]
    verdicts = verdict_arrays(scores, samples.valid[:, :1])
    # Without a label an example comes first, as in every ranking.
    return np.where(verdicts.judged, verdicts.bpde, np.inf)


def margin_level(sheet: Sheet) -> Floats:
    """Return a level that is higher the smaller the gap between the calibrated scores is."""
    # The same for an example without scores.
    return np.where(np.isnan(sheet.gap), np.inf, -sheet.gap)


Points = Sequence[Figure]


@dataclass(frozen=True, kw_only=True)
class ReviewCurves:
    """Each list has one entry a beta, none if no label is known, which `reason` explains.

    The curves are by what a review ranks by; those after them are the lines (a) to (c) for BPDE.
    `independent` takes one vote for the truth, up to `ceiling`, people's agreement.
    """

    beta: Sequence[int] = ()
    reason: str | None = optional()
    bpde: Points = ()
    auroc: Figure
    random: Points = ()
    oracle: Points = ()
    one_order: Points = ()
    margin: Points = ()
    auroc_one_order: Figure
    auroc_margin: Figure
    unreviewed_accuracy: Points = ()
    errors_found: Points = ()
    errors_expected: Points = ()
    errors_p: Points = ()
    gain: Points = ()
    independent: Points = ()
    ceiling: Figure
    no_better_than_chance: bool | None = optional()
    better_than_chance: bool | None = optional()
    bpde_varies: bool | None = optional()


def hitlc(
    sheet: Sheet,
    samples: SampleArrays | Undefined,
    review: Review | Undefined,
    curve: CurveBand | Undefined,
) -> ReviewCurves:
    if isinstance(review, Undefined):
        names = ("auroc", "auroc_one_order", "auroc_margin", "ceiling")
        return ReviewCurves(reason=review.reason, **dict.fromkeys(names, review))
    cuts = [cut(review.n, beta) for beta in BETAS]
    levels = {"one_order": one_order_level(samples), "margin": margin_level(sheet)}
    known = sheet.known
    rows = known.rows if not isinstance(known, Undefined) else np.zeros(0, np.intp)
    others = {
        name: level if isinstance(level, Undefined) else level[rows]
        for name, level in levels.items()
    }
    area = review.auroc_of(review.level)
    n = len(review.earned)
    # At a β of 0 nothing is reviewed, so no line has a figure.
    lines = [review.lines(m) if m else NO_CURVE for m in cuts]
    independent, ceiling = _independent(sheet)
    return ReviewCurves(
        beta=BETAS, bpde=band(review, curve), auroc=area,
        random=[Estimate(float(random_accuracy(m, review.n, review.start)), n) for m in cuts],
        oracle=_values(review.oracle, cuts, n),
        **{name: _curve_by(review, level, cuts) for name, level in others.items()},
        **{f"auroc_{name}": _auroc(review, level) for name, level in others.items()},
        unreviewed_accuracy=[line and line.unreviewed for line in lines],
        errors_found=_errors(lines, "found"), errors_expected=_errors(lines, "expected"),
        errors_p=_errors(lines, "p"), gain=[line and line.gain for line in lines],
        independent=independent, ceiling=ceiling, no_better_than_chance=no_better_than_chance(area),
        better_than_chance=better_than_chance(area), bpde_varies=_varies(sheet),
    )  # fmt: skip


def _varies(sheet: Sheet) -> bool:
    """Return False if all examples have one BPDE: with one sample, it is always 0."""
    return len(np.unique(sheet.bpde[sheet.judged & ~np.isnan(sheet.bpde)])) > 1


def band(review: Review, curve: CurveBand | Undefined) -> Points:
    """Return the curve with its limits at each β, and the lower band that holds at all of them."""
    if isinstance(curve, Undefined):
        return [curve] * len(BETAS)
    return [
        extended(BandEstimate, estimate, lower_band=float(lower))
        for estimate, lower in zip(curve.after, curve.lower_band, strict=True)
    ]


def _values(curve: ReviewCurve, cuts: list[int], n: int) -> Points:
    # review.n is rounded, and the curve ends at the exact sum of the weights.
    at = np.array(cuts) * curve.total / max(cuts[-1], 1)
    return [Estimate(float(value), n) for value in curve.accuracy(at)]


def _curve_by(review: Review, level: Floats | Undefined, cuts: list[int]) -> Points:
    if isinstance(level, Undefined):
        return [level] * len(cuts)
    return _values(review.curve_by(level), cuts, len(review.earned))


def _auroc(review: Review, level: Floats | Undefined) -> Figure:
    return level if isinstance(level, Undefined) else review.auroc_of(level)


def _errors(lines: Sequence[ReviewGain | Undefined], name: str) -> Points:
    """Return line (b) at each beta; an Undefined, which is false, stays what it is."""
    errors = [(line and line.m, line and line.errors) for line in lines]
    return [counted and Estimate(float(getattr(counted, name)), m) for m, counted in errors]


def _independent(sheet: Sheet) -> tuple[Points, Figure]:
    curve = independent_of(sheet)
    if isinstance(curve, Undefined):
        return [curve] * len(BETAS), curve
    at = np.array(BETAS) / 100 * curve.curve.total
    values = [Estimate(float(value), curve.n) for value in curve.curve.accuracy(at)]
    return values, Estimate(float(curve.ceiling), curve.n)


FEWEST_KNOWN = 20


@dataclass(frozen=True)
class Unforeseen:
    """Why no accuracy can be expected of a review."""

    beta: tuple[()]
    reason: str


@dataclass(frozen=True)
class Expectation:
    """What the planner expects of a review; one entry a beta.

    lower_band: the lower limit that holds at all betas at once. known: labels that it rests on.
    reviewer: how often a person is right, measured by the other votes; None if it is assumed.
    """

    beta: Sequence[int]
    accuracy: Sequence[float]
    lower_band: Sequence[float]
    known: int
    reviewer: float | None


def expectation(
    sheet: Sheet, review: Review | Undefined, rng: np.random.Generator
) -> Expectation | Unforeseen:
    if isinstance(review, Undefined):
        return Unforeseen((), review.reason)
    if len(review.earned) < FEWEST_KNOWN:
        single = len(review.earned) == 1
        labels = "1 known label is" if single else f"{len(review.earned)} known labels are"
        return Unforeseen((), f"{labels} too few to plan by")
    known = sheet.known
    rows = known.rows if not isinstance(known, Undefined) else np.zeros(0, np.intp)
    agree = sheet.ballots.counts.others_agree()[rows]
    measured = np.isfinite(agree)
    weight = review.weight[measured]
    right = float(np.average(agree[measured], weights=weight)) if measured.any() else None
    band = curve_band(
        review.level, review.earned, np.array(BETAS, dtype=np.float64), rng,
        # One vote has no other vote to be measured by, so its example gets the mean of the others.
        reviewer=None if right is None else np.where(measured, agree, right), weight=review.weight,
        question=review.question, stratum=review.stratum,
    )  # fmt: skip
    if isinstance(band, Undefined):
        return Unforeseen((), band.reason)
    return Expectation(
        BETAS, band.accuracy.tolist(), band.lower_band.tolist(), len(review.earned), right
    )
