"""Whether the cheapest plan reaches the goal that it was chosen for, as often as it promises.

Two or three judges of known errors label a large population of examples, in which every plan's true
figure is known. A random sample is labelled by people. The search chooses the cheapest plan that it
can show to reach the goal, and the promise is broken if that plan's true figure does not reach it.
For a certificate and a win rate, the plan is carried out: an audit is drawn, and the promise is
broken if it does not certify, or if the interval is wider than asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from scipy.special import expit
from scipy.stats import binom

from judging.methods.arrays import Codes, Floats, Signs
from judging.methods.intervals.estimates import exact_lower_limit
from judging.methods.intervals.win_rate import About, AuditedLabels, win_points, win_rate
from judging.methods.review.pipelines import (
    LEVEL,
    Asked,
    Chain,
    Goal,
    Plans,
    at_random,
    by_rank,
    choose,
    fewer_samples,
    in_a_row,
    label_loss,
    people_alone,
    search,
    stopped_early,
)

MANY = 20_000
EXAMPLES = 1_000
VOTE_USD = 1.125
# Skill in logits, how much its errors follow what is hard, and USD per sample.
JUDGES = {
    "strong and weak": ((2.6, 1.5, 0.02), (0.9, 1.0, 0.001)),
    "three alike": ((1.6, 1.2, 0.004), (1.5, 1.2, 0.003), (1.4, 1.2, 0.002)),
    "sure of its errors": ((1.8, 0.0, 0.01), (0.4, 0.0, 0.001)),
}
# What people's labels of 3 votes would be with one vote.
ONE_VOTE = 0.92


@dataclass(frozen=True, slots=True)
class Case:
    judges: str
    labels: int
    goal: Goal
    value: float

    def __str__(self) -> str:
        told = {
            Goal.ACCURACY: f"accuracy ≥ {self.value:.0%}",
            Goal.CERTIFICATE: f"certificate ≤ {self.value:.0%}",
            Goal.WIN_RATE: f"win rate ± {self.value:.2f}",
        }[self.goal]
        return f"{self.judges}, {self.labels} labels, {told}"


def cases() -> list[Case]:
    goals = [
        (Goal.ACCURACY, 0.85), (Goal.ACCURACY, 0.90), (Goal.ACCURACY, 0.95),
        (Goal.CERTIFICATE, 0.15), (Goal.WIN_RATE, 0.06),
    ]  # fmt: skip
    return [Case(judges, n, *goal) for judges, n, goal in product(JUDGES, (100, 300), goals)]


@dataclass(frozen=True, slots=True)
class Kept:
    """recommended: repeats in which a plan with a judge was recommended. broken: of all repeats,
    those in which the plan misses its goal. saved: mean share of the cost of people alone that the
    recommended plan saves. plans: how many were compared. level: mean of the paid level."""

    case: str
    repeats: int
    plans: int
    recommended: int
    broken: int
    saved: float
    level: float

    def passes(self) -> bool:
        """Whether so many broken promises are no surprise at 95 %."""
        return bool(binom.sf(self.broken - 1, self.repeats, 1 - LEVEL) > 1e-3)


@dataclass(frozen=True, slots=True)
class Population:
    """human: (MANY,). chains: over all examples, so that rows of a sample can be taken from them.

    votes: (MANY,) how often one vote is the label of three."""

    human: Signs
    chains: tuple[Chain, ...]
    votes: Floats


@cache
def population(judges: str, goal: Goal, seed: int) -> Population:
    rng = np.random.default_rng([seed, sorted(JUDGES).index(judges)])
    hard = rng.normal(size=MANY)
    human = np.where(rng.random(MANY) < 0.55, 1, -1).astype(np.int8)
    every = np.arange(MANY)
    chains = [people_alone(MANY)]
    row = []
    for skill, follows, usd in JUDGES[judges]:
        # A lasting opinion on each pair, and noise of each sample and of its position.
        opinion = skill - follows * hard + rng.normal(0, 1.0, MANY)
        noise = rng.normal(0, 1.2, (MANY, 2, 3)) + np.array([0.5, -0.5])[None, :, None]
        points = np.rint(2 * (human[:, None, None] * opinion[:, None, None] + noise))
        difference = np.clip(points, -9, 9).astype(np.int64)
        valid = rng.random(difference.shape) < 0.99
        whole = fewer_samples(difference, valid, 1, 3, rng, both_orders=True)
        ways = [(whole, 6 * usd)]
        for k, both in ((1, True), (2, True), (1, False), (3, False)):
            made = fewer_samples(difference, valid, 1, k, rng, both_orders=both)
            ways.append((made, k * (1 + both) * usd))
        early = stopped_early(difference, valid, 1, 9)
        ways.append((early, 2 * float(early.rounds.mean()) * usd))
        for made, price in ways:
            loss = label_loss(goal, made.sign, made.judged, human, knows_ties=False)
            chains += [by_rank(made.place, every, loss, price), at_random(loss, price)]
        unsure = np.where(whole.judged[0], -whole.place[0].astype(float), np.nan)
        loss = label_loss(goal, whole.sign[0], whole.judged[0], human, knows_ties=False)
        row.append((unsure, loss, 6 * usd))
    cheap_first = sorted(row, key=lambda one: one[2])
    for start in range(len(row) - 1):
        unsure, loss, usd = (np.array(part) for part in zip(*cheap_first[start:], strict=True))
        chains.append(in_a_row(unsure, every, loss, usd.tolist()))
    # A vote alone is right less often where it is hard.
    votes = 2 * (1 - ONE_VOTE) * expit(1.5 * hard)
    return Population(human, tuple(chains), 1 - votes)


def simulate(case: Case, repeats: int, seed: int) -> Kept:
    of = population(case.judges, case.goal, seed)
    asked = Asked(case.goal, case.value, LEVEL, EXAMPLES, VOTE_USD)
    rng = np.random.default_rng([seed, case.labels, int(1000 * case.value)])
    recommended = broken = plans = 0
    saved, levels = [], []
    for _ in range(repeats):
        rows = rng.choice(MANY, case.labels, replace=False)
        found = _search(of, rows, asked, rng)
        best = choose(found, asked).best
        plans, alone = len(found), EXAMPLES * 3 * VOTE_USD
        levels.append(found.level)
        if best is None:
            continue
        saved.append(1 - found.usd[best] / alone)
        recommended += bool(found.share[best] < 1)
        broken += bool(found.share[best] < 1 and not _reaches(of, found, best, asked, rng))
    gain = float(np.mean(saved)) if saved else 0.0
    return Kept(str(case), repeats, plans, recommended, broken, gain, float(np.mean(levels)))


def _search(of: Population, rows: Codes, asked: Asked, rng: np.random.Generator) -> Plans:
    chains = [Chain(one.share, one.usd, one.reviewed[rows], one.lost[rows]) for one in of.chains]
    right = {3: np.ones(len(rows))}
    if asked.goal is Goal.ACCURACY:
        drawn = rng.random(len(rows)) < of.votes[rows]
        right[1] = drawn.astype(float)
    return search(chains, right, asked, np.arange(len(rows)), rng)


def _reaches(
    of: Population, found: Plans, best: int, asked: Asked, rng: np.random.Generator
) -> bool:
    """Whether the plan reaches its goal where it is carried out."""
    chain = of.chains[int(found.chain[best])]
    column = int(found.column[best])
    lost, reviewed = chain.lost[:, column], chain.reviewed[:, column]
    if asked.goal is Goal.ACCURACY:
        people = 1.0 if found.votes[best] == 3 else of.votes
        return bool(1 - (lost + reviewed * (1 - people)).mean() >= asked.value)
    rate = lost.sum() / (1 - reviewed).sum()
    n = int(found.audit[best])
    if asked.goal is Goal.CERTIFICATE:
        wrong = rng.binomial(n, rate)
        return bool(1 - exact_lower_limit(n - wrong, float(n), 1 - LEVEL) <= asked.value)
    return _half(of, chain, column, n, rng) <= asked.value


def _half(of: Population, chain: Chain, column: int, audit: int, rng: np.random.Generator) -> float:
    """Half the width of the win rate's interval after the round."""
    drawn = rng.choice(MANY, EXAMPLES, replace=False)
    people = win_points(of.human[drawn])
    left = 1 - chain.reviewed[drawn, column]
    by_people = rng.random(EXAMPLES) >= left
    apart = np.sqrt(
        np.divide(chain.lost[drawn, column], left, out=np.zeros(EXAMPLES), where=left > 0)
    )
    judge = np.abs(people - apart)
    rest = np.flatnonzero(~by_people)
    seen = rng.choice(len(rest), min(audit, len(rest)), replace=False)
    labels = AuditedLabels(people[by_people], judge[rest], people[rest][seen], judge[rest][seen])
    found = win_rate(labels, about=About.EXAMPLES_LIKE_THESE)
    return (found.high - found.low) / 2
