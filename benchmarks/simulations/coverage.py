"""How often an interval holds the truth, and what counts as keeping its promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.simulations.projects import (
    HUMAN_WIN_RATE,
    Project,
    Setting,
    curve_settings,
    labelled_settings,
    project,
    ranked_settings,
    repeated_settings,
    tied,
)
from judging.methods.agreement.accuracy import Comparison, accuracy, comparison, final_accuracy
from judging.methods.agreement.votes import cohen_kappa, confusion, final_kappa, kappa
from judging.methods.arrays import Signs
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.intervals.win_rate import About, judge_bias, win_points, win_rate
from judging.methods.review.auroc import auroc
from judging.methods.review.curve import CurveBand, accuracy_after, curve_band, review_curve

Rng = np.random.Generator
# SCIENCE.md §16: 95 % less what 10,000 (2,000) repeats may miss by chance.  The intervals here
# are exact or have pseudo-observations, so they may cover more than they promise.
LEAST = 0.9325
LEAST_OF_FEWER = 0.922


@dataclass(frozen=True, slots=True)
class Coverage:
    """given: share of the repeats that have an interval. covered: share of these that held the
    truth; width: their mean width; NaN if none has one."""

    setting: str
    repeats: int
    given: float
    covered: float
    width: float

    def passes(self) -> bool:
        """Whether it covers as promised, but for chance where few repeats have an interval."""
        n = self.given * self.repeats
        chance = 3 * (0.95 * 0.05 / n) ** 0.5 if n else 1.0
        least = LEAST if self.repeats >= 10_000 else LEAST_OF_FEWER
        return not n or self.covered >= min(least, 0.95 - chance)


@dataclass(frozen=True, slots=True)
class Found:
    """held: the interval holds the truth, or the test did not reject what is true.

    width: of the interval; 0 for a test."""

    held: bool
    width: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """draw: one project's figures, by name; None where there is no interval."""

    setting: str
    draw: Callable[[Rng], dict[str, Found | None]]


def held(figure: Figure, truth: float) -> Found | None:
    if isinstance(figure, Undefined) or figure.low is None or figure.high is None:
        return None
    return Found(figure.low - 1e-9 <= truth <= figure.high + 1e-9, figure.high - figure.low)


Interval = Callable[[Project, np.random.Generator], tuple[Figure, float]]


