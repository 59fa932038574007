"""How often the judge's label is the people's (weighted), with both conventions for ties."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.bootstrap import bootstrap_estimate
from judging.methods.comparison import Comparison
from judging.methods.estimates import Figure, Undefined
from judging.methods.proportions import stratified_share, wilson

NOT_JUDGED = "the judge has given no label to any of these examples"


class Ties(StrEnum):
    """What a judge's tie earns where the people's labels know no ties."""

    HALF = "half"
    WRONG = "wrong"


def credit(
    judge: Signs,
    judged: Booleans,
    human: Signs,
    ties: Ties = Ties.HALF,
    knows_ties: bool | None = None,
) -> Floats:
    """1 for the right label, 0 for a wrong one and for an unjudged example.

    Where no human label is a tie, a judge's tie earns 1/2 (or 0, `Ties.WRONG`): it could not
    have been right. knows_ties: whether one is, where these are only some of the labels.
    """
    right = (judge == human) & judged
    earned: Floats = right.astype(np.float64)
    known = bool(np.any(human == 0)) if knows_ties is None else knows_ties
    if ties is Ties.HALF and not known:
        earned[(judge == 0) & judged] = 0.5
    return earned


def accuracy(
    compared: Comparison,
    rng: np.random.Generator,
    *,
    ties: Ties = Ties.HALF,
    unjudged_wrong: bool = False,
) -> Figure:
    """Sum w 1[j = h] / sum w over the judged examples, or over all with unjudged as not right.

    Wilson's interval where all weigh the same and earn 0 or 1; the exact ones of selected and
    audited joined where there was an audit; the bootstrap's where questions repeat.
    """
    earned = credit(compared.judge, compared.judged, compared.human, ties, compared.knows_ties)
    rows = np.ones(len(compared), bool) if unjudged_wrong else compared.judged
    earned, weight = earned[rows], compared.weight[rows]
    if not len(earned):
        return Undefined(NOT_JUDGED)
    if compared.plain and not compared.stratum.any() and not np.any(earned == 0.5):
        return wilson(float(earned.sum()), len(earned))
    if compared.questions_differ:
        return stratified_share(_strata(earned, weight, compared.stratum[rows]))
    return bootstrap_estimate(
        _weighted_mean,
        (earned, weight),
        rng,
        question=compared.question[rows],
        stratum=compared.stratum[rows],
        limits=(0, 1),
    )


def _strata(earned: Floats, weight: Floats, stratum: Codes) -> list[tuple[float, int, float]]:
    """What each stratum earned, its size, and its share of the weight."""
    return [
        (
            float(earned[rows].sum()),
            int(rows.sum()),
            float(weight[rows].sum() / weight.sum()),
        )
        for rows in (stratum == value for value in np.unique(stratum))
    ]


def _weighted_mean(counts: Floats, values: Floats) -> Floats:
    earned, weight = values.T
    total = counts @ weight
    return np.asarray(
        np.divide(
            counts @ (earned * weight), total, where=total > 0, out=np.full(len(total), np.nan)
        )
    )
