"""How often a judge that people taught is kept although it is no better, and certified wrongly.

Three versions are taught and tested in turn on the same labels, and the first that is kept is then
certified. For the test they are exactly as accurate as the old judge. For the certificate they are
far more accurate, so that one is kept, and wrong in just more than ε of the examples. On what
taught them they are nearly always right, so that testing on those labels too would deceive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.simulations.certificates import MOST_FALSE_OF_10_000
from judging.methods.arrays import Booleans, Floats
from judging.methods.intervals.bootstrap import plus_two_ratio
from judging.methods.intervals.estimates import Undefined, sign_flip
from judging.methods.intervals.looks import Ruling, Spending
from judging.methods.review.certificate import certificate_plan, certify, tallies
from judging.methods.review.teaching import shown_better

N, TAUGHT, VERSIONS = 400, 60, 3
EPSILON, ALPHA, AUDIT = 0.1, 0.05, 80
# How often a version is right about what taught it.
REMEMBERED = 0.95
SPENDING = Spending()


@dataclass(frozen=True, slots=True)
class Case:
    """error: of the old judge. versions: of each version. shared: of its errors with the old one's.
    known: every label is known; else people labelled a cut of the old judge and an audit."""

    error: float
    versions: float
    shared: float
    known: bool

    def __str__(self) -> str:
        labels = "all labels known" if self.known else "a cut and an audit"
        return (
            f"old judge wrong in {self.error:.0%}, versions in {self.versions:.2%}, "
            f"{self.shared:.0%} of errors shared, {labels}"
        )


def cases() -> list[Case]:
    equal = [Case(e, e, s, k) for e, s, k in product((0.1, 0.3), (0.0, 0.7), (True, False))]
    better = [Case(0.4, EPSILON, s, k) for s, k in product((0.0, 0.7), (True, False))]
    return equal + better


@dataclass(frozen=True, slots=True)
class Kept:
    """kept: a version that is no better is kept. deceived: the same if labels that taught test it
    too. certified: a version that was kept is certified, and untrue."""

    case: str
    repeats: int
    kept: int
    deceived: int
    certified: int
    equal: bool

    def passes(self) -> bool:
        most = MOST_FALSE_OF_10_000 * self.repeats / 10_000
        return (self.kept if self.equal else self.certified) <= most


def simulate(case: Case, repeats: int, seed: int) -> Kept:
    """Teach three versions in each of so many projects."""
    rng = np.random.default_rng(
        [seed, int(1000 * case.error), int(1000 * case.versions), int(10 * case.shared), case.known]
    )
    kept = deceived = certified = 0
    for _ in range(repeats):
        one, other, wrong = _project(case, rng)
        kept += one
        deceived += other
        certified += wrong
    return Kept(str(case), repeats, kept, deceived, certified, case.error == case.versions)


def _project(case: Case, rng: np.random.Generator) -> tuple[bool, bool, bool]:
    """Whether a version is kept, is kept by a test that also uses what taught, and is certified
    although it is wrong in more than epsilon of what nobody checks."""
    # If all labels are known, the claim is about examples like these, else about this project.
    old = rng.random(N) < case.error
    if not case.known:
        old[:] = False
        old[rng.permutation(N)[: round(case.error * N)]] = True
    taught = np.zeros(N, bool)
    taught[rng.permutation(N)[:TAUGHT]] = True
    unsure = np.where(old, rng.beta(3, 2, N), rng.beta(2, 3, N))
    selected, audited = _labelled(case, unsure, taught, rng)
    deceived, winner = False, None
    for look in range(1, VERSIONS + 1):
        new = _version(case, old, taught, rng)
        held_out = _weights(selected, audited, ~taught)
        deceived |= _better(old, new, held_out + taught, rng, look)
        if winner is None and _better(old, new, held_out, rng, look):
            winner = new
    wrong = winner is not None and _certified(winner, taught, rng)
    return winner is not None, deceived, wrong


def _labelled(
    case: Case, unsure: Floats, taught: Booleans, rng: np.random.Generator
) -> tuple[Booleans, Booleans]:
    selected, audited = np.zeros(N, bool), np.zeros(N, bool)
    rest = np.flatnonzero(~taught)
    if case.known:
        selected[rest] = True
        return selected, audited
    selected[rest[np.argsort(-unsure[rest], kind="stable")][:60]] = True
    audited[rng.permutation(rest[~selected[rest]])[:AUDIT]] = True
    return selected, audited


def _version(case: Case, old: Booleans, taught: Booleans, rng: np.random.Generator) -> Booleans:
    """Outside of what taught it, as many errors as promised, some of them the old ones.

    Of a better version, one error more than epsilon."""
    if case.known and case.error == case.versions:
        own = rng.random(N) < case.versions
        new = np.where(rng.random(N) < case.shared, old, own)
        new[taught] = rng.random(TAUGHT) > REMEMBERED
        return new
    new, outside = np.zeros(N, bool), rng.permutation(np.flatnonzero(~taught))
    equal = case.error == case.versions
    n = int(old[outside].sum()) if equal else int(EPSILON * len(outside)) + 1
    first, rest = outside[old[outside]], outside[~old[outside]]
    same = min(round(case.shared * n), len(first))
    # What isn't shared falls anywhere, so that neither judge is better by chance of the draw.
    others = rng.permutation(np.concatenate((first[same:], rest)))
    new[first[:same]] = True
    new[others[: n - same]] = True
    new[taught] = rng.random(TAUGHT) > REMEMBERED
    return new


def _weights(selected: Booleans, audited: Booleans, there: Booleans) -> Floats:
    n_rest, n_audited = int((there & ~selected).sum()), int(audited.sum())
    return selected + audited * (n_rest / n_audited if n_audited else 0.0)


def _better(
    old: Booleans, new: Booleans, weight: Floats, rng: np.random.Generator, look: int
) -> bool:
    rows = np.flatnonzero(weight)
    apart = old[rows].astype(np.float64) - new[rows]
    difference = plus_two_ratio(
        apart,
        np.ones(len(rows)),
        (-1, 1),
        weight=weight[rows],
        stratum=(weight[rows] > 1).astype(np.intp),
        confidence=SPENDING.confidence(look),
    )
    # Without a positive value nothing is kept, and the draws of the exact test are spared.
    if not difference or difference.value <= 0:
        return False
    p = sign_flip(weight[rows] * apart, rng)
    return shown_better(difference, p, look) is Ruling.PASS


def _certified(wrong: Booleans, taught: Booleans, rng: np.random.Generator) -> bool:
    """Audit a version outside of what taught it: whether a certificate is issued and untrue."""
    score = np.where(taught, np.nan, 0.0)
    rest = ~taught
    plan = certificate_plan(score, rest, EPSILON, ALPHA, (AUDIT,))
    audited = np.zeros(N, bool)
    audited[rng.permutation(np.flatnonzero(rest))[:AUDIT]] = True
    found = certify(plan, tallies(plan.grid, score, rest, audited, wrong), AUDIT)
    return not isinstance(found, Undefined) and bool(wrong[rest].mean() > EPSILON)


def table(rows: list[Kept]) -> Iterator[str]:
    yield f"### Judges that people taught, {rows[0].repeats:,} repeats each, {VERSIONS} versions"
    yield ""
    yield "| case | kept | kept if what taught tests too | kept, certified and untrue | |"
    yield "|---|---|---|---|---|"
    for row in rows:
        shares = (row.kept, row.deceived, row.certified)
        cells = " | ".join(f"{one / row.repeats:.2%}" for one in shares)
        yield f"| {row.case} | {cells} | {'kept' if row.passes() else 'broken'} |"
