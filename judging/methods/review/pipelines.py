"""The cheapest way to label: judges, what people review, and votes, by what a goal needs.

A plan is a way of judging, a route to people, the share that they label, and votes per example. All
plans are replayed on one random sample of labelled examples, which teaches what each of them loses.
Choosing the best of many promises too much, so every limit is at a level that pays for the number
of plans: the maximum of correlated means by multipliers (Chernozhukov, Chetverikov and Kato 2013,
doi:10.1214/13-AOS1161), and exact binomial limits at that level. Plans that differ in how many
examples people label alone are tested one after another, the most labelled first, which costs
nothing more (fixed sequence, as in Learn then Test, arXiv:2110.01052)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, product

import numpy as np
import scipy
from numpy.typing import ArrayLike

from judging.methods.agreement.accuracy import credit
from judging.methods.agreement.fewer_samples import StoppingRule, rounds_needed
from judging.methods.arrays import Booleans, Codes, Counts, Floats, Integers, Signs
from judging.methods.intervals.bootstrap import FEWEST_AUDITED, coded, design_effect
from judging.methods.intervals.estimates import exact_lower_limit
from judging.methods.intervals.win_rate import expected_half_widths, win_points
from judging.methods.review.certificate import audit_needed, first_sure
from judging.methods.review.routing import Features, Routing, routing, smoothed_entropies
from judging.methods.verdicts.arrays import verdict_arrays

# Shares of all examples that people label, the largest first.
_PERCENTS = (
    90, 80, 70, 60, 50, 45, 40, 35, 30, 25, 20, 15, 12.5, 10, 7.5, 5, 4, 3, 2, 1, 0,
)  # fmt: skip
SHARES = np.array(_PERCENTS) / 100
MOST_REPLAYS = 8
MOST_THRESHOLDS = 20
# Multipliers: the level's standard error is a few percent of it.
DRAWS = 4_000
# The confidence of certificates and of win rates, whatever the confidence of the plan is.
LEVEL = 0.95
# Audits that are tried, between the fewest that give an interval and MOST_AUDITED.
AUDITS, MOST_AUDITED = 25, 3_000
MOST_WRONG = 15
MOST_LABELS = 1_000_000
FEWEST_LABELS, USUAL_TESTS = 60, 20
# The variance of a win rate if half of the examples are won.
_WIDEST = 0.25


class Goal(StrEnum):
    """What a plan has to reach.

    accuracy: the share of right final labels. certificate: the largest share of wrong labels among
    those that nobody reviewed. win rate: half the width of people's win rate's interval."""

    ACCURACY = "accuracy"
    WIN_RATE = "win_rate"
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True)
class Replays:
    """What a way of judging would say of N examples, in D replays that are equally likely.

    sign, judged: (D, N) labels, and which examples have one.
    place: (D, N) order of review, 0 first; equal places are tied.
    rounds: (D, N) samples asked in each order."""

    sign: Signs
    judged: Booleans
    place: Codes
    rounds: Counts


def as_recorded(sign: Signs, judged: Booleans, level: Floats, rounds: int) -> Replays:
    """Return the labels that a run has.

    Args:
        sign, judged: (N,) labels, and which examples have one.
        level: (N,) what examples are ranked by, larger first.
        rounds: samples in each order.
    Returns: one replay."""
    place = _places(-np.where(judged, level, np.inf))
    return Replays(sign[None], judged[None], place[None], np.full((1, len(sign)), rounds))


def fewer_samples(
    difference: Integers,
    valid: Booleans,
    scale: int,
    k: int,
    rng: np.random.Generator,
    *,
    both_orders: bool,
) -> Replays:
    """Replay a run with k of its samples in each order, or in the first order alone.

    Args:
        difference, valid: (N, orders, K) score 1 - score 2 in units of 1/scale, and which count.
        scale, k, rng: units per point, 1 to K, and what draws subsets if there are many.
        both_orders: whether the swapped order is asked too.
    Returns: a replay for each subset of samples, at most MOST_REPLAYS of them."""
    subsets = list(combinations(range(valid.shape[2]), k))
    if len(subsets) > MOST_REPLAYS:
        drawn = rng.choice(len(subsets), MOST_REPLAYS, replace=False)
        subsets = [subsets[place] for place in sorted(drawn.tolist())]
    orders = slice(0, 2 if both_orders else 1)
    replays = [
        _replay(
            difference[:, orders][:, :, list(subset)], valid[:, orders][:, :, list(subset)], scale
        )
        for subset in subsets
    ]
    sign, judged, place = (np.stack(part) for part in zip(*replays, strict=True))
    return Replays(sign, judged, place, np.full(sign.shape, k))


def stopped_early(
    difference: Integers,
    valid: Booleans,
    scale: int,
    reach: int,
    rules: Sequence[StoppingRule] = (),
    pilot: Booleans | None = None,
) -> Replays:
    """Replay an adaptive run, which stops once the label is settled. It ranks by smoothed entropy.

    Args:
        difference, valid, scale: as in `fewer_samples`, both orders.
        reach, rules: as in `rounds_needed`, in units of 1/scale.
        pilot: (N,) which examples are asked in full; None for none.
    Returns: one replay."""
    rounds = rounds_needed(difference, valid, reach, rules)
    if pilot is not None:
        rounds = np.where(pilot, valid.shape[2], rounds)
    asked = valid & (np.arange(valid.shape[2]) < rounds[:, None, None])
    sign, judged, _ = _replay(difference, asked, scale)
    level = smoothed_entropies(np.sign(difference).astype(np.int8), asked)
    place = _places(-np.where(judged, level, np.inf))
    return Replays(sign[None], judged[None], place[None], rounds[None])


def _replay(difference: Integers, valid: Booleans, scale: int) -> tuple[Signs, Booleans, Codes]:
    scores = np.zeros((*valid.shape, 2), dtype=np.int64)
    scores[..., 0] = difference
    verdicts = verdict_arrays(scores, valid, scale)
    bpde = np.where(verdicts.judged, verdicts.bpde, np.inf)
    gap = np.where(verdicts.judged, verdicts.gap, 0.0)
    return verdicts.sign, verdicts.judged, _places(-bpde, verdicts.n_valid, gap)


def _places(*keys: ArrayLike) -> Codes:
    """Number rows by their keys, the first key first; equal rows share a number."""
    columns = [np.asarray(key, dtype=np.float64) for key in keys]
    order = np.lexsort(columns[::-1])
    differs = np.zeros(len(order), dtype=bool)
    for column in columns:
        sorted_ = column[order]
        differs[1:] |= sorted_[1:] != sorted_[:-1]
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.cumsum(differs)
    return place


def places_by(score: Floats) -> Codes:
    """Return the order of review by a score, larger first, and what has none before all.

    Args: score: (N,), NaN without one.
    Returns: (N,) places; equal scores share one."""
    return _places(-np.where(np.isfinite(score), score, np.inf))


@dataclass(frozen=True, slots=True)
class Lessons:
    """D ranks that parts of a sample teach in turn. fits: what each part taught.

    place: (D, N) order of review. taught: (D, n) the labels that each part holds."""

    fits: tuple[Routing, ...]
    place: Codes
    taught: Booleans

    @property
    def used(self) -> bool:
        return any(fit.used for fit in self.fits)


def lessons(
    columns: Features,
    recorded: Replays,
    level: Floats,
    judged: Booleans,
    sample: Codes,
    wrong: Floats,
    size: int,
    rng: np.random.Generator,
    among: Codes | slice = slice(None),
) -> Lessons:
    """Let parts of a sample teach a rank in turn, as many labels as a round learns from.

    Args:
        columns, level, judged, sample, wrong: as in `routing`.
        recorded: the run's own replay, whose order a rank keeps if nothing better is learned.
        size: labels of each part, at most n.
        rng: draws parts and folds.
        among: the examples that are ranked, as in `recorded`.
    Returns: at most MOST_REPLAYS ranks."""
    part = rng.permutation(len(sample)) // size
    taught = part == np.arange(min(len(sample) // size, MOST_REPLAYS))[:, None]
    fits = tuple(routing(columns, level, judged, sample[rows], wrong[rows], rng) for rows in taught)
    place = [places_by(fit.probability[among]) if fit.used else recorded.place[0] for fit in fits]
    return Lessons(fits, np.stack(place), taught)


@dataclass(frozen=True, slots=True)
class Chain:
    """P plans that differ in how many examples people label alone, the most labelled first.

    share: (P,) of all examples, labelled by people. usd: (P,) what judges cost per example.
    reviewed: (n, P) probability that people label each example of the sample.
    lost: (n, P) what the label of the judge loses, times the probability that nobody reviews it.
    threshold: (P,) up to which judges in a row keep their labels; None for other routes.
    votes: the only number of votes, if labels of that many taught its rank; None for any."""

    share: Floats
    usd: Floats
    reviewed: Floats
    lost: Floats
    threshold: Floats | None = None
    votes: int | None = None


def label_loss(
    goal: Goal, sign: Signs, judged: Booleans, human: Signs, *, knows_ties: bool
) -> Floats:
    """Return what a judge's label loses if nobody reviews it.

    Args:
        goal: accuracy and certificate: 1 if it is wrong, 1/2 for a tie where people know none.
            win rate: the squared difference of what the label and people's count.
        sign, judged: (..., n) labels, and which examples have one.
        human: (n,) people's labels.
        knows_ties: whether people could say tie.
    Returns: float64 of the shape of `sign`, 0 to 1; no label loses 1."""
    if goal is Goal.WIN_RATE:
        apart = np.square(win_points(np.where(judged, sign, 0)) - win_points(human))
        return np.asarray(apart, dtype=np.float64)
    flat = [
        1 - credit(signs, there, human, knows_ties=knows_ties)
        for signs, there in zip(np.atleast_2d(sign), np.atleast_2d(judged), strict=True)
    ]
    return np.asarray(np.stack(flat).reshape(sign.shape), dtype=np.float64)


def by_rank(
    place: Codes,
    rows: Codes,
    loss: Floats,
    usd: float,
    *,
    drawn: float = 0.0,
    taught: Booleans | None = None,
) -> Chain:
    """Let people label the first examples by rank. Among ties, they are drawn at random.

    Args:
        place: (D, N) order of review.
        rows: (n,) places of the sample among the N.
        loss: (D, n) from `label_loss`.
        usd: judges' cost per example.
        drawn: share of all examples that people label first, drawn at random, to learn a rank.
        taught: (D, n) whose labels taught each rank, at least one not; no label tests what it
            taught.
    Returns: the plans, one for each of SHARES that leaves something to a rank that is learned."""
    shares = SHARES[drawn < SHARES] if drawn else SHARES
    reviewed, lost = np.zeros((2, len(rows), len(shares)))
    tests = np.ones(loss.shape) if taught is None else (~taught).astype(np.float64)
    tests /= tests.sum(axis=0)
    for places, own, counts in zip(place, loss, tests, strict=True):
        size = np.bincount(places)
        before = np.cumsum(size) - size
        at = places[rows]
        by_place = (shares - drawn) / (1 - drawn) * place.shape[1]
        inside = (by_place - before[at][:, None]) / size[at][:, None]
        weight = drawn + (1 - drawn) * np.clip(inside, 0.0, 1.0)
        reviewed += counts[:, None] * weight
        lost += counts[:, None] * (1 - weight) * own[:, None]
    return Chain(shares, np.full(len(shares), usd), reviewed, lost)


def at_random(loss: Floats, usd: float) -> Chain:
    """Let people label examples drawn at random.

    Args: loss, usd: as in `by_rank`.
    Returns: the plans, one for each of SHARES but 0, which is that of `by_rank`."""
    mean, shares = loss.mean(axis=0)[:, None], SHARES[SHARES > 0]
    reviewed = np.broadcast_to(shares, (len(mean), len(shares)))
    return Chain(shares, np.full(len(shares), usd), reviewed, mean * (1 - shares))


def in_a_row(unsure: Floats, rows: Codes, loss: Floats, usd: Sequence[float]) -> Chain:
    """Ask judges in a row, as `trust_or_escalate` does: each keeps the labels that it is sure of.

    What no judge keeps is for people.

    Args:
        unsure: (R, N) how unsure each judge is, NaN without a label.
        rows: (n,) places of the sample.
        loss: (R, n) from `label_loss`.
        usd: (R,) cost of each judge per example asked.
    Returns: a plan for each threshold, at most MOST_THRESHOLDS of them."""
    grid = np.unique(unsure[np.isfinite(unsure)])
    grid = grid[np.unique(np.linspace(0, len(grid) - 1, MOST_THRESHOLDS).astype(int))]
    share, cost = np.zeros((2, len(grid)))
    reviewed, lost = np.zeros((2, len(rows), len(grid)))
    for column, threshold in enumerate(grid):
        judge = first_sure(unsure, threshold)
        asked = np.where(judge < 0, len(unsure), judge + 1)
        cost[column] = sum(
            each * float((asked > judge_number).mean()) for judge_number, each in enumerate(usd)
        )
        share[column] = float((judge < 0).mean())
        own = judge[rows]
        reviewed[:, column] = own < 0
        kept = np.flatnonzero(own >= 0)
        lost[kept, column] = loss[own[kept], kept]
    return Chain(share, cost, reviewed, lost, grid)


def people_alone(n: int) -> Chain:
    """Let people label everything, without a judge.

    Args: n: size of the sample.
    Returns: one plan."""
    return Chain(np.ones(1), np.zeros(1), np.ones((n, 1)), np.zeros((n, 1)))


def people_right(counts: Counts, label: Signs, votes: int) -> Floats:
    """Return how often the majority of fewer votes is the label of all votes.

    Args:
        counts: (n, 3) votes for win, tie and lose.
        label: (n,) sign of the label.
        votes: the smaller number of votes, drawn from those that are there.
    Returns: (n,) 0 to 1, and no majority is not right; NaN for examples with fewer votes."""
    every = counts.sum(axis=1)
    right = np.zeros(len(label))
    for drawn in product(range(votes + 1), repeat=3):
        if sum(drawn) != votes or 2 * max(drawn) <= votes:
            continue
        ways = np.prod([scipy.special.comb(counts[:, j], drawn[j]) for j in range(3)], axis=0)
        right += np.where(1 - label.astype(int) == int(np.argmax(drawn)), ways, 0.0)
    ways_in_all = scipy.special.comb(every, votes)
    return np.where(every >= votes, right / np.maximum(ways_in_all, 1.0), np.nan)


def predicted_right(agreement: float, votes: int) -> float:
    """Predict how often a majority of votes is right, from how often two people agree.

    Each vote is right with the same probability q, and a wrong one is always the same, so two agree
    in q^2 + (1 - q)^2 (Condorcet's model). Real examples differ, so more votes help less.

    Args: agreement, votes: 0 to 1, and an odd number.
    Returns: 1/2 to 1."""
    right = (1 + np.sqrt(max(2 * agreement - 1, 0.0))) / 2
    return float(scipy.stats.binom.sf(votes // 2, votes, right))


@dataclass(frozen=True, slots=True)
class Asked:
    """goal, value: what is to be reached. confidence: that the recommended plan reaches it.

    examples: N, for which plans are priced. vote_usd: price of a vote."""

    goal: Goal
    value: float
    confidence: float
    examples: int
    vote_usd: float

    @property
    def alpha(self) -> float:
        return 1 - self.confidence


@dataclass(frozen=True, slots=True)
class Plans:
    """C plans, (C,) each; every one of a chain, with its votes and its audit.

    chain, column: place of the chain, and of the plan in it. votes: per example.
    audit: labels drawn at random from the rest, 0 for accuracy. usd: of everything.
    value: the goal's figure that is predicted. limit: its worse end at the shared level.
    reached: whether the goal is shown to be reached.
    loss, least: what the tested labels lose on average, and its lower limit.
    level: the one-sided error of each limit. n: examples of the sample."""

    chain: Codes
    column: Codes
    votes: Counts
    share: Floats
    audit: Counts
    usd: Floats
    value: Floats
    limit: Floats
    reached: Booleans
    loss: Floats
    least: Floats
    level: float
    n: int

    def __len__(self) -> int:
        return len(self.usd)


def search(
    chains: Sequence[Chain],
    right: dict[int, Floats],
    asked: Asked,
    question: ArrayLike,
    rng: np.random.Generator,
) -> Plans:
    """Price all plans, and say which of them are shown to reach the goal.

    Args:
        chains: the plans, without votes.
        right: by votes per example, (n,) how often people's label is right; the learning sample's
            own number of votes is always right. For win rate and certificate, one number.
        asked: the goal.
        question: (n,) equal codes share a question.
        rng: of the multipliers.
    Returns: the plans."""
    made = _accuracy if asked.goal is Goal.ACCURACY else _audited
    return made(chains, right, asked, np.asarray(question), rng)


def _accuracy(
    chains: Sequence[Chain],
    right: dict[int, Floats],
    asked: Asked,
    question: Codes,
    rng: np.random.Generator,
) -> Plans:
    # Labels of fewer votes teach less, so a learned rank is only tested with its own votes.
    each = [
        (at, votes)
        for at, votes in product(range(len(chains)), sorted(right))
        if chains[at].votes in (None, votes)
    ]
    wrong = [
        chains[at].lost + chains[at].reviewed * (1 - right[votes])[:, None] for at, votes in each
    ]
    # With every vote of the sample, people alone are right by definition.
    sure = [
        bool(chains[at].share[0] == 1 and not of_plans.any())
        for (at, _), of_plans in zip(each, wrong, strict=True)
    ]
    allowed = 1 - asked.value
    means = [of_plans.mean(axis=0) for of_plans in wrong]
    # The first plan of a chain that is tested and untrue lies near the bound.
    nearest = [
        of_plans[:, np.abs(mean - allowed).argmin()]
        for of_plans, mean, is_sure in zip(wrong, means, sure, strict=True)
        if not is_sure
    ]
    level = asked.alpha
    if nearest:
        level = shared_level(np.stack(nearest, axis=1), asked.alpha, question, rng)
    width = [len(chains[at].share) for at, _ in each]
    known = np.repeat(sure, width)
    low, high = _limits(np.concatenate(wrong, axis=1), None, question, level)
    low, high = np.where(known, 0.0, low), np.where(known, 0.0, high)
    parts = np.split(high <= allowed, np.cumsum(width)[:-1])
    reached = np.concatenate([np.logical_and.accumulate(under) for under in parts])
    votes = np.repeat([votes for _, votes in each], width)
    share = np.concatenate([chains[at].share for at, _ in each])
    judges = np.concatenate([chains[at].usd for at, _ in each])
    return Plans(
        chain=np.repeat([at for at, _ in each], width),
        column=np.concatenate([np.arange(n_plans) for n_plans in width]),
        votes=votes,
        share=share,
        audit=np.zeros(len(share), dtype=np.int64),
        usd=asked.examples * (judges + share * votes * asked.vote_usd),
        value=1 - np.concatenate(means),
        limit=1 - high,
        reached=reached,
        loss=np.concatenate(means),
        least=low,
        level=level,
        n=len(question),
    )


def _audited(
    chains: Sequence[Chain],
    right: dict[int, Floats],
    asked: Asked,
    question: Codes,
    rng: np.random.Generator,
) -> Plans:
    """Each plan with audits of several sizes. Half of the error is for what an audit happens on."""
    (votes,) = right
    lost = np.concatenate([part.lost for part in chains], axis=1)
    left = 1 - np.concatenate([part.reviewed for part in chains], axis=1)
    share = np.concatenate([part.share for part in chains])
    judges = np.concatenate([part.usd for part in chains])
    chain = np.repeat(np.arange(len(chains)), [len(of_chain.share) for of_chain in chains])
    column = np.concatenate([np.arange(len(of_chain.share)) for of_chain in chains])
    loss = np.divide(lost.sum(axis=0), left.sum(axis=0), where=left.sum(axis=0) > 0,
                     out=np.ones(len(share)))  # fmt: skip
    tested = (lost - loss * left)[:, share < 1]
    level = shared_level(tested, asked.alpha / 2, question, rng, centred=True)
    low, high = _limits(lost, left, question, level)
    rest = np.rint(asked.examples * (1 - share)).astype(np.int64)
    sizes = _audits(asked)
    audit = np.minimum(sizes, rest[:, None])
    # An audit of all that is left is a review of everything, which is a plan of its own.
    there = (sizes < rest[:, None]) & (share < 1)[:, None]
    there[share == 1, 0] = True
    audit[share == 1] = 0
    figure, unlucky = _FIGURES[asked.goal], 1 - asked.alpha / 2
    value = figure(loss[:, None], audit, rest[:, None], asked, None)
    limit = figure(high[:, None], audit, rest[:, None], asked, unlucky)
    rows, columns = np.nonzero(there)
    usd = asked.examples * judges[rows] + asked.vote_usd * votes * (
        asked.examples * share[rows] + audit[rows, columns]
    )
    at = rows, columns
    return Plans(
        chain=chain[rows], column=column[rows], votes=np.full(len(rows), votes), share=share[rows],
        audit=audit[at], usd=usd, value=value[at], limit=limit[at],
        reached=limit[at] <= asked.value, loss=loss[rows], least=low[rows], level=level,
        n=len(question),
    )  # fmt: skip


def better_end(plans: Plans, rows: Codes, asked: Asked) -> Floats:
    """Return the better ends of the limits of some plans.

    Args: plans, rows, asked: from `search`, their places, and the goal.
    Returns: (r,) on the scale of the goal."""
    if asked.goal is Goal.ACCURACY:
        return np.asarray(1 - plans.least[rows])
    rest = np.rint(asked.examples * (1 - plans.share[rows])).astype(np.int64)
    figure = _FIGURES[asked.goal](plans.least[rows], plans.audit[rows], rest, asked, None)
    return np.asarray(np.minimum(figure, plans.value[rows]))


def _audits(asked: Asked) -> Counts:
    most = min(asked.examples, MOST_AUDITED)
    sizes = np.geomspace(FEWEST_AUDITED, max(most, FEWEST_AUDITED + 1), AUDITS).astype(np.int64)
    if asked.goal is Goal.CERTIFICATE:
        needed = [audit_needed(asked.value, wrong, 1 - LEVEL) for wrong in range(MOST_WRONG)]
        sizes = np.concatenate((sizes, np.array(needed, dtype=np.int64)))
    return np.unique(sizes[sizes <= most])


def _certified(
    wrong: Floats, audit: Counts, rest: Counts, asked: Asked, unlucky: float | None
) -> Floats:
    """What an audit certifies, if as many as expected are wrong, or unluckily many."""
    expected = wrong * audit
    n_wrong = expected if unlucky is None else scipy.stats.binom.ppf(unlucky, audit, wrong)
    n = np.maximum(audit, 1).astype(np.float64)
    bound = 1 - exact_lower_limit(n - np.minimum(n_wrong, n), n, 1 - LEVEL)
    return np.where(rest > 0, bound, 0.0)


def _half_width(
    apart: Floats, audit: Counts, rest: Counts, asked: Asked, unlucky: float | None
) -> Floats:
    """Half the width of the win rate's interval. People alone vary by 1/4 at most."""
    n = np.maximum(audit, 1)
    squared = apart if unlucky is None else scipy.stats.binom.ppf(unlucky, n, apart) / n
    residual = np.minimum(squared, _WIDEST)
    return expected_half_widths(
        residual, _WIDEST, total=asked.examples, n_rest=rest, audit=audit, confidence=LEVEL
    )


_FIGURES = {Goal.CERTIFICATE: _certified, Goal.WIN_RATE: _half_width}


def shared_level(
    columns: Floats,
    alpha: float,
    question: ArrayLike,
    rng: np.random.Generator,
    *,
    centred: bool = False,
) -> float:
    """Return the one-sided error of each test with which all of them together err in `alpha`.

    It is the level of the largest of correlated means, whose correlation is that of the columns,
    and never below Bonferroni's. Columns without any variation take Bonferroni's part.

    Args:
        columns: (n, C) what is averaged, one column a test.
        alpha, question, rng: the error of all, (n,) codes, and the multipliers.
        centred: whether the columns have mean 0 already.
    Returns: alpha/C to alpha."""
    tests = columns.shape[1]
    if tests < 2:
        return float(alpha)
    apart = columns if centred else columns - columns.mean(axis=0)
    groups, code = coded(question)
    if groups < len(code):
        apart = np.stack(
            [np.bincount(code, column, minlength=groups) for column in apart.T], axis=1
        )
    norm = np.sqrt(np.square(apart).sum(axis=0))
    varied = norm > 1e-9
    if not varied.any():
        return float(alpha / tests)
    unit = (apart[:, varied] / norm[varied]).astype(np.float32)
    top = np.empty(DRAWS)
    for start in range(0, DRAWS, 500):
        part = rng.standard_normal((500, len(unit)), dtype=np.float32) @ unit
        top[start : start + 500] = part.max(axis=1)
    reach = float(np.quantile(top, 1 - alpha * float(varied.mean())))
    return float(np.clip(scipy.stats.norm.sf(reach), alpha / tests, alpha))


def _limits(
    lost: Floats, counted: Floats | None, question: Codes, level: float
) -> tuple[Floats, Floats]:
    """Return (C,) exact limits of the mean loss; of losses from 0 to 1, those of 0 and 1 vary most.

    If questions repeat, the sample counts as the number of examples that it is worth."""
    total = lost.sum(axis=0)
    n = np.full(len(total), float(len(lost))) if counted is None else counted.sum(axis=0)
    groups, _ = coded(question)
    if groups < len(question):
        effect = np.array([design_effect(column, question)[0] for column in lost.T])
        total, n = total / effect, n / effect
    safe = np.maximum(n, 1e-9)
    total = np.clip(total, 0.0, safe)
    high = 1 - exact_lower_limit(safe - total, safe, level)
    low = exact_lower_limit(total, safe, level)
    return np.where(n > 0, low, 0.0), np.where(n > 0, high, 1.0)


def frontier(plans: Plans, *, rising: bool) -> Codes:
    """Return the plans that no cheaper plan equals, from the cheapest on.

    Args: plans, rising: all plans, and whether a larger value is better.
    Returns: their places."""
    better = plans.value if rising else -plans.value
    order = np.lexsort((-better, plans.usd))
    best = np.maximum.accumulate(better[order])
    first = np.ones(len(order), dtype=bool)
    first[1:] = best[1:] > best[:-1] + 1e-12
    return np.asarray(order[first])


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """Places of plans, None if there is none.

    best: the cheapest that is shown to reach the goal. second: the cheapest of the others that is,
    from another chain. hoped: the cheapest whose value reaches it, shown or not; None if it is
    `best`. labels: the size of the learning sample that would show it, if its value stays."""

    best: int | None
    second: int | None
    hoped: int | None
    labels: int | None


def choose(plans: Plans, asked: Asked) -> PlanChoice:
    """Choose the cheapest plans.

    Args: plans, asked: from `search`, and its goal.
    Returns: the choice."""
    best = _cheapest(plans, plans.reached)
    second = hoped = labels = None
    if best is not None:
        others = (plans.chain != plans.chain[best]) | (plans.votes != plans.votes[best])
        second = _cheapest(plans, plans.reached & others)
    rising = asked.goal is Goal.ACCURACY
    promising = plans.value >= asked.value if rising else plans.value <= asked.value
    promised = _cheapest(plans, promising)
    if promised is not None and (best is None or plans.usd[promised] < plans.usd[best] - 1e-9):
        hoped, labels = promised, labels_to_show(plans, promised, asked)
    return PlanChoice(best, second, hoped, labels)


def _cheapest(plans: Plans, among: Booleans) -> int | None:
    rows = np.flatnonzero(among)
    if not len(rows):
        return None
    # Among equally cheap plans, the one in which people label more is the surer.
    return int(rows[np.lexsort((-plans.share[rows], plans.usd[rows]))[0]])


def labels_to_show(plans: Plans, place: int, asked: Asked) -> int | None:
    """Return the learning sample that would show that a plan reaches the goal, if it does as now.

    Args: plans, place, asked: from `search`, the plan, and the goal.
    Returns: the number of labels, or None if none is enough."""
    left = 1.0 if asked.goal is Goal.ACCURACY else 1 - float(plans.share[place])
    loss, audit = float(plans.loss[place]), plans.audit[place]
    rest = np.rint(asked.examples * (1 - plans.share[place])).astype(np.int64)

    def shows(n: int) -> bool:
        counted = n * left
        high = 1 - float(exact_lower_limit(counted * (1 - loss), counted, plans.level))
        if asked.goal is Goal.ACCURACY:
            return high <= 1 - asked.value
        figure = _certified if asked.goal is Goal.CERTIFICATE else _half_width
        return bool(
            figure(np.asarray(high), audit, rest, asked, 1 - asked.alpha / 2) <= asked.value
        )

    if left <= 0 or not shows(MOST_LABELS):
        return None
    below, above = 0, MOST_LABELS
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if shows(middle) else (middle, above)
    return above


def needed_sample(asked: Asked) -> int:
    """Return the learning sample to begin with, before anything is known.

    With it, a plan that loses half as much as it may is shown to reach the goal, if the error is
    shared by as many plans as USUAL_TESTS that are unlike.

    Args: asked: the goal.
    Returns: FEWEST_LABELS or more."""
    if asked.goal is Goal.WIN_RATE:
        return FEWEST_LABELS
    may = 1 - asked.value if asked.goal is Goal.ACCURACY else asked.value
    level = asked.alpha / USUAL_TESTS
    n = FEWEST_LABELS
    while 1 - float(exact_lower_limit(n * (1 - may / 2), float(n), level)) > may:
        n += 10
    return n
