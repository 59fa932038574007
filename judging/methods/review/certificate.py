"""A certificate for the labels that nobody checked.

"With confidence 1 - alpha, at most epsilon of this project's labels taken from the judge differ
from what this round's human procedure would give." Fixed-sequence testing (Learn then Test,
Angelopoulos et al., arXiv:2110.01052) over the sets C_t = {i in U: BPDE <= t} for ascending t, each
with the exact hypergeometric bound; the whole audit is used, since the grid is fixed beforehand.

`trust_or_escalate` tests in the same way which labels judges in a row may keep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.arrays import Booleans, Codes, Counts, Floats
from judging.methods.intervals.estimates import Undefined, most_unseen

# Thresholds of judges in a row that are tried, evenly over the different scores.
MOST_THRESHOLDS = 200


@dataclass(frozen=True, slots=True)
class CertificatePlan:
    """What is fixed, and stored, before the first audit label.

    epsilon: the largest share of wrong labels. alpha: one minus the confidence; both 0 to 1.
    looks: audit sizes at which you may ask for the certificate, ascending; they share alpha.
    grid: distinct scores within U, ascending."""

    epsilon: float
    alpha: float
    looks: tuple[int, ...]
    grid: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < 1 and 0 < self.alpha < 1):
            raise ValueError("epsilon and alpha lie between 0 and 1")
        if not self.looks or list(self.looks) != sorted(set(self.looks)) or self.looks[0] < 1:
            raise ValueError("the looks are distinct audit sizes in ascending order")

    @property
    def alpha_of_a_look(self) -> float:
        return self.alpha / len(self.looks)


def certificate_plan(
    score: ArrayLike, rest: ArrayLike, epsilon: float, alpha: float, looks: tuple[int, ...]
) -> CertificatePlan:
    """Fix a plan before the first audit label.

    Args:
        score: (N,) BPDE or routing score, NaN if the judge gave no label.
        rest: (N,) bool, U.
        epsilon, alpha, looks: as in `CertificatePlan`.
    Returns: the plan with its grid.
    Raises: ValueError for a level outside 0 to 1, or looks that don't ascend."""
    # The grid rests on scores alone. One that depended on labels would need a part of the audit of
    # its own.
    scores = np.asarray(score, dtype=np.float64)[np.asarray(rest, dtype=bool)]
    grid = np.unique(scores[np.isfinite(scores)])
    return CertificatePlan(epsilon, alpha, looks, tuple(map(float, grid)))


@dataclass(frozen=True, slots=True)
class Certificate:
    """What is certified: the judge's labels of the unaudited examples with score <= threshold.

    n_set, n_audited, n_wrong: size of the certified set, audited in it, and found wrong.
    bound: upper limit of the share of wrong labels among the other n_set - n_audited, 0 to 1."""

    threshold: float
    n_set: int
    n_audited: int
    n_wrong: int
    bound: float
    epsilon: float
    alpha: float

    @property
    def n_from_judge(self) -> int:
        return self.n_set - self.n_audited


@dataclass(frozen=True, slots=True)
class Tallies:
    """N_t, n_t and d_t for each threshold of the grid, (T,) int64 each."""

    size: Counts
    audited: Counts
    wrong: Counts


def tallies(
    grid: ArrayLike, score: ArrayLike, rest: ArrayLike, audited: ArrayLike, wrong: ArrayLike
) -> Tallies:
    """Count examples, audited ones and errors up to each threshold.

    Args:
        grid: (T,) thresholds, ascending.
        score, rest: (N,) as in `certificate_plan`.
        audited: (N,) bool, the prefix of the audit's stored random order that this look uses.
        wrong: (N,) bool, the judge's label isn't people's; unresolved audit items count as wrong.
    Returns: N_t, n_t and d_t."""
    scores = np.asarray(score, dtype=np.float64)
    # Examples without a score have no label of the judge that could be certified.
    inside = np.asarray(rest, dtype=bool) & np.isfinite(scores)
    seen = inside & np.asarray(audited, dtype=bool)

    def up_to(rows: Booleans) -> Counts:
        return np.searchsorted(np.sort(scores[rows]), np.asarray(grid), side="right").astype(
            np.int64
        )

    return Tallies(up_to(inside), up_to(seen), up_to(seen & np.asarray(wrong, dtype=bool)))


