"""The examples with a known label, reviewed by rank: the curve, and the honest lines beside it."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from annotation.results.sheet import Sheet
from judging.methods.accuracy import Ties, credit
from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.auroc import auroc
from judging.methods.bands import CurveBand, curve_band
from judging.methods.clustered import share
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.hitlc import (
    ErrorsFound,
    ReviewCurve,
    errors_found,
    oracle_curve,
    random_accuracy,
    review_curve,
)
from judging.methods.proportions import joined

BETAS = tuple(range(0, 101, 5))
NOTHING = Undefined("nothing was reviewed for this run")
EVERYTHING = "every example was reviewed"
ROUNDING = 1e-6


@dataclass(frozen=True)
class HonestLines:
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

    def lines(self, m: int) -> HonestLines | Undefined:
        """The lines (a) to (c) at a review of the m first by rank (FairEval, Figure 4)."""
        if not m:
            return NOTHING
        if not self.plain:
            return self._weighted_lines(m)
        if m > len(self.earned):
            return Undefined("more was reviewed than there are known labels")
        left = self.order[m:]
        accuracy = share(self.earned[left], self.question[left], reason=EVERYTHING)
        return self._lines(m, accuracy, errors_found(self.order, self.earned, m))

    def _weighted_lines(self, m: int) -> HonestLines:
        """From the selected and an audit of the rest: who was reviewed is known, how many errors
        the whole has is estimated, so that no exact probability can be given."""
        reason = Undefined("counted only where every example has a known label")
        return self._lines(m, self._weighted_unreviewed(m), reason)

    def _weighted_unreviewed(self, m: int) -> Figure:
        """With the exact limits of the audit, where that alone is what is left."""
        remains = self.curve.total - m
        if remains < ROUNDING:
            return Undefined(EVERYTHING)
        order = np.argsort(-self.level, kind="stable")
        first = np.cumsum(self.weight[order]) <= m + ROUNDING
        done, left = order[first], order[~first]
        whole = abs(self.weight[left].sum() - remains) < ROUNDING
        # Where the cut falls among equal ranks the curve is a mean over who is left.
        parted = not len(done) or self.level[done].min() > self.level[left].max()
        if whole and parted and np.ptp(self.weight[left]) == 0:
            return share(self.earned[left], self.question[left], exact=True)
        return Estimate(float(self.curve.unreviewed_accuracy(m)), len(left))

    def _lines(self, m: int, left: Figure, errors: ErrorsFound | Undefined) -> HonestLines:
        n, total = len(self.earned), self.curve.total
        chance = float(random_accuracy(m, total, self.start))
        reached = joined(m / total, Estimate(1.0, m, 1.0, 1.0), left)
        return HonestLines(
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
        earned=credit(sheet.judge[rows], sheet.judged[rows], sheet.human[rows], ties),
        level=sheet.level[rows],
        weight=known.weight,
        stratum=known.stratum,
        question=sheet.question[rows],
        order=np.concatenate((ranked, rest)),
        n=round(known.weight.sum()),
    )
