"""The alternative annotator test: may the judge take a person's place?  (Calderon et al., 2025)

Each annotator is left out in turn, and judge and annotator are compared by how well they agree
with the remaining people.  Only on audited or fully labelled examples: on the contested ones the
judge was chosen to look bad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import scipy

from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.estimates import Undefined
from judging.methods.proportions import benjamini_yekutieli

FEWEST_ANNOTATORS = 3
FEWEST_EXAMPLES = 30
FALSE_DISCOVERY_RATE = 0.05


class Expertise(float, Enum):
    """epsilon, the advantage that a person is granted for costing more; set beforehand."""

    EXPERT = 0.2
    SKILLED = 0.15
    CROWD = 0.1


@dataclass(frozen=True, slots=True)
class AnnotatorComparison:
    """rho: how often judge and person do at least as well as the other against the rest."""

    annotator: str
    n: int
    rho_judge: float
    rho_human: float
    p: float
    judge_is_as_good: bool


@dataclass(frozen=True, slots=True)
class AlternativeAnnotatorTest:
    """omega: share of annotators against whom the judge is as good; passes at one half."""

    omega: float
    mean_rho: float
    epsilon: float
    annotators: tuple[AnnotatorComparison, ...]

    @property
    def passes(self) -> bool:
        return self.omega >= 0.5


def alternative_annotator_test(
    judge: Signs,
    judged: Booleans,
    votes: Signs,
    present: Booleans,
    names: Sequence[str],
    epsilon: float = Expertise.SKILLED,
) -> AlternativeAnnotatorTest | Undefined:
    """judge, judged: (N,).  votes, present: (N, annotators); names: one an annotator."""
    pairs = [_advantages(judge, judged, votes, present, rater) for rater in range(len(names))]
    usable = [(name, *pair) for name, pair in zip(names, pairs, strict=True) if len(pair[0])]
    if len(usable) < FEWEST_ANNOTATORS:
        return Undefined("three annotators who share examples are needed")
    n_examples = int(((present.sum(axis=1) >= 2) & judged).sum())
    if n_examples < FEWEST_EXAMPLES:
        return Undefined(f"{n_examples} examples with two votes; 30 are needed")
    p_values = [_p_value(human - model, epsilon) for _, model, human in usable]
    rejected = benjamini_yekutieli(p_values, FALSE_DISCOVERY_RATE)
    compared = tuple(
        AnnotatorComparison(
            name, len(model), float(model.mean()), float(human.mean()), p, bool(better)
        )
        for (name, model, human), p, better in zip(usable, p_values, rejected, strict=True)
    )
    return AlternativeAnnotatorTest(
        float(rejected.mean()),
        float(np.mean([row.rho_judge for row in compared])),
        float(epsilon),
        compared,
    )


def _advantages(
    judge: Signs, judged: Booleans, votes: Signs, present: Booleans, rater: int
) -> tuple[Floats, Floats]:
    """W of judge and of the person on each example that both have and that others voted on."""
    others = present.copy()
    others[:, rater] = False
    rows = present[:, rater] & judged & others.any(axis=1)
    there = others[rows]
    agree_judge = ((votes[rows] == judge[rows, None]) & there).sum(axis=1)
    agree_human = ((votes[rows] == votes[rows, rater, None]) & there).sum(axis=1)
    return (
        (agree_judge >= agree_human).astype(np.float64),
        (agree_human >= agree_judge).astype(np.float64),
    )


def _p_value(difference: Floats, epsilon: float) -> float:
    """One-sided p of H0: rho_judge <= rho_human - epsilon; Wilcoxon below 30 examples."""
    shifted = difference - epsilon
    if len(shifted) < 2 or np.ptp(shifted) == 0:
        return 0.5 ** len(shifted) if shifted.max() < 0 else 1.0
    if len(shifted) < FEWEST_EXAMPLES:
        return float(scipy.stats.wilcoxon(shifted, alternative="less").pvalue)
    return float(scipy.stats.ttest_1samp(shifted, 0, alternative="less").pvalue)
