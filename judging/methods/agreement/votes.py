"""Agreement: kappa of judge and people, agreement among people, majorities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.agreement.accuracy import Comparison
from judging.methods.arrays import Booleans, Counts, Floats, Signs
from judging.methods.intervals.bootstrap import (
    ONE_QUESTION,
    all_differ,
    cells,
    design_effect,
    interval,
    ratio,
)
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.verdicts.verdicts import Label

ONE_LABEL = "both always gave the same label, so chance agreement is complete"
DRAWS = 2_000
# A figure may rest on some of the examples, and on some of the votes.
TOO_FEW = "none of these examples has two votes that count"
ONE_CATEGORY = "all votes are in one category, so chance agreement is complete"
PERMUTATIONS = 999
# Examples of which the agreement is tested: more take long and change nothing.
MOST_TESTED = 2_000
# One pseudo-observation over the cells of a table: half of it agrees, half disagrees.
DISAGREEING = np.where(np.eye(3, dtype=bool), 1 / 6, 1 / 12).reshape(-1)
# From counts (rows, categories) and how often each row occurs.
Statistic = Callable[[Floats, Floats], float | Undefined]
Name = TypeVar("Name", bound=str)
NO_MAJORITY = "this person shares no example with a majority of votes"


def confusion(judge: Signs, human: Signs, weight: Floats | None = None) -> Floats:
    """Count pairs of labels, by weight.

    Args:
        judge, human: (N,) signs.
        weight: (N,) how many examples each represents; None: 1 each.
    Returns: (3, 3) float64; rows the judge's win, tie, lose; columns the human label's."""
    table = np.zeros((3, 3))
    np.add.at(
        table, (1 - judge.astype(int), 1 - human.astype(int)), 1.0 if weight is None else weight
    )
    return table


def cohen_kappa(table: Floats, *, linear: bool = False) -> float | Undefined:
    """Return (p_o - p_e) / (1 - p_e) of a table (Cohen 1960, doi:10.1177/001316446002000104).

    Args:
        table: (c, c) counts or weights, classes in their order.
        linear: weigh disagreements by distance (Cohen 1968, doi:10.1037/h0026256).
    Returns: kappa, at most 1, or Undefined for an empty table or a single class."""
    value = float(_kappas(table[None], linear=linear)[0])
    if table.sum() == 0:
        return Undefined("no example was labelled by both")
    return value if np.isfinite(value) else Undefined(ONE_LABEL)


def kappa(
    compared: Comparison,
    rng: np.random.Generator,
    *,
    linear: bool = False,
    confidence: float = 0.95,
) -> Figure:
    """Return the weighted kappa of judge and people over the judged examples.

    The interval draws tables (`_likely_tables`).

    Args:
        compared: the labelled examples.
        rng: for the draws.
        linear, confidence: as in `cohen_kappa`, and the level.
    Returns: kappa with its interval, or Undefined."""
    rows: Booleans = compared.judged
    n = int(rows.sum())
    if not n:
        return Undefined("the judge has given no label")
    table = confusion(compared.judge[rows], compared.human[rows], compared.weight[rows])
    value = cohen_kappa(table, linear=linear)
    if isinstance(value, Undefined):
        return value
    tables = _likely_tables(compared, rng, linear=linear)
    if isinstance(tables, Undefined):
        return Estimate(value, n, note=tables.reason)
    low, high, _ = interval(_kappas(tables, linear=linear), confidence)
    return Estimate(value, n, min(low, value), max(high, value))


def final_kappa(
    done: Comparison, rest: Comparison, rng: np.random.Generator, confidence: float = 0.95
) -> Figure:
    """Return the kappa of final labels and people, from the parts of `final_accuracy`.

    Only the table of the unaudited labels is by chance: it is drawn from the Dirichlet-multinomial
    posterior of the audit, with the pseudo-observation of `_likely_tables`.

    Args: done, rest, rng, confidence: as in `final_accuracy`, and for the draws.
    Returns: kappa with its interval, or Undefined."""
    seen = confusion(done.judge[done.judged], done.human[done.judged])
    rows = rest.judged
    judge, human, weight = rest.judge[rows], rest.human[rows], rest.weight[rows]
    value = cohen_kappa(seen + confusion(judge, human, weight))
    if isinstance(value, Undefined):
        return value
    shares = rng.standard_gamma(confusion(judge, human).reshape(-1) + DISAGREEING, (DRAWS, 9))
    shares /= shares.sum(axis=1, keepdims=True)
    # The unaudited labels are a finite number, so they are drawn from the shares once more.
    unseen = rng.multinomial(round(float(weight.sum())), shares).reshape(-1, 3, 3)
    low, high, _ = interval(_kappas(seen + unseen, linear=False), confidence)
    return Estimate(value, int(done.judged.sum()), min(low, value), max(high, value))


def _likely_tables(
    compared: Comparison, rng: np.random.Generator, *, linear: bool
) -> Floats | Undefined:
    """Draw (DRAWS, 3, 3) weighted tables from Dirichlet weights for each stratum.

    This is Rubin's Bayesian bootstrap (1981, doi:10.1214/aos/1176345338). The audit, or all
    examples if there is none, has one pseudo-observation, half of it spread over the disagreements.
    Without it a small audit with at most one disagreement bounds nothing: coverage .75 at 20
    audited and 5 % error, .93 and more with it. If questions repeat, a stratum counts as many
    examples as it is worth for kappa: resampled questions cover .84."""
    rows = compared.judged
    tables = np.zeros((DRAWS, 9))
    last = compared.stratum.max()
    influence = _influence(compared, linear=linear)
    for stratum in np.unique(compared.stratum[rows]):
        inside = (compared.stratum == stratum) & rows
        effect, questions = design_effect(influence[inside], compared.question[inside])
        if questions < 2 and inside.sum() > 1:
            return Undefined(ONE_QUESTION)
        counts = confusion(compared.judge[inside], compared.human[inside]).reshape(-1)
        if questions < inside.sum():
            effect *= (scipy.stats.t.ppf(0.975, questions - 1) / scipy.stats.norm.ppf(0.975)) ** 2
        prior = DISAGREEING if stratum == last else np.zeros(9)
        # Dirichlet shares from gamma draws, which a cell without any count leaves at 0.
        drawn = rng.standard_gamma(counts / effect + prior, size=(DRAWS, 9))
        total = drawn.sum(axis=1, keepdims=True)
        tables += compared.weight[inside].sum() * drawn / np.where(total > 0, total, 1)
    return tables.reshape(-1, 3, 3)


def _influence(compared: Comparison, *, linear: bool) -> Floats:
    """By how much each example moves kappa, but for a constant factor and term."""
    rows = compared.judged
    table = confusion(compared.judge[rows], compared.human[rows], compared.weight[rows])
    shares, cost = table / table.sum(), _cost(3, linear=linear)
    judge, human = 1 - compared.judge.astype(int), 1 - compared.human.astype(int)
    expected = float(shares.sum(axis=1) @ cost @ shares.sum(axis=0))
    alike = (cost @ shares.sum(axis=0))[judge] + (cost @ shares.sum(axis=1))[human]
    observed = float((shares * cost).sum())
    return np.asarray(cost[judge, human] * expected - observed * alike, dtype=np.float64)


def _cost(c: int, *, linear: bool) -> Floats:
    classes = np.arange(c)
    distance = np.abs(classes[:, None] - classes[None, :]).astype(np.float64)
    return np.asarray(distance if linear else distance > 0, dtype=np.float64)


def _kappas(tables: Floats, *, linear: bool) -> Floats:
    """Return kappa of each of (R, c, c) tables; NaN if undefined."""
    cost = _cost(tables.shape[-1], linear=linear)
    total = tables.sum(axis=(1, 2))
    # Cost of disagreement instead of agreement, so that one formula serves plain and linear
    # weights.
    observed = np.einsum("rij,ij->r", tables, cost) * total
    expected = np.einsum("ri,rj,ij->r", tables.sum(axis=2), tables.sum(axis=1), cost)
    return np.asarray(1 - ratio(observed, expected))


def category_counts(votes: ArrayLike, present: ArrayLike, categories: ArrayLike) -> Floats:
    """Count each example's votes by category.

    Args:
        votes, present: (N, raters) labels, and whether each vote exists.
        categories: (c,) labels, in the order of the columns.
    Returns: (N, c) float64 counts."""
    table, there = np.asarray(votes), np.asarray(present, dtype=bool)
    columns = [((table == value) & there).sum(axis=1) for value in np.asarray(categories)]
    return np.stack(columns, axis=1).astype(np.float64)


def equally_often(counts: Floats) -> tuple[int, Booleans]:
    """Find the number of votes, two or more, that most examples have.

    What a round asks for does not tell it: a round may be closed early, or hold earlier votes.

    Args: counts: (N, c) from `category_counts`.
    Returns: that number (the larger of two equally common ones, 0 if there is none), and (N,) bool,
        which examples have it."""
    n_votes = counts.sum(axis=1).astype(np.intp)
    common = np.bincount(n_votes[n_votes >= 2])
    # argmax takes the first maximum, so the counts are reversed to prefer more votes.
    number = len(common) - 1 - int(common[::-1].argmax()) if len(common) else 0
    return number, (n_votes == number) & (n_votes > 0)


def percent_agreement(counts: Floats, times: Floats | None = None) -> float | Undefined:
    """Return the mean share of pairs of raters that agree.

    Args:
        counts: (N, c) from `category_counts`; rows with fewer than two votes are left out.
        times: (N,) how often each row occurs; None: once.
    Returns: share, 0 to 1, or Undefined if no example has two votes."""
    rows, often = _with(counts, times, 2)
    if not len(rows):
        return Undefined(TOO_FEW)
    return float(_percents(rows, often[None])[0])


def fleiss_kappa(counts: Floats, times: Floats | None = None) -> float | Undefined:
    """Return Fleiss' kappa (1971, doi:10.1037/h0031619).

    Args: counts, times: as in `percent_agreement`.
    Returns: kappa, at most 1, or Undefined if numbers of votes differ (use alpha instead)."""
    rows, often = _with(counts, times, 0)
    raters = rows.sum(axis=1)
    if not len(rows) or raters.max() < 2:
        return Undefined(TOO_FEW)
    if np.ptp(raters) != 0:
        return Undefined("the examples have different numbers of votes; see Krippendorff's alpha")
    value = float(_fleiss_kappas(rows, often[None])[0])
    return value if np.isfinite(value) else Undefined(ONE_CATEGORY)


def gwet_ac1(counts: Floats, times: Floats | None = None) -> float | Undefined:
    """Return Gwet's AC1 (2008, doi:10.1348/000711006X126600).

    Examples with one vote count for chance agreement, those with two or more for both parts.

    Args: counts, times: as in `percent_agreement`.
    Returns: AC1, at most 1, or Undefined."""
    rows, often = _with(counts, times, 1)
    if not len(rows) or rows.sum(axis=1).max() < 2:
        return Undefined(TOO_FEW)
    if counts.shape[1] < 2:
        return Undefined(ONE_CATEGORY)
    return float(_ac1s(rows, often[None])[0])


def krippendorff_alpha(
    counts: Floats, times: Floats | None = None, *, ordinal: bool = False
) -> float | Undefined:
    """Return Krippendorff's alpha, 1 - D_o/D_e over all pairable values; a missing vote is missing.

    Args:
        counts, times: as in `percent_agreement`.
        ordinal: use the ordinal metric with the columns in their order, else the nominal one.
    Returns: alpha, at most 1, or Undefined if no votes meet or all are in one category."""
    rows, often = _with(counts, times, 2)
    if not len(rows):
        return Undefined(TOO_FEW)
    value = float(_alphas(rows, often[None], ordinal=ordinal)[0])
    return value if np.isfinite(value) else Undefined(ONE_CATEGORY)


def ordinal_alpha(counts: Floats, times: Floats | None = None) -> float | Undefined:
    """Return Krippendorff's alpha of ordered categories, such as how sure people are.

    Args: counts, times: as in `percent_agreement`, the columns of counts in their order.
    Returns: alpha, at most 1, or Undefined."""
    return krippendorff_alpha(counts, times, ordinal=True)


def _with(counts: Floats, times: Floats | None, fewest: int) -> tuple[Floats, Floats]:
    """Return the rows that occur and have at least `fewest` votes, and how often each occurs."""
    often = np.ones(len(counts)) if times is None else times
    rows = (counts.sum(axis=1) >= fewest) & (often > 0)
    return counts[rows], often[rows]


def _percents(rows: Floats, often: Floats) -> Floats:
    """(R,) of (n, c) counts that occur (R, n) times, as the statistics below; NaN if undefined."""
    twice = rows.sum(axis=1) >= 2
    raters = rows[twice].sum(axis=1)
    agreeing = (rows * (rows - 1)).sum(axis=1)[twice] / (raters * (raters - 1))
    return ratio(often[:, twice] @ agreeing, often[:, twice].sum(axis=1))


def _fleiss_kappas(rows: Floats, often: Floats) -> Floats:
    said_by_label = often @ rows
    chance = np.square(ratio(said_by_label, said_by_label.sum(axis=1, keepdims=True))).sum(axis=1)
    kappas = ratio(_percents(rows, often) - chance, 1 - chance)
    # With one label in use, 1 - chance is 0 but for rounding, and the quotient would be noise.
    return np.where(np.count_nonzero(said_by_label, axis=1) > 1, kappas, np.nan)


def _ac1s(rows: Floats, often: Floats) -> Floats:
    voted = rows.sum(axis=1)
    shares = ratio(often @ ratio(rows, voted[:, None], 0.0), (often @ (voted > 0))[:, None])
    chance = (shares * (1 - shares)).sum(axis=1) / (rows.shape[1] - 1)
    return ratio(_percents(rows, often) - chance, 1 - chance)


def _alphas(rows: Floats, often: Floats, *, ordinal: bool = False) -> Floats:
    raters = rows.sum(axis=1)
    rows, often = rows[raters >= 2], often[:, raters >= 2]
    # Coincidences: each example gives its pairs of values, divided by its votes less one, so that a
    # value counts once however many votes it meets.
    pairs = rows[:, :, None] * rows[:, None, :] - rows[:, :, None] * np.eye(rows.shape[1])
    pairs /= (rows.sum(axis=1) - 1)[:, None, None]
    totals = often @ rows
    if ordinal:
        # The sum of the values from c to k, less half of those at c and at k, squared.
        middle = np.cumsum(totals, axis=1) - totals / 2
        distance = (middle[:, :, None] - middle[:, None, :]) ** 2
    else:
        distance = np.broadcast_to(1 - np.eye(rows.shape[1]), (len(often), *pairs.shape[1:]))
    observed = (np.tensordot(often, pairs, 1) * distance).sum(axis=(1, 2))
    expected = np.einsum("rc,rcd,rd->r", totals, distance, totals) / (totals.sum(axis=1) - 1)
    return np.asarray(1 - ratio(observed, expected))


# The statistics of many resamples at once.
MANY: dict[Statistic, Callable[[Floats, Floats], Floats]] = {
    percent_agreement: _percents,
    fleiss_kappa: _fleiss_kappas,
    gwet_ac1: _ac1s,
    krippendorff_alpha: _alphas,
    ordinal_alpha: partial(_alphas, ordinal=True),
}


# Ordinal disagreements weigh up to the square of the scale, and the heaviest are rare: with half of
# one, the interval of near agreement covers 91 %, with a whole one 97 % (make simulate).
HALF, WHOLE = 0.5, 1.0


def agreement_interval(
    statistic: Statistic,
    counts: Floats,
    question: ArrayLike,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> Figure:
    """Return a statistic of this module with its percentile limits.

    Rows are drawn from Dirichlet weights with one pseudo-observation, half of it an agreement and
    half a disagreement of one rater, as `kappa` does for two raters: without it, votes that all
    agree have no width. For `ordinal_alpha` the disagreement is a whole one. If questions repeat,
    the rows count as many examples as they are worth for this statistic; resampled questions cover
    too little.

    Args:
        statistic: one of `MANY`, for example `gwet_ac1`.
        counts: (N, c) from `category_counts`.
        question: (N,) equal codes share a question and are resampled together.
        rng, confidence: for the resamples, and the level.
    Returns: the value with its interval, n the examples in which votes met, or Undefined."""
    if not len(counts):
        return Undefined(TOO_FEW)
    value = statistic(counts, np.ones(len(counts)))
    if isinstance(value, Undefined):
        return value
    n = int((counts.sum(axis=1) >= 2).sum())
    cell, first = cells(*counts.T)
    rows, often = counts[first], np.bincount(cell).astype(np.float64)
    effect, questions = 1.0, len(counts)
    if not all_differ(question):
        effect, questions = design_effect(_moved(statistic, rows, often, value)[cell], question)
    if questions < 2:
        return Estimate(float(value), n, note=ONE_QUESTION)
    effect *= (scipy.stats.t.ppf(0.975, questions - 1) / scipy.stats.norm.ppf(0.975)) ** 2
    differing = WHOLE if statistic is ordinal_alpha else HALF
    rows, drawn = _likely(rows, often / effect, differing, rng)
    # Alpha corrects for the number of votes, so that each resample has as many as there are.
    drawn *= n / drawn[:, rows.sum(axis=1) >= 2].sum(axis=1, keepdims=True)
    low, high, lacking = interval(MANY[statistic](rows, drawn), confidence)
    note = f"undefined in {lacking} of {len(drawn)} resamples" if lacking else ""
    return Estimate(float(value), n, min(low, value), max(high, value), note)


def _moved(statistic: Statistic, rows: Floats, often: Floats, value: float) -> Floats:
    """(rows,) by how much the statistic moves without one example of each kind."""
    return np.nan_to_num(MANY[statistic](rows, often - np.eye(len(often))) - value)


def _likely(
    rows: Floats, often: Floats, differing: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Return the rows with those of the pseudo-observation, and (R, rows) Dirichlet weights.

    differing: how much of an observation is a disagreement."""
    # As many votes as most examples have, since Fleiss' kappa needs the same number everywhere.
    raters = max(2, int(np.bincount(rows.sum(axis=1).astype(int), often).argmax()))
    each_label = np.eye(rows.shape[1])
    agree = raters * each_label
    differ = np.array(
        [
            (raters - 1) * each_label[a] + each_label[b]
            for a in range(len(each_label))
            for b in range(len(each_label))
            if a != b
        ]
    )
    prior = np.concatenate(
        (
            often,
            np.full(len(agree), HALF / len(agree)),
            np.full(len(differ), differing / max(len(differ), 1)),
        )
    )
    drawn = rng.standard_gamma(prior, size=(DRAWS, len(prior)))
    return np.vstack((rows, agree, differ)), drawn


