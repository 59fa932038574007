"""From the votes on one example to the people's label, and how people agree with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.estimates import Undefined
from judging.methods.outcomes import Label

Name = TypeVar("Name", bound=str)


def majority(votes: Iterable[Label]) -> Label | None:
    """The label of more than half of the votes received, or None."""
    return majority_of(Counter(votes))


def majority_of(counts: Mapping[Name, int]) -> Name | None:
    """The same from the number of votes for each label."""
    total = sum(counts.values())
    return next((label for label, n in counts.items() if 2 * n > total), None)


@dataclass(frozen=True, slots=True)
class VoteCounts:
    """(N, 3) numbers of votes for win, tie and lose."""

    counts: NDArray[np.int64]

    @classmethod
    def from_votes(cls, votes: Signs, present: Booleans) -> VoteCounts:
        """votes: (N, raters) of 1, 0, -1; read where present."""
        columns = [((votes == sign) & present).sum(axis=1) for sign in (1, 0, -1)]
        return cls(np.stack(columns, axis=1).astype(np.int64))

    @property
    def n_votes(self) -> NDArray[np.int64]:
        return np.asarray(self.counts.sum(axis=1))

    def majority(self) -> tuple[Signs, Booleans]:
        """The majority's sign, and whether there is one."""
        best = self.counts.argmax(axis=1)
        has = 2 * self.counts.max(axis=1) > self.n_votes
        return (1 - best).astype(np.int8), np.asarray(has)

    def score_variance(self) -> Floats:
        """v = s^2/n of each example's votes scored 1, 1/2, 0; NaN below two votes."""
        points = np.array([1.0, 0.5, 0.0])
        n = self.n_votes
        mean = self.counts @ points / np.maximum(n, 1)
        square = self.counts @ points**2 - n * mean**2
        return np.where(n >= 2, square / np.maximum(n * (n - 1), 1), np.nan)

    def others_agree(self) -> Floats:
        """Mean over votes of the chance that the majority of the other votes is the same.

        An even split of the others gives each of its labels an equal share.  NaN below two votes.
        """
        n = self.n_votes
        earned = np.zeros(len(n))
        for label in range(3):
            others = self.counts.copy()
            others[:, label] -= 1
            top = others.max(axis=1)
            leads = others[:, label] == top
            leaders = (others == top[:, None]).sum(axis=1)
            earned += np.where(leads & (top > 0), self.counts[:, label] / leaders, 0.0)
        return np.where(n >= 2, earned / np.maximum(n, 1), np.nan)


NO_MAJORITY = "this person shares no example with a majority of votes"


def agrees_with_majority(
    votes: Signs, present: Booleans, rater: int, *, own_vote: bool
) -> tuple[NDArray[np.intp], Booleans]:
    """The examples on which one rater meets a majority, and whether the label is the same.

    own_vote: the majority counts the rater's own vote, as FairEval has it, which flatters;
        else it is that of the others, and examples on which they are evenly split are left out.
    """
    mine = np.flatnonzero(present[:, rater])
    voters = present[mine]
    if not own_vote:
        voters[:, rater] = False
    label, has = VoteCounts.from_votes(votes[mine], voters).majority()
    return mine[has], np.asarray(votes[mine[has], rater] == label[has])


def rater_against_majority(
    votes: Signs, present: Booleans, rater: int, *, own_vote: bool
) -> float | Undefined:
    """How often one rater gives the majority's label, as in `agrees_with_majority`."""
    _, agreed = agrees_with_majority(votes, present, rater, own_vote=own_vote)
    return float(agreed.mean()) if len(agreed) else Undefined(NO_MAJORITY)
