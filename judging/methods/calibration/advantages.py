"""What a position, or an ID token, adds to the chance of the response that has it.

Two readings of the same examples differ only in which response is shown first (or bears the first
ID token); their mean difference is what that place is worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Floats
from judging.methods.calibration.probabilities import ChoiceProbabilities
from judging.methods.intervals.bootstrap import plus_two_mean
from judging.methods.intervals.estimates import Figure, Undefined

NO_PAIR = "no example has both readings"
CONFOUNDED = (
    "X0 and X2 change position and ID token together; ask 3 or 4 permutations to tell them apart"
)
# Response 1 keeps its token while its position changes, and its position while its token does.
_APART = {
    "position": ((("X0", "X3"), ("X1", "X2")), (("X0",), ("X1",))),
    "token": ((("X0", "X1"), ("X2", "X3")), (("X1",), ("X2",))),
}


def advantage(
    with_it: ArrayLike, without: ArrayLike, *, question: ArrayLike | None = None
) -> Figure:
    """Return the mean of (with - without): 0 is no advantage, 1 is everything.

    Args:
        with_it, without: (N,) 1, 1/2, 0 or a probability of response 1; NaN: no reading.
        question: (N,) codes, or None.
    Returns: difference of win rates, -1 to 1, or Undefined without a pair of readings."""
    difference = np.asarray(with_it, np.float64) - np.asarray(without, np.float64)
    return plus_two_mean(difference, (-1, 1), question, reason=NO_PAIR)


def advantage_of(
    what: str,
    probabilities: ChoiceProbabilities,
    *,
    question: ArrayLike | None = None,
) -> Figure:
    """Return the advantage of a position or an ID token.

    Args:
        what: `position` or `token`.
        probabilities: all four permutations tell best; X0, X1 and X2 tell too.
        question: (N,) codes, or None.
    Returns: as in `advantage`, or Undefined if both change together."""
    of_response_1 = probabilities.of_response_1()
    of_response_1 = np.where(probabilities.present, of_response_1, np.nan)
    for have, lack in _APART[what]:
        if probabilities.has((*have, *lack)):
            first, second = (_mean(probabilities, of_response_1, names) for names in (have, lack))
            return advantage(first, second, question=question)
    return Undefined(CONFOUNDED)


def _mean(probabilities: ChoiceProbabilities, values: Floats, names: tuple[str, ...]) -> Floats:
    """Return (N,) the mean over these permutations; NaN if one is missing."""
    columns = [probabilities.permutations.index(name) for name in names]
    return np.asarray(values[:, columns].mean(axis=1))