def beyond_chance(
    votes: ArrayLike, present: ArrayLike, question: ArrayLike, rng: np.random.Generator
) -> float | None:
    """Test whether raters agree more often than by chance.

    Each rater's votes are dealt out again among the examples that this rater voted on, which is
    exact if the raters judge independently. One example of each question is kept, since a rater's
    votes on the others are not exchangeable with them; of very many examples, a random part.

    Args:
        votes, present: (N, raters) labels, and whether each vote exists.
        question: (N,) equal codes share a question.
        rng: for the draws.
    Returns: one-sided p, or None if no example has two votes or all votes say the same."""
    there = np.asarray(present, dtype=bool)
    rows = np.flatnonzero(there.sum(axis=1) >= 2)
    rows = rng.permutation(rows)
    # The rows are shuffled, so the first of a question is a random one.
    rows = rows[np.unique(np.asarray(question)[rows], return_index=True)[1]][:MOST_TESTED]
    table, there = np.asarray(votes)[rows].astype(np.int64), there[rows]
    names = np.unique(table[there])
    if len(names) < 2:
        return None
    counts = category_counts(table, there, names)
    observed, reached = float((counts * counts).sum()), 1
    own = [np.flatnonzero(column) for column in there.T]
    for _ in range(PERMUTATIONS):
        for rater, mine in enumerate(own):
            table[mine, rater] = rng.permutation(table[mine, rater])
        counts = category_counts(table, there, names)
        reached += float((counts * counts).sum()) >= observed
    return reached / (1 + PERMUTATIONS)


