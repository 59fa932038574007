"""How often labels are right, and how far that goes beyond chance."""

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from annotation.results.data.figures import Json
from annotation.results.data.sheet import Sheet
from judging.methods.agreement.accuracy import Comparison, Ties, accuracy, credit
from judging.methods.agreement.raters import kappa
from judging.methods.arrays import Booleans
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.intervals.proportions import joined, wilson


@dataclass(frozen=True)
class LabelAgreement:
    """Labels against the people's. `over_all` counts an example without a label as not right."""

    accuracy: Figure
    over_all: Figure
    kappa: Figure

    def as_json(self) -> Json:
        return {
            "accuracy": self.accuracy.as_json(),
            "accuracy_over_all": self.over_all.as_json(),
            "kappa": self.kappa.as_json(),
        }


def label_agreement(
    compared: Comparison | Undefined, rng: np.random.Generator, ties: Ties = Ties.HALF
) -> LabelAgreement:
    """Each figure by the draws of the generator as it comes, so that the same labels have the same
    intervals wherever they stand, whatever was drawn before."""
    if isinstance(compared, Undefined):
        return LabelAgreement(compared, compared, compared)
    return LabelAgreement(
        accuracy(compared, deepcopy(rng), ties=ties),
        accuracy(compared, deepcopy(rng), ties=ties, unjudged_wrong=True),
        kappa(compared, deepcopy(rng)),
    )


@dataclass(frozen=True)
class AfterReview:
    """done: reviewed, by their final labels. rest: by the judge's, as many as keep them."""

    done: Comparison
    rest: Comparison

    @property
    def both(self) -> Comparison:
        names = ("judge", "judged", "human", "weight", "stratum", "question")
        columns = {
            name: np.concatenate((getattr(self.done, name), getattr(self.rest, name)))
            for name in names
        }
        return replace(self.done, **columns)

    def counted_once(self, found: Figure, there: Booleans) -> Figure:
        """An audited example is in both parts, and is one label."""
        if isinstance(found, Undefined):
            return found
        return replace(found, n=found.n - int((self.rest.stratum.astype(bool) & there).sum()))


def after_review(sheet: Sheet) -> AfterReview | Undefined:
    final = sheet.comparison(sheet.final, sheet.has_final)
    judge = sheet.comparison(sheet.judge, sheet.judged)
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    if isinstance(final, Undefined) or isinstance(judge, Undefined):
        return Undefined("no label is known")
    reviewed = ((sheet.selected | sheet.audited) & sheet.answered)[known.rows]
    done, left = final.at(reviewed), judge.weight - reviewed
    rest = replace(judge, weight=left).at(left > 1e-9)
    # What stands for itself and for others is here twice, and neither repeats the other's question.
    question = done.question + (1 + judge.question.max() if rest.stratum.any() else 0)
    own = {"weight": np.ones(len(done)), "stratum": np.zeros(len(done), np.intp)}
    return AfterReview(replace(done, question=question, **own), rest)


def agreement_after(sheet: Sheet, rng: np.random.Generator, ties: Ties) -> LabelAgreement:
    found = after_review(sheet)
    if isinstance(found, Undefined):
        return LabelAgreement(found, found, found)
    if not len(found.done):
        return label_agreement(found.rest, rng, ties)
    return LabelAgreement(
        _accuracy(found, deepcopy(rng), ties, over_all=False),
        _accuracy(found, deepcopy(rng), ties, over_all=True),
        found.counted_once(kappa(found.both, deepcopy(rng)), found.rest.judged),
    )


def _accuracy(
    found: AfterReview, rng: np.random.Generator, ties: Ties, *, over_all: bool
) -> Figure:
    """Both parts by their shares; their distances from their limits are added in squares."""
    done = _reviewed(found.done, ties)
    rest = accuracy(found.rest, rng, ties=ties, unjudged_wrong=over_all)
    there = found.rest.judged | over_all
    n_rest = float(found.rest.weight @ there)
    reached = joined(len(found.done) / (len(found.done) + n_rest), done, rest)
    return found.counted_once(reached, there) if isinstance(rest, Estimate) else reached


def _reviewed(done: Comparison, ties: Ties) -> Estimate:
    """Known labels that came with the examples may say otherwise than the review."""
    right = credit(done.judge, done.judged, done.human, ties, done.knows_ties)
    found = wilson(float(right.sum()), len(right))
    if (right == 1).all() or isinstance(found, Undefined):
        return Estimate(1.0, len(right), 1.0, 1.0)
    return found
