"""The judge and people compared: the labels that both gave, and what each example weighs.

After a routed round only the selected examples and a random audit of the rest have human labels.
Plain averages over them describe the hardest examples, so each audited example represents several
(Horvitz-Thompson weights)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.bootstrap import all_differ, bootstrap_estimate, weighted_mean
from judging.methods.intervals.estimates import Figure, Undefined, stratified_share, wilson

ONLY_CONTESTED = "people saw only the contested examples; an audit of the others is needed"
NOT_JUDGED = "the judge has given no label to any of these examples"


@dataclass(frozen=True, slots=True)
class Design:
    """Which of N examples people labelled, and why.

    selected: (N,) bool, selected by rank, or all of them if labels were imported for every example.
    audited: (N,) bool, drawn at random from the rest."""

    selected: Booleans
    audited: Booleans

    @property
    def n(self) -> int:
        return len(self.selected)

    @property
    def n_rest(self) -> int:
        """N_U: examples that were not selected."""
        return int(self.n - self.selected.sum())

    @property
    def n_audited(self) -> int:
        return int((self.audited & ~self.selected).sum())

    def weights(self) -> Floats | Undefined:
        """Return (N,) 1 for selected, N_U/n for audited, 0 for other examples; they sum to N."""
        if self.n_rest == 0:
            return np.ones(self.n)
        if self.n_audited == 0:
            return Undefined(ONLY_CONTESTED)
        in_audit = self.audited & ~self.selected
        return np.where(self.selected, 1.0, np.where(in_audit, self.n_rest / self.n_audited, 0.0))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The examples that have a human label, one entry each.

    judge: (n,) the judge's signs, meaningless if `judged` is False.
    human: (n,) the human labels' signs.
    weight: (n,) how many examples each represents.
    stratum: (n,) 0 selected or fully labelled, 1 audited; they are resampled apart.
    question: (n,) equal codes share a question and are resampled together.
    knows_ties: whether people could say tie, if these are only some of the labels."""

    judge: Signs
    judged: Booleans
    human: Signs
    weight: Floats
    stratum: Codes
    question: Codes
    knows_ties: bool | None = None

    def __len__(self) -> int:
        return len(self.human)

    def at(self, rows: Booleans) -> Comparison:
        """Return some of the examples, by the conventions of all."""
        known = bool(np.any(self.human == 0)) if self.knows_ties is None else self.knows_ties
        return Comparison(
            self.judge[rows],
            self.judged[rows],
            self.human[rows],
            self.weight[rows],
            self.stratum[rows],
            self.question[rows],
            known,
        )

    @property
    def questions_differ(self) -> bool:
        """Whether each question occurs once."""
        return all_differ(self.question)

    @property
    def plain(self) -> bool:
        """Whether all weigh the same and each question occurs once."""
        return bool(np.ptp(self.weight) == 0) and self.questions_differ


def comparison(
    judge: Signs, judged: Booleans, human: Signs, design: Design, question: Codes | None = None
) -> Comparison | Undefined:
    """Keep the labelled examples of a project and weight them by the design.

    Args:
        judge, judged: (N,) the judge's signs, and whether each example has one.
        human: (N,) the human labels' signs, read only where the design has a label.
        design: which examples people labelled, and why.
        question: (N,) equal codes share a question; None: every example has its own.
    Returns: the labelled examples, or Undefined if there are none or no audit."""
    weights = design.weights()
    if isinstance(weights, Undefined):
        return weights
    rows = np.flatnonzero(weights)
    if not len(rows):
        return Undefined("no example has a human label")
    questions = np.arange(design.n) if question is None else question
    return Comparison(
        judge[rows],
        judged[rows],
        human[rows],
        weights[rows],
        (~design.selected[rows]).astype(np.intp),
        questions[rows],
    )


class Ties(StrEnum):
    """What a judge's tie earns if no human label is a tie."""

    HALF = "half"
    WRONG = "wrong"


def credit(
    judge: Signs,
    judged: Booleans,
    human: Signs,
    ties: Ties = Ties.HALF,
    knows_ties: bool | None = None,
) -> Floats:
    """Return what each label of the judge earns against the human label.

    If no human label is a tie (LLMBar), the judge's tie could not have been right: it earns 1/2.

    Args:
        judge, judged, human: (N,) as in `Comparison`.
        ties: what such a tie earns instead.
        knows_ties: whether people could say tie; None: whether one of these labels is a tie.
    Returns: (N,) float64: 1 right, 0 wrong or unjudged, 1/2 as above."""
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
    """Return the judge's weighted accuracy, sum w 1[j = h] / sum w.

    The interval is Wilson's if all examples weigh the same and earn 0 or 1, `stratified_share`
    after an audit, and a bootstrap if questions repeat.

    Args:
        compared: the labelled examples.
        rng: for the bootstrap.
        ties: as in `credit`.
        unjudged_wrong: divide by all examples and count unjudged ones as not right.
    Returns: accuracy, 0 to 1, with its interval, or Undefined without a label of the judge."""
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
        weighted_mean,
        (earned, weight),
        rng,
        question=compared.question[rows],
        stratum=compared.stratum[rows],
        limits=(0, 1),
    )


def _strata(earned: Floats, weight: Floats, stratum: Codes) -> list[tuple[float, int, float]]:
    """What each stratum earned, its size, and its share of the weight."""
    return [
        (float(earned[rows].sum()), int(rows.sum()), float(weight[rows].sum() / weight.sum()))
        for rows in (stratum == value for value in np.unique(stratum))
    ]
