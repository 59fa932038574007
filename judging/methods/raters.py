"""Agreement among several raters: Fleiss, Krippendorff, Gwet; undefined is said with the reason.

Counts have one row an example and one column a category: how many raters gave it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Floats
from judging.methods.estimates import Undefined

TOO_FEW = "no example has two votes"
ONE_CATEGORY = "all votes are in one category, so chance agreement is complete"


def category_counts(votes: ArrayLike, present: ArrayLike, categories: ArrayLike) -> Floats:
    """(N, c) counts from (N, raters) votes; a vote that is not present is missing."""
    table, there = np.asarray(votes), np.asarray(present, dtype=bool)
    columns = [((table == value) & there).sum(axis=1) for value in np.asarray(categories)]
    return np.stack(columns, axis=1).astype(np.float64)


def equally_often(counts: Floats) -> tuple[int, NDArray[np.bool_]]:
    """The number of votes, two or more, that most examples have, and which examples have it.

    Of numbers that are equally common the larger one; 0 where no example has two votes.  What a
    round asks for does not tell it: it may be closed early, or hold votes given elsewhere.
    """
    given = counts.sum(axis=1).astype(np.intp)
    common = np.bincount(given[given >= 2])
    number = len(common) - 1 - int(common[::-1].argmax()) if len(common) else 0
    return number, (given == number) & (given > 0)


def percent_agreement(counts: Floats, times: Floats | None = None) -> float | Undefined:
    """Mean over examples of the share of pairs of raters that agree.

    times: how often each row occurs, here and below; once where None.
    """
    rows, often = _with(counts, times, 2)
    if not len(rows):
        return Undefined(TOO_FEW)
    return float(often @ _pairs_agreeing(rows) / often.sum())


def fleiss_kappa(counts: Floats, times: Floats | None = None) -> float | Undefined:
    """Fleiss (1971).  Every example needs the same number of raters; missing votes: use alpha."""
    rows, often = _with(counts, times, 0)
    raters = rows.sum(axis=1)
    if not len(rows) or raters.max() < 2:
        return Undefined(TOO_FEW)
    if np.ptp(raters) != 0:
        return Undefined("the examples have different numbers of votes; see Krippendorff's alpha")
    given = often @ rows
    shares = given / given.sum()
    chance = float(shares @ shares)
    if np.count_nonzero(given) == 1:
        return Undefined(ONE_CATEGORY)
    observed = float(often @ _pairs_agreeing(rows) / often.sum())
    return (observed - chance) / (1 - chance)


def gwet_ac1(counts: Floats, times: Floats | None = None) -> float | Undefined:
    """Gwet's AC1 (2008); chance agreement from all votes, agreement where two are there."""
    categories = counts.shape[1]
    twice, often = _with(counts, times, 2)
    if not len(twice):
        return Undefined(TOO_FEW)
    if categories < 2:
        return Undefined(ONE_CATEGORY)
    voted, often_voted = _with(counts, times, 1)
    shares = often_voted @ (voted / voted.sum(axis=1, keepdims=True)) / often_voted.sum()
    chance = float((shares * (1 - shares)).sum() / (categories - 1))
    observed = float(often @ _pairs_agreeing(twice) / often.sum())
    return (observed - chance) / (1 - chance)


def krippendorff_alpha(
    counts: Floats, times: Floats | None = None, *, ordinal: bool = False
) -> float | Undefined:
    """1 - D_o/D_e over all pairable values (Krippendorff 2011); a missing vote is missing.

    ordinal: the squared number of values between two categories, the columns in their order.
    """
    rows, often = _with(counts, times, 2)
    if not len(rows):
        return Undefined(TOO_FEW)
    per_pair = rows * (often / (rows.sum(axis=1) - 1))[:, None]
    coincidence = per_pair.T @ rows - np.diag(per_pair.sum(axis=0))
    totals = often @ rows
    distance = _ordinal_distance(totals) if ordinal else 1 - np.eye(len(totals))
    if np.count_nonzero(totals) == 1:
        return Undefined(ONE_CATEGORY)
    expected = float(totals @ distance @ totals) / (totals.sum() - 1)
    return float(1 - (coincidence * distance).sum() / expected)


def _with(counts: Floats, times: Floats | None, fewest: int) -> tuple[Floats, Floats]:
    """The rows that occur and have so many votes, and how often each occurs."""
    often = np.ones(len(counts)) if times is None else times
    rows = (counts.sum(axis=1) >= fewest) & (often > 0)
    return counts[rows], often[rows]


def _ordinal_distance(totals: Floats) -> Floats:
    """(sum of the values from c to k, less half of those at c and at k), squared."""
    middle = np.cumsum(totals) - totals / 2
    return np.asarray((middle[:, None] - middle[None, :]) ** 2)


def _pairs_agreeing(counts: Floats) -> Floats:
    raters = counts.sum(axis=1)
    agreeing = (counts * (counts - 1)).sum(axis=1)
    return np.asarray(agreeing / (raters * (raters - 1)))
