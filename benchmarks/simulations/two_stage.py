"""Rounds that learn: whether intervals and certificate keep their promises under routing in stages.

A random learning sample is labelled, the rest is routed by the score fitted to it, and the audit
is drawn from what is left.  Judges err where they are unsure, where they prefer the longer
response, or anywhere, so that the learned score is sometimes used and sometimes not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import optimize
from scipy.special import expit

from benchmarks.simulations.coverage import (
    LEAST,
    LEAST_OF_FEWER,
    weighted_accuracy,
    win_rate_here,
    win_rate_like_these,
)
from benchmarks.simulations.projects import HUMAN_SHARES, LEVELS, Project
from judging.methods.agreement.accuracy import Design
from judging.methods.arrays import Floats, Signs
from judging.methods.intervals.estimates import Estimate, Figure, clopper_pearson
from judging.methods.review.certificate import Certificate, certificate_plan, certify, tallies
from judging.methods.review.curve import review_curve
from judging.methods.review.routing import Feature, features, routing, wrongness
from judging.methods.verdicts.verdicts import cut

LEARN = 60
EPSILON, ALPHA = 0.10, 0.05
# Log odds of an error for a standard deviation of BPDE, and of length in the verdict's favour.
KINDS = {"unsure": (1.5, 0.0), "likes length": (0.0, 2.0), "anywhere": (0.0, 0.0)}
MOST_FALSE = 0.05
# No check of these rounds needs the figures of all examples like these.
UNKNOWN = (np.nan, review_curve([0.0], [0.0]), np.nan)
STANDARD_ERRORS = 3


@dataclass(frozen=True, slots=True)
class Stages:
    """n examples, beta percent for both stages, an audit, the judge's error rate and its kind."""

    n: int
    beta: int
    audit: int
    error: float
    kind: str

    def __str__(self) -> str:
        return f"N={self.n}, β={self.beta} %, n={self.audit}, error {self.error:.0%}, {self.kind}"


def stages() -> list[Stages]:
    designs = ((400, 30, 20), (400, 30, 100), (1000, 20, 100))
    judges = [(0.05, "anywhere"), *product((0.12, 0.40), KINDS)]
    return [Stages(*design, *judge) for design, judge in product(designs, judges)]


@dataclass(frozen=True, slots=True)
class Routed:
    """A project after both stages; used: whether the second one ranked by the learned score."""

    project: Project
    used: bool


def routed(setting: Stages, rng: np.random.Generator) -> Routed:
    n = setting.n
    human = rng.choice(np.array([1, 0, -1], np.int8), n, p=HUMAN_SHARES)
    bpde = np.clip(np.rint(rng.normal(1.5, 1.2, n)), 0, LEVELS - 1)
    favour = rng.normal(size=n)
    of_bpde, of_length = KINDS[setting.kind]
    odds = of_bpde * (bpde - 1.5) / 1.2 + of_length * favour
    offset = optimize.brentq(lambda a: expit(odds + a).mean() - setting.error, -30, 30)
    wrong = rng.random(n) < expit(odds + offset)
    other = (human + 1 + rng.integers(1, 3, n)) % 3 - 1
    judge = np.where(wrong, other, human).astype(np.int8)
    return _routed(setting, human, judge, bpde, favour, rng)


def _routed(
    setting: Stages,
    human: Signs,
    judge: Signs,
    bpde: Floats,
    favour: Floats,
    rng: np.random.Generator,
) -> Routed:
    n, everyone = setting.n, np.ones(setting.n, bool)
    columns = [
        Feature("bpde", bpde),
        Feature("length in favour", favour),
        Feature("question length", rng.normal(size=n)),
    ]
    learned = rng.permutation(n)[:LEARN]
    wrong = wrongness(judge[learned], human[learned])
    found = routing(features(columns, [""] * n, everyone), bpde, everyone, learned, wrong, rng)
    score = found.probability if found.used else bpde
    selected, audited = np.zeros(n, bool), np.zeros(n, bool)
    selected[learned] = True
    order = np.lexsort((rng.random(n), -score))
    selected[order[~selected[order]][: cut(n, setting.beta) - LEARN]] = True
    audit = rng.choice(np.flatnonzero(~selected), setting.audit, replace=False)
    audited[audit] = True
    made = Project(human, judge, Design(selected, audited), audit, score, np.arange(n), *UNKNOWN)
    return Routed(made, found.used)


def unchecked_accuracy(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    right = made.judge == made.human
    return (
        clopper_pearson(float(right[made.audit].sum()), len(made.audit)),
        float(right[~made.design.selected].mean()),
    )


INTERVALS: dict[str, Callable[[Project, np.random.Generator], tuple[Figure, float]]] = {
    "win rate, this project": win_rate_here,
    "win rate, examples like these": win_rate_like_these,
    "accuracy over the project": weighted_accuracy,
    "accuracy of the unchecked part": unchecked_accuracy,
}


@dataclass(frozen=True, slots=True)
class Kept:
    """used: share of the rounds in which the learned score was. covered: of each interval, how
    often it held the truth. issued, false: certificates, and untrue ones."""

    setting: str
    repeats: int
    used: float
    covered: dict[str, float]
    issued: float
    false: float

    def passes(self) -> bool:
        least = LEAST if self.repeats >= 10_000 else LEAST_OF_FEWER
        chance = STANDARD_ERRORS * (MOST_FALSE * (1 - MOST_FALSE) / self.repeats) ** 0.5
        return min(self.covered.values()) >= least and self.false <= MOST_FALSE + chance


def simulate(setting: Stages, repeats: int, seed: int) -> Kept:
    place = (setting.n, setting.audit, int(100 * setting.error), list(KINDS).index(setting.kind))
    rng = np.random.default_rng([seed, *place])
    covered = dict.fromkeys(INTERVALS, 0)
    used = issued = false = 0
    for _ in range(repeats):
        made = routed(setting, rng)
        used += made.used
        for name, interval in INTERVALS.items():
            figure, truth = interval(made.project, rng)
            if not isinstance(figure, Estimate) or figure.low is None or figure.high is None:
                raise ValueError(f"there is no interval at {setting}")
            covered[name] += figure.low - 1e-12 <= truth <= figure.high + 1e-12
        untrue = untrue_certificate(made)
        issued += untrue is not None
        false += bool(untrue)
    shares = {name: n / repeats for name, n in covered.items()}
    return Kept(str(setting), repeats, used / repeats, shares, issued / repeats, false / repeats)


def untrue_certificate(made: Routed) -> bool | None:
    """Whether the certificate by the score of stage two is untrue; None where none is issued."""
    design, audit = made.project.design, made.project.audit
    rest, wrong = ~design.selected, made.project.judge != made.project.human
    score, looks = made.project.score, (len(audit),)
    plan = certificate_plan(score, rest, EPSILON, ALPHA, looks)
    found = certify(plan, tallies(plan.grid, score, rest, design.audited, wrong), len(audit))
    if not isinstance(found, Certificate):
        return None
    unseen = rest & ~design.audited & (score <= found.threshold)
    return float(wrong[unseen].mean()) > EPSILON