def majority_of(counts: Mapping[Name, int]) -> Name | None:
    """Return the label of more than half of the votes received.

    Args: counts: number of votes for each label.
    Returns: that label, or None."""
    total = sum(counts.values())
    return next((label for label, n in counts.items() if 2 * n > total), None)


class LabelSource(StrEnum):
    """Where a final label comes from. Exports and reports hold these values."""

    MAJORITY = "majority"
    DAWID_SKENE = "dawid_skene"
    HIERARCHICAL = "hierarchical"
    ADJUDICATED = "adjudicated"
    POLICY_TIE = "policy:tie"
    POLICY_JUDGE = "policy:judge"
    JUDGE = "judge"
    NONE = "none"
    UNDECIDED = ""


# With these sources, a model of all votes gave the label.
MODEL_SOURCES = (LabelSource.DAWID_SKENE, LabelSource.HIERARCHICAL)
# With these sources, the final label is the judge's.
JUDGE_SOURCES = (LabelSource.JUDGE, LabelSource.POLICY_JUDGE)


def outcome(
    counts: Mapping[str, int], policy: str, *, measures: bool
) -> tuple[str | None, LabelSource]:
    """Return the label that the counted votes on an item come to, and where it comes from.

    The label is None if it is the judge's by policy, and if a person must decide. A person also
    decides if no vote counts.

    Args:
        counts: Number of counted votes for each label.
        policy: What holds without a majority: `tie`, `judge`, or `adjudicate` for a person.
        measures: The item measures or teaches the judge, so that the judge must not decide it.
    Returns: The label, and its source."""
    label = majority_of(counts)
    if label is not None:
        return label, LabelSource.MAJORITY
    if policy == "tie" and any(counts.values()):
        return Label.TIE, LabelSource.POLICY_TIE
    if policy == "judge" and any(counts.values()) and not measures:
        return None, LabelSource.POLICY_JUDGE
    return None, LabelSource.UNDECIDED


