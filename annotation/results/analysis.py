"""What can be said of a run: agreement with people before and after, the honest lines, position.

Every statistic is a function of `judging.methods`; here they meet the data. Randomness is seeded
by the run, so that the same data give the same intervals.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from annotation.results.sheet import Outcomes, Sheet, outcomes_of, sheet_of
from judging.methods.accuracy import Ties, accuracy, credit
from judging.methods.auroc import auroc, no_better_than_chance
from judging.methods.comparison import Comparison
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.hitlc import (
    ErrorsFound,
    ReviewCurve,
    errors_found,
    oracle_curve,
    random_accuracy,
    review_curve,
    routing_level,
)
from judging.methods.kappa import kappa
from judging.methods.position import (
    Conflicts,
    FirstPosition,
    conflicts,
    first_position,
    order_labels,
    position_effect,
    repetition_stability,
)
from judging.methods.proportions import wilson
from judging.methods.verdicts import State
from judging.models import Project, Run


@dataclass(frozen=True)
class Agreement:
    """Labels against the people's. `over_all` counts an example without a label as not right."""

    accuracy: Figure
    over_all: Figure
    kappa: Figure


@dataclass(frozen=True)
class HonestLines:
    """What a review of the top m bought, beside the accuracy that it has by construction."""

    m: int
    accuracy: Figure
    unreviewed: Figure
    errors: ErrorsFound | Undefined
    random: Figure
    gain: Figure


@dataclass(frozen=True)
class Position:
    conflicts: Conflicts
    first: FirstPosition
    effect: Figure
    stability: Figure


class Analysis:
    """Everything is computed on first use and kept."""

    def __init__(self, project: Project, run: Run) -> None:
        self.project, self.run = project, run

    @cached_property
    def sheet(self) -> Sheet:
        return sheet_of(self.project, self.run)

    @cached_property
    def outcomes(self) -> Outcomes | Undefined:
        return outcomes_of(self.run)

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(abs(self.run.seed))

    @cached_property
    def coverage(self) -> Figure:
        """Share of all examples that have a label by the judge."""
        n = len(self.sheet)
        return wilson(int(self.sheet.judged.sum()), n) if n else Undefined("no examples")

    @cached_property
    def shares(self) -> dict[str, int]:
        """How many examples the judge labelled win, tie and lose."""
        given = self.sheet.judge[self.sheet.judged]
        return {name: int((given == sign).sum()) for name, sign in _NAMES.items()}

    @cached_property
    def final_shares(self) -> dict[str, int]:
        given = self.sheet.final[self.sheet.has_final]
        return {name: int((given == sign).sum()) for name, sign in _NAMES.items()}

    def before(self, ties: Ties = Ties.HALF) -> Agreement:
        """The judge alone."""
        return self._agreement(self.sheet.comparison(self.sheet.judge, self.sheet.judged), ties)

    def after(self, ties: Ties = Ties.HALF) -> Agreement:
        """The final labels; those that people reviewed are right by construction."""
        return self._agreement(self.sheet.comparison(self.sheet.final, self.sheet.has_final), ties)

    def _agreement(self, compared: Comparison | Undefined, ties: Ties) -> Agreement:
        if isinstance(compared, Undefined):
            return Agreement(compared, compared, compared)
        return Agreement(
            accuracy(compared, self.rng, ties=ties),
            accuracy(compared, self.rng, ties=ties, unjudged_wrong=True),
            kappa(compared, self.rng),
        )

    @cached_property
    def reviewed(self) -> int:
        """m: examples whose label people gave because a round of this run selected them."""
        return int(self.sheet.selected.sum())

    @cached_property
    def _ranked(self) -> tuple[np.ndarray, np.ndarray] | Undefined:
        """What the judge earns on each example with a human label, and the rank's level there."""
        if not self.sheet.everyone:
            return Undefined("the curve needs human labels of every example")
        rows = self.sheet.labelled
        if not rows.any():
            return Undefined("people have settled no example yet")
        earned = credit(self.sheet.judge[rows], self.sheet.judged[rows], self.sheet.human[rows])
        levels = [
            routing_level(State(state), None if np.isnan(bpde) else float(bpde))
            for state, bpde in zip(self.sheet.states, self.sheet.bpde, strict=True)
        ]
        return earned, np.array(levels)[rows]

    @cached_property
    def curve(self) -> ReviewCurve | Undefined:
        ranked = self._ranked
        return ranked if isinstance(ranked, Undefined) else review_curve(ranked[1], ranked[0])

    @cached_property
    def oracle(self) -> ReviewCurve | Undefined:
        ranked = self._ranked
        return ranked if isinstance(ranked, Undefined) else oracle_curve(ranked[0])

    def lines(self, m: int | None = None) -> HonestLines | Undefined:
        """The lines (a) to (c) at a review of the m first by rank (FairEval, Figure 4)."""
        m = self.reviewed if m is None else m
        curve, ranked = self.curve, self._ranked
        if isinstance(curve, Undefined) or isinstance(ranked, Undefined):
            return curve if isinstance(curve, Undefined) else Undefined("nothing is ranked")
        earned = ranked[0]
        n = len(earned)
        if not 0 < m <= n:
            return Undefined("people reviewed none of these examples for this run")
        order = self._order()
        left = earned[order[m:]]
        chance = float(random_accuracy(m, n, float(earned.mean())))
        reached = float((m + left.sum()) / n)
        return HonestLines(
            m=m,
            accuracy=Estimate(reached, n),
            unreviewed=_mean_share(left),
            errors=errors_found(order, earned, m),
            random=Estimate(chance, n),
            gain=Estimate(reached - chance, n),
        )

    def _order(self) -> np.ndarray:
        """The ranking, over the examples with a human label."""
        rows = np.flatnonzero(self.sheet.labelled)
        place = {int(index): number for number, index in enumerate(rows)}
        ranked = [place[index] for index in self.sheet.ranking.tolist() if index in place]
        rest = sorted(set(range(len(rows))) - set(ranked))
        return np.array([*ranked, *rest], dtype=np.intp)

    @cached_property
    def finds_errors(self) -> Figure:
        """AUROC of BPDE for the judge's errors."""
        ranked = self._ranked
        return ranked if isinstance(ranked, Undefined) else auroc(ranked[1], 1 - ranked[0])

    @property
    def no_better_than_chance(self) -> bool:
        return no_better_than_chance(self.finds_errors)

    @cached_property
    def position(self) -> Position | Undefined:
        found = self.outcomes
        if isinstance(found, Undefined):
            return found
        labels, there = order_labels(found.difference, found.valid)
        signs = np.sign(found.difference).astype(np.int8)
        question = self.sheet.question
        return Position(
            conflicts(labels, there),
            first_position(labels, there),
            position_effect(signs, found.valid, self.rng, question),
            repetition_stability(signs, found.valid, self.rng, question),
        )


_NAMES = {"win": 1, "tie": 0, "lose": -1}


def _mean_share(earned: np.ndarray) -> Figure:
    if not len(earned):
        return Undefined("every example was reviewed")
    if np.any(earned == 0.5):
        return Estimate(float(earned.mean()), len(earned))
    return wilson(float(earned.sum()), len(earned))
