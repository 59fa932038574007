"""Resampling by question, vectorised over the resamples.

A statistic of a sample depends only on how often each distinct row (a cell) occurs in it.  So a
resample is a vector of cell counts, and drawing rows with replacement is one multinomial draw:
exactly the ordinary bootstrap, at a cost that does not grow with the number of equal rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Codes, Floats
from judging.methods.distinct import all_differ, coded, coded_rows, firsts
from judging.methods.estimates import Estimate, Undefined

Statistic = Callable[[Floats, Floats], Floats]

ONE_QUESTION = "all of it is about one question, so there is no interval"
ALIKE = "the same in every resample, which does not tell how sure it is"
REPEATS = 2_000
CHUNK = 4_000_000
# Narrower than this is the rounding of sums.
WIDTH = 1e-12


def cells(*columns: ArrayLike) -> tuple[Codes, Codes]:
    """The cell of each row of equal columns, and for each cell the index of one row of it."""
    n, code = coded_rows(*columns)
    return code, firsts(n, code)


def resampled_counts(
    cell: Codes,
    rng: np.random.Generator,
    *,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
    repeats: int = REPEATS,
) -> Floats:
    """How often each cell occurs in each resample: (repeats, number of cells).

    question: what is drawn with all its rows; each row is one of its own where None.
    stratum: strata are resampled apart (the selected and the audited examples).
    """
    n_cells = int(cell.max(initial=-1)) + 1
    questions = np.arange(len(cell)) if question is None else np.asarray(question)
    strata = np.zeros(len(cell), dtype=np.intp) if stratum is None else np.asarray(stratum)
    counts = np.zeros((repeats, n_cells))
    for value in np.unique(strata):
        rows = np.flatnonzero(strata == value)
        counts += _stratum_counts(cell[rows], questions[rows], n_cells, rng, repeats)
    return counts


def _stratum_counts(
    cell: Codes, question: NDArray[np.generic], n_cells: int, rng: np.random.Generator, repeats: int
) -> Floats:
    if all_differ(question):
        n, present = len(cell), np.bincount(cell, minlength=n_cells)
        return rng.multinomial(n, present / n, size=repeats).astype(np.float64)
    n, code = coded(question)
    incidence = scipy.sparse.coo_array(
        (np.ones(len(cell)), (code, cell)), shape=(n, n_cells)
    ).tocsr()
    step = max(1, CHUNK // n)
    parts = [
        rng.multinomial(n, np.full(n, 1 / n), size=min(step, repeats - start)) @ incidence
        for start in range(0, repeats, step)
    ]
    return np.vstack(parts).astype(np.float64)


def interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float, int]:
    """Percentile limits of the resamples in which the statistic exists, and how many lack it."""
    array = np.asarray(values, dtype=np.float64)
    there = array[np.isfinite(array)]
    if not len(there):
        return np.nan, np.nan, len(array)
    tail = (1 - confidence) / 2
    low, high = np.quantile(there, [tail, 1 - tail])
    return float(low), float(high), len(array) - len(there)


def estimate_of(value: float, resampled: ArrayLike, n: int, confidence: float = 0.95) -> Estimate:
    """A value with the percentile limits of its resamples; says in how many it doesn't exist.

    Where they are all alike there is no interval: examples that agree do not show how much others
    may differ.
    """
    drawn = np.asarray(resampled, dtype=np.float64)
    low, high, lacking = interval(drawn, confidence)
    note = f"undefined in {lacking} of {len(drawn)} resamples" if lacking else ""
    if lacking == len(drawn):
        return Estimate(value, n, note=note)
    if high - low < WIDTH:
        return Estimate(value, n, note="; ".join(filter(None, (note, ALIKE))))
    return Estimate(value, n, low, high, note)


def alike_limits(
    value: float, n: float, limits: tuple[float, float], confidence: float = 0.95
) -> tuple[float, float]:
    """Of a mean of n values that are all the same: as far as it could be from them.

    Clopper and Pearson's limit of a share of which none was seen says how many others may be
    otherwise; the furthest that they can be is one of the limits of the values.
    """
    otherwise = 1 - ((1 - confidence) / 2) ** (1 / n)
    return tuple(value + otherwise * (end - value) for end in limits)


def bootstrap_estimate(
    statistic: Statistic,
    columns: Sequence[ArrayLike],
    rng: np.random.Generator,
    *,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
    reason: str = "no examples",
    limits: tuple[float, float] | None = None,
    confidence: float = 0.95,
    repeats: int = REPEATS,
) -> Estimate | Undefined:
    """A statistic with its bootstrap interval.

    statistic: from counts (repeats, cells) and the cells' values (cells, columns) to the values
        of the statistic (repeats,), NaN where it does not exist.
    reason: said where the statistic does not exist on the sample itself.
    limits: of a mean the smallest and the largest value that there can be, by which it has an
        interval where all values are the same.
    """
    n = len(np.asarray(columns[0]))
    if n == 0:
        return Undefined(reason)
    cell, first = cells(*columns)
    values = np.column_stack([np.asarray(column, dtype=np.float64)[first] for column in columns])
    observed = np.bincount(cell, minlength=len(first)).astype(np.float64)[None, :]
    value = float(statistic(observed, values)[0])
    if not np.isfinite(value):
        return Undefined(reason)
    questions = np.arange(n) if question is None else np.asarray(question)
    if len(np.unique(questions)) < 2:
        # Each resample would be the sample again, and the interval have no width.
        return Estimate(value, n, note=ONE_QUESTION)
    counts = resampled_counts(cell, rng, question=question, stratum=stratum, repeats=repeats)
    found = estimate_of(value, statistic(counts, values), n, confidence)
    if found.low is not None or limits is None:
        return found
    # The audited, which weigh the most, where there are any.
    strata = np.zeros(n, np.intp) if stratum is None else np.asarray(stratum)
    seen = len(np.unique(questions[strata == strata.max()]))
    return Estimate(value, n, *alike_limits(value, seen, limits, confidence))
