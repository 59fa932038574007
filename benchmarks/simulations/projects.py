"""A simulated project: what people would say, what the judge says, and who was asked about what."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from judging.methods.agreement.accuracy import Design
from judging.methods.arrays import Signs
from judging.methods.intervals.win_rate import AuditedLabels, WinRateScale
from judging.methods.verdicts.verdicts import cut

BETA = 20
# Share of wins, ties and loses in the people's labels.
HUMAN_SHARES = (0.45, 0.15, 0.40)
HUMAN_WIN_RATE = HUMAN_SHARES[0] + HUMAN_SHARES[1] / 2
LEVELS = 6


@dataclass(frozen=True, slots=True)
class Setting:
    """n examples, an audit, the judge's error rate, and whether its errors favour response 1."""

    n: int
    audit: int
    error: float
    biased: bool

    def __str__(self) -> str:
        lean = "biased" if self.biased else "unbiased"
        return f"N={self.n}, n={self.audit}, error {self.error:.0%}, {lean}"


def settings() -> list[Setting]:
    """Those of SCIENCE.md §16 in which the rest is large enough for the audit."""
    every = product((80, 400, 1000), (20, 60, 100), (0.01, 0.05, 0.25, 0.50), (False, True))
    return [Setting(*each) for each in every if each[1] <= each[0] - cut(each[0], BETA)]


@dataclass(frozen=True, slots=True)
class Project:
    human: Signs
    judge: Signs
    design: Design
    audit: NDArray[np.intp]

    def labels(self) -> AuditedLabels:
        """What the win rate is estimated from."""
        human, judge = (WinRateScale.WIN_RATE.points(signs) for signs in (self.human, self.judge))
        selected = self.design.selected
        return AuditedLabels(
            human[selected], judge[~selected], human[self.audit], judge[self.audit]
        )


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
        judge = np.where(wrong, (human + 1 + rng.integers(1, 3, n)) % 3 - 1, human)
    score = np.clip(np.rint(rng.normal(1.5 + 1.5 * wrong, 1.2)), 0, LEVELS - 1)
    order = np.argsort(-(score + rng.random(n) * 0.5))
    m = cut(n, BETA)
    selected, audited = np.zeros(n, bool), np.zeros(n, bool)
    selected[order[:m]] = True
    audit = rng.choice(order[m:], setting.audit, replace=False)
    audited[audit] = True
    return Project(human, judge.astype(np.int8), Design(selected, audited), audit)