def certify(plan: CertificatePlan, counts: Tallies, look: int) -> Certificate | Undefined:
    """Certify labels at one of the plan's looks by fixed-sequence testing (arXiv:2110.01052).

    It starts at the first t with n_t >= ln(alpha)/ln(1 - epsilon) and goes on while the bound is at
    most epsilon. Starting at the smallest set would spend the test where it cannot pass.

    Args: plan, counts, look: the plan, its tallies, and number of audited examples.
    Returns: the certificate, or Undefined with the reason.
    Raises: ValueError if the plan has no such look."""
    if look not in plan.looks:
        raise ValueError(f"the plan has no look at {look} audited examples")
    alpha = plan.alpha_of_a_look
    needed = fewest_audited(plan.epsilon, alpha)
    ready = np.flatnonzero(counts.audited >= needed)
    if not len(ready):
        return Undefined(
            f"at least {needed} of the judge's labels must be audited before any can be certified"
        )
    certified: Certificate | None = None
    for t in range(int(ready[0]), len(plan.grid)):
        size, audited, wrong = (int(c[t]) for c in (counts.size, counts.audited, counts.wrong))
        bound = upper_bound(size, audited, wrong, alpha)
        if bound > plan.epsilon:
            break
        # The last set that passes holds all smaller ones, so only it is kept.
        certified = Certificate(plan.grid[t], size, audited, wrong, bound, plan.epsilon, plan.alpha)
    if certified is None:
        wrong = int(counts.wrong[ready[0]])
        return Undefined(
            f"{wrong} of the {int(counts.audited[ready[0]])} most certain audited labels "
            f"{'is' if wrong == 1 else 'are'} wrong, so more than {100 * plan.epsilon:g}\u202f% "
            "of the unreviewed labels that are as certain may be wrong"
        )
    return certified


def fewest_audited(epsilon: float, alpha: float) -> int:
    """Return the audit labels needed even if none is wrong: ln(alpha)/ln(1 - epsilon), rounded up.

    Args: epsilon, alpha: share of wrong labels, and error.
    Returns: 1 or more."""
    # The 1e-9 keeps a quotient that is whole but for rounding from becoming one more.
    return math.ceil(math.log(alpha) / math.log1p(-epsilon) - 1e-9)


def upper_bound(size: int, audited: int, wrong: int, alpha: float) -> float:
    """Return (D_max - d)/(N - n), D_max the largest D with P(Hypergeometric(N, D, n) <= d) > alpha.

    Args: size, audited, wrong, alpha: N, n, d, and the error.
    Returns: share of wrong labels among the unaudited ones, 0 to 1."""
    unseen = size - audited
    return most_unseen(unseen, audited, wrong, alpha) / unseen if unseen else 0.0


def simultaneous_bounds(counts: Tallies, alpha: float, looks: int = 1, runs: int = 1) -> Floats:
    """Bound every threshold, look and run at once: what a slider may show.

    Choosing epsilon, run or score afterwards is not covered by `certify`; alpha is divided here.

    Args: counts, alpha, looks, runs: tallies, total error, and how many looks and runs share it.
    Returns: (T,) float64 shares, 0 to 1."""
    # Bonferroni: the chance that any of these bounds fails is at most the sum of their shares.
    alpha_of_a_bound = alpha / (max(len(counts.size), 1) * looks * runs)
    rows = zip(counts.size, counts.audited, counts.wrong, strict=True)
    return np.array([upper_bound(int(n), int(a), int(d), alpha_of_a_bound) for n, a, d in rows])


@lru_cache(maxsize=4096)
def audit_needed(epsilon: float, wrong: int, alpha: float = 0.05) -> int:
    """Return the smallest n with P(Binomial(n, epsilon) <= wrong) <= alpha, for a large set.

    Args: epsilon, wrong, alpha: share to certify, errors among the labels, and error.
    Returns: number of audit labels."""
    # Each error needs at least one more label, so the search may start there.
    n = fewest_audited(epsilon, alpha) + wrong
    while scipy.stats.binom.cdf(wrong, n, epsilon) > alpha:
        n += 1
    return n


def wrong_allowed(epsilon: float, audited: int, alpha: float = 0.05) -> int | Undefined:
    """Return how many labels of an audit may be wrong.

    Args: epsilon, audited, alpha: share to certify, size of the audit, and error.
    Returns: the number, or Undefined if the audit is too small to certify anything."""
    if audited < fewest_audited(epsilon, alpha):
        return Undefined(f"at least {fewest_audited(epsilon, alpha)} audit labels are needed")
    wrong = 0
    while audit_needed(epsilon, wrong + 1, alpha) <= audited:
        wrong += 1
    return wrong


