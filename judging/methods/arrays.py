"""Names of the arrays that the methods take and return, and safe division."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Booleans = NDArray[np.bool_]
# Places in another array.
Codes = NDArray[np.intp]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Integers = NDArray[np.integer]
# 1 for win, 0 for tie, -1 for lose of response 1.
Signs = NDArray[np.int8]


def ratio(above: ArrayLike, below: ArrayLike, empty: float = np.nan) -> Floats:
    """Divide arrays without warnings.

    Args:
        above, below: arrays that broadcast together; a divisor of 0 or less gives no quotient.
        empty: the value of a missing quotient.
    Returns: float64 quotients of the broadcast shape.
    """
    quotient: Floats = np.full(np.broadcast(above, below).shape, empty, dtype=np.float64)
    np.divide(above, below, out=quotient, where=np.asarray(below) > 0)
    return quotient
