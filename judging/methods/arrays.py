"""Names of the arrays that the methods take and return."""

import numpy as np
from numpy.typing import NDArray

Booleans = NDArray[np.bool_]
# Places in another array.
Codes = NDArray[np.intp]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Integers = NDArray[np.integer]
# 1 for win, 0 for tie, -1 for lose of response 1.
Signs = NDArray[np.int8]
