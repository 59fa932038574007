"""The judge and people compared: the labels that both gave, and what each example weighs.

After a routed round only the selected examples and a random audit of the rest have human labels.
Plain averages over them describe the hardest examples, so each audited example represents several
(Horvitz-Thompson weights)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.bootstrap import all_differ, share
from judging.methods.intervals.estimates import (
    Estimate,
    Figure,
    Undefined,
    design_total,
    joined,
    unseen_total,
    wilson,
)

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
        # An audited example that a larger beta selects later on weighs 1, so selection wins here.
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
    knows_ties: whether people could say tie; None: whether one of these labels is a tie."""

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
        # A part may happen to hold no tie though people could say it; its scale stays that of all.
        known = bool(np.any(self.human == 0)) if self.knows_ties is None else self.knows_ties
        return Comparison(
            self.judge[rows], self.judged[rows], self.human[rows], self.weight[rows],
            self.stratum[rows], self.question[rows], known,
        )  # fmt: skip

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
    """What a judge's tie earns if no human label can be a tie."""

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

    If people could not say tie (LLMBar), the judge's tie could not have been right: it earns 1/2.
    Their scale decides, as otherwise one vote for a tie would change what all other ties earn.

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
    *,
    ties: Ties = Ties.HALF,
    unjudged_wrong: bool = False,
    confidence: float = 0.95,
) -> Figure:
    """Return the judge's weighted accuracy, sum w 1[j = h] / sum w.

    After an audit only the labels that nobody checked are by chance, with the exact limits of
    `design_total`. If every label is known the interval is that of `share`: exact if a tie earns
    1/2, else Wilson's, on as many examples as their questions are worth.

    Args:
        compared: the labelled examples.
        ties: as in `credit`.
        unjudged_wrong: divide by all examples and count unjudged ones as not right.
        confidence: of the interval.
    Returns: accuracy, 0 to 1, with its interval, or Undefined without a label of the judge."""
    earned = credit(compared.judge, compared.judged, compared.human, ties, compared.knows_ties)
    rows = np.ones(len(compared), bool) if unjudged_wrong else compared.judged
    earned, weight = earned[rows], compared.weight[rows]
    if not len(earned):
        return Undefined(NOT_JUDGED)
    audited = compared.stratum[rows] > 0
    if audited.any():
        # The limits are of whole labels. The weights add up to a whole number of examples but for
        # the rounding of floats.
        total = round(float(weight.sum()))
        inside, drawn = earned[~audited], earned[audited]
        figure = design_total(inside, drawn, total - len(inside), confidence)
        return figure if isinstance(figure, Undefined) else figure.scaled(1 / total)
    # Wilson's interval is for shares of 0 and 1 only.
    exact = bool(np.any(earned == 0.5))
    return share(earned, compared.question[rows], exact=exact, confidence=confidence)


def final_accuracy(
    done: Comparison,
    rest: Comparison,
    *,
    ties: Ties = Ties.HALF,
    unjudged_wrong: bool = False,
    confidence: float = 0.95,
) -> Figure:
    """Return how often final labels are right: people's if reviewed, the judge's elsewhere.

    If an audit speaks for the rest, what the unaudited labels hold has exact hypergeometric limits
    (`unseen_total`), also if examples share a question: the audit is a random sample of these
    labels. If every label is known, the limits of both parts are joined by MOVER.

    Args:
        done: the reviewed and audited examples by their final labels, each once.
        rest: by the judge's labels, weighted by how many unreviewed and unaudited ones they are.
        ties, unjudged_wrong, confidence: as in `accuracy`.
    Returns: accuracy, 0 to 1, with its interval; n counts an audited example once."""
    right = credit(done.judge, done.judged, done.human, ties, done.knows_ties)
    rows = np.ones(len(rest), bool) if unjudged_wrong else rest.judged
    left = float(rest.weight[rows].sum())
    # Every label of the judge that is left comes from the audit's stratum, so the audit is a random
    # sample of exactly these labels.
    if left and rest.stratum.all():
        earned = credit(rest.judge, rest.judged, rest.human, ties, rest.knows_ties)[rows]
        held = unseen_total(float(earned.sum()), len(earned), round(left), confidence)
        value, low, high = ((float(right.sum()) + unseen) / (len(right) + left) for unseen in held)
        return Estimate(value, len(right), low, high)
    reviewed: Figure = Estimate(1.0, len(right), 1.0, 1.0)
    if not (right == 1).all():
        # Known labels that came with the examples may say otherwise than the review.
        reviewed = wilson(float(right.sum()), len(right), confidence)
    assert isinstance(reviewed, Estimate)
    alone = accuracy(rest, ties=ties, unjudged_wrong=unjudged_wrong, confidence=confidence)
    return joined(len(right) / (len(right) + left), reviewed, alone)
