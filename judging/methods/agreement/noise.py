"""How much of what judge and people disagree on is noise, and what explains the rest.

People contradict each other and themselves. A judge can agree with one vote only as often as that
vote is right, so its agreement with votes is below its agreement with what people mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from judging.methods.arrays import Booleans, Codes, Counts, Floats, Signs
from judging.methods.intervals.bootstrap import ONE_QUESTION, coded, interval
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, holm

RESAMPLES = 2_000
CHUNK = 4_000_000
NO_PAIRS = "no two people voted on the same example, so people's noise can't be told"
ONLY_CHANCE = "two people agree no more often than by chance, so nothing can be corrected"
NOT_JUDGED = "the judge has given no label to an example with votes"
ONE_LABEL = "people or the judge always say the same, so chance agreement is complete"
# The weight of pseudo-examples in which all agree, only the judge differs, or two votes differ.
PSEUDO = 0.75


@dataclass(frozen=True, slots=True)
class Attenuation:
    """with_one_vote: how often the judge gives the label of one vote.

    between_votes: how often two people's votes on an example are the same. corrected: how often the
    judge would give the label of people without noise. share: of the disagreement with one vote,
    the share that people's noise makes."""

    with_one_vote: Figure
    between_votes: Figure
    corrected: Figure
    share: Figure


def without_noise(
    judge: Signs,
    judged: Booleans,
    counts: Counts,
    rng: np.random.Generator,
    *,
    weight: Floats,
    stratum: Codes,
    question: Codes,
    confidence: float = 0.95,
) -> Attenuation:
    """Correct the judge's agreement with votes for the noise of votes.

    Spearman's correction (1904, doi:10.2307/1412159) with kappa as the reliability of one vote
    (Kraemer 1979, doi:10.1007/BF02296208): kappa of judge and vote over the square root of kappa of
    two votes. It holds if a person's vote is either what people mean or drawn at random as votes
    are, independently of the judge's error and of the other votes. If some examples are hard for
    all people, two votes share errors, and the correction is too small. If they are as hard for
    the judge, it shares these errors, and the correction is too large.

    Args:
        judge, judged: (N,) the judge's signs, and whether each example has one.
        counts: (N, 3) votes for win, tie and lose; examples without a vote don't count.
        rng: for the resamples.
        weight: (N,) how many examples each represents.
        stratum: (N,) 0 selected or fully labelled, 1 audited; they are resampled apart.
        question: (N,) equal codes share a question and are resampled together.
        confidence: the level.
    Returns: the figures, each 0 to 1, or Undefined for those that the votes don't tell."""
    n = counts.sum(axis=1)
    met = n >= 2
    rows = judged & (n > 0) & (weight > 0)
    pairs = met & rows
    if not rows.any() or not pairs.any():
        reason = Undefined(NOT_JUDGED if not rows.any() else NO_PAIRS)
        return Attenuation(reason, reason, reason, reason)
    share = counts / np.maximum(n, 1)[:, None]
    # Columns are win, tie and lose, as in `counts`: sign 1 is place 0.
    own = np.eye(3)[1 - judge.astype(int)]
    # The share of ordered pairs of different votes that are equal; a vote is no pair with itself.
    agreeing = (counts * (counts - 1)).sum(axis=1) / np.maximum(n * (n - 1), 1)
    columns = (
        weight * rows,
        weight * rows * (share * own).sum(axis=1),
        weight * pairs,
        weight * pairs * agreeing,
        *(weight * rows * column for column in share.T),
        *(weight * rows * column for column in own.T),
    )
    table = np.stack(columns, axis=1)[rows]
    figures = _attenuated(table.sum(axis=0, keepdims=True))
    with_vote, between, corrected, noise = (float(figure[0]) for figure in figures)
    n_rows, n_pairs = int(rows.sum()), int(pairs.sum())
    if not np.isfinite(corrected):
        why = Undefined(ONE_LABEL if _of_one_label(table) else ONLY_CHANCE)
        return Attenuation(Estimate(with_vote, n_rows), Estimate(between, n_pairs), why, why)
    drawn = _drawn(table, stratum[rows], question[rows], rng)
    many = None if drawn is None else _attenuated(drawn)

    def limited(place: int, value: float, size: int) -> Estimate:
        if many is None:
            return Estimate(value, size, note=ONE_QUESTION)
        low, high, lacking = interval(many[place], confidence)
        note = f"undefined in {lacking} of {RESAMPLES} resamples" if lacking else ""
        return Estimate(value, size, min(low, value), max(high, value), note)

    return Attenuation(
        limited(0, with_vote, n_rows),
        limited(1, between, n_pairs),
        limited(2, corrected, n_pairs),
        limited(3, noise, n_pairs),
    )


