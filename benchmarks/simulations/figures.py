"""Figures with a truth of their own: positions, length, strengths, and tests at their bound.

Each draws a setting again and again, and says for each figure of it whether the interval held the
truth (of a test: whether it rejected what is true)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import numpy as np
from scipy.special import expit

from benchmarks.simulations import instruments, judges
from benchmarks.simulations.coverage import Check, Coverage, Found, Rng, held
from benchmarks.simulations.projects import HUMAN_WIN_RATE, Setting, project
from judging.methods.agreement.accuracy import Comparison, accuracy, comparison
from judging.methods.agreement.annotators import (
    AlternativeAnnotatorTest,
    alternative_annotator_test,
)
from judging.methods.agreement.votes import cohen_kappa, confusion, kappa
from judging.methods.arrays import Codes, Floats, Signs
from judging.methods.intervals.bootstrap import categories_differ
from judging.methods.intervals.covariates import (
    CovariateBias,
    CovariateEffect,
    covariate_bias,
    covariate_effect,
)
from judging.methods.intervals.estimates import Undefined, holm, narrower, sign_flip
from judging.methods.intervals.win_rate import (
    About,
    AuditedLabels,
    win_points,
    win_rate,
    win_rate_test,
)
from judging.methods.ranking import bradley_terry, davidson, style_controlled
from judging.methods.review.ridge import (
    calibrated_accuracy,
    calibrated_kappa,
    calibrated_labels,
)
from judging.methods.verdicts.position import position_effect, repetition_stability

# The population from which truths without a formula are taken.
MANY = 400_000
SPREAD_OF_LENGTHS = 150.0
BOUND = 0.05


def _chance_by_order(n: int, unsure: float, lean: float, rng: Rng) -> Floats:
    torn = rng.random(n) < unsure
    chance = np.where(torn, rng.uniform(0.1, 0.9, n), rng.integers(0, 2, n))
    moved = [np.where(torn, np.clip(chance + move, 0, 1), chance) for move in (lean, -lean)]
    return np.stack(moved, axis=1)


@cache
def _position_truth(unsure: float, lean: float) -> tuple[float, float]:
    first, second = _chance_by_order(MANY, unsure, lean, np.random.default_rng(0)).T
    across = first * (1 - second) + second * (1 - first)
    within = first * (1 - first) + second * (1 - second)
    return float((across - within).mean()), float(1 - within.mean())


def position_checks() -> Iterator[Check]:
    for n, unsure, lean in product((20, 80, 400), (0.02, 0.10, 0.50), (0.0, 0.2)):
        truth = _position_truth(unsure, lean)

        def draw(
            rng: Rng,
            n: int = n,
            unsure: float = unsure,
            lean: float = lean,
            truth: tuple[float, float] = truth,
        ) -> dict[str, Found | None]:
            chance = _chance_by_order(n, unsure, lean, rng)[:, :, None]
            outcomes = np.where(rng.random((n, 2, 3)) < chance, 1, -1).astype(np.int8)
            valid = np.ones(outcomes.shape, bool)
            return {
                "position effect": held(position_effect(outcomes, valid), truth[0]),
                "repetition stability": held(repetition_stability(outcomes, valid), truth[1]),
            }

        yield Check(f"N={n}, unsure of {unsure:.0%}, positions move it by {lean:.0%}", draw)


@dataclass(frozen=True, slots=True)
class Preference:
    """Labels by length: alpha and gamma in log odds, and how many say so with a tie."""

    alpha: float
    gamma: float
    ties: float

    def labels(self, x: Floats, rng: Rng) -> Floats:
        """Win 1 or lose 0; with ties, half of two such labels."""
        chance = expit(self.alpha + self.gamma * x)
        first, second = rng.random((2, len(x))) < chance
        return np.where(rng.random(len(x)) < self.ties, (first + 0.0 + second) / 2, first)


PREFERENCES = [
    Preference(alpha, gamma, ties)
    for (alpha, gamma), ties in product(((0, 0), (0, 1), (2.2, 0), (2.2, 1)), (0.1, 1.0))
]


def length_checks() -> Iterator[Check]:
    for n, given in product((20, 80, 400, 1000), PREFERENCES):

        def draw(rng: Rng, n: int = n, given: Preference = given) -> dict[str, Found | None]:
            difference = rng.normal(0, SPREAD_OF_LENGTHS, n)
            score = given.labels(np.tanh(difference / SPREAD_OF_LENGTHS), rng)
            found = covariate_effect(difference, score)
            assert isinstance(found, CovariateEffect)
            return {
                "length γ": held(found.slope, given.gamma),
                "equal-length win rate": held(found.equal, float(expit(given.alpha))),
            }

        rate = expit(given.alpha)
        words = f"equal-length rate {rate:.1f}, γ {given.gamma:g}, ties {given.ties:.0%}"
        yield Check(f"N={n}, {words}", draw)


@cache
def _slope_of_judge(error: float, gamma: float) -> float:
    """The slope of a judge that says the opposite so often: of as many labels as there can be."""
    x = np.tanh(np.random.default_rng(0).normal(size=MANY))
    chance = expit(gamma * x)
    chance = chance * (1 - error) + (1 - chance) * error
    theta = np.zeros(2)
    rows = np.column_stack((np.ones(MANY), x))
    for _ in range(30):
        now = expit(rows @ theta)
        information = rows.T @ (rows * (now * (1 - now))[:, None])
        theta += np.linalg.solve(information, rows.T @ (chance - now))
    return float(theta[1])


def length_bias_checks() -> Iterator[Check]:
    """Everything labelled, and after a routed round: the errors are selected more often."""
    for (n, audit), error in product(
        ((20, 0), (80, 0), (400, 0), (80, 20), (400, 60), (1000, 100)),
        (0.01, 0.02, 0.05, 0.10, 0.25, 0.50),
    ):

        def draw(
            rng: Rng, n: int = n, audit: int = audit, error: float = error
        ) -> dict[str, Found | None]:
            difference = rng.normal(0, SPREAD_OF_LENGTHS, n)
            x = np.tanh(difference / SPREAD_OF_LENGTHS)
            human = (rng.random(n) < expit(x)).astype(float)
            wrong = rng.random(n) < error
            judge = np.where(wrong, 1 - human, human)
            rows, weight, stratum = np.arange(n), np.ones(n), np.zeros(n, np.intp)
            if audit:
                order = np.argsort(-(rng.normal(size=n) + 1.5 * wrong))
                m = n // 5
                rows = np.concatenate((order[:m], rng.choice(order[m:], audit, replace=False)))
                weight = np.repeat([1.0, (n - m) / audit], [m, audit])
                stratum = np.repeat([0, 1], [m, audit])
            found = covariate_bias(
                difference[rows], judge[rows], human[rows], weight=weight, stratum=stratum
            )
            assert isinstance(found, CovariateBias)
            return {"length bias": held(found.bias, _slope_of_judge(error, 1.0) - 1.0)}

        design = f"audit {audit}" if audit else "all labelled"
        yield Check(f"N={n}, {design}, error {error:.0%}", draw)


STRENGTHS = {
    "equal": (0.0, 0.0, 0.0, 0.0),
    "apart": (1.5, 0.5, -0.5, -1.5),
    "far apart": (2.5, 0.0, 0.0, -2.5),
    "two models": (1.0, -1.0),
}


def _games(strength: Floats, each: int, tie: float, halves: float, rng: Rng) -> tuple[Codes, Signs]:
    """(pairs, n) models, and signs: Davidson's ties by v, or so many halves of two outcomes."""
    pairs = np.array(list(combinations(range(len(strength)), 2))).repeat(each, axis=0).T
    half = (strength[pairs[0]] - strength[pairs[1]]) / 2
    if tie:
        total = np.exp(half) + np.exp(-half) + tie
        drawn = rng.random(len(half)) * total
        return pairs, (drawn < np.exp(half)).astype(np.int8) - (drawn > np.exp(half) + tie)
    first, second = rng.random((2, len(half))) < expit(2 * half)
    sign = np.where(first, 1, -1)
    split = (rng.random(len(half)) < halves) & (first != second)
    return pairs, np.where(split, 0, sign).astype(np.int8)