def win_rate_here(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    truth = float(win_points(made.human).mean())
    return win_rate(made.labels(), about=About.THIS_PROJECT), truth


def win_rate_like_these(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    return win_rate(made.labels()), HUMAN_WIN_RATE


def people_alone(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    return win_rate(made.labels(), lam=0.0), HUMAN_WIN_RATE


def bias(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    labels, rest = made.labels(), ~made.design.selected
    human = win_points(made.human)
    return judge_bias(labels), float((labels.rest - human[rest]).sum() / labels.n)


def weighted_accuracy(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    truth = float((made.judge == made.human).mean())
    compared = comparison(made.judge, np.ones(len(made.judge), bool), made.human, made.design)
    return (accuracy(compared) if isinstance(compared, Comparison) else compared), truth


def weighted_kappa(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    compared = comparison(made.judge, np.ones(len(made.judge), bool), made.human, made.design)
    truth = cohen_kappa(confusion(made.judge, made.human))
    assert isinstance(truth, float)
    return (kappa(compared, rng) if isinstance(compared, Comparison) else compared), truth


def area(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    rows = made.design.selected | made.design.audited
    weights = made.design.weights()
    assert not isinstance(weights, Undefined)
    wrong = made.judge[rows] != made.human[rows]
    return auroc(made.score[rows], wrong, weight=weights[rows]), made.area


def _after_review(made: Project) -> tuple[Comparison, Comparison]:
    """The final labels of who was asked, and the judge's, for the examples that nobody saw."""
    seen = np.flatnonzero(made.design.selected | made.design.audited)
    once, there = np.ones(len(seen)), np.ones(len(seen), bool)
    human = made.human[seen]
    done = Comparison(human, there, human, once, np.zeros(len(seen), np.intp), seen)
    each = made.design.n_rest / made.design.n_audited - 1
    drawn, there = made.audit, np.ones(len(made.audit), bool)
    weight, stratum = np.full(len(drawn), each), np.ones(len(drawn), np.intp)
    return done, Comparison(made.judge[drawn], there, made.human[drawn], weight, stratum, drawn)


def _final(made: Project) -> Signs:
    return np.where(made.design.selected | made.design.audited, made.human, made.judge)


def final_labels_accuracy(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    truth = float((_final(made) == made.human).mean())
    return final_accuracy(*_after_review(made)), truth


def final_labels_kappa(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    truth = cohen_kappa(confusion(_final(made), made.human))
    assert isinstance(truth, float)
    return final_kappa(*_after_review(made), rng), truth


def curve_here(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    """After an audit, about this project's examples."""
    right = (made.judge == made.human).astype(np.float64)
    every, weights = review_curve(made.score, right), made.design.weights()
    assert not isinstance(weights, Undefined)
    rows, m = np.flatnonzero(weights), CUT / 100 * len(right)
    stratum = made.design.audited[rows]
    figure = accuracy_after(made.score[rows], right[rows], m, weights[rows], stratum)
    return figure, float(every.accuracy(m))


def curve_like_these(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    right = (made.judge == made.human).astype(np.float64)
    figure = accuracy_after(made.score, right, CUT / 100 * len(right))
    return figure, float(made.curve.accuracy(CUT / 100))


def at_least(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    """By how much the planner's lower band is too high somewhere: 0 lies above what it may be."""
    right = (made.judge == made.human).astype(np.float64)
    rows = np.flatnonzero(made.design.selected | made.design.audited)
    weights, betas = made.design.weights(), np.arange(0.0, 100.0, 5)
    assert not isinstance(weights, Undefined)
    stratum = (~made.design.selected[rows]).astype(np.intp)
    given = (made.score[rows], right[rows], betas, rng)
    band = curve_band(*given, weight=weights[rows], stratum=stratum)
    assert isinstance(band, CurveBand)
    above = band.lower_band - made.curve.accuracy(betas / 100)
    return Estimate(0.0, len(rows), float(above.max()), 1.0), 0.0


def _repeated(made: Project) -> Comparison:
    n = len(made.human)
    compared = comparison(made.judge, np.ones(n, bool), made.human, made.design, made.question)
    assert isinstance(compared, Comparison)
    return compared


def repeated_accuracy(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    return accuracy(_repeated(made)), float(made.curve.accuracy(0))


def repeated_kappa(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    return kappa(_repeated(made), rng), made.kappa


INTERVALS: dict[str, Interval] = {
    "judge and people, about this project's examples": win_rate_here,
    "judge and people, about examples like these": win_rate_like_these,
    "people alone, about examples like these": people_alone,
    "the judge's bias": bias,
    "the judge's accuracy over the project": weighted_accuracy,
    "the judge's kappa over the project": weighted_kappa,
    "AUROC, all labels known": area,
    "AUROC after a routed round": area,
    "accuracy of the final labels": final_labels_accuracy,
    "kappa of the final labels": final_labels_kappa,
    "the HITLC curve after an audit": curve_here,
    "the HITLC curve, all labels known": curve_like_these,
    "the planner's lower band, all labels known": at_least,
    "the planner's lower band after an audit": at_least,
    "accuracy with repeated questions": repeated_accuracy,
    "kappa with repeated questions": repeated_kappa,
}
# The settings of each, if not all those with an audit.
SETTINGS = {
    "AUROC, all labels known": lambda: tied(labelled_settings()),
    "AUROC after a routed round": lambda: tied(ranked_settings()),
    "the HITLC curve after an audit": ranked_settings,
    "the HITLC curve, all labels known": curve_settings,
    "the planner's lower band, all labels known": labelled_settings,
    "the planner's lower band after an audit": ranked_settings,
    "accuracy with repeated questions": repeated_settings,
    "kappa with repeated questions": repeated_settings,
}
# Each of their intervals is itself a simulation.
SIMULATED = frozenset(
    {
        "the judge's kappa over the project",
        "kappa of the final labels",
        "kappa with repeated questions",
        "the planner's lower band, all labels known",
        "the planner's lower band after an audit",
    }
)
FEWER = 2_000
CUT = 10


def coverage(name: str, setting: Setting, *, repeats: int, seed: int) -> Coverage:
    """Draw projects of one setting and count how often the named interval holds the truth."""
    if name in SIMULATED:
        repeats = min(repeats, FEWER)
    place = (setting.n, setting.audit, int(1000 * setting.error), int(setting.biased))
    rng = np.random.default_rng([seed, *place])
    held, widths = [], []
    for _ in range(repeats):
        figure, truth = INTERVALS[name](project(setting, rng), rng)
        if isinstance(figure, Estimate) and figure.low is not None and figure.high is not None:
            held.append(figure.low - 1e-12 <= truth <= figure.high + 1e-12)
            widths.append(figure.high - figure.low)
    if not held:
        return Coverage(str(setting), repeats, 0.0, np.nan, np.nan)
    given, covered = len(held) / repeats, float(np.mean(held))
    return Coverage(str(setting), repeats, given, covered, float(np.mean(widths)))
