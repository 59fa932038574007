"""How often certificates and cascades promise too much, where the judges are just too bad."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import product

import numpy as np

from benchmarks.simulations.projects import LEVELS
from judging.methods.arrays import Counts
from judging.methods.intervals.estimates import Undefined
from judging.methods.review.certificate import (
    Certificate,
    CertificatePlan,
    Tallies,
    certify,
    first_sure,
    trust_or_escalate,
)
from judging.methods.review.teaching import simulated_confidence

ALPHA = 0.05
# SCIENCE.md §16: 5 % of 10,000 and what chance may add.
MOST_FALSE_OF_10_000 = 569


@dataclass(frozen=True, slots=True)
class Case:
    """n_rest examples in equal levels; from level `bad_from` on the share wrong exceeds epsilon."""

    n_rest: int
    epsilon: float
    bad_from: int
    looks: tuple[int, ...]

    def __str__(self) -> str:
        place = {0: "first", LEVELS // 2: "middle"}.get(self.bad_from, "no")
        sizes = " and ".join(map(str, self.looks))
        return f"N_U={self.n_rest}, ε={self.epsilon:.0%}, too bad from the {place} on, n={sizes}"

    def wrong_of_level(self) -> Counts:
        """Wrong labels in each level: a quarter of epsilon before, just too many from there."""
        size = np.arange(1, LEVELS + 1) * (self.n_rest // LEVELS)
        good = np.floor(self.epsilon * size / 4)
        too_bad = np.floor(self.epsilon * size) + 1
        total = np.where(np.arange(LEVELS) < self.bad_from, good, too_bad)
        return np.diff(total, prepend=0).astype(np.int64)


def cases() -> list[Case]:
    every = product((300, 900), (0.05, 0.10, 0.20), (0, LEVELS // 2), ((200,), (100, 200)))
    return [Case(*each) for each in every]


@dataclass(frozen=True, slots=True)
class Promise:
    """issued and false: in how many of the repeats."""

    case: str
    repeats: int
    issued: int
    false: int
    most: int = MOST_FALSE_OF_10_000

    def passes(self) -> bool:
        return self.false <= self.most * self.repeats / 10_000


def simulate(case: Case, repeats: int, seed: int) -> Promise:
    """Audit a project of this case again and again, and look when the plan says so."""
    rng = np.random.default_rng([seed, case.n_rest, int(100 * case.epsilon), case.bad_from])
    plan = CertificatePlan(case.epsilon, ALPHA, case.looks, tuple(map(float, range(LEVELS))))
    wrong = case.wrong_of_level()
    cells = np.concatenate((wrong, case.n_rest // LEVELS - wrong))
    issued = false = 0
    for _ in range(repeats):
        untrue = list(_looks(plan, cells, rng))
        issued += bool(untrue)
        false += any(untrue)
    return Promise(str(case), repeats, issued, false)


def _looks(plan: CertificatePlan, cells: Counts, rng: np.random.Generator) -> Iterator[bool]:
    """For each certificate that the looks issue, whether more than epsilon of it is wrong."""
    left, seen = cells.copy(), np.zeros_like(cells)
    for look in plan.looks:
        drawn = rng.multivariate_hypergeometric(left, look - int(seen.sum()))
        left, seen = left - drawn, seen + drawn
        size, audited = _by_threshold(cells), _by_threshold(seen)
        wrong = np.cumsum(seen[:LEVELS])
        result = certify(plan, Tallies(size, audited, wrong), look)
        if isinstance(result, Certificate):
            t = int(result.threshold)
            unseen_wrong = int(left[:LEVELS][: t + 1].sum())
            yield unseen_wrong > plan.epsilon * result.n_from_judge


def _by_threshold(cells: Counts) -> Counts:
    return np.cumsum(cells[:LEVELS] + cells[LEVELS:])


DELTA = 0.1
# 10 % of 10,000 and what chance may add.
MOST_BROKEN_OF_10_000 = 1_095


@dataclass(frozen=True, slots=True)
class CascadeCase:
    """Judges in a row about n examples, of which people label some. Up to the level `bad_from` a
    quarter of epsilon of each judge's labels are wrong, and from there on so many that what is kept
    is just too bad."""

    n: int
    judges: int
    epsilon: float
    labels: int
    bad_from: int

    def __str__(self) -> str:
        place = {0: "first", LEVELS // 2: "middle"}[self.bad_from]
        return (
            f"N={self.n}, {self.judges} judges, agreement {1 - self.epsilon:.0%}, "
            f"too bad from the {place} on, {self.labels} labels"
        )


def cascade_cases() -> list[CascadeCase]:
    every = product((200, 1000), (1, 3), (0.1, 0.2), (60, 120), (0, LEVELS // 2))
    return [CascadeCase(*each) for each in every]


def simulate_cascade(case: CascadeCase, repeats: int, seed: int) -> Promise:
    """Let people label random samples of one project again and again."""
    rng = np.random.default_rng([seed, *(int(100 * one) for one in astuple(case))])
    level = rng.integers(0, LEVELS, (case.judges, case.n))
    wrong = np.zeros(level.shape, bool)
    # Level by level, the labels that enter are made as wrong as the case says.
    for threshold in range(LEVELS):
        judge = first_sure(level, threshold)
        kept = np.flatnonzero(judge >= 0)
        share = case.epsilon / 4 if threshold < case.bad_from else case.epsilon
        most = int(share * len(kept)) + (threshold >= case.bad_from)
        have = int(wrong[judge[kept], kept].sum())
        new = kept[level[judge[kept], kept] == threshold]
        more = rng.permutation(new)[: max(most - have, 0)]
        wrong[judge[more], more] = True
    issued = false = 0
    for _ in range(repeats):
        sample = np.zeros(case.n, bool)
        sample[rng.choice(case.n, case.labels, replace=False)] = True
        found = trust_or_escalate(level.astype(float), wrong, sample, case.epsilon, DELTA)
        if isinstance(found, Undefined):
            continue
        judge = first_sure(level, found.threshold)
        kept = np.flatnonzero((judge >= 0) & ~sample)
        issued += 1
        false += bool(wrong[judge[kept], kept].sum() > case.epsilon * len(kept) + 1e-9)
    return Promise(str(case), repeats, issued, false, MOST_BROKEN_OF_10_000)


# Without annotators, BPDE rests on as many samples of each order.
VOTERS, ANNOTATORS = 3, 5
PAIRS, LABELS = 400, 160
# How much people differ from each other, and how the judge errs: it sees a pair otherwise than
# people do, and its own samples hardly differ.
TASTE, ERROR, NOISE = 0.6, (0.5, 1.0), 0.15
ASKED = 0.8


@dataclass(frozen=True, slots=True)
class AnnotatorCase:
    """Which score says how sure a judge is: BPDE of its own samples, or simulated annotators.

    follows: how well the judge takes up a person's taste from votes, 0 to 1.
    """

    score: str
    error: float
    follows: float

    def __str__(self) -> str:
        by = f"{self.score}, tastes taken up by {self.follows:.0%}" if self.follows else self.score
        return f"agreement {ASKED:.0%}, judge's error {self.error}, by {by}"


def annotator_cases() -> list[AnnotatorCase]:
    ways = (("BPDE", 0.0), ("simulated annotators", 1.0), ("simulated annotators", 0.3))
    return [AnnotatorCase(score, error, follows) for error in ERROR for score, follows in ways]


def simulate_annotators(case: AnnotatorCase, repeats: int, seed: int) -> Promise:
    """Judge and label a new project again and again.

    A pair has a quality difference; a person adds a taste of their own, and three people vote. The
    judge sees the difference with an error, and adds the taste of whom it imitates: other people.
    """
    rng = np.random.default_rng([seed, int(10 * case.error)])
    issued = false = kept = 0
    simulates = case.follows > 0
    for _ in range(repeats):
        better = rng.normal(size=PAIRS)
        tastes = TASTE * rng.normal(size=(VOTERS + ANNOTATORS, PAIRS))
        human = np.sign(np.sign(better + tastes[:VOTERS]).sum(axis=0))
        seen = better + case.error * rng.normal(size=PAIRS)
        noise = NOISE * rng.normal(size=(2, ANNOTATORS, PAIRS))
        said = np.sign(seen + noise + case.follows * tastes[VOTERS:])
        signs = said.transpose(2, 0, 1).astype(np.int8)
        label = np.sign(said.sum(axis=(0, 1))).astype(np.int8)
        if simulates:
            unsure = 1 - simulated_confidence(signs, np.ones(signs.shape, bool), label)
        else:
            share = (signs > 0).mean(axis=(1, 2))
            unsure = np.array([-sum(p * np.log(p) for p in (s, 1 - s) if p) for s in share])
        wrong = label != human
        sample = np.zeros(PAIRS, bool)
        sample[rng.choice(PAIRS, LABELS, replace=False)] = True
        found = trust_or_escalate(unsure[None], wrong[None], sample, 1 - ASKED, DELTA)
        if isinstance(found, Undefined):
            continue
        rest = (unsure <= found.threshold) & ~sample
        issued += 1
        kept += int(rest.sum())
        false += bool(wrong[rest].sum() > (1 - ASKED) * rest.sum() + 1e-9)
    share_kept = kept / repeats / (PAIRS - LABELS)
    return Promise(f"{case}: keeps {share_kept:.0%}", repeats, issued, false, MOST_BROKEN_OF_10_000)