def _of_one_label(table: Floats) -> bool:
    total = table.sum(axis=0)
    return bool((total[4:7] > 0).sum() == 1 or (total[7:] > 0).sum() == 1)


def _attenuated(sums: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """(R,) of each figure from (R, 10) sums of the columns; NaN if undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        with_vote, between = sums[:, 1] / sums[:, 0], sums[:, 3] / sums[:, 2]
        people, judge = sums[:, 4:7] / sums[:, :1], sums[:, 7:] / sums[:, :1]
        by_chance, among = (judge * people).sum(axis=1), np.square(people).sum(axis=1)
        reliability = (between - among) / (1 - among)
        kappa = (with_vote - by_chance) / (1 - by_chance)
        true = np.where(reliability > 0, kappa / np.sqrt(np.maximum(reliability, 0)), np.nan)
        # This turns kappa back into agreement, at the same agreement by chance.
        corrected = np.clip(true + (1 - true) * by_chance, 0, 1)
        share = np.clip((corrected - with_vote) / (1 - with_vote), 0, 1)
    # Without a disagreement there is nothing for noise to explain, rather than 0 / 0.
    share = np.where(with_vote >= 1, 0.0, share)
    return with_vote, between, corrected, np.where(np.isfinite(corrected), share, np.nan)


def _drawn(
    table: Floats, stratum: Codes, question: Codes, rng: np.random.Generator
) -> Floats | None:
    """(R, 10) sums under Dirichlet weights of questions (Rubin 1981, doi:10.1214/aos/1176345338).

    Each stratum keeps its weight. The last one, which is the audit or everything, has the
    pseudo-examples. None with one question."""
    sums = np.zeros((RESAMPLES, table.shape[1]))
    for number in np.unique(stratum):
        inside = stratum == number
        groups, code = coded(question[inside])
        if groups < 2:
            return None
        cells = np.stack([np.bincount(code, column, groups) for column in table[inside].T], axis=1)
        if number == stratum.max():
            cells = np.vstack((cells, _pseudo(table[inside])))
        shape = np.ones(len(cells))
        shape[groups:] = PSEUDO
        # Few questions vary more than a normal distribution says.
        shape /= (scipy.stats.t.ppf(0.975, groups - 1) / scipy.stats.norm.ppf(0.975)) ** 2
        total = table[inside, 0].sum()
        step = max(1, CHUNK // len(cells))
        for start in range(0, RESAMPLES, step):
            drawn = rng.standard_gamma(shape, (min(step, RESAMPLES - start), len(cells)))
            part = drawn @ cells
            sums[start : start + len(part)] += part * (total / part[:, :1])
    return sums


def _pseudo(table: Floats) -> Floats:
    """(3, 10) an example on which all agree, one on which only the judge differs, and one on which
    two votes differ and the judge agrees with one of them."""
    mean = table.mean(axis=0)
    rows = np.repeat(mean[None], 3, axis=0)
    rows[:, 1], rows[:, 2] = mean[0] * np.array([1.0, 0.0, 0.5]), mean[0]
    rows[:, 3] = mean[0] * np.array([1.0, 1.0, 0.0])
    return rows


# The order in which the parts of a disagreement are given; it changes none of them.
SOURCES = ("judge_noise", "position", "pull", "people_noise")
REST = "rest"


def said_as_people(signs: Signs, valid: Booleans, human: Signs) -> tuple[Floats, Floats]:
    """Return how far the judge's noise, and the order, explain that it disagrees with people.

    p is the share of an order's samples that say what people say. The order explains by how much p
    differs between the two orders, less what it would differ by if the same samples were dealt to
    the orders at random, as a share of the most that is possible. Noise explains p: the mean over
    the orders as far as the order explains nothing, and the smaller one as far as it does. With one
    sample in each order nothing tells noise from position, and the order counts. With one order,
    only noise is known.

    Args:
        signs: (n, orders, k) int8, samples turned back to responses 1 and 2. One or two orders.
        valid: (n, orders, k) which samples there are.
        human: (n,) the labels of people.
    Returns: noise and position, (n,) float64, 0 to 1; 0 without a sample."""
    asked = valid.sum(axis=2)
    same = ((signs == human[:, None, None]) & valid).sum(axis=2)
    p = same / np.maximum(asked, 1)
    if p.shape[1] == 1 or not len(p):
        return p.max(axis=1, initial=0.0), np.zeros(len(p))
    both = (asked > 0).all(axis=1)
    mean = np.where(both, p.mean(axis=1), same.sum(axis=1) / np.maximum(asked.sum(axis=1), 1))
    apart, least = np.abs(p[:, 0] - p[:, 1]), p.min(axis=1)
    # Examples repeat the same few patterns of numbers, so each is computed once.
    kinds = np.column_stack((asked, same.sum(axis=1)))
    distinct, kind = np.unique(kinds, axis=0, return_inverse=True)
    chance = np.array([_apart_by_chance(*pattern) for pattern in distinct.tolist()])[
        kind.reshape(-1)
    ]
    beyond = np.maximum(apart - chance, 0) / np.where(chance < 1, 1 - chance, 1)
    position = np.where(both, np.where(chance < 1, beyond, apart), 0.0)
    return mean * (1 - position) + np.where(both, least, mean) * position, position


def _apart_by_chance(first: int, second: int, same: int) -> float:
    """The mean |p1 - p2| if `same` of the samples are dealt to the orders at random."""
    if not first or not second:
        return 1.0
    inside = np.arange(max(0, same - second), min(first, same) + 1)
    chance = scipy.stats.hypergeom.pmf(inside, first + second, same, first)
    return float(chance @ np.abs(inside / first - (same - inside) / second))


def pulled(x: Floats, judge: Signs, intercept: float, slope: float, bias: float) -> Floats:
    """Return how far a preference that people don't share explains the judge's choice.

    It is the attributable fraction (Greenland, Robins 1988,
    doi:10.1093/oxfordjournals.aje.a115073): the chance of this choice by the judge's model, and by
    the same model without the bias; by what share the first one is larger.

    Args:
        x: (n,) the covariate of response 1 less response 2, from -1 to 1.
        judge: (n,) the judge's signs; a tie is not pulled.
        intercept, slope: of the judge's choice, in log odds.
        bias: the judge's slope less people's.
    Returns: (n,) float64, 0 to 1."""
    with_bias = scipy.special.expit(judge * (intercept + slope * x))
    without = scipy.special.expit(judge * (intercept + (slope - bias) * x))
    return np.where(judge == 0, 0.0, np.maximum(0.0, 1 - without / with_bias))


def split(explained: Floats) -> Floats:
    """Split each disagreement into the parts of what explains it, and the rest. They add up to 1.

    Each source says with which chance it makes a disagreement by itself. If they work
    independently, a disagreement is left by all of a set with the product of what each leaves. A
    source's part is its Shapley value (1953, doi:10.1515/9781400881970-018): the mean, over all
    orders of the sources, of what it explains of what the sources before it left.

    Args: explained: (n, K) from 0 to 1, in the order of `SOURCES`.
    Returns: (n, K + 1) float64, the parts and the rest; each row adds up to 1."""
    n, sources = explained.shape
    parts = np.zeros((n, sources + 1))
    for bits in range(2**sources):
        inside = [source for source in range(sources) if bits >> source & 1]
        left = (1 - explained[:, inside]).prod(axis=1)
        size = len(inside)
        orders = math.factorial(size) * math.factorial(sources - size - 1) if size < sources else 0
        for source in set(range(sources)) - set(inside):
            parts[:, source] += orders / math.factorial(sources) * left * explained[:, source]
    parts[:, -1] = (1 - explained).prod(axis=1)
    return parts


@dataclass(frozen=True, slots=True)
class OverRepresented:
    """inside: examples of the group. gaps: those of them that are gaps. expected: how many there
    would be by chance. p_holm: one-sided, adjusted over the groups tested."""

    inside: int
    gaps: int
    expected: float
    p_holm: float


def over_represented(groups: Booleans, gap: Booleans) -> list[OverRepresented]:
    """Test in which groups there are more gaps than by chance, by Fisher's exact test.

    Args:
        groups: (n, G) which examples each group has. Groups may overlap.
        gap: (n,) which examples are gaps.
    Returns: one for each group, one-sided and adjusted by Holm; the test is conditional on the
        numbers of examples, gaps and members."""
    n, total = len(gap), int(gap.sum())
    inside, gaps = groups.sum(axis=0), (groups & gap[:, None]).sum(axis=0)
    # sf leaves out its argument: P(at least this many gaps) needs one less.
    p = scipy.stats.hypergeom.sf(gaps - 1, n, total, inside)
    return [
        OverRepresented(int(size), int(n_gaps), float(size * total / max(n, 1)), float(adjusted))
        for size, n_gaps, adjusted in zip(inside, gaps, holm(p.tolist()), strict=True)
    ]
