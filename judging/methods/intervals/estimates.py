"""A number with its interval, or the reason why there is none; intervals and tests of shares.

Figures of every run are computed by `scipy.special`. `scipy.stats` gives the same numbers, but a
process needs 0.4 s and 46 MiB to load it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Floats

# For more halves than that, the exact distribution takes longer than drawing signs.
MOST_HALVES = 4_000
FLIPS = 9_999
NO_CHANCE = "everything was reviewed, so it is right by construction"


@dataclass(frozen=True, slots=True)
class Undefined:
    """A figure that can't be computed, and why."""

    reason: str

    def __bool__(self) -> bool:
        return False

    def as_json(self) -> dict[str, object]:
        return {"value": None, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the limits of its interval (None if it has none), and the n examples behind it."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None
    note: str = ""

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate in other units."""
        low, high = (None if limit is None else limit * factor for limit in (self.low, self.high))
        return Estimate(self.value * factor, self.n, low, high, self.note)

    def as_json(self) -> dict[str, object]:
        figure: dict[str, object] = {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "n": self.n,
        }
        return figure | ({"note": self.note} if self.note else {})


Figure = Estimate | Undefined


def figures_as_json(figures: Mapping[str, Figure]) -> dict[str, dict[str, object]]:
    """Turn figures into JSON objects.

    Args: figures: by name.
    Returns: by the same names."""
    return {name: figure.as_json() for name, figure in figures.items()}


def optional() -> Any:
    """Make a field whose key the JSON leaves out while it is None.

    Returns: the field of a dataclass."""
    return field(default=None, metadata={"optional": True})


def to_json(part: Any) -> Any:
    """Turn a part of a report into JSON: the only place that does.

    Args: part: dataclasses whose fields are named as the keys, and what these hold. A name that is
        a word of Python, such as `from_`, has an underscore that its key lacks.
    Returns: dicts and lists of plain values. Amounts of money are exact decimal strings."""
    if hasattr(part, "as_json"):
        return part.as_json()
    if isinstance(part, Decimal):
        return exact_decimal(part)
    if isinstance(part, Enum):
        return part.value
    if isinstance(part, Mapping):
        return {key: to_json(value) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [to_json(value) for value in part]
    if not is_dataclass(part):
        return part
    values = [(key, getattr(part, key.name)) for key in fields(part)]
    return {
        key.name.rstrip("_"): to_json(value)
        for key, value in values
        if value is not None or not key.metadata.get("optional")
    }


def exact_decimal(amount: Decimal) -> str:
    """Write a decimal exactly, without an exponent.

    Args: amount: of money, or any other decimal.
    Returns: text that reads back as the same number."""
    return f"{amount.normalize():f}"


def width(figure: Figure) -> float | None:
    """Return how wide the interval is.

    Args: figure: an estimate or the reason that there is none.

    Returns: `high - low`, in the figure's own unit; None without limits.
    """
    if isinstance(figure, Undefined) or figure.low is None or figure.high is None:
        return None
    return figure.high - figure.low


def narrower(first: Figure, other: Figure) -> Figure:
    """Return the figure with the narrower interval of two that estimate the same.

    Choosing costs coverage: `make simulate` checks what is shown by this.

    Args: first, other: figures; one without limits is never narrower.
    Returns: the first if both are equally wide."""
    own, others = width(first), width(other)
    return other if others is not None and (own is None or others < own) else first


def median(values: ArrayLike, confidence: float = 0.95) -> Figure:
    """Return the sample median between two order statistics, the binomial interval for it.

    The limits hold for any distribution. Fewer than six values have none at 95 %: the whole range
    of five holds the median with probability 1 - 2/2^5 only.

    Args: values, confidence: (n,) numbers, and the level.
    Returns: the median, or Undefined without values."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    if not n:
        return Undefined("no values")
    below = int(scipy.stats.binom.ppf((1 - confidence) / 2, n, 0.5)) - 1
    while scipy.stats.binom.cdf(below + 1, n, 0.5) <= (1 - confidence) / 2:
        below += 1
    value = float(np.median(ordered))
    if below < 0:
        return Estimate(value, n)
    return Estimate(value, n, float(ordered[below]), float(ordered[n - 1 - below]))


def wilson(successes: float, n: float, confidence: float = 0.95) -> Figure:
    """Return a share with Wilson's score interval (1927, doi:10.1080/01621459.1927.10502953).

    Args: successes, n, confidence: halves are allowed; n may be an effective size.
    Returns: the share, 0 to 1, or Undefined if n is 0."""
    if n == 0:
        return Undefined("no examples")
    centre, half = wilson_parts(successes, n, confidence)
    # At the ends the limit is 0 or 1 exactly; rounding would leave it a little off.
    low = 0.0 if successes == 0 else float(centre - half)
    high = 1.0 if successes == n else float(centre + half)
    return Estimate(successes / n, round(n), low, high)


def wilson_parts(successes: ArrayLike, n: float, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Return the centre and the half-width of Wilson's intervals.

    Args: successes, n, confidence: as in `wilson`, for several numbers of successes at once.
    Returns: two arrays of the shape of `successes`."""
    z = float(scipy.special.ndtri((1 + confidence) / 2))
    share = np.asarray(successes, dtype=np.float64) / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return centre, half


@lru_cache(maxsize=100_000)
def most_unseen(unseen: int, seen: int, hits: int, alpha: float) -> int:
    """Return the largest number of hits that the unseen part can hold, by an exact test.

    It is the largest D - d with P(Hypergeometric(N, D, n) <= d) > alpha, N = unseen + seen.

    Args: unseen, seen, hits, alpha: N - n, n drawn at random, d among them, and the error.
    Returns: a number from 0 to `unseen`."""
    # The tail falls as D grows, so the largest is found by halving.
    low, high = 0, unseen
    while low < high:
        middle = (low + high + 1) // 2
        if scipy.stats.hypergeom.cdf(hits, unseen + seen, hits + middle, seen) > alpha:
            low = middle
        else:
            high = middle - 1
    return low


def unseen_total(
    successes: float, seen: int, unseen: int, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return what the unseen part of a stratum holds, with exact hypergeometric limits.

    The binomial limits speak of the rate that made the labels; they hold the labels of this
    project too seldom if most of them are seen, and too often if few are.

    Args:
        successes, seen: sum of values from 0 to 1 over a random sample, and its size.
        unseen, confidence: size of the rest, and the level; halves are rounded outwards.
    Returns: the estimated sum over the rest, and its limits; 0 to `unseen` without a sample."""
    if not seen:
        return unseen / 2, 0.0, float(unseen)
    tail = (1 - confidence) / 2
    # Without the 1e-9, a rounding error in a sum of halves would count as one more.
    most = most_unseen(unseen, seen, math.ceil(successes - 1e-9), tail)
    wrong = most_unseen(unseen, seen, math.ceil(seen - successes - 1e-9), tail)
    return unseen * successes / seen, float(unseen - wrong), float(most)


def joined(share: float, done: Estimate, rest: Figure) -> Estimate:
    """Return share * done + (1 - share) * rest, with limits joined by MOVER.

    Each part's distance from its limit is weighted and added in squares (Zou and Donner 2008,
    doi:10.1002/sim.3095).

    Args:
        share: of the first part, 0 to 1.
        done: its limits equal its value if none of it is by chance, as with reviewed examples.
        rest: the other part; Undefined if nothing is left, so that no chance remains.
    Returns: the mean, 0 to 1."""
    if isinstance(rest, Undefined) or share >= 1:
        if done.low == done.high:
            return Estimate(done.value, done.n, note=NO_CHANCE)
        return done
    value, n = share * done.value + (1 - share) * rest.value, done.n + rest.n
    if done.low is None or done.high is None or rest.low is None or rest.high is None:
        return Estimate(value, n, note=rest.note)
    below = np.hypot(share * (done.value - done.low), (1 - share) * (rest.value - rest.low))
    above = np.hypot(share * (done.high - done.value), (1 - share) * (rest.high - rest.value))
    return Estimate(value, n, max(0.0, float(value - below)), min(1.0, float(value + above)))


def clopper_pearson(successes: float, n: float, confidence: float = 0.95) -> Figure:
    """Return a share with the exact binomial interval (1934, doi:10.1093/biomet/26.4.404).

    Args: successes, n, confidence: as in `wilson`; the beta distribution allows halves.
    Returns: the share, 0 to 1, or Undefined if n is 0."""
    if n == 0:
        return Undefined("no examples")
    tail = (1 - confidence) / 2
    low = float(exact_lower_limit(successes, n, tail))
    failures = n - successes
    high = float(scipy.special.betainccinv(successes + 1, failures, tail)) if failures > 0 else 1.0
    return Estimate(successes / n, round(n), low, high)


def exact_lower_limit(successes: ArrayLike, n: ArrayLike, alpha: float) -> Floats:
    """Return Clopper and Pearson's lower limit of shares.

    Args: successes, n, alpha: of one shape, or one number of trials, and the one-sided error.
    Returns: float64 limits of the same shape, 0 without a success."""
    right = np.asarray(successes, dtype=np.float64)
    # The beta distribution needs a parameter above 0; these places become 0 in the next line.
    limit = scipy.special.betaincinv(np.maximum(right, 1e-9), np.asarray(n) - right + 1, alpha)
    return np.where(right > 0, limit, 0.0)


def sign_flip(differences: ArrayLike, rng: np.random.Generator) -> float:
    """Compare two judges on the same examples: P(|sum of +-d| >= |sum of d|), each sign a coin.

    Fisher's permutation test of paired differences (1935). Of whole differences it is McNemar's
    exact test (1947, doi:10.1007/BF02295996). Halves, as ties give, and sums over a question are
    counted exactly too; for weights that are no halves the signs are drawn.

    Args:
        differences: (n,) of what the judges earned, one for each question.
        rng: for the draws.
    Returns: two-sided p."""
    apart = np.asarray(differences, dtype=np.float64)
    sizes, observed = np.abs(apart[apart != 0]), abs(float(apart.sum()))
    if not len(sizes):
        return 1.0
    halves = np.rint(2 * sizes).astype(int)
    if np.abs(2 * sizes - halves).max() > 1e-9 or halves.sum() > MOST_HALVES:
        signs = rng.integers(0, 2, (FLIPS, len(sizes))) * 2 - 1
        # The observed signs count as one more draw, so that p is never 0 and the test keeps its
        # level.
        reached = int((np.abs(signs @ sizes) >= observed - 1e-9).sum())
        return (1 + reached) / (1 + FLIPS)
    total = int(halves.sum())
    chance = np.zeros(2 * total + 1)
    # The chance of every sum in halves, shifted by the total so that places are not negative.
    chance[total] = 1
    for size in halves:
        # Nothing wraps around, since the sums so far are at most `total` minus this size.
        chance = (np.roll(chance, size) + np.roll(chance, -size)) / 2
    sums = np.abs(np.arange(-total, total + 1))
    return min(1.0, float(chance[sums >= round(2 * observed)].sum()))


def holm(p_values: Sequence[float]) -> Floats:
    """Adjust p-values for the family-wise error (Holm 1979).

    Args: p_values: of all hypotheses.
    Returns: adjusted p-values, in the same order, at most 1."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    # A larger p never gets a smaller adjusted one.
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def holm_of_tested(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of the hypotheses that could be tested, as `holm`.

    Args: p_values: None for a hypothesis without a test, which is no part of the family.
    Returns: adjusted p-values, in the same order."""
    adjusted = iter(holm([p for p in p_values if p is not None]).tolist())
    return [None if p is None else next(adjusted) for p in p_values]


def benjamini_yekutieli(p_values: Sequence[float], q: float) -> Booleans:
    """Control the false discovery rate under any dependence (2001, doi:10.1214/aos/1013699998).

    Args: p_values, q: of all hypotheses, and the rate.
    Returns: which are rejected, in the same order."""
    p = np.asarray(p_values, dtype=np.float64)
    if not len(p):
        return np.zeros(0, dtype=bool)
    rejected: Booleans = scipy.stats.false_discovery_control(p, method="by") <= q
    return rejected


def design_total(
    selected: ArrayLike, audited: ArrayLike, n_rest: int, confidence: float = 0.95
) -> Figure:
    """Return sum_S z + sum_A z + (N_U - n) mean_A z, with exact limits for the last part.

    Only what neither selection nor audit saw is uncertain, and has the limits of `unseen_total`.

    Args:
        selected, audited: z of S and of A, each 0 to 1; A is a simple random sample of the rest U.
        n_rest, confidence: N_U, the size of U, and the level.
    Returns: the total, 0 to N, or Undefined without the audit that it needs."""
    inside, drawn = (np.asarray(z, dtype=np.float64) for z in (selected, audited))
    seen, n = float(inside.sum() + drawn.sum()), len(inside) + len(drawn)
    unseen = n_rest - len(drawn)
    # A complete audit leaves nothing to chance, so both limits are the total.
    if not unseen:
        return Estimate(seen, n, seen, seen)
    if not len(drawn):
        return Undefined("an audit of the rest is needed")
    held = unseen_total(float(drawn.sum()), len(drawn), unseen, confidence)
    return Estimate(seen + held[0], n, seen + held[1], seen + held[2])
