"""How often an interval holds the truth, and what counts as keeping its promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.simulations.projects import (
    HUMAN_WIN_RATE,
    Project,
    Setting,
    labelled_settings,
    project,
    ranked_settings,
)
from judging.methods.agreement.accuracy import Comparison, accuracy, comparison
from judging.methods.agreement.votes import cohen_kappa, confusion, kappa
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.intervals.win_rate import About, WinRateScale, win_rate
from judging.methods.review.auroc import auroc

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


Interval = Callable[[Project, np.random.Generator], tuple[Figure, float]]


def win_rate_here(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    truth = float(WinRateScale.WIN_RATE.points(made.human).mean())
    return win_rate(made.labels(), about=About.THIS_PROJECT), truth


def win_rate_like_these(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    return win_rate(made.labels()), HUMAN_WIN_RATE


def people_alone(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    return win_rate(made.labels(), lam=0.0), HUMAN_WIN_RATE


def weighted_accuracy(made: Project, rng: np.random.Generator) -> tuple[Figure, float]:
    truth = float((made.judge == made.human).mean())
    compared = comparison(made.judge, np.ones(len(made.judge), bool), made.human, made.design)
    return (accuracy(compared, rng) if isinstance(compared, Comparison) else compared), truth


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


INTERVALS: dict[str, Interval] = {
    "judge and people, about this project's examples": win_rate_here,
    "judge and people, about examples like these": win_rate_like_these,
    "people alone, about examples like these": people_alone,
    "the judge's accuracy over the project": weighted_accuracy,
    "the judge's kappa over the project": weighted_kappa,
    "AUROC, all labels known": area,
    "AUROC after a routed round": area,
}
# The settings of each, if not all those with an audit.
SETTINGS = {
    "AUROC, all labels known": labelled_settings,
    "AUROC after a routed round": ranked_settings,
}
# Each of its intervals is itself a simulation.
FEWER_REPEATS = ("the judge's kappa over the project", 2_000)


def coverage(name: str, setting: Setting, *, repeats: int, seed: int) -> Coverage:
    """Draw projects of one setting and count how often the named interval holds the truth."""
    if name == FEWER_REPEATS[0]:
        repeats = min(repeats, FEWER_REPEATS[1])
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
