"""The bootstrap by question, on counts of equal rows, and a permutation test of categories.

Rows with equal values form one cell, and a resample is a count per cell. A report resamples 100,000
rows several hundred times, so equal values are found by counting if they are small whole numbers
(codes of categories, labels and questions), and else by sorting.

With fifty categories, two or three intervals miss by chance alone. So the first question is whether
the categories differ at all, and the second is which do, adjusted by Holm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Codes, Floats
from judging.methods.intervals.estimates import (
    Estimate,
    Figure,
    Undefined,
    clopper_pearson,
    holm,
    wilson,
)

Array = NDArray[np.generic]

# Beyond this many times the number of rows, a table of counts takes longer than sorting.
SPARSEST = 16
FEWEST_AUDITED = 10
ONE_QUESTION = "all examples have the same question, so there is no interval"
ALIKE = "equal in every resample, so its uncertainty is unknown"
REPEATS = 2_000
CHUNK = 4_000_000
# Narrower than this is the rounding of sums.
WIDTH = 1e-12
NOTHING = "no examples"
PERMUTATIONS = 1_999
FEWER_PERMUTATIONS = 499
# Beyond this many shuffled values, fewer permutations have to do.
MOST_VALUES = 20_000_000
# Pseudo-questions whose examples are all alike, as plus-two has a pseudo-value at each limit.
ALIKE_QUESTIONS = 2
# Sums of the same values in another order differ by less.
ROUNDING = 1e-9
ONE_CATEGORY = Undefined("all examples with this figure are in one category")


def all_differ(values: ArrayLike) -> bool:
    """Return whether no value occurs twice.

    Args: values: (n,) of any dtype that sorts.
    Returns: True if they all differ."""
    array = np.asarray(values)
    if (numbers := _counted(array)) is not None:
        return bool(np.bincount(numbers).max() == 1)
    return len(np.unique(array)) == len(array)


def coded(values: ArrayLike) -> tuple[int, Codes]:
    """Number the distinct values in rising order.

    Args: values: (n,) of any dtype that sorts.
    Returns: how many distinct values there are, and (n,) each row's place among them."""
    array = np.asarray(values)
    if (numbers := _counted(array)) is None:
        distinct, code = np.unique(array, return_inverse=True)
        return len(distinct), code.reshape(-1)
    place = np.cumsum(np.bincount(numbers) > 0) - 1
    return int(place[-1]) + 1, place[numbers]


def coded_rows(*columns: ArrayLike) -> tuple[int, Codes]:
    """Number the distinct rows.

    Args: columns: (n,) each, the most significant first.
    Returns: as `coded`."""
    n, code = coded(columns[0])
    for column in columns[1:]:
        values, own = coded(column)
        # Coded again after each column, so that the numbers stay small enough to be counted.
        n, code = coded(code * values + own)
    return n, code


def firsts(n: int, code: Codes) -> Codes:
    """Find the first row of each code.

    Args: n, code: from `coded`.
    Returns: (n,) places."""
    first = np.empty(n, dtype=np.intp)
    # If one place is written to several times, the last time counts.
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
    """Group equal rows into cells.

    Args: columns: (n,) each.
    Returns: (n,) each row's cell, and (cells,) the place of one row of each."""
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
    """Draw resamples and count the cells in each.

    Args:
        cell: (n,) from `cells`.
        rng: source of the draws.
        question: (n,) equal values are drawn together; None: each row alone.
        stratum: (n,) strata are resampled apart (the selected and the audited examples).
        repeats: number of resamples.
    Returns: (repeats, cells) float64 counts."""
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
        # Without repeated questions, counts of cells are multinomial, and rows need not be drawn.
        return rng.multinomial(n, present / n, size=repeats).astype(np.float64)
    n, code = coded(question)
    # Drawing questions and multiplying by which cells they hold resamples all their rows at once.
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
    """Return percentile limits.

    Args: values, confidence: (R,) the statistic in each resample, NaN if undefined, and its level.
    Returns: low, high (NaN if all are undefined), and how many resamples lack the statistic."""
    array = np.asarray(values, dtype=np.float64)
    there = array[np.isfinite(array)]
    if not len(there):
        return np.nan, np.nan, len(array)
    tail = (1 - confidence) / 2
    low, high = np.quantile(there, [tail, 1 - tail])
    return float(low), float(high), len(array) - len(there)


