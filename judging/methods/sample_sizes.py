"""How many labels a study needs, told before it begins.

Each size is for the interval, the test or the bound that the report shows later. It is exact where
all results can be added up, and simulated for kappa."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from judging.methods.agreement.accuracy import Comparison
from judging.methods.agreement.votes import kappa as kappa_of
from judging.methods.arrays import Counts, Floats
from judging.methods.intervals.bootstrap import FEWEST_AUDITED, plus_two_of_sums
from judging.methods.intervals.estimates import Undefined, width, wilson_parts
from judging.methods.intervals.win_rate import LIMITS, expected_width

MOST, MOST_AUDITED = 100_000, 10_000
# Tables drawn for a mean width of kappa: its standard error is about one percent of the width.
TABLES = 60
SEED = 20_260_101
# Beyond that number of standard deviations lies less than 1e-8 of a binomial distribution.
_REACH = 6.5
# A test of whole numbers gains and loses power from one size to the next.
_STEPS = 25
# Audits that are looked at in one step.
_WINDOW = 64
# The variance of a win rate if half of the examples are won.
_WIDEST = 0.25


@dataclass(frozen=True, slots=True)
class Size:
    """n: labelled examples. reached: mean half-width of the interval, or power, with n."""

    n: int
    reached: float


def size_for_accuracy(accuracy: float, within: float, confidence: float = 0.95) -> Size | Undefined:
    """Return the examples for which Wilson's interval is on average accuracy ± `within`. Exact.

    The mean is over all numbers of right labels, so one study's interval may be a little wider.

    Args:
        accuracy: the share that is expected, 0 to 1; 1/2 needs the most examples.
        within, confidence: the mean half-width, and the level of the interval.
    Returns: the size, or Undefined above MOST."""

    def half(n: int) -> float:
        right, chance = _binomial(n, accuracy)
        return float(chance @ wilson_parts(right, n, confidence)[1])

    return _smallest(lambda n: half(n) <= within, half)


def size_for_kappa(
    kappa: float, within: float, ties: float = 0.0, confidence: float = 0.95
) -> Size | Undefined:
    """Return the examples for which the report's interval is on average kappa ± `within`.

    Simulated with `agreement.votes.kappa` on TABLES tables; seeded. Judge and people give each
    label equally often, and disagree as independent labels would.

    Args:
        kappa: that is expected, 0 to 1.
        within, confidence: as in `size_for_accuracy`.
        ties: share of ties; wins and losses have half of the rest each.
    Returns: the size, or Undefined above MOST."""
    margin = np.array([(1 - ties) / 2, ties, (1 - ties) / 2])
    cells = (kappa * np.diag(margin) + (1 - kappa) * np.outer(margin, margin)).reshape(-1)
    signs = np.array([1, 0, -1])

    def half(n: int) -> float:
        rng = np.random.default_rng((SEED, n))
        half_widths: list[float] = []
        for counts in rng.multinomial(n, cells / cells.sum(), TABLES):
            judge, human = np.divmod(np.repeat(np.arange(9), counts), 3)
            compared = Comparison(
                signs[judge],
                np.ones(n, dtype=bool),
                signs[human],
                np.ones(n),
                np.zeros(n, dtype=np.intp),
                np.arange(n),
            )
            wide = width(kappa_of(compared, rng, confidence=confidence))
            half_widths += [] if wide is None else [wide / 2]
        return float(np.mean(half_widths)) if half_widths else math.inf

    # The width falls with the root of n, so two steps from any start come close enough.
    n = 200
    for _ in range(3):
        n = max(5, math.ceil(n * (half(n) / within) ** 2))
        if n > MOST:
            return _too_many()
    # A mean of drawn tables may still miss the width by half a percent, and one more percent of
    # examples makes up for it.
    while (reached := half(n)) > within:
        n += math.ceil(n / 100)
        if n > MOST:
            return _too_many()
    return Size(n, reached)


def size_for_better(
    rate: float, power: float = 0.8, ties: float = 0.0, confidence: float = 0.95
) -> Size | Undefined:
    """Return the examples with which the interval of people's win rate leaves out 1/2. Exact.

    All of them are labelled by people, and it is the plus-two interval of `everyone_labelled`.

    Args:
        rate: the win rate that is expected, 0 to 1 but not 1/2; a tie counts 1/2.
        power: how likely the interval leaves out 1/2 on the right side.
        ties: share of ties.
        confidence: level of the interval.
    Returns: the size, or Undefined above MOST or if no win rate of that kind exists."""
    better = max(rate, 1 - rate)
    wins = better - ties / 2
    if better == 0.5:
        return Undefined("models that are equally good can't be told apart")
    if wins + ties > 1 + 1e-9:
        return Undefined("with that share of ties the win rate can't be so far from one half")

    def power_at(n: int) -> float:
        tied, chance = _binomial(n, ties)
        enough = _enough_wins(tied, n, float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1)))
        won = scipy.stats.binom.sf(enough - 1, n - tied, min(1.0, round(wins / (1 - ties), 12)))
        return float(chance @ won)

    return _smallest(lambda n: n > 1 and power_at(n) >= power, power_at, steps=_STEPS)


def size_for_win_rate(
    within: float, examples: int, accuracy: float | None = None, confidence: float = 0.95
) -> Size | Undefined:
    """Return the audit with which people's win rate has about `within` to both sides.

    Args:
        within, confidence: half the expected width of the interval of `win_rate`, for examples
            like these, and its level.
        examples: N, all judged.
        accuracy: how often the judge is right; a wrong label wins in place of losing, which is the
            widest case. None: without a judge, so people's labels alone count.
    Returns: the audit's size, or Undefined if all N labelled examples have a wider interval."""
    wrong = _WIDEST if accuracy is None else min(_WIDEST, 1 - accuracy)

    def half(n: int) -> float:
        rest = examples if n < examples else 0
        audit = n if rest else 0
        wide = expected_width(
            wrong, _WIDEST, total=examples, n_rest=rest, audit=audit, confidence=confidence
        )
        return math.inf if wide is None else wide / 2

    if half(examples) > within:
        return Undefined(
            f"even if all {examples:,} examples are labelled, the interval is wider: "
            f"± {half(examples):.3f}"
        )
    return _smallest(lambda n: half(n) <= within, half, least=FEWEST_AUDITED, most=examples)


