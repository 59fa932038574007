"""Which values are equal: by counting where they are small whole numbers, else by sorting.

Codes of categories, labels and questions are such numbers, and a report asks of 100,000 rows of
them several hundred times.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Codes

Array = NDArray[np.generic]

# Beyond so many times the number of rows a table of counts takes longer than sorting.
SPARSEST = 16


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