def plus_two_mean(
    values: ArrayLike,
    limits: tuple[float, float],
    question: ArrayLike | None = None,
    *,
    reason: str = NOTHING,
    confidence: float = 0.95,
) -> Figure:
    """Return the mean of the values that are there, with a t interval of two more values.

    One pseudo-value lies at each limit, so that values that are all alike still have a width;
    percentiles of resamples cover too little if few examples differ.

    Args:
        values: (n,), NaN or infinite if missing.
        limits: smallest and largest possible value.
        question: (n,) equal codes share a question; None: each value has its own.
        reason, confidence: what to say without values, and the level.
    Returns: the mean, or Undefined if no value is there."""
    array = np.asarray(values, dtype=np.float64)
    rows = np.isfinite(array)
    there, asked = array[rows], questions_at(question, rows)
    return plus_two_ratio(
        there, np.ones(len(there)), limits, question=asked, reason=reason, confidence=confidence
    )


def plus_two_ratio(
    above: ArrayLike,
    below: ArrayLike,
    limits: tuple[float, float],
    *,
    weight: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
    question: ArrayLike | None = None,
    reason: str = NOTHING,
    confidence: float = 0.95,
) -> Figure:
    """Return sum w a / sum w b with the interval of `plus_two_mean`, of what each example adds.

    With labels for all, it is about examples like these. After an audit, it is about this project's
    examples, as accuracy is: those selected are known, and the audited ones speak for the rest.

    Args:
        above, below: (n,) a and b; a/b lies within the limits.
        limits, question, reason, confidence: as in `plus_two_mean`.
        weight: (n,) how many examples each represents; None: 1.
        stratum: (n,) above 0 for audited examples; None: there is no audit.
    Returns: the ratio, or Undefined if nothing is below; without limits below 10 audited."""
    a, b = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    weights = np.ones(len(a)) if weight is None else np.asarray(weight, dtype=np.float64)
    total = float(weights @ b)
    if not total > 0:
        return Undefined(reason)
    value, n = float(weights @ a) / total, len(a)
    audited = np.zeros(n, bool) if stratum is None else np.asarray(stratum) > 0
    routed = bool(audited.any())
    rows = audited if routed else np.ones(n, bool)
    asked, size = questions_at(question, rows), int(rows.sum())
    # What the uncertain examples represent of the whole, and how far each one moves it.
    share = float(weights[rows] @ b[rows]) / total if routed else 1.0
    # The ratio is linearised: its error is that of a mean of these values.
    moved = value + (a - value * b)[rows] / b[rows].mean()
    effect, questions = (1.0, size) if asked is None else design_effect(moved, asked)
    if routed and size < FEWEST_AUDITED:
        return Estimate(value, n, note=f"{FEWEST_AUDITED} audited examples are needed")
    if questions < 2:
        return Estimate(value, n, note=ONE_QUESTION)
    centre, variance = plus_two(moved, limits, effect)
    unseen = 1 - 1 / float(weights[rows].mean()) if routed else 1.0
    shift = share * (centre - float(moved.mean()))
    # The interval holds both centres: the second goes to the truth as the audit becomes complete.
    centres = [value + shift, value + shift * unseen]
    reach = float(scipy.stats.t.ppf((1 + confidence) / 2, questions - 1))
    half = reach * share * float(np.sqrt(variance * unseen))
    low, high = max(limits[0], min(centres) - half), min(limits[1], max(centres) + half)
    return Estimate(value, n, min(low, value), max(high, value))


def left_out(columns: Floats, question: ArrayLike | None = None) -> tuple[Floats, Floats]:
    """Sum columns over all examples, and over all but those of each question, for a jackknife.

    Args: columns, question: (n, F), and (n,) equal codes share a question.
    Returns: (F,) and (questions, F)."""
    if question is not None:
        groups, code = coded(question)
        sums = np.zeros((groups, columns.shape[1]))
        np.add.at(sums, code, columns)
        columns = sums
    total = columns.sum(axis=0)
    return total, total - columns


def plus_two(
    values: Floats, limits: tuple[float, float], effect: float = 1.0
) -> tuple[float, float]:
    """Return the mean and its variance with one more value at each limit.

    Args: values, limits, effect: (n,), their limits, and their `design_effect`.
    Returns: centre and variance."""
    size = len(values) / effect
    centre, variance = plus_two_of_sums(
        size * float(values.mean()), size * float(values @ values) / len(values), size, limits
    )
    return float(centre), float(variance)


