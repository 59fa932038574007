"""How long the loopback model thinks: the same for the n-th request whenever it is asked."""

import math
import random
from collections.abc import Callable

Latency = Callable[[int], float]


def fixed(seconds: float) -> Latency:
    return lambda number: seconds


def lognormal(median: float, sigma: float = 0.5, seed: int = 0) -> Latency:
    """Log-normal with the given median, drawn by the request's number."""

    def latency(number: int) -> float:
        return median * math.exp(random.Random(f"{seed}:{number}").gauss(0.0, sigma))

    return latency