def strength_checks() -> Iterator[Check]:
    for name, each, halves in product(STRENGTHS, (10, 20, 80), (0.0, 1.0)):
        strength = np.array(STRENGTHS[name])

        def draw(
            rng: Rng, strength: Floats = strength, each: int = each, halves: float = halves
        ) -> dict[str, Found | None]:
            pairs, sign = _games(strength, each, 0.0, halves, rng)
            found = bradley_terry([*map(str, range(len(strength)))], *pairs, sign)
            none = isinstance(found, list) and all(one.ranks == (1, len(found)) for one in found)
            # Of equal models none may be shown to be better than another.
            equal = {"equal models without ranks": Found(none)} if not strength.any() else {}
            return {"Bradley–Terry strength": _of_best(found, strength)} | equal

        words = "ties as often as can be" if halves else "no ties"
        yield Check(f"{name}, {each} labels a pair, {words}", draw)


def style_checks() -> Iterator[Check]:
    """Models of which the best one writes the longest responses, and people like length or not."""
    for name, each, pull in product(("equal", "apart"), (20, 80), (0.0, 0.7)):
        strength = np.array(STRENGTHS[name])

        def draw(
            rng: Rng, strength: Floats = strength, each: int = each, pull: float = pull
        ) -> dict[str, Found | None]:
            pairs = np.array(list(combinations(range(len(strength)), 2))).repeat(each, axis=0).T
            longer = rng.normal(size=pairs.shape[1]) + (pairs[0] == 0) - (pairs[1] == 0)
            scale = longer.std()
            odds = strength[pairs[0]] - strength[pairs[1]] + pull * longer
            sign = np.where(rng.random(len(odds)) < expit(odds), 1, -1)
            names = [*map(str, range(len(strength)))]
            found = style_controlled(names, *pairs, sign, longer[:, None])
            if isinstance(found, Undefined):
                return {"strength at equal style": None, "effect of style": None}
            return {
                "strength at equal style": _of_best(list(found.ranked), strength),
                "effect of style": held(found.effects[0], pull * scale),
            }

        yield Check(f"{name}, {each} labels a pair, effect {pull:g}", draw)


