"""Whether PORTIA's labels are right: by people and by a reference judge (Tables 3, 9, App. N)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.accuracy import accuracy, credit
from judging.methods.arrays import Booleans, Codes, Signs
from judging.methods.bootstrap import bootstrap_estimate
from judging.methods.comparison import Comparison, Design, comparison
from judging.methods.estimates import Figure, Undefined
from judging.methods.portia.coverage import ratio
from judging.methods.portia.stage_labels import OrderLabels, StageLabels
from judging.methods.proportions import wilson

NO_OVERLAP = "no example that the reference judged consistently"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement before and after PORTIA, and by how much it rose on the same examples.

    An inconsistent example has no label and counts as disagreement, as in the paper.
    """

    unsplit: Figure
    portia: Figure
    gain: Figure


def agreement_with_people(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    human: Signs,
    design: Design,
    rng: np.random.Generator,
    question: Codes | None = None,
) -> Agreement:
    """Table 3, weighted by how the labelled examples were chosen (`Design`).

    human: (N,) the people's labels; read only where the design says that there is one.
    """
    final = stages.final
    after = comparison(final.labels[:, 0], final.consistent, human, design, question)
    if isinstance(after, Undefined):
        return Agreement(after, after, after)
    portia = accuracy(after, rng, unjudged_wrong=True)
    if isinstance(unsplit, Undefined):
        return Agreement(unsplit, portia, unsplit)
    before = comparison(unsplit.labels[:, 0], unsplit.consistent, human, design, question)
    assert isinstance(before, Comparison)
    gain = bootstrap_estimate(
        lambda counts, values: ratio(counts @ (values[:, 0] * values[:, 1]), counts @ values[:, 1]),
        (_credit(after) - _credit(before), after.weight),
        rng,
        question=after.question,
        stratum=after.stratum,
    )
    return Agreement(accuracy(before, rng, unjudged_wrong=True), portia, gain)


def _credit(compared: Comparison) -> NDArray[np.float64]:
    return credit(compared.judge, compared.judged, compared.human)


def agreement_with_reference(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    reference: OrderLabels,
    rng: np.random.Generator,
    question: ArrayLike | None = None,
) -> Agreement:
    """Table 9: of the examples that a reference judge labels consistently, how many alike."""
    rows = reference.consistent
    if not rows.any():
        none = Undefined(NO_OVERLAP)
        return Agreement(none, none, none)
    n = int(rows.sum())
    after = _alike(stages.final, reference, rows)
    portia = wilson(int(after.sum()), n)
    if isinstance(unsplit, Undefined):
        return Agreement(unsplit, portia, unsplit)
    before = _alike(unsplit, reference, rows)
    gain = bootstrap_estimate(
        lambda counts, values: counts @ values[:, 0] / counts.sum(axis=1),
        (after.astype(np.int64) - before,),
        rng,
        question=None if question is None else np.asarray(question)[rows],
    )
    return Agreement(wilson(int(before.sum()), n), portia, gain)


def _alike(labels: OrderLabels, reference: OrderLabels, rows: Booleans) -> Booleans:
    same = labels.consistent & (labels.labels[:, 0] == reference.labels[:, 0])
    return np.asarray(same[rows])


@dataclass(frozen=True, slots=True)
class HumanTies:
    """Whether people call a tie where the judge contradicts itself (Appendix N).

    where_inconsistent, where_consistent: share of human ties.  p: Fisher's exact test, two-sided;
    None where the examples do not weigh the same or one side is empty.
    """

    where_inconsistent: Figure
    where_consistent: Figure
    p: float | None


def human_ties(
    labels: OrderLabels | Undefined,
    human: Signs,
    design: Design,
    rng: np.random.Generator,
    question: Codes | None = None,
) -> HumanTies:
    """Of the labelled examples with a verdict in both orders."""
    if isinstance(labels, Undefined):
        return HumanTies(labels, labels, None)
    compared = comparison(labels.consistent.astype(np.int8), labels.both, human, design, question)
    if isinstance(compared, Undefined):
        return HumanTies(compared, compared, None)
    rows = compared.judged
    consistent, tie = compared.judge[rows] == 1, compared.human[rows] == 0
    inside = replace(
        compared,
        **{
            name: getattr(compared, name)[rows]
            for name in ("judge", "judged", "human", "weight", "stratum", "question")
        },
    )
    shares = [_share(inside, tie, where, rng) for where in (~consistent, consistent)]
    table = [[int((tie & w).sum()), int((~tie & w).sum())] for w in (~consistent, consistent)]
    testable = len(inside) > 0 and inside.plain and all(map(sum, table))
    p = float(scipy.stats.fisher_exact(table).pvalue) if testable else None
    return HumanTies(shares[0], shares[1], p)


def _share(
    compared: Comparison, tie: Booleans, where: Booleans, rng: np.random.Generator
) -> Figure:
    return bootstrap_estimate(
        lambda counts, values: ratio(counts @ (values[:, 0] * values[:, 1]), counts @ values[:, 1]),
        (tie[where], compared.weight[where]),
        rng,
        question=compared.question[where],
        stratum=compared.stratum[where],
        reason="no such example has a human label",
    )
