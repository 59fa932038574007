"""The final labels against the people's: what was reviewed, and what keeps the judge's label.

What people reviewed is right by construction, and is no chance: the interval is about the rest.
An audited example is reviewed as well, and beside itself stands for others that nobody saw.
"""

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from annotation.results.rightness import Agreement, agreement
from annotation.results.sheet import Sheet
from judging.methods.accuracy import Ties, accuracy, credit
from judging.methods.arrays import Booleans
from judging.methods.comparison import Comparison
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.kappa import kappa
from judging.methods.proportions import joined, wilson


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


def agreement_after(sheet: Sheet, rng: np.random.Generator, ties: Ties) -> Agreement:
    found = after_review(sheet)
    if isinstance(found, Undefined):
        return Agreement(found, found, found)
    if not len(found.done):
        return agreement(found.rest, rng, ties)
    return Agreement(
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