def davidson_checks() -> Iterator[Check]:
    for name, each, tie in product(STRENGTHS, (10, 20, 80), (0.2, 1.0, 4.0)):
        strength = np.array(STRENGTHS[name])

        def draw(
            rng: Rng, strength: Floats = strength, each: int = each, tie: float = tie
        ) -> dict[str, Found | None]:
            pairs, sign = _games(strength, each, tie, 0.0, rng)
            found = davidson([*map(str, range(len(strength)))], *pairs, sign)
            if isinstance(found, Undefined):
                return {"Davidson strength": None, "Davidson ν": None}
            return {
                "Davidson strength": _of_best(list(found.ranked), strength),
                "Davidson ν": held(found.tie, tie),
            }

        yield Check(f"{name}, {each} labels a pair, ν {tie:g}", draw)


def _of_best(ranked: object, strength: Floats) -> Found | None:
    """Of the model that is truly best, which is the hardest; None if it is not ranked, or if others
    are not, so that the mean 0 is another one."""
    if not isinstance(ranked, list) or len(ranked) < len(strength):
        return None
    best = next(one for one in ranked if one.model == "0")
    return held(best.strength, float(strength[0] - strength.mean()))


def two_runs_checks() -> Iterator[Check]:
    """Both judges err as often, and say tie in half of those cases."""
    for n, error, together in product((20, 30, 80, 400), (0.05, 0.25, 0.50), (0.0, 0.5)):

        def draw(
            rng: Rng, n: int = n, error: float = error, together: float = together
        ) -> dict[str, Found | None]:
            earned = 1 - (rng.random((2, n)) < error) * rng.choice([0.5, 1.0], (2, n))
            earned[1] = np.where(rng.random(n) < together, earned[0], earned[1])
            return {"p of two runs": Found(sign_flip(earned[0] - earned[1], rng) > BOUND)}

        yield Check(f"N={n}, error {error:.0%}, {together:.0%} decided alike", draw)


