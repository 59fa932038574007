"""Speed of the statistics: verdicts, ranking curves and intervals of a million examples.

Aim: CS, labels, BPDE and the HITLC curves of 1,000,000 examples with 6 samples each in under a
second of NumPy on one core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from judging.methods.review.auroc import auroc
from judging.methods.review.curve import oracle_curve, review_curve
from judging.methods.verdicts.arrays import VerdictArrays, verdict_arrays

EXAMPLES = 1_000_000
BETAS = np.arange(0, 101) / 100
REPEATS = 3


def main() -> None:
    rng = np.random.default_rng(20230529)
    scores = rng.integers(10, 101, (EXAMPLES, 2, 3, 2), dtype=np.int16)
    valid = rng.random((EXAMPLES, 2, 3)) > 0.02
    human = rng.integers(-1, 2, EXAMPLES).astype(np.int8)

    verdicts = verdict_arrays(scores, valid, scale=10)
    credit = ((verdicts.sign == human) & verdicts.judged).astype(float)
    seconds = {
        "CS, labels, BPDE": fastest(lambda: verdict_arrays(scores, valid, scale=10)),
        "HITLC curves (BPDE, one order, margin, oracle)": fastest(
            lambda: curves(verdicts, verdict_arrays(scores[:, :1], valid[:, :1], scale=10), credit)
        ),
        "AUROC with its interval": fastest(lambda: auroc(verdicts.bpde, 1 - credit)),
    }
    for name, value in seconds.items():
        sys.stdout.write(f"{name}: {value:.2f} s\n")
    total = sum(list(seconds.values())[:2])
    sys.stdout.write(f"verdicts and curves of {EXAMPLES:,} × 6: {total:.2f} s; aim: under 1 s\n")


def curves(verdicts: VerdictArrays, one_order: VerdictArrays, credit: np.ndarray) -> None:
    scores = (verdicts.bpde, one_order.bpde, -verdicts.gap)
    levels = [np.where(verdicts.judged, score, np.inf) for score in scores]
    for curve in (*(review_curve(level, credit) for level in levels), oracle_curve(credit)):
        curve.accuracy(BETAS * EXAMPLES)


def fastest(call: Callable[[], object]) -> float:
    """Best of a few runs, in seconds of CPU: NumPy uses one core here."""
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


if __name__ == "__main__":
    main()