@dataclass(frozen=True, slots=True)
class Escalation:
    """Which labels judges in a row keep; what none of them keeps is for people.

    threshold: a judge keeps the labels whose score is at most this one.
    kept: (R,) labels that each judge keeps. people: the others. Neither counts the sample.
    audited, wrong: the sample's examples whose label is kept, and how many of these are wrong.
    bound: upper limit of the share of wrong labels among all that are kept, 0 to 1."""

    threshold: float
    kept: tuple[int, ...]
    people: int
    audited: int
    wrong: int
    bound: float


def trust_or_escalate(
    scores: Floats, wrong: Booleans, sample: Booleans, epsilon: float, delta: float
) -> Escalation | Undefined:
    """Let judges in a row keep labels that people would contradict at most so often.

    The first judge keeps the labels that it is sure of, the next one those of the rest that it is
    sure of, and so on (Jung, Brahman and Choi, ICLR 2025, arXiv:2407.18370). One threshold serves
    all judges, so that what they keep lies on a single path that is known before any label is.
    Fixed-sequence testing along it, with exact limits for a finite set, then holds for the whole
    cascade: with a chance of 1 - delta, at most epsilon of what is kept is wrong. The paper has a
    threshold for each judge, and limits for an infinite population.

    Args:
        scores: (R, N) how unsure each judge is, such as BPDE; NaN if it has no label. No score may
            rest on the sample's labels.
        wrong: (R, N) if people contradict its label; read in the sample.
        sample: (N,) bool, a random sample of the N examples.
        epsilon, delta: share of wrong labels, and chance that the promise is broken, 0 to 1.
    Returns: what is kept, or Undefined with the reason that nothing can be."""
    unsure = np.where(np.isfinite(scores), scores, np.inf)
    before = np.full_like(unsure, np.inf)
    before[1:] = np.minimum.accumulate(unsure, axis=0)[:-1]
    # A judge ever keeps a label only if none before it is as sure. It keeps it from its own score
    # on until the threshold reaches the score of one before it.
    ever = unsure < before
    grid = np.unique(unsure[ever])
    if not len(grid) or not sample.any():
        return Undefined("no example has both a judge's label and one by people")
    grid = grid[np.unique(np.linspace(0, len(grid) - 1, MOST_THRESHOLDS).astype(int))]
    n = int(sample.sum())

    def up_to(rows: Booleans) -> Counts:
        entered, left = (
            np.searchsorted(np.sort(scores_at[rows]), grid, "right")
            for scores_at in (unsure, before)
        )
        return np.asarray(entered - left, dtype=np.int64)

    size, audited = up_to(ever), up_to(ever & sample)
    # A set that would fail without a single error says nothing, and must not end the sequence.
    unseen = size - audited
    too_many = np.floor(epsilon * unseen) + 1
    unnoticed = scipy.stats.hypergeom.cdf(0, size, np.minimum(too_many, unseen), audited)
    rows = np.flatnonzero((too_many > unseen) | (unnoticed <= delta))
    counts = Tallies(size[rows], audited[rows], up_to(ever & sample & wrong)[rows])
    plan = CertificatePlan(epsilon, delta, (n,), tuple(grid[rows].tolist()))
    certificate = certify(plan, counts, n)
    if isinstance(certificate, Undefined):
        return certificate
    judge = first_sure(scores, certificate.threshold)[~sample]
    kept = np.bincount(judge[judge >= 0], minlength=len(scores))
    return Escalation(
        threshold=certificate.threshold,
        kept=tuple(kept.tolist()),
        people=int((judge < 0).sum()),
        audited=certificate.n_audited,
        wrong=certificate.n_wrong,
        bound=certificate.bound,
    )


def first_sure(scores: Floats, threshold: float) -> Codes:
    """Return which judge of a row keeps each example.

    Args: scores, threshold: as in `trust_or_escalate`, and the largest score that is kept.
    Returns: (N,) places in the row; -1 where no judge has such a score."""
    sure = scores <= threshold
    return np.where(sure.any(axis=0), sure.argmax(axis=0), -1)


def stage_prices(
    n: int, kept: Sequence[int], each: Sequence[Decimal | None]
) -> list[Decimal | None]:
    """Price judges in a row, each of which is asked about what those before it did not keep.

    Args:
        n: examples that the first judge is asked about.
        kept: (R,) how many labels each judge keeps.
        each: (R,) USD of one example by each judge; None if unknown.
    Returns: (R,) USD of each stage, None if its price is unknown."""
    prices: list[Decimal | None] = []
    for own, price in zip(kept, each, strict=True):
        prices.append(None if price is None else price * n)
        n -= own
    return prices