def enters_results(label: str | None, *, unblinded: bool, leave_out: bool) -> bool:
    """Return True if a vote counts.

    Args:
        label: What it says; empty if the voter can't judge the item.
        unblinded: The voter had seen judge output in the project before.
        leave_out: The project leaves such votes out.
    Returns: Whether it enters labels and figures."""
    return bool(label) and not (unblinded and leave_out)


@dataclass(frozen=True, slots=True)
class VoteCounts:
    """(N, 3) numbers of votes for win, tie and lose."""

    counts: Counts

    @classmethod
    def from_votes(cls, votes: Signs, present: Booleans) -> VoteCounts:
        """Count signs.

        Args: votes, present: (N, raters) signs, and whether each vote exists.
        Returns: counts of win, tie and lose."""
        return cls(category_counts(votes, present, (1, 0, -1)).astype(np.int64))

    @property
    def n_votes(self) -> Counts:
        return np.asarray(self.counts.sum(axis=1))

    def majority(self) -> tuple[Signs, Booleans]:
        """Return (N,) the majority's sign, and whether there is one."""
        best = self.counts.argmax(axis=1)
        has = 2 * self.counts.max(axis=1) > self.n_votes
        return (1 - best).astype(np.int8), np.asarray(has)

    def score_variance(self) -> Floats:
        """Return (N,) s^2/n of each example's votes scored 1, 1/2, 0; NaN below two votes."""
        points = np.array([1.0, 0.5, 0.0])
        n = self.n_votes
        mean = self.counts @ points / np.maximum(n, 1)
        square = self.counts @ points**2 - n * mean**2
        return np.where(n >= 2, square / np.maximum(n * (n - 1), 1), np.nan)

    def others_agree(self) -> Floats:
        """Return (N,) how often a vote agrees with the majority of the other votes, 0 to 1.

        An even split of the others gives each of its labels an equal share. NaN below two votes."""
        n = self.n_votes
        earned = np.zeros(len(n))
        for label in range(3):
            others = self.counts.copy()
            # Examples without this label become negative here; they count 0 times below.
            others[:, label] -= 1
            top = others.max(axis=1)
            leads = others[:, label] == top
            leaders = (others == top[:, None]).sum(axis=1)
            earned += np.where(leads & (top > 0), self.counts[:, label] / leaders, 0.0)
        return np.where(n >= 2, earned / np.maximum(n, 1), np.nan)


