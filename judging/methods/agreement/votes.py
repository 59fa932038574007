"""Cohen's kappa from a table of two raters' labels, weighted by the design where needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judging.methods.agreement.accuracy import Comparison
from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.intervals.bootstrap import (
    ALIKE,
    WIDTH,
    all_differ,
    bootstrap_estimate,
    cells,
    interval,
    resampled_counts,
)
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.verdicts.verdicts import Label

ONE_LABEL = "both gave one and the same label throughout, so chance agreement is complete"
DRAWS = 2_000


def confusion(judge: Signs, human: Signs, weight: Floats | None = None) -> Floats:
    """(3, 3): rows the judge's win, tie, lose; columns the people's."""
    table = np.zeros((3, 3))
    np.add.at(
        table, (1 - judge.astype(int), 1 - human.astype(int)), 1.0 if weight is None else weight
    )
    return table


def cohen_kappa(table: Floats, *, linear: bool = False) -> float | Undefined:
    """(p_o - p_e) / (1 - p_e) of a (c, c) table (Cohen 1960).

    linear: disagreements count by their distance (Cohen 1968); classes in their order.
    """
    value = float(_kappas(table[None], linear=linear)[0])
    if table.sum() == 0:
        return Undefined("no examples that both have labelled")
    return value if np.isfinite(value) else Undefined(ONE_LABEL)


def kappa(compared: Comparison, rng: np.random.Generator, *, linear: bool = False) -> Figure:
    """Weighted kappa of judge and people over the judged examples.

    The interval resamples by question where questions repeat, and else draws the tables of
    `_likely_tables`.
    """
    rows: Booleans = compared.judged
    if not rows.any():
        return Undefined("the judge has given no label")
    if compared.questions_differ:
        table = confusion(compared.judge[rows], compared.human[rows], compared.weight[rows])
        value = cohen_kappa(table, linear=linear)
        if isinstance(value, Undefined):
            return value
        low, high, _ = interval(_kappas(_likely_tables(compared, rng), linear=linear))
        return Estimate(value, int(rows.sum()), min(low, value), max(high, value))

    def statistic(counts: Floats, values: Floats) -> Floats:
        judge, human, weight = values.T
        cell = np.zeros((len(values), 9))
        cell[np.arange(len(values)), ((1 - judge) * 3 + (1 - human)).astype(int)] = weight
        return _kappas((counts @ cell).reshape(-1, 3, 3), linear=linear)

    return bootstrap_estimate(
        statistic,
        (compared.judge[rows], compared.human[rows], compared.weight[rows]),
        rng,
        question=compared.question[rows],
        stratum=compared.stratum[rows],
        reason=ONE_LABEL,
    )


def _likely_tables(compared: Comparison, rng: np.random.Generator) -> Floats:
    """(DRAWS, 3, 3) weighted tables: Dirichlet draws for each stratum (Rubin's bootstrap, 1981).

    The audit, or everything where there is none, has one pseudo-observation, half of it spread
    over the disagreements.  Without it a small audit in which nobody disagreed, or one did,
    bounds nothing: coverage .75 at 20 audited and 5 % error, .93 and more with it.
    """
    agree = np.eye(3, dtype=bool).reshape(-1)
    tables = np.zeros((DRAWS, 9))
    last = compared.stratum.max()
    for stratum in np.unique(compared.stratum):
        rows = (compared.stratum == stratum) & compared.judged
        counts = confusion(compared.judge[rows], compared.human[rows]).reshape(-1)
        prior = np.where(agree, 1 / 6, 1 / 12) if stratum == last else np.zeros(9)
        # Dirichlet shares from gamma draws, which a cell without any count leaves at 0.
        drawn = rng.standard_gamma(counts + prior, size=(DRAWS, 9))
        total = drawn.sum(axis=1, keepdims=True)
        tables += compared.weight[rows].sum() * drawn / np.where(total > 0, total, 1)
    return tables.reshape(-1, 3, 3)


def _kappas(tables: Floats, *, linear: bool) -> Floats:
    """Kappa of each of (R, c, c) tables; NaN where it is undefined."""
    c = tables.shape[-1]
    classes = np.arange(c)
    distance = np.abs(classes[:, None] - classes[None, :]).astype(np.float64)
    cost = distance if linear else (distance > 0).astype(np.float64)
    total = tables.sum(axis=(1, 2))
    observed = np.einsum("rij,ij->r", tables, cost) * total
    expected = np.einsum("ri,rj,ij->r", tables.sum(axis=2), tables.sum(axis=1), cost)
    ratio = np.divide(observed, expected, out=np.full(len(tables), np.nan), where=expected > 0)
    return np.asarray(1 - ratio)


TOO_FEW = "no example has two votes"
ONE_CATEGORY = "all votes are in one category, so chance agreement is complete"


def category_counts(votes: ArrayLike, present: ArrayLike, categories: ArrayLike) -> Floats:
    """(N, c) counts from (N, raters) votes; a vote that is not present is missing."""
    table, there = np.asarray(votes), np.asarray(present, dtype=bool)
    columns = [((table == value) & there).sum(axis=1) for value in np.asarray(categories)]
    return np.stack(columns, axis=1).astype(np.float64)


def equally_often(counts: Floats) -> tuple[int, NDArray[np.bool_]]:
    """The number of votes, two or more, that most examples have, and which examples have it.

    Of numbers that are equally common the larger one; 0 where no example has two votes.  What a
    round asks for does not tell it: it may be closed early, or hold votes given elsewhere.
    """
    given = counts.sum(axis=1).astype(np.intp)
    common = np.bincount(given[given >= 2])
    number = len(common) - 1 - int(common[::-1].argmax()) if len(common) else 0
    return number, (given == number) & (given > 0)


def percent_agreement(counts: Floats, times: Floats | None = None) -> float | Undefined:
    """Mean over examples of the share of pairs of raters that agree.

    times: how often each row occurs, here and below; once where None.
    """
    rows, often = _with(counts, times, 2)
    if not len(rows):
        return Undefined(TOO_FEW)
    return float(often @ _pairs_agreeing(rows) / often.sum())


def fleiss_kappa(counts: Floats, times: Floats | None = None) -> float | Undefined:
    """Fleiss (1971).  Every example needs the same number of raters; missing votes: use alpha."""
    rows, often = _with(counts, times, 0)
    raters = rows.sum(axis=1)
    if not len(rows) or raters.max() < 2:
        return Undefined(TOO_FEW)
    if np.ptp(raters) != 0:
        return Undefined("the examples have different numbers of votes; see Krippendorff's alpha")
    given = often @ rows
    shares = given / given.sum()
    chance = float(shares @ shares)
    if np.count_nonzero(given) == 1:
        return Undefined(ONE_CATEGORY)
    observed = float(often @ _pairs_agreeing(rows) / often.sum())
    return (observed - chance) / (1 - chance)


def gwet_ac1(counts: Floats, times: Floats | None = None) -> float | Undefined:
    """Gwet's AC1 (2008); chance agreement from all votes, agreement where two are there."""
    categories = counts.shape[1]
    twice, often = _with(counts, times, 2)
    if not len(twice):
        return Undefined(TOO_FEW)
    if categories < 2:
        return Undefined(ONE_CATEGORY)
    voted, often_voted = _with(counts, times, 1)
    shares = often_voted @ (voted / voted.sum(axis=1, keepdims=True)) / often_voted.sum()
    chance = float((shares * (1 - shares)).sum() / (categories - 1))
    observed = float(often @ _pairs_agreeing(twice) / often.sum())
    return (observed - chance) / (1 - chance)


def krippendorff_alpha(
    counts: Floats, times: Floats | None = None, *, ordinal: bool = False
) -> float | Undefined:
    """1 - D_o/D_e over all pairable values (Krippendorff 2011); a missing vote is missing.

    ordinal: the squared number of values between two categories, the columns in their order.
    """
    rows, often = _with(counts, times, 2)
    if not len(rows):
        return Undefined(TOO_FEW)
    per_pair = rows * (often / (rows.sum(axis=1) - 1))[:, None]
    coincidence = per_pair.T @ rows - np.diag(per_pair.sum(axis=0))
    totals = often @ rows
    distance = _ordinal_distance(totals) if ordinal else 1 - np.eye(len(totals))
    if np.count_nonzero(totals) == 1:
        return Undefined(ONE_CATEGORY)
    expected = float(totals @ distance @ totals) / (totals.sum() - 1)
    return float(1 - (coincidence * distance).sum() / expected)


def _with(counts: Floats, times: Floats | None, fewest: int) -> tuple[Floats, Floats]:
    """The rows that occur and have so many votes, and how often each occurs."""
    often = np.ones(len(counts)) if times is None else times
    rows = (counts.sum(axis=1) >= fewest) & (often > 0)
    return counts[rows], often[rows]


def _ordinal_distance(totals: Floats) -> Floats:
    """(sum of the values from c to k, less half of those at c and at k), squared."""
    middle = np.cumsum(totals) - totals / 2
    return np.asarray((middle[:, None] - middle[None, :]) ** 2)


def _pairs_agreeing(counts: Floats) -> Floats:
    raters = counts.sum(axis=1)
    agreeing = (counts * (counts - 1)).sum(axis=1)
    return np.asarray(agreeing / (raters * (raters - 1)))


REPEATS = 500

# From counts (rows, categories) and how often each row occurs.
Statistic = Callable[[Floats, Floats], float | Undefined]


def agreement_interval(
    statistic: Statistic, counts: Floats, question: ArrayLike, rng: np.random.Generator
) -> Figure:
    """One of `judging.methods.agreement.votes` with its percentile limits.

    Where each question occurs once, rows are drawn from Dirichlet weights with one
    pseudo-observation, half of it an agreement and half a disagreement of one rater, as
    `kappa` has it for two: without it, votes that all agree have no width.
    """
    if not len(counts):
        return Undefined(TOO_FEW)
    value = statistic(counts, np.ones(len(counts)))
    if isinstance(value, Undefined):
        return value
    cell, first = cells(*counts.T)
    rows = counts[first]
    if all_differ(question):
        rows, drawn = _likely(rows, np.bincount(cell).astype(np.float64), rng)
    else:
        drawn = resampled_counts(cell, rng, question=question, repeats=REPEATS)
    found = [statistic(rows, times) for times in drawn]
    low, high, lacking = interval([np.nan if isinstance(one, Undefined) else one for one in found])
    if high - low < WIDTH:
        return Estimate(float(value), len(counts), note=ALIKE)
    note = f"undefined in {lacking} of {len(drawn)} resamples" if lacking else ""
    return Estimate(float(value), len(counts), min(low, value), max(high, value), note)


def _likely(rows: Floats, often: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The rows with those of the pseudo-observation, and (R, rows) weights of R draws."""
    raters = int(np.bincount(rows.sum(axis=1).astype(int)).argmax())
    one = np.eye(rows.shape[1])
    agree = raters * one
    differ = np.array(
        [(raters - 1) * one[a] + one[b] for a in range(len(one)) for b in range(len(one)) if a != b]
    )
    prior = np.concatenate(
        (
            often,
            np.full(len(agree), 0.5 / len(agree)),
            np.full(len(differ), 0.5 / max(len(differ), 1)),
        )
    )
    drawn = rng.standard_gamma(prior, size=(REPEATS, len(prior)))
    return np.vstack((rows, agree, differ)), drawn


Name = TypeVar("Name", bound=str)


def majority(votes: Iterable[Label]) -> Label | None:
    """The label of more than half of the votes received, or None."""
    return majority_of(Counter(votes))


def majority_of(counts: Mapping[Name, int]) -> Name | None:
    """The same from the number of votes for each label."""
    total = sum(counts.values())
    return next((label for label, n in counts.items() if 2 * n > total), None)


class LabelSource(StrEnum):
    """Where a final label comes from. Exports and reports hold these values."""

    MAJORITY = "majority"
    ADJUDICATED = "adjudicated"
    POLICY_TIE = "policy:tie"
    POLICY_JUDGE = "policy:judge"
    JUDGE = "judge"
    NONE = "none"
    UNDECIDED = ""


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
    """
    label = majority_of(counts)
    if label is not None:
        return label, LabelSource.MAJORITY
    if policy == "tie" and any(counts.values()):
        return Label.TIE, LabelSource.POLICY_TIE
    if policy == "judge" and any(counts.values()) and not measures:
        return None, LabelSource.POLICY_JUDGE
    return None, LabelSource.UNDECIDED


def enters_results(*, unblinded: bool, leave_out: bool) -> bool:
    """Return True if a vote counts.

    Args:
        unblinded: The voter had seen judge output in the project before.
        leave_out: The project leaves such votes out.
    """
    return not (unblinded and leave_out)


@dataclass(frozen=True, slots=True)
class VoteCounts:
    """(N, 3) numbers of votes for win, tie and lose."""

    counts: NDArray[np.int64]

    @classmethod
    def from_votes(cls, votes: Signs, present: Booleans) -> VoteCounts:
        """votes: (N, raters) of 1, 0, -1; read where present."""
        columns = [((votes == sign) & present).sum(axis=1) for sign in (1, 0, -1)]
        return cls(np.stack(columns, axis=1).astype(np.int64))

    @property
    def n_votes(self) -> NDArray[np.int64]:
        return np.asarray(self.counts.sum(axis=1))

    def majority(self) -> tuple[Signs, Booleans]:
        """The majority's sign, and whether there is one."""
        best = self.counts.argmax(axis=1)
        has = 2 * self.counts.max(axis=1) > self.n_votes
        return (1 - best).astype(np.int8), np.asarray(has)

    def score_variance(self) -> Floats:
        """v = s^2/n of each example's votes scored 1, 1/2, 0; NaN below two votes."""
        points = np.array([1.0, 0.5, 0.0])
        n = self.n_votes
        mean = self.counts @ points / np.maximum(n, 1)
        square = self.counts @ points**2 - n * mean**2
        return np.where(n >= 2, square / np.maximum(n * (n - 1), 1), np.nan)

    def others_agree(self) -> Floats:
        """Mean over votes of the chance that the majority of the other votes is the same.

        An even split of the others gives each of its labels an equal share.  NaN below two votes.
        """
        n = self.n_votes
        earned = np.zeros(len(n))
        for label in range(3):
            others = self.counts.copy()
            others[:, label] -= 1
            top = others.max(axis=1)
            leads = others[:, label] == top
            leaders = (others == top[:, None]).sum(axis=1)
            earned += np.where(leads & (top > 0), self.counts[:, label] / leaders, 0.0)
        return np.where(n >= 2, earned / np.maximum(n, 1), np.nan)


NO_MAJORITY = "this person shares no example with a majority of votes"


def agrees_with_majority(
    votes: Signs, present: Booleans, rater: int, *, own_vote: bool
) -> tuple[NDArray[np.intp], Booleans]:
    """The examples on which one rater meets a majority, and whether the label is the same.

    own_vote: the majority counts the rater's own vote, as FairEval has it, which flatters;
        else it is that of the others, and examples on which they are evenly split are left out.
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
    """How often one rater gives the majority's label, as in `agrees_with_majority`."""
    _, agreed = agrees_with_majority(votes, present, rater, own_vote=own_vote)
    return float(agreed.mean()) if len(agreed) else Undefined(NO_MAJORITY)


CLASSES = 3
# One pseudo-vote a row of each confusion matrix, spread evenly: an annotator with few votes is
# neither perfect nor hopeless.
SMOOTHING = 1 / CLASSES


@dataclass(frozen=True, slots=True)
class DawidSkene:
    """Classes are win, tie, lose.

    posterior: (N, 3).  prior: (3,).  confusion: (raters, 3, 3), rows the true class.
    """

    posterior: Floats
    prior: Floats
    confusion: Floats
    iterations: int
    converged: bool


def dawid_skene(
    votes: Signs, present: Booleans, *, iterations: int = 500, tolerance: float = 1e-8
) -> DawidSkene | Undefined:
    """votes: (N, raters) of 1, 0, -1, read where present; every example has one vote or more."""
    if not present.any(axis=1).all() or not present.size:
        return Undefined("an example without a vote has no label")
    one_hot = np.stack([(votes == sign) & present for sign in (1, 0, -1)], axis=2).astype(float)
    posterior = one_hot.sum(axis=1) / one_hot.sum(axis=(1, 2))[:, None]
    for step in range(1, iterations + 1):
        prior = (posterior.sum(axis=0) + SMOOTHING) / (len(posterior) + 1)
        counts = np.einsum("nt,nrv->rtv", posterior, one_hot) + SMOOTHING
        confusion = counts / counts.sum(axis=2, keepdims=True)
        log_likelihood = np.log(prior) + np.einsum("nrv,rtv->nt", one_hot, np.log(confusion))
        updated = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        updated /= updated.sum(axis=1, keepdims=True)
        change = float(np.abs(updated - posterior).max())
        posterior = updated
        if change < tolerance:
            return DawidSkene(posterior, prior, confusion, step, True)
    return DawidSkene(posterior, prior, confusion, iterations, False)