def size_for_certificate(
    epsilon: float, wrong: float, power: float = 0.8, rest: int | None = None, alpha: float = 0.05
) -> Size | Undefined:
    """Return the audit that certifies all unreviewed labels with this probability. Exact.

    A certificate for a part of them, the surest ones, may be had for less.

    Args:
        epsilon: the largest share of wrong labels to certify.
        wrong: the share that is expected to be wrong, below epsilon.
        power: how likely the certificate is issued, with one look.
        rest: N_U, how many labels are unreviewed; None: many. Above MOST_AUDITED it counts as many,
            of which an audit never needs fewer.
        alpha: one minus the confidence of the certificate.
    Returns: the audit's size, or Undefined if no audit of the rest is large enough."""
    if wrong >= epsilon:
        return Undefined("the judge is expected to be wrong more often than the certificate allows")
    if rest is not None and rest > MOST_AUDITED:
        rest = None
    most = MOST_AUDITED if rest is None else rest - 1
    n, n_errors = 1, 0
    while n <= most:
        # An audit that may find more errors is larger, most often by about 1/epsilon.
        sizes = np.arange(max(n, n_errors + 1), min(n + _WINDOW, most + 1))
        certifies = np.flatnonzero(_at_most(n_errors, sizes, rest, epsilon, beyond=True) <= alpha)
        if not len(certifies):
            n += _WINDOW
            continue
        n = int(sizes[certifies[0]])
        issued = float(_at_most(n_errors, sizes[certifies[:1]], rest, wrong)[0])
        if issued >= power:
            return Size(n, issued)
        n_errors += 1
    if rest is None:
        return _too_many(MOST_AUDITED)
    return Undefined(f"no audit of these {rest:,} labels is sure enough of a certificate")


def _at_most(
    n_errors: int, sizes: Counts, rest: int | None, wrong: float, *, beyond: bool = False
) -> Floats:
    """Return the probability that audits find no more than `n_errors` errors.

    Args:
        wrong: share of wrong labels in the rest.
        beyond: it is the share of those that are not audited, and there is one more than that.
    """
    if rest is None:
        return np.asarray(
            scipy.stats.binom.cdf(n_errors, sizes, round(wrong, 12)), dtype=np.float64
        )
    n_wrong = np.full(len(sizes), math.ceil(wrong * rest - 1e-9))
    if beyond:
        n_wrong = n_errors + np.floor(wrong * (rest - sizes) + 1e-9).astype(int) + 1
    return np.asarray(scipy.stats.hypergeom.cdf(n_errors, rest, n_wrong, sizes), dtype=np.float64)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest number from low to high that holds; it holds at high, and from there."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _smallest(
    holds: Callable[[int], bool],
    reached: Callable[[int], float],
    *,
    least: int = 1,
    most: int = MOST,
    steps: int = 0,
) -> Size | Undefined:
    """Return the smallest size that holds, after which the next `steps` sizes hold as well."""
    high = least
    while not holds(high):
        if high == most:
            return _too_many()
        high = min(2 * high, most)
    n = _first(holds, max(least, high // 2), high)
    ahead = n
    while steps and ahead < min(n + steps, most):
        ahead += 1
        n = n if holds(ahead) else ahead + 1
    return Size(n, reached(n))


def _binomial(n: int, share: float) -> tuple[Floats, Floats]:
    """Return the numbers that are likely, and their probabilities."""
    share = round(share, 12)
    apart = _REACH * math.sqrt(n * share * (1 - share)) + 1
    low, high = max(0, math.floor(n * share - apart)), min(n, math.ceil(n * share + apart))
    numbers = np.arange(low, high + 1, dtype=np.float64)
    return numbers, np.asarray(scipy.stats.binom.pmf(numbers, n, share), dtype=np.float64)


def _enough_wins(ties: Floats, n: int, reach: float) -> Floats:
    """Return the fewest wins with which the interval lies above 1/2, for each number of ties.

    One more than n - ties if no number of wins is enough.
    """
    below, above = np.zeros_like(ties), n - ties + 1
    while (below < above).any():
        wins = np.floor((below + above) / 2)
        centre, variance = plus_two_of_sums(wins + ties / 2, wins + ties / 4, n, LIMITS)
        is_above = centre - reach * np.sqrt(variance) > 0.5
        above = np.where(is_above, np.minimum(wins, above), above)
        below = np.where(is_above, below, np.minimum(wins + 1, above))
    return above


def _too_many(most: int = MOST) -> Undefined:
    return Undefined(f"more than {most:,} labelled examples are needed")