def plus_two_of_sums(
    total: ArrayLike, squares: ArrayLike, size: float, limits: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Return the same as `plus_two` from sums, for several samples at once.

    Args: total, squares, size, limits: sums of values and of their squares, how many values these
        are, and the limits of a value.
    Returns: centres and variances, of the shape of `total`."""
    low, high = limits
    centre = (np.asarray(total, dtype=np.float64) + low + high) / (size + 2)
    square = (np.asarray(squares, dtype=np.float64) + low**2 + high**2) / (size + 2)
    return centre, (square - centre**2) / size


def ratio(above: ArrayLike, below: ArrayLike, empty: float = np.nan) -> Floats:
    """Divide arrays without warnings.

    Args:
        above, below: arrays that broadcast together; a divisor of 0 or less gives no quotient.
        empty: the value of a missing quotient.
    Returns: float64 quotients of the broadcast shape."""
    quotient: Floats = np.full(np.broadcast(above, below).shape, empty, dtype=np.float64)
    np.divide(above, below, out=quotient, where=np.asarray(below) > 0)
    return quotient


def questions_at(question: ArrayLike | None, rows: ArrayLike) -> Array | None:
    """Take the questions of some rows.

    Args: question, rows: (n,) codes or None, and (n,) bool or places.
    Returns: their questions, or None."""
    return None if question is None else np.asarray(question)[np.asarray(rows)]


def share(
    values: ArrayLike,
    question: ArrayLike | None = None,
    *,
    exact: bool = False,
    reason: str = NOTHING,
    confidence: float = 0.95,
) -> Figure:
    """Return a mean of values from 0 to 1 with Wilson's or Clopper-Pearson's limits.

    If questions repeat, the limits are Clopper and Pearson's: how many examples these are worth is
    itself estimated, with which Wilson's cover .88 (make simulate).

    Args:
        values: (n,), halves allowed.
        question: (n,) equal codes share a question; None: each example has its own.
        exact: take Clopper and Pearson's limits.
        reason, confidence: what to say without values, and the level.
    Returns: the share, or Undefined."""
    rows = np.asarray(values, dtype=np.float64)
    n = len(rows)
    if not n:
        return Undefined(reason)
    if question is None or all_differ(question):
        return (clopper_pearson if exact else wilson)(float(rows.sum()), n, confidence)
    mean, size = float(rows.mean()), effective_size(rows, question, confidence)
    if size is None:
        return Estimate(mean, n, note=ONE_QUESTION)
    limits = _limits(clopper_pearson(mean * size, size, confidence))
    return Estimate(mean, n, *limits)


def effective_size(
    values: NDArray[np.float64], question: ArrayLike, confidence: float = 0.95
) -> float | None:
    """Return how many independent examples the values are worth.

    It is n over the design effect, with t of G-1 degrees of freedom in place of z. If all values
    are equal it is the number of questions G.

    Args: values, question, confidence: (n,) 0 to 1, (n,) codes, and the level of the interval.
    Returns: the size, or None for a single question."""
    n = len(values)
    effect, groups = design_effect(values, question)
    if groups < 2:
        return None
    if np.ptp(values) == 0:
        return float(groups)
    tail = (1 + confidence) / 2
    ratio = scipy.special.ndtri(tail) / scipy.special.stdtrit(groups - 1, tail)
    return float(n / effect * ratio**2)


def design_effect(values: ArrayLike, question: ArrayLike) -> tuple[float, int]:
    """Return how many times the variance of a mean is that of independent examples.

    Few questions may look less alike than they are. So two more that are alike throughout count in
    it, next to as many as tell: (sum r)^2 / sum r^2, r the distance from the median by question.
    With 20 questions of 10, what is true of 5 % is covered in .77 without them, and .99 with them.
    If all values are equal, each question is taken for one example.

    Args: values, question: (n,) each.
    Returns: the factor, at least 1, and the number of questions."""
    rows = np.asarray(values, dtype=np.float64)
    if all_differ(question):
        return 1.0, len(rows)
    groups, code = coded(question)
    apart = np.bincount(code, rows - rows.mean(), minlength=groups)
    independent = len(rows) * float(rows.var())
    if independent < WIDTH or groups < 2:
        return len(rows) / groups, groups
    # Below 1 a few questions would make the interval narrower than independent examples do.
    effect = max(1.0, groups / (groups - 1) * float(apart @ apart) / independent)
    alike = float(np.square(np.bincount(code)).sum()) / len(rows)
    differs = np.bincount(code, np.abs(rows - np.median(rows)), minlength=groups)
    telling = float(differs.sum() ** 2 / (differs @ differs))
    pulled = (telling * effect + ALIKE_QUESTIONS * alike) / (telling + ALIKE_QUESTIONS)
    return max(effect, pulled), groups


def _limits(figure: Figure) -> tuple[float | None, float | None]:
    return (None, None) if isinstance(figure, Undefined) else (figure.low, figure.high)


@dataclass(frozen=True, slots=True)
class CategoryTest:
    """p: of H0: the figure has the same distribution in all categories.

    p_holm: by category, that it differs from the rest, adjusted over the categories tested."""

    p: float
    p_holm: dict[int, float]


def categories_differ(
    values: ArrayLike,
    category: ArrayLike,
    rng: np.random.Generator,
    *,
    weight: ArrayLike | None = None,
    question: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
) -> CategoryTest | Undefined:
    """Test whether a mean differs between categories.

    Categories are dealt out again among the examples of each stratum. All together: the sum over
    the categories of their squared distance from the mean, times their weight (of whole weights,
    the F test's numerator). Examples of one question and category stay together.

    Args:
        values, category: (n,) the figure of each example, and codes.
        rng: source of the permutations.
        weight, question, stratum: (n,) as in `bootstrap_estimate`.
    Returns: the test, or Undefined without two categories."""
    value, code = np.asarray(values, dtype=np.float64), np.asarray(category)
    n = len(value)
    weights = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    asked = np.arange(n) if question is None else np.asarray(question)
    strata = np.zeros(n, np.intp) if stratum is None else np.asarray(stratum)
    if n == 0 or len(np.unique(code)) < 2:
        return ONE_CATEGORY
    units, unit = coded_rows(strata, asked, code)
    first = firsts(units, unit)
    sums = np.bincount(unit, weights * value, units).astype(np.float64)
    sizes = np.bincount(unit, weights, units).astype(np.float64)
    names = np.unique(code)
    place = np.searchsorted(names, code[first])
    # Few units differ: it is enough to draw how many of each kind a category gets.
    kinds, kind = coded_rows(strata[first], sums, sizes)
    of_kind = firsts(kinds, kind)
    sums, sizes, strata = sums[of_kind], sizes[of_kind], strata[first][of_kind]
    table = np.bincount(kind * len(names) + place, minlength=kinds * len(names))
    table = table.reshape(1, kinds, len(names))
    observed = _distances(table, sums, sizes)
    repeats = PERMUTATIONS if PERMUTATIONS * table.size <= MOST_VALUES else FEWER_PERMUTATIONS
    # The data as they are count as one permutation, so that no p is 0.
    together, reached = 1, np.ones(len(names))
    step = max(1, MOST_VALUES // (10 * table.size))
    for start in range(0, repeats, step):
        dealt = np.empty((min(step, repeats - start), *table.shape[1:]), dtype=np.int64)
        for rows in _rows_of(strata):
            if len(rows) == 1:
                # Its margins leave one table, for which SciPy gives negative counts.
                dealt[:, rows] = table[0, rows]
                continue
            margins = table[0, rows].sum(axis=1), table[0, rows].sum(axis=0)
            dealt[:, rows] = scipy.stats.random_table.rvs(
                *margins, size=len(dealt), random_state=rng
            )
        drawn = _distances(dealt, sums, sizes)
        together += int((drawn[0] >= observed[0] - ROUNDING).sum())
        reached += (drawn[1] >= observed[1] - ROUNDING).sum(axis=0)
    adjusted = holm((reached / (1 + repeats)).tolist())
    by_name = {int(name): float(p) for name, p in zip(names, adjusted, strict=True)}
    return CategoryTest(together / (1 + repeats), by_name)


def _rows_of(strata: Codes) -> list[Codes]:
    number, code = coded(strata)
    return [np.flatnonzero(code == group) for group in range(number)]


def _distances(tables: Codes, sums: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """(R,) the distance of all categories together, and (R, C) of each from the rest.

    Args: tables: (R, K, C) how many units of each kind a category has; sums, sizes: (K,) of one."""
    every = tables.sum(axis=2)[0]
    sums_of_all, sizes_of_all = float(every @ sums), float(every @ sizes)
    total, size = np.einsum("rkc,k->rc", tables, sums), np.einsum("rkc,k->rc", tables, sizes)
    mean = sums_of_all / sizes_of_all
    together = (size * (ratio(total, size, mean) - mean) ** 2).sum(axis=1)
    rest = ratio(sums_of_all - total, sizes_of_all - size, mean)
    return together, np.abs(ratio(total, size, mean) - rest)