def alternative_annotator_checks() -> Iterator[Check]:
    """A judge exactly at the bound: each person's advantage over it is epsilon."""
    epsilon = 0.15
    for n, people, error in product((30, 60, 200), (3, 5), (0.05, 0.25)):
        judge_error = _error_at_the_bound(people, error, epsilon)

        def draw(
            rng: Rng,
            n: int = n,
            people: int = people,
            error: float = error,
            judge_error: float = judge_error,
        ) -> dict[str, Found | None]:
            votes, judge = _votes(n, people, error, judge_error, rng)
            there = np.ones(votes.shape, bool)
            names = [f"annotator-{one}" for one in range(people)]
            found = alternative_annotator_test(
                judge, np.ones(n, bool), votes, there, names, epsilon
            )
            passed = isinstance(found, AlternativeAnnotatorTest) and found.passes
            return {"alternative annotator test": Found(not passed)}

        yield Check(f"N={n}, {people} people who err on {error:.0%}", draw)


def _votes(n: int, people: int, error: float, judge_error: float, rng: Rng) -> tuple[Signs, Signs]:
    votes = np.where(rng.random((n, people)) < error, -1, 1).astype(np.int8)
    return votes, np.where(rng.random(n) < judge_error, -1, 1).astype(np.int8)


@cache
def _error_at_the_bound(people: int, error: float, epsilon: float) -> float:
    """By halving, on one large draw."""

    def advantage(judge_error: float) -> float:
        votes, judge = _votes(MANY // 4, people, error, judge_error, np.random.default_rng(0))
        others = votes[:, 1:]
        of_judge = (others == judge[:, None]).sum(axis=1)
        of_human = (others == votes[:, :1]).sum(axis=1)
        return float((of_human >= of_judge).mean() - (of_judge >= of_human).mean())

    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if advantage(middle) < epsilon else (low, middle)
    return low


def category_checks() -> Iterator[Check]:
    """Categories of one judge, which errs as often in each."""
    for categories, each, error in product((2, 10, 50), (5, 20), (0.05, 0.25)):

        def draw(
            rng: Rng, categories: int = categories, each: int = each, error: float = error
        ) -> dict[str, Found | None]:
            category = np.repeat(np.arange(categories), each)
            right = (rng.random(len(category)) >= error).astype(float)
            found = categories_differ(right, category, rng)
            assert not isinstance(found, Undefined)
            return {
                "all categories together": Found(found.p > BOUND),
                "any category, by Holm": Found(min(found.p_holm.values()) > BOUND),
            }

        yield Check(f"{categories} categories of {each}, error {error:.0%}", draw)


def model_pair_checks() -> Iterator[Check]:
    """Several pairs of equal models after a routed round, each with its share of the audit."""
    for pairs, each, audit in product((3, 10), (60, 200), (12, 40)):

        def draw(
            rng: Rng, pairs: int = pairs, each: int = each, audit: int = audit
        ) -> dict[str, Found | None]:
            tests = [win_rate_test(_labels_of_pair(each, audit, rng)) for _ in range(pairs)]
            p = [one for one in tests if one is not None]
            return {"any pair of models, by Holm": Found(bool(holm(p).min() > BOUND))}

        yield Check(f"{pairs} pairs of {each} examples, audit {audit} each", draw)


def _labels_of_pair(n: int, audit: int, rng: Rng) -> AuditedLabels:
    """Equal models for people; the judge errs on 25 %, always towards the first model."""
    human = rng.choice([1.0, 0.5, 0.0], n, p=(0.4, 0.2, 0.4))
    judge = np.where((human < 1) & (rng.random(n) < 0.25 / 0.6), 1.0, human)
    order = np.argsort(-(rng.normal(size=n) + (judge != human)))
    selected, rest = order[: n // 5], order[n // 5 :]
    audited = rng.choice(rest, audit, replace=False)
    return AuditedLabels(human[selected], judge[rest], human[audited], judge[audited])


# How far the longer response is ahead where the judge is wrong, in standard deviations.
PULL = 1.2
IRRELEVANT = 3


def calibrated_checks() -> Iterator[Check]:
    """After a routed round, of judges up to one that errs more than chance does: with features that
    say nothing of its errors, with a length that does, and with several examples to a question."""
    rounds = ((80, 20, 1), (80, 60, 1), (400, 60, 1), (400, 60, 4), (1000, 100, 1))
    judges = ((0.01, False), (0.10, False), (0.25, True), (0.50, False), (0.75, False))
    for (n, audit, each), (error, biased), pull in product(rounds, judges, (0.0, PULL)):
        setting = Setting(n, audit, error, biased=biased, repeats=each)

        def draw(
            rng: Rng, setting: Setting = setting, pull: float = pull
        ) -> dict[str, Found | None]:
            return _calibrated(setting, pull, rng)

        yield Check(f"{setting}, {'length tells' if pull else 'nothing tells'}", draw)


def _calibrated(setting: Setting, pull: float, rng: Rng) -> dict[str, Found | None]:
    made, n = project(setting, rng), setting.n
    human, judge = (win_points(one) for one in (made.human, made.judge))
    sign, right = made.judge.astype(float), (made.judge == made.human).astype(float)
    length = rng.normal(size=n) + pull * np.where(right, 0.0, sign)
    unsure = made.score - made.score.mean()
    columns = [sign, sign * unsure, length, unsure, sign * length, np.abs(sign)]
    values = np.stack([*columns, *rng.normal(size=(IRRELEVANT, n))], axis=1)
    values = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
    design, asked = made.design, made.question if setting.repeats > 1 else None
    found = calibrated_labels(
        values, human, judge, design.selected, design.audited, rng, question=asked
    )
    every = np.ones(n, bool)
    compared = comparison(made.judge, every, made.human, design, made.question)
    kappa_there = cohen_kappa(confusion(made.judge, made.human))
    assert isinstance(compared, Comparison)
    assert isinstance(kappa_there, float)
    own = calibrated_accuracy(values, right, design, rng, question=asked)
    own_kappa = calibrated_kappa(values, made.judge, made.human, design, rng, question=asked)
    here, like_these = About.THIS_PROJECT, About.EXAMPLES_LIKE_THESE
    return {
        "calibrated win rate, this project": held(win_rate(found.labels, about=here), human.mean()),
        "calibrated win rate, examples like these": held(
            win_rate(found.labels, about=like_these), HUMAN_WIN_RATE
        ),
        "win rate with the verdict itself, this project": held(
            win_rate(made.labels(), about=here), human.mean()
        ),
        "calibrated accuracy": held(narrower(accuracy(compared), own), right.mean()),
        "calibrated kappa": held(narrower(kappa(compared, rng), own_kappa), kappa_there),
    }


FIGURES: dict[str, Callable[[], Iterator[Check]]] = {
    "position effect and repetition stability": position_checks,
    "length γ and the equal-length win rate": length_checks,
    "length bias, judge less people": length_bias_checks,
    "strengths of Bradley–Terry": strength_checks,
    "strengths and ν of Davidson": davidson_checks,
    "strengths at equal style": style_checks,
    "p of two runs": two_runs_checks,
    "alternative annotator test": alternative_annotator_checks,
    "categories that do not differ": category_checks,
    "pairs of models that do not differ": model_pair_checks,
    "judges calibrated by people": calibrated_checks,
    **judges.FIGURES,
    **instruments.FIGURES,
}


def simulate(name: str, place: int, *, repeats: int, seed: int) -> list[Coverage]:
    """Draw the setting at this place again and again.

    Returns: a row for each of its figures."""
    check = list(FIGURES[name]())[place]
    rng = np.random.default_rng([seed, place])
    found: dict[str, list[Found | None]] = {}
    for _ in range(repeats):
        for figure, one in check.draw(rng).items():
            found.setdefault(figure, []).append(one)
    rows = []
    for figure, every in found.items():
        there = [one for one in every if one]
        covered = float(np.mean([one.held for one in there])) if there else np.nan
        width = float(np.mean([one.width for one in there])) if there else np.nan
        setting = f"{figure}: {check.setting}"
        rows.append(Coverage(setting, repeats, len(there) / repeats, covered, width))
    return rows


def places(name: str, words: str = "") -> list[int]:
    """The settings of a check whose name has these words."""
    return [place for place, check in enumerate(FIGURES[name]()) if words in check.setting]
