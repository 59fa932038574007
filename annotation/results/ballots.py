"""The votes on each example as a table of examples by annotators."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from annotation.agreement import SIGN
from annotation.models import Annotator
from annotation.results.votes import Vote
from judging.methods.arrays import Booleans, Signs
from judging.methods.votes import VoteCounts


@dataclass(frozen=True)
class Ballots:
    """votes: (N, annotators) of 1, 0, -1, read where present. left: which response stood left,
    0 where that is not known. names: pseudonyms, as in exports."""

    names: tuple[str, ...]
    votes: Signs
    present: Booleans
    left: NDArray[np.int8]

    @property
    def counts(self) -> VoteCounts:
        return VoteCounts.from_votes(self.votes, self.present)


def ballots_of(votes: Sequence[Sequence[Vote]]) -> Ballots:
    given = [vote for row in votes for vote in row]
    people = sorted({vote.annotator_id for vote in given})
    column = {annotator: place for place, annotator in enumerate(people)}
    rows = np.repeat(np.arange(len(votes)), [len(row) for row in votes])
    cells = rows, np.array([column[vote.annotator_id] for vote in given], dtype=np.intp)
    shape = (len(votes), len(people))
    table = np.zeros(shape, np.int8)
    present, left = np.zeros(shape, bool), np.zeros(shape, np.int8)
    table[cells] = [SIGN[vote.label] for vote in given]
    present[cells] = True
    left[cells] = [vote.left_response or 0 for vote in given]
    found = Annotator.objects.in_bulk(people)
    names = tuple(found[pk].pseudonym for pk in people)
    return Ballots(names, table, present, left)
