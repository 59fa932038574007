"""A simulated project: what people would say, what the judge says, and who was asked about what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from judging.methods.agreement.accuracy import Design
from judging.methods.agreement.votes import cohen_kappa
from judging.methods.arrays import Codes, Floats, Signs
from judging.methods.intervals.win_rate import AuditedLabels, win_points
from judging.methods.review.curve import ReviewCurve, review_curve
from judging.methods.verdicts.verdicts import cut

BETA = 20
# Share of wins, ties and loses in the people's labels.
HUMAN_SHARES = (0.45, 0.15, 0.40)
HUMAN_WIN_RATE = HUMAN_SHARES[0] + HUMAN_SHARES[1] / 2
LEVELS = 6
# From most examples with the same score to hardly two.
SPARSE, FINE = 2, 400
EDGES = {
    SPARSE: np.array([2.5]),
    LEVELS: np.arange(LEVELS - 1) + 0.5,
    FINE: np.linspace(-4, 9, FINE - 1),
}
# How much higher errors score, and the spread of the scores.
SHIFT, SPREAD = 1.5, 1.2
# How often a label is as right as the first one of its question, if questions repeat.
TOGETHER = 0.7


@dataclass(frozen=True, slots=True)
class Setting:
    """n examples, an audit, the judge's error rate, and whether its errors favour response 1.

    audit: 0 if people labelled everything. blind: the score says nothing about the errors.
    repeats: how many examples share a question; their labels are right or wrong together.
    levels: how many values the score can have."""

    n: int
    audit: int
    error: float
    biased: bool
    blind: bool = False
    repeats: int = 1
    levels: int = LEVELS

    def __str__(self) -> str:
        parts = [f"N={self.n}", f"n={self.audit}" if self.audit else "all labelled"]
        parts += [f"error {self.error:.0%}", "biased" if self.biased else "unbiased"]
        parts += ["errors at random"] if self.blind else []
        parts += [f"{self.repeats} to a question"] if self.repeats > 1 else []
        parts += [f"{self.levels} scores"] if self.levels != LEVELS else []
        return ", ".join(parts)


ERRORS = (0.01, 0.02, 0.05, 0.10, 0.25, 0.50)


def settings() -> list[Setting]:
    """Those of SCIENCE.md §16 in which the rest is large enough for the audit."""
    every = product((80, 400, 1000), (20, 60, 100), ERRORS, (False, True))
    return [Setting(*each) for each in every if each[1] <= each[0] - cut(each[0], BETA)]


def curve_settings() -> list[Setting]:
    """Those with all labels, but for 20 examples: there Wilson's limits near 1 cover .88."""
    return [one for one in labelled_settings() if one.n > 20]


def ranked_settings() -> list[Setting]:
    """For what describes the ranking: with a score that finds errors, and one that doesn't."""
    routed = [one for one in settings() if not one.biased]
    return [replace(one, blind=blind) for blind, one in product((False, True), routed)]


def labelled_settings() -> list[Setting]:
    """With people's labels for everything."""
    every = product((20, 80, 400, 1000), ERRORS, (False, True))
    return [Setting(n, 0, error, biased=False, blind=blind) for n, error, blind in every]


def tied(every: list[Setting]) -> list[Setting]:
    """These settings with few levels of the score, and with so many that ties are rare."""
    return [replace(one, levels=levels) for levels in EDGES for one in every]


@dataclass(frozen=True, slots=True)
class Project:
    """score: what was ranked by; question: (N,) codes; the others: of all examples like these."""

    human: Signs
    judge: Signs
    design: Design
    audit: NDArray[np.intp]
    score: Floats
    question: Codes
    area: float
    curve: ReviewCurve
    kappa: float

    def labels(self) -> AuditedLabels:
        """What the win rate is estimated from."""
        human, judge = (win_points(signs) for signs in (self.human, self.judge))
        selected = self.design.selected
        return AuditedLabels(
            human[selected], judge[~selected], human[self.audit], judge[self.audit]
        )


def repeated_settings() -> list[Setting]:
    """With labels for everything, and several examples to a question."""
    every = product((80, 400), (0.05, 0.25, 0.50), (2, 5))
    return [Setting(n, 0, error, biased=False, repeats=each) for n, error, each in every]


def project(setting: Setting, rng: np.random.Generator) -> Project:
    """The top 20 % of a score that finds errors fairly well is selected, the audit drawn after."""
    n = setting.n
    human = rng.choice(np.array([1, 0, -1], np.int8), n, p=HUMAN_SHARES)
    if setting.biased:
        # Only what was not a win can err towards response 1, so those err more often.
        wrong = (human < 1) & (rng.random(n) < setting.error / (1 - HUMAN_SHARES[0]))
        judge = np.where(wrong, 1, human)
    else:
        wrong = rng.random(n) < setting.error
        if setting.repeats > 1:
            shared = wrong[:: setting.repeats].repeat(setting.repeats)[:n]
            wrong = np.where(rng.random(n) < TOGETHER, shared, wrong)
        judge = np.where(wrong, (human + 1 + rng.integers(1, 3, n)) % 3 - 1, human)
    shift = 0.0 if setting.blind else SHIFT
    drawn = rng.normal(1.5 + shift * wrong, SPREAD)
    score = np.searchsorted(EDGES[setting.levels], drawn).astype(float)
    order = np.argsort(-(score + rng.random(n) * 0.5))
    m = cut(n, BETA) if setting.audit else n
    selected, audited = np.zeros(n, bool), np.zeros(n, bool)
    selected[order[:m]] = True
    audit = rng.choice(order[m:], setting.audit, replace=False)
    audited[audit] = True
    design = Design(selected, audited)
    question = np.arange(n) // setting.repeats
    population = area_of(setting), curve_of(setting), kappa_of(setting)
    return Project(human, judge.astype(np.int8), design, audit, score, question, *population)


def _levels(setting: Setting) -> tuple[Floats, Floats]:
    """How the scores of right and of wrong labels are spread over the levels."""
    edges = np.concatenate(([-np.inf], EDGES[setting.levels], [np.inf]))
    shift = 0.0 if setting.blind else SHIFT
    right, wrong = (np.diff(norm.cdf(edges, 1.5 + more, SPREAD)) for more in (0.0, shift))
    return right, wrong


@cache
def area_of(setting: Setting) -> float:
    """The AUROC that the score has among all examples like these."""
    right, wrong = _levels(setting)
    return float(wrong @ (np.cumsum(right) - right / 2))


@cache
def curve_of(setting: Setting) -> ReviewCurve:
    """Accuracy after a review of a share of all examples like these."""
    right, wrong = _levels(setting)
    share = (1 - setting.error) * right + setting.error * wrong
    return review_curve(np.arange(len(share)), (1 - setting.error) * right / share, weight=share)


@cache
def kappa_of(setting: Setting) -> float:
    """The kappa of an unbiased judge and people on all examples like these."""
    human = np.array(HUMAN_SHARES)
    table = np.diag(human * (1 - setting.error)) + (1 - np.eye(3)) * setting.error / 2 * human
    found = cohen_kappa(table)
    assert isinstance(found, float)
    return found
