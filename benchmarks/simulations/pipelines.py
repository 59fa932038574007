"""Whether the cheapest plan reaches the goal that it was chosen for, as often as it promises.

Two or three judges of known errors label a large population of examples, in which every plan's true
figure is known. A random sample is labelled by people. The search chooses the cheapest plan that it
can show to reach the goal, and the promise is broken if that plan's true figure does not reach it.
A learned plan is carried out: fresh labels, with as many votes as it has, teach another rank.
For a certificate and a win rate, the plan is carried out: an audit is drawn, and the promise is
broken if it does not certify, or if the interval is wider than asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
from scipy.special import expit
from scipy.stats import binom

from judging.methods.arrays import Booleans, Codes, Floats, Integers, Signs
from judging.methods.intervals.estimates import exact_lower_limit
from judging.methods.intervals.win_rate import About, AuditedLabels, win_points, win_rate
from judging.methods.review.pipelines import (
    LEVEL,
    Asked,
    Chain,
    Goal,
    Plans,
    Replays,
    at_random,
    by_rank,
    choose,
    fewer_samples,
    in_a_row,
    label_loss,
    lessons,
    people_alone,
    search,
    stopped_early,
)
from judging.methods.review.routing import (
    Features,
    Judged,
    features,
    judged_features,
    smoothed_entropies,
    wrongness,
)
from judging.methods.verdicts.arrays import verdict_arrays

MANY = 20_000
EXAMPLES = 1_000
VOTE_USD = 1.125
# Skill in logits, how much its errors follow what is hard, and USD per sample.
JUDGES = {
    "strong and weak": ((2.6, 1.5, 0.02), (0.9, 1.0, 0.001)),
    "three alike": ((1.6, 1.2, 0.004), (1.5, 1.2, 0.003), (1.4, 1.2, 0.002)),
    "sure of its errors": ((1.8, 0.0, 0.01), (0.4, 0.0, 0.001)),
    "won over by length": ((2.0, 0.8, 0.01), (1.2, 0.8, 0.001)),
}
# What a response that is longer by a standard deviation gains, in logits.
PREFERENCE = {"won over by length": 1.5}
# As many random labels as a round learns from, if the sample is twice as large.
LEARN = 60
# What people's labels of 3 votes would be with one vote.
ONE_VOTE = 0.92


@dataclass(frozen=True, slots=True)
class Case:
    """learned_only: whether only learned plans and people alone are compared."""

    judges: str
    labels: int
    goal: Goal
    value: float
    learned_only: bool = False

    def __str__(self) -> str:
        told = {
            Goal.ACCURACY: f"accuracy ≥ {self.value:.0%}",
            Goal.CERTIFICATE: f"certificate ≤ {self.value:.0%}",
            Goal.WIN_RATE: f"win rate ± {self.value:.2f}",
        }[self.goal]
        only = ", learned only" if self.learned_only else ""
        return f"{self.judges}, {self.labels} labels, {told}{only}"


def cases() -> list[Case]:
    goals = [
        (Goal.ACCURACY, 0.85), (Goal.ACCURACY, 0.90), (Goal.ACCURACY, 0.95),
        (Goal.CERTIFICATE, 0.15), (Goal.WIN_RATE, 0.06),
    ]  # fmt: skip
    every = [Case(judges, n, *goal) for judges, n, goal in product(JUDGES, (100, 300), goals)]
    return every + [replace(one, learned_only=True) for one in every if one.judges in PREFERENCE]


@dataclass(frozen=True, slots=True)
class Kept:
    """recommended: repeats in which a plan with a judge was recommended, and learned: in which it
    was a learned one. broken: of all repeats, those in which the plan misses its goal. saved: mean
    share of the cost of people alone that the recommended plan saves. plans: how many were
    compared, at most. level: mean of the paid level."""

    case: str
    repeats: int
    plans: int
    recommended: int
    learned: int
    broken: int
    saved: float
    level: float

    def passes(self) -> bool:
        """Whether so many broken promises are no surprise at 95 %."""
        return bool(binom.sf(self.broken - 1, self.repeats, 1 - LEVEL) > 1e-3)


@dataclass(frozen=True, slots=True)
class Teachable:
    """A judge of all examples, whose errors labels may teach. loss: (MANY,) of its labels.

    whole: all of its samples. level: (MANY,) BPDE. usd: per example."""

    columns: Features
    whole: Replays
    level: Floats
    loss: Floats
    usd: float

    def taught_by(
        self, human: Signs, sample: Codes, size: int, tested: Codes, rng: np.random.Generator
    ) -> tuple[Chain, bool]:
        """Return the plans by what labels teach, and whether any rank is learned.

        Args:
            human: (n,) labels of the sample, of which `size` teach at a time.
            tested: the sample again, or all examples if it is fresh."""
        wrong = wrongness(self.whole.sign[0][sample], human)
        judged = self.whole.judged[0]
        found = lessons(self.columns, self.whole, self.level, judged, sample, wrong, size, rng)
        loss = np.broadcast_to(self.loss[tested], (len(found.place), len(tested)))
        taught = found.taught if len(tested) == len(sample) else None
        drawn = size / EXAMPLES
        chain = by_rank(found.place, tested, loss, self.usd, drawn=drawn, taught=taught)
        return chain, found.used


@dataclass(frozen=True, slots=True)
class Population:
    """human: (MANY,). chains: over all examples, so that rows of a sample can be taken from them.

    votes: (MANY,) how often one vote is the label of three. judges: those of learned plans."""

    human: Signs
    chains: tuple[Chain, ...]
    votes: Floats
    judges: tuple[Teachable, ...]


@cache
def population(judges: str, goal: Goal, seed: int) -> Population:
    rng = np.random.default_rng([seed, sorted(JUDGES).index(judges)])
    hard = rng.normal(size=MANY)
    human = np.where(rng.random(MANY) < 0.55, 1, -1).astype(np.int8)
    every = np.arange(MANY)
    chains = [people_alone(MANY)]
    row: list[tuple[Floats, Floats, float]] = []
    teachable = []
    lengths = _lengths(np.random.default_rng([seed, MANY]))
    longer = np.log(lengths[0] / lengths[1])
    longer = PREFERENCE.get(judges, 0.0) * longer / longer.std()
    for skill, follows, usd in JUDGES[judges]:
        # A lasting opinion on each pair, and noise of each sample and of its position.
        opinion = skill - follows * hard + rng.normal(0, 1.0, MANY)
        noise = rng.normal(0, 1.2, (MANY, 2, 3)) + np.array([0.5, -0.5])[None, :, None]
        opinion = human * opinion + longer
        points = np.rint(2 * (opinion[:, None, None] + noise))
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
        if judges in PREFERENCE:
            teachable.append(_teachable(whole, difference, valid, lengths, loss, 6 * usd))
    cheap_first = sorted(row, key=lambda one: one[2])
    for start in range(len(row) - 1):
        unsure, loss, usd = (np.array(part) for part in zip(*cheap_first[start:], strict=True))
        chains.append(in_a_row(unsure, every, loss, usd.tolist()))
    # A vote alone is right less often where it is hard.
    votes = 2 * (1 - ONE_VOTE) * expit(1.5 * hard)
    return Population(human, tuple(chains), 1 - votes, tuple(teachable))


def _lengths(rng: np.random.Generator) -> Floats:
    """Characters of both responses and of the question."""
    return np.exp(rng.normal(6.0, 0.5, (3, MANY)))


def _teachable(
    whole: Replays,
    difference: Integers,
    valid: Booleans,
    lengths: Floats,
    loss: Floats,
    usd: float,
) -> Teachable:
    scores = np.stack((difference, np.zeros_like(difference)), axis=-1)
    verdicts, outcomes = verdict_arrays(scores, valid, 1), np.sign(difference).astype(np.int8)
    judged = Judged(
        whole.sign[0], smoothed_entropies(outcomes, valid), verdicts.gap, outcomes, valid, *lengths
    )
    columns = features(judged_features(judged), [""] * MANY, whole.judged[0])
    return Teachable(columns, whole, verdicts.bpde, loss, usd)


def simulate(case: Case, repeats: int, seed: int) -> Kept:
    of = population(case.judges, case.goal, seed)
    if case.learned_only:
        of = replace(of, chains=of.chains[:1])
    asked = Asked(case.goal, case.value, LEVEL, EXAMPLES, VOTE_USD)
    rng = np.random.default_rng([seed, case.labels, int(1000 * case.value)])
    size = min(LEARN, case.labels // 2)
    recommended = learned = broken = plans = 0
    saved, levels = [], []
    for _ in range(repeats):
        rows = rng.choice(MANY, case.labels, replace=False)
        right = {3: np.ones(case.labels)}
        if case.goal is Goal.ACCURACY:
            # One vote of three is drawn, which gives another label where people disagree.
            right[1] = (rng.random(case.labels) < of.votes[rows]).astype(float)
        taught = []
        for judge, votes in product(of.judges, right):
            labels = np.where(right[votes] == 1, of.human[rows], -of.human[rows])
            chain, used = judge.taught_by(labels, rows, size, rows, rng)
            # A judge of whom nothing is learned has no learned plans.
            if used:
                taught.append((judge, replace(chain, votes=votes)))
        chains = [Chain(each.share, each.usd, each.reviewed[rows], each.lost[rows])
                  for each in of.chains]  # fmt: skip
        chains += [chain for _, chain in taught]
        found = search(chains, right, asked, np.arange(len(rows)), rng)
        best = choose(found, asked).best
        plans, alone = max(plans, len(found)), EXAMPLES * 3 * VOTE_USD
        levels.append(found.level)
        if best is None:
            continue
        saved.append(1 - found.usd[best] / alone)
        if found.share[best] == 1:
            continue
        recommended += 1
        at = int(found.chain[best])
        if at < len(of.chains):
            chain = of.chains[at]
        else:
            learned += 1
            judge, _ = taught[at - len(of.chains)]
            chain = _carried_out(of, judge, size, int(found.votes[best]), rng)
        broken += not _reaches(of, chain, found, best, asked, rng)
    gain = float(np.mean(saved)) if saved else 0.0
    level = float(np.mean(levels))
    return Kept(str(case), repeats, plans, recommended, learned, broken, gain, level)


def _carried_out(
    of: Population, judge: Teachable, size: int, votes: int, rng: np.random.Generator
) -> Chain:
    """What a round reaches that learns by fresh labels, each of as many votes as the plan has."""
    fresh = rng.choice(MANY, size, replace=False)
    wrong = rng.random(size) >= of.votes[fresh] if votes == 1 else np.zeros(size, bool)
    labels = np.where(wrong, -of.human[fresh], of.human[fresh]).astype(np.int8)
    return judge.taught_by(labels, fresh, size, np.arange(MANY), rng)[0]


def _reaches(
    of: Population, chain: Chain, found: Plans, best: int, asked: Asked, rng: np.random.Generator
) -> bool:
    """Whether the plan reaches its goal where it is carried out."""
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
