"""Annotators with a skill of their own: do models of votes find it, and are they rightly sure?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from benchmarks.simulations.coverage import Check, Found, Rng, held
from judging.methods.agreement.noise import said_as_people, split, without_noise
from judging.methods.agreement.skills import (
    CLASSES,
    CastVotes,
    DawidSkene,
    Hierarchical,
    dawid_skene,
    hierarchical,
    two_way_alpha,
)
from judging.methods.arrays import Codes, Floats
from judging.methods.intervals.bootstrap import plus_two_mean

SHARES = np.array([0.4, 0.2, 0.4])
GUESS = np.array([0.35, 0.3, 0.35])
TYPICAL = np.array([[0.80, 0.12, 0.08], [0.20, 0.60, 0.20], [0.08, 0.12, 0.80]])
CAREFUL = np.array([[0.92, 0.05, 0.03], [0.10, 0.80, 0.10], [0.03, 0.05, 0.92]])


@dataclass(frozen=True, slots=True)
class People:
    """alike: the concentration around the typical person. hard: mean chance of a guess."""

    examples: int
    raters: int
    each: int
    typical: Floats
    alike: float
    hard: float

    def draw(self, rng: Rng) -> tuple[CastVotes, Codes, Floats]:
        """Return the votes, (N,) the right labels, and (raters,) skills."""
        n, votes = self.examples, self.examples * self.each
        truth = rng.choice(CLASSES, n, p=SHARES)
        errors = np.stack([rng.dirichlet(self.alike * row, self.raters) for row in self.typical], 1)
        hard = rng.beta(2 * self.hard, 2 * (1 - self.hard), n) if self.hard else np.zeros(n)
        rater = np.argsort(rng.random((n, self.raters)), axis=1)[:, : self.each].reshape(-1)
        example = np.repeat(np.arange(n), self.each)
        chance = errors[rater, truth[example]]
        guesses = rng.random(votes) < hard[example]
        chance = np.where(guesses[:, None], GUESS, chance)
        label = (rng.random(votes)[:, None] > np.cumsum(chance, axis=1)[:, :-1]).sum(axis=1)
        knows = (1 - self.hard) * np.einsum("rtt->rt", errors) + self.hard * GUESS
        return CastVotes(example, rater, label, n, self.raters), truth, knows @ SHARES


def populations() -> Iterator[tuple[str, People]]:
    for (name, typical), (n, raters, each), hard in product(
        (("careful", CAREFUL), ("careless", TYPICAL)),
        ((80, 3, 3), (300, 6, 3), (300, 20, 2)),
        (0.0, 0.2),
    ):
        words = f"N={n}, {each} of {raters} {name} people, {hard:.0%} guesses"
        yield words, People(n, raters, each, typical, 12.0, hard)


def skill_checks() -> Iterator[Check]:
    """Coverage of every skill: of a person drawn at random in each repeat."""
    for words, people in populations():

        def draw(rng: Rng, people: People = people) -> dict[str, Found | None]:
            votes, _, skill = people.draw(rng)
            found = hierarchical(votes)
            assert isinstance(found, Hierarchical)
            one = int(rng.integers(people.raters))
            figures = {"skill of an annotator": held(found.skill(one, 1), float(skill[one]))}
            # Without any guess the truth is the end of the range, which no interval reaches.
            if people.hard:
                figures["votes that are guesses"] = held(found.mean_difficulty(), people.hard)
            return figures

        yield Check(words, draw)


def noise_checks() -> Iterator[Check]:
    """Votes that are right or drawn at random, independently, and such a judge."""
    for (n, each), right, judge_right in product(
        ((80, 2), (80, 3), (400, 3), (1000, 2)), (0.5, 0.8, 0.95), (0.3, 0.7, 0.95)
    ):
        chance = float((SHARES**2).sum())
        corrected = judge_right + (1 - judge_right) * chance
        with_vote = judge_right * right + (1 - judge_right * right) * chance
        share = (corrected - with_vote) / (1 - with_vote)

        def draw(
            rng: Rng,
            n: int = n,
            each: int = each,
            right: float = right,
            judge_right: float = judge_right,
            truth: tuple[float, float] = (corrected, share),
        ) -> dict[str, Found | None]:
            label = rng.choice(CLASSES, n, p=SHARES)
            random = rng.choice(CLASSES, (n, each + 1), p=SHARES)
            knows = rng.random((n, each + 1)) < np.r_[np.full(each, right), judge_right]
            said = np.where(knows, label[:, None], random)
            counts = np.stack([(said[:, :-1] == one).sum(axis=1) for one in range(CLASSES)], 1)
            judge, rows = (1 - said[:, -1]).astype(np.int8), np.arange(n)
            design = {"weight": np.ones(n), "stratum": np.zeros(n, np.intp), "question": rows}
            found = without_noise(judge, np.ones(n, bool), counts, rng, **design)
            return {
                "agreement corrected for noise": held(found.corrected, truth[0]),
                "share of people's noise": held(found.share, truth[1]),
            }

        yield Check(f"N={n}, {each} votes right in {right:.0%}, judge in {judge_right:.0%}", draw)


def two_way_checks() -> Iterator[Check]:
    """Annotators who know what is right with a chance of their own: alpha is its mean squared."""
    for (n, raters, each), (mean, same) in product(
        ((80, 3, 3), (80, 8, 2), (400, 3, 3), (400, 8, 3), (400, 20, 2)),
        ((0.4, 20.0), (0.7, 10.0), (0.7, 40.0), (0.9, 40.0)),
    ):

        def draw(
            rng: Rng,
            n: int = n,
            raters: int = raters,
            each: int = each,
            mean: float = mean,
            same: float = same,
        ) -> dict[str, Found | None]:
            knows = rng.beta(mean * same, (1 - mean) * same, raters)
            label = rng.choice(CLASSES, n, p=SHARES)
            rater = np.argsort(rng.random((n, raters)), axis=1)[:, :each]
            random = rng.choice(CLASSES, (n, each), p=SHARES)
            said = np.where(rng.random((n, each)) < knows[rater], label[:, None], random)
            place = np.repeat(np.arange(n), each)
            votes = CastVotes(place, rater.reshape(-1), said.reshape(-1), n, raters)
            found = two_way_alpha(votes, np.arange(n), rng)
            return {"alpha for other annotators": held(found, mean**2)}

        yield Check(f"N={n}, {each} of {raters} people, know {mean:.0%}, spread {same:g}", draw)


@dataclass(frozen=True, slots=True)
class Sureness:
    """How often labels are right, by rule, and how sure the two models are of theirs. skill_error:
    root of the mean squared error of a skill, by model. A model is as sure as it is right if both
    shares are within two standard errors and one point."""

    setting: str
    repeats: int
    majority: float
    right: tuple[float, float]
    sure: tuple[float, float]
    error: tuple[float, float]
    skill_error: tuple[float, float]

    def passes(self) -> bool:
        """Whether the hierarchical model is as sure as it is right; Dawid-Skene need not be."""
        return abs(self.sure[1] - self.right[1]) <= 0.02 + 2 * self.error[1]


def simulate(place: int, *, repeats: int, seed: int) -> Sureness:
    words, people = list(populations())[place]
    rng = np.random.default_rng([seed, 77, place])
    rows: list[list[float]] = []
    for _ in range(repeats):
        votes, truth, skill = people.draw(rng)
        counts = np.add.reduceat(np.eye(CLASSES)[votes.label], votes.starts)
        majority = np.where(2 * counts.max(axis=1) > people.each, counts.argmax(axis=1), -1)
        simple, pooled = dawid_skene(votes), hierarchical(votes)
        assert isinstance(simple, DawidSkene)
        assert isinstance(pooled, Hierarchical)
        row = [float((majority == truth).mean())]
        row += [float((one.posterior.argmax(axis=1) == truth).mean()) for one in (simple, pooled)]
        row += [float(one.posterior.max(axis=1).mean()) for one in (simple, pooled)]
        found = (simple.skill, pooled.skills.mean(axis=0))
        rows.append([*row, *(float(np.square(one - skill).mean()) for one in found)])
    table = np.array(rows)
    mean = table.mean(axis=0).tolist()
    apart = (table[:, 1:3] - table[:, 3:5]).std(axis=0, ddof=1) / repeats**0.5
    return Sureness(
        words,
        repeats,
        mean[0],
        (mean[1], mean[2]),
        (mean[3], mean[4]),
        (float(apart[0]), float(apart[1])),
        (mean[5] ** 0.5, mean[6] ** 0.5),
    )


SAMPLES = 3


def _parts(n: int, torn: float, lean: float, noisy: float, rng: Rng) -> Floats:
    """(disagreements, parts) of n examples: the judge is torn on some, of which the order moves a
    part, and errs for good on others; people's label is wrong with a chance of its own."""
    truth = rng.choice(np.array([1, -1], np.int8), n)
    unsure, wrong = rng.random(n) < torn, rng.random(n) < 0.15
    right = np.where(unsure, 0.5, np.where(wrong, 0.0, 1.0))
    moved = np.where(unsure, lean * truth, 0.0)
    chance = np.clip(np.stack((right + moved, right - moved), axis=1), 0, 1)[:, :, None]
    signs = np.where(
        rng.random((n, 2, SAMPLES)) < chance, truth[:, None, None], -truth[:, None, None]
    )
    judge = np.sign(signs.sum(axis=(1, 2)))
    human = np.where(rng.random(n) < noisy, -truth, truth)
    explained = np.zeros((n, 4))
    valid = np.ones(signs.shape, bool)
    explained[:, 0], explained[:, 1] = said_as_people(signs, valid, human)
    explained[:, 3] = rng.beta(4 * noisy, 4 * (1 - noisy), n)
    return split(explained)[judge != human]