def agrees_with_majority(
    votes: Signs, present: Booleans, rater: int, *, own_vote: bool
) -> tuple[NDArray[np.intp], Booleans]:
    """Compare one rater with the majority.

    Args:
        votes, present: (N, raters) signs, and whether each vote exists.
        rater: column of the rater.
        own_vote: count the rater's own vote in the majority, which flatters (FairEval does so);
            else leave out the examples on which the others are evenly split.
    Returns: places of the examples with a majority, and for each whether the rater gave its label.
    """
    mine = np.flatnonzero(present[:, rater])
    voters = present[mine]
    if not own_vote:
        voters[:, rater] = False
    label, has = VoteCounts.from_votes(votes[mine], voters).majority()
    return mine[has], np.asarray(votes[mine[has], rater] == label[has])


def rater_against_majority(
    votes: Signs, present: Booleans, rater: int, *, own_vote: bool
) -> float | Undefined:
    """Return how often one rater gives the majority's label.

    Args: votes, present, rater, own_vote: as in `agrees_with_majority`.
    Returns: share, 0 to 1, or Undefined if no majority meets the rater."""
    _, agreed = agrees_with_majority(votes, present, rater, own_vote=own_vote)
    return float(agreed.mean()) if len(agreed) else Undefined(NO_MAJORITY)
