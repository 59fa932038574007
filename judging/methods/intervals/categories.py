"""Do categories differ? A permutation test of all together, and of each against the rest.

With fifty categories, two or three intervals miss by chance alone. So the first question is whether
the categories differ at all, and the second is which do, adjusted by Holm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judging.methods.arrays import Codes, Floats
from judging.methods.intervals.bootstrap import coded, coded_rows, firsts, ratio
from judging.methods.intervals.estimates import Undefined, holm

PERMUTATIONS = 1_999
FEWER_PERMUTATIONS = 499
# Beyond this many shuffled values, fewer permutations have to do.
MOST_VALUES = 20_000_000
# Sums of the same values in another order differ by less.
ROUNDING = 1e-9
ONE_CATEGORY = Undefined("all examples with this figure are in one category")


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

    Categories are dealt out anew among the examples of each stratum. All together: the sum over the
    categories of their squared distance from the mean, times their weight (of whole weights, the
    F test's numerator). Examples of one question and category stay together.

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
    observed = _distances(sums, sizes, place[None, :], len(names))
    repeats = PERMUTATIONS if PERMUTATIONS * units <= MOST_VALUES else FEWER_PERMUTATIONS
    together, reached = 1, np.ones(len(names))
    step = max(1, MOST_VALUES // (10 * units))
    for start in range(0, repeats, step):
        dealt = np.tile(place, (min(step, repeats - start), 1))
        for rows in _rows_of(strata[first]):
            dealt[:, rows] = rng.permuted(dealt[:, rows], axis=1)
        drawn = _distances(sums, sizes, dealt, len(names))
        together += int((drawn[0] >= observed[0] - ROUNDING).sum())
        reached += (drawn[1] >= observed[1] - ROUNDING).sum(axis=0)
    adjusted = holm((reached / (1 + repeats)).tolist())
    by_name = {int(name): float(p) for name, p in zip(names, adjusted, strict=True)}
    return CategoryTest(together / (1 + repeats), by_name)


def _rows_of(strata: Codes) -> list[Codes]:
    number, code = coded(strata)
    return [np.flatnonzero(code == one) for one in range(number)]


def _distances(sums: Floats, sizes: Floats, place: Codes, categories: int) -> tuple[Floats, Floats]:
    """(R,) the distance of all categories together, and (R, C) of each from the rest."""
    repeats = len(place)
    cell = (place + categories * np.arange(repeats)[:, None]).reshape(-1)
    shape = (repeats, categories)
    total = np.bincount(cell, np.tile(sums, repeats), repeats * categories).reshape(shape)
    size = np.bincount(cell, np.tile(sizes, repeats), repeats * categories).reshape(shape)
    mean = sums.sum() / sizes.sum()
    together = (size * (ratio(total, size, mean) - mean) ** 2).sum(axis=1)
    rest = ratio(sums.sum() - total, sizes.sum() - size, mean)
    return together, np.abs(ratio(total, size, mean) - rest)