@cache
def _mean_parts(torn: float, lean: float, noisy: float) -> Floats:
    return _parts(MANY, torn, lean, noisy, np.random.default_rng(0)).mean(axis=0)


MANY = 200_000


def parts_checks() -> Iterator[Check]:
    """The mean parts over disagreements like these."""
    for n, torn, lean, noisy in product((80, 400), (0.1, 0.4), (0.0, 0.3), (0.05, 0.2)):
        truth = _mean_parts(torn, lean, noisy)

        def draw(
            rng: Rng,
            n: int = n,
            given: tuple[float, float, float] = (torn, lean, noisy),
            truth: Floats = truth,
        ) -> dict[str, Found | None]:
            parts = _parts(n, *given, rng)
            names = {0: "judge's noise", 1: "position", 3: "people's noise", 4: "rest"}
            return {
                f"part of disagreements: {name}": held(
                    plus_two_mean(parts[:, place], (0, 1)), float(truth[place])
                )
                for place, name in names.items()
            }

        yield Check(f"N={n}, torn {torn:.0%}, order moves {lean:.0%}, people err {noisy:.0%}", draw)


FIGURES = {
    "parts of disagreements": parts_checks,
    "skill of annotators": skill_checks,
    "agreement without people's noise": noise_checks,
    "alpha for other annotators": two_way_checks,
}
