"""Speed of the statistics of judges that give probabilities, on one core.

    python -m benchmarks.calibration [--quick]

Aims: CalibraEval fitted on K = 1,000 examples in 0.1 s, 10,000 in 5 s, 100,000 in 90 s; ICC, kappa
and RStd of 100,000 examples under 3 permutations in 0.1 s; the permutation test of likelihood bias
with 100,000 draws of 600 items in 3 s.  --quick leaves out the 100,000 and draws a tenth.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.simulations.choices import CONFUSED
from judging.methods.agreement.votes import category_counts, fleiss_kappa
from judging.methods.calibration.calibraeval import CalibraEval
from judging.methods.calibration.probabilities import THREE, ChoiceProbabilities
from judging.methods.calibration.table import credit, icc, icc_columns, rstd, signs
from judging.methods.likelihood.permutation_test import bias_test

SEED = 20230529
FITS = {1_000: 0.1, 10_000: 5.0, 100_000: 90.0}
EXAMPLES, MOST_SECONDS_FIGURES = 100_000, 0.1
ITEMS, DRAWS, MOST_SECONDS_TEST = 600, 100_000, 3.0
REPEATS = 3


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    with threadpool_limits(limits=1):
        slow = [row for row in rows(quick) if not show(*row)]
    sys.exit("Slower than the aim: " + ", ".join(row[0] for row in slow) if slow else 0)


def rows(quick: bool) -> list[tuple[str, float, float]]:
    """What, its seconds, and the most that they may be."""
    found = []
    for k, most in FITS.items():
        if quick and k > 10_000:
            continue
        p, _ = CONFUSED.judge(k, np.random.default_rng(SEED), THREE)
        seconds = fastest(lambda p=p: CalibraEval().fit(p), 1 if k > 10_000 else REPEATS)
        found.append((f"CalibraEval, K = {k:,}", seconds, most))
    p, truth = CONFUSED.judge(EXAMPLES, np.random.default_rng(SEED), THREE)
    shape = f"{EXAMPLES:,} x 3"
    for name, figures in (("from whole tables", of_tables), ("from sums", of_sums)):
        seconds = fastest(lambda figures=figures: figures(p, truth))
        found.append((f"ICC, kappa, RStd of {shape}, {name}", seconds, MOST_SECONDS_FIGURES))
    draws = DRAWS // 10 if quick else DRAWS
    seconds = fastest(lambda: permutation_test(draws))
    most = MOST_SECONDS_TEST * draws / DRAWS
    found.append((f"permutation test, n = {ITEMS}, R = {draws:,}", seconds, most))
    return found


def of_tables(p: ChoiceProbabilities, truth: np.ndarray) -> object:
    content = p.of_response_1()
    said = signs(content)
    counts = category_counts(said, p.present, (1, 0, -1))
    spread = [rstd_of_table(said[:, place], truth) for place in range(said.shape[1])]
    return icc_of_table(content), fleiss_kappa(counts), spread


def icc_of_table(ratings: np.ndarray) -> tuple[float, float]:
    """Return ICC(2,k) and ICC(3,k) of a complete (N, k) table (Shrout and Fleiss 1979)."""
    n, k = ratings.shape
    rows, columns = ratings.mean(axis=1), ratings.mean(axis=0)
    between = k * ((rows - ratings.mean()) ** 2).sum() / (n - 1)
    raters = n * ((columns - ratings.mean()) ** 2).sum() / (k - 1)
    rest = ((ratings - rows[:, None] - columns + ratings.mean()) ** 2).sum() / ((n - 1) * (k - 1))
    return (between - rest) / (between + (raters - rest) / n), (between - rest) / between


def rstd_of_table(predicted: np.ndarray, gold: np.ndarray) -> float:
    """Return the standard deviation, in percent, of the recalls of the classes 1 and -1."""
    return float(100 * np.std([(predicted[gold == sign] == sign).mean() for sign in (1, -1)]))


def of_sums(p: ChoiceProbabilities, truth: np.ndarray) -> object:
    content = p.of_response_1()
    said = signs(content)
    kappa = fleiss_kappa(category_counts(said, np.ones_like(said), (1, 0, -1)))
    apart = [
        rstd(credit(column, truth, there)[:, None], truth, None)
        for column, there in zip(said.T, p.present.T, strict=True)
    ]
    return icc(icc_columns(content, p.present).sum(axis=0)), kappa, apart


def permutation_test(draws: int) -> object:
    rng = np.random.default_rng(SEED)
    quality = rng.normal(0, 1, ITEMS)
    likelihood = -50 * rng.gamma(5, 1, ITEMS)
    human = np.round(50 + 15 * quality + rng.normal(0, 8, ITEMS))
    before = np.clip(3 + 0.8 * quality + 0.004 * (likelihood + 250), 1, 5)
    after = np.clip(before + rng.normal(0, 0.3, ITEMS), 1, 5)
    return bias_test(likelihood, before, after, human, rng, repeats=draws)


def fastest(work: Callable[[], object], repeats: int = REPEATS) -> float:
    spans = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        spans.append(time.perf_counter() - started)
    return min(spans)


def show(name: str, seconds: float, most: float) -> bool:
    fits = seconds <= most
    sys.stdout.write(f"{name}: {seconds:.3f} s (limit {most:g})  {'ok' if fits else 'SLOW'}\n")
    sys.stdout.flush()
    return fits


if __name__ == "__main__":
    main()
