"""Which values are equal: by counting where they are small whole numbers, else by sorting.

Codes of categories, labels and questions are such numbers, and a report asks of 100,000 rows of
them several hundred times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Codes, Floats, ratio
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, clopper_pearson, wilson

Array = NDArray[np.generic]

# Beyond so many times the number of rows a table of counts takes longer than sorting.
SPARSEST = 16
Statistic = Callable[[Floats, Floats], Floats]
ONE_QUESTION = "all of it is about one question, so there is no interval"
ALIKE = "the same in every resample, which does not tell how sure it is"
REPEATS = 2_000
CHUNK = 4_000_000
# Narrower than this is the rounding of sums.
WIDTH = 1e-12
NOTHING = "no examples"


def all_differ(values: ArrayLike) -> bool:
    """Whether no value occurs twice."""
    array = np.asarray(values)
    if (numbers := _counted(array)) is not None:
        return bool(np.bincount(numbers).max() == 1)
    return len(np.unique(array)) == len(array)


def coded(values: ArrayLike) -> tuple[int, Codes]:
    """How many distinct values there are, and each row's place among them in rising order."""
    array = np.asarray(values)
    if (numbers := _counted(array)) is None:
        distinct, code = np.unique(array, return_inverse=True)
        return len(distinct), code.reshape(-1)
    place = np.cumsum(np.bincount(numbers) > 0) - 1
    return int(place[-1]) + 1, place[numbers]


def coded_rows(*columns: ArrayLike) -> tuple[int, Codes]:
    """The same of rows of equal columns, the first column being the most significant."""
    n, code = coded(columns[0])
    for column in columns[1:]:
        values, own = coded(column)
        n, code = coded(code * values + own)
    return n, code


def firsts(n: int, code: Codes) -> Codes:
    """For each of n codes the first row that has it."""
    first = np.empty(n, dtype=np.intp)
    # Of several writes to one place the last stands.
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    return first


def _counted(array: Array) -> Codes | None:
    """Whole numbers that lie close together, less the smallest of them."""
    if array.dtype.kind not in "biu" or not len(array):
        return None
    numbers = array.astype(np.intp)
    numbers -= numbers.min()
    return numbers if numbers.max() <= SPARSEST * len(numbers) else None


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
    reason: str = NOTHING,
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


def bootstrap_mean(
    values: ArrayLike,
    rng: np.random.Generator,
    *,
    question: ArrayLike | None = None,
    reason: str = NOTHING,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Mean of the values that are there."""
    array = np.asarray(values, dtype=np.float64)
    rows = np.isfinite(array)
    return bootstrap_estimate(
        lambda counts, cells: counts @ cells[:, 0] / counts.sum(axis=1),
        (array[rows],),
        rng,
        question=questions_at(question, rows),
        reason=reason,
        limits=limits,
    )


def weighted_mean(counts: Floats, values: Floats) -> Floats:
    """Statistic."""
    value, weight = values.T
    return ratio(counts @ (value * weight), counts @ weight)


def questions_at(question: ArrayLike | None, rows: ArrayLike) -> Array | None:
    """Select."""
    return None if question is None else np.asarray(question)[np.asarray(rows)]


def share(
    values: ArrayLike,
    question: ArrayLike | None = None,
    *,
    exact: bool = False,
    reason: str = NOTHING,
    confidence: float = 0.95,
) -> Figure:
    """Mean of values from 0 to 1, halves counted, by Wilson's limits; `exact` by Clopper-Pearson's.

    question: equal codes are of one question; each example has its own where None.
    """
    rows = np.asarray(values, dtype=np.float64)
    n = len(rows)
    if not n:
        return Undefined(reason)
    limits = clopper_pearson if exact else wilson
    if question is None or all_differ(question):
        return limits(float(rows.sum()), n, confidence)
    mean, size = float(rows.mean()), effective_size(rows, question, confidence)
    if size is None:
        return Estimate(mean, n, note=ONE_QUESTION)
    found = _limits(limits(mean * size, size, confidence))
    return Estimate(mean, n, *found)


def effective_size(
    values: NDArray[np.float64], question: ArrayLike, confidence: float = 0.95
) -> float | None:
    """n p(1-p)/n over the variance of the mean by question, at most n; with t of G-1 degrees of
    freedom in z's place. Where all values are equal it is the number of questions G. None for one.
    """
    groups, code = coded(question)
    if groups < 2:
        return None
    n, mean = len(values), values.mean()
    apart = np.bincount(code, values - mean, minlength=groups)
    variance = groups / (groups - 1) * float(apart @ apart) / n**2
    independent = float(mean * (1 - mean)) / n
    alike = variance <= 1e-12 or independent <= 1e-12
    size = float(groups) if alike else min(float(n), n * independent / variance)
    tail = (1 + confidence) / 2
    ratio = scipy.stats.norm.ppf(tail) / scipy.stats.t.ppf(tail, groups - 1)
    return float(size if alike else size * ratio**2)


def design_effect(values: ArrayLike, question: ArrayLike) -> tuple[float, int]:
    """How many times the variance of a mean is that of independent examples, at least once; and
    the number of questions. Where all values are equal, each question is taken for one example."""
    rows = np.asarray(values, dtype=np.float64)
    if all_differ(question):
        return 1.0, len(rows)
    groups, code = coded(question)
    apart = np.bincount(code, rows - rows.mean(), minlength=groups)
    independent = len(rows) * float(rows.var())
    if independent < WIDTH or groups < 2:
        return len(rows) / groups, groups
    return max(1.0, groups / (groups - 1) * float(apart @ apart) / independent), groups


def _limits(found: Figure) -> tuple[float | None, float | None]:
    return (None, None) if isinstance(found, Undefined) else (found.low, found.high)
