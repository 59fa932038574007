"""Likelihood bias: does the judge overrate what a language model finds likely?

Ohi et al. (arXiv:2402.15987). LS(t) = log P(output | input, task description), US(t) the judge's
score less people's on a common scale, RS(t) how far the two agree in sign and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.intervals.bootstrap import (
    ONE_QUESTION,
    coded,
    questions_at,
    ratio,
    resampled_counts,
)
from judging.methods.intervals.estimates import Estimate, Figure, Undefined

# Two variables, and what is held fixed; or why one of them isn't known.
Question = tuple[Floats | Undefined, Floats | Undefined, Floats | Undefined | None]
REPEATS = 1_000
# The largest correlation on Fisher's scale, where 1 is infinitely far.
MOST = 1 - 1e-9
FEW_QUESTIONS = "too few questions for an interval"
CHUNK = 2_000_000
FEWEST = 4
TOTAL = "total"
TOO_FEW = "fewer than 4 items have a likelihood and both scores"
ALIKE = "one of the two scores is the same for all items, so there is no order to compare"
NO_LENGTH = "the lengths are not known"
NO_TOKENS = "the numbers of tokens are not known"
SHOWN = 8
TRAIN_SHARE = 0.8


def expected_score(probabilities: Mapping[int, float]) -> float | Undefined:
    """Return sum of i Q(i) / sum of Q(j), over the score tokens (equation 7).

    Args: probabilities: Q of each score, any range of scores.
    Returns: the expected score, or Undefined if all are 0."""
    mass = sum(probabilities.values())
    if not mass > 0:
        return Undefined("no score has any probability")
    return sum(score * share for score, share in probabilities.items()) / mass


def of_mean_0_and_range_1(scores: Floats) -> Floats:
    """Return (x - mean) / (max - min) along the last axis.

    Args: scores: (..., N).
    Returns: float64 of the same shape; all 0 if there is no range."""
    if not scores.size:
        return scores
    spread = np.ptp(scores, axis=-1, keepdims=True)
    centred = scores - scores.mean(axis=-1, keepdims=True)
    # Scores that are all alike are all 0 after centring, so dividing by 1 keeps them.
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


def unfairness(model: Floats, human: Floats) -> Floats:
    """Return US: the judge's scores less people's, at the same mean and range (equation 2).

    Args: model, human: (N,) scores.
    Returns: (N,) float64, -1 to 1 around 0."""
    return of_mean_0_and_range_1(model) - of_mean_0_and_range_1(human)


def between_minus_1_and_1(values: Floats) -> Floats:
    """Return (x - mean) / max |x - mean|: LS* and US* (equation 6).

    Args: values: (N,).
    Returns: (N,) float64, -1 to 1."""
    centred = values - values.mean()
    most = np.abs(centred).max(initial=0.0)
    return np.asarray(centred / (most if most else 1.0))


def bias_by_instance(log_likelihood: Floats, model: Floats, human: Floats) -> Floats:
    """Return RS = |LS* + US*|: large if likely and overrated, or neither (equation 6).

    Args: log_likelihood, model, human: (N,) LS and both scores.
    Returns: (N,) float64, 0 to 2."""
    over = between_minus_1_and_1(unfairness(model, human))
    return np.asarray(np.abs(between_minus_1_and_1(log_likelihood) + over))


def total_score(by_criterion: Sequence[ArrayLike]) -> Floats:
    """Average the criteria; the paper's `total` averages first and compares then.

    Args: by_criterion: (N,) scores each.
    Returns: (N,) float64, NaN if a criterion is missing."""
    columns = [np.asarray(scores, dtype=np.float64) for scores in by_criterion]
    return np.asarray(np.mean(columns, axis=0))


def average_ranks(values: ArrayLike) -> Floats:
    """Rank values from 1; ties share their mean rank.

    Args: values: (N,).
    Returns: (N,) float64."""
    return np.asarray(scipy.stats.rankdata(np.asarray(values, dtype=np.float64)), dtype=np.float64)


def spearman_of_counts(counts: Floats, first: Floats, second: Floats) -> Floats:
    """Return Spearman's correlation in each resample.

    Args: counts, first, second: (R, N) how often each pair occurs, and (N,) both variables.
    Returns: (R,) float64, -1 to 1, NaN if a variable is constant."""
    x, y = ranks_of_counts(counts, first), ranks_of_counts(counts, second)
    n = counts.sum(axis=1)
    # Ranks, ties averaged, have the mean (n + 1) / 2 whatever the ties.
    x -= (n[:, None] + 1) / 2
    y -= (n[:, None] + 1) / 2
    together = np.einsum("rn,rn,rn->r", counts, x, y)
    spread = np.einsum("rn,rn,rn->r", counts, x, x) * np.einsum("rn,rn,rn->r", counts, y, y)
    return ratio(together, np.sqrt(spread))


def ranks_of_counts(counts: Floats, values: Floats) -> Floats:
    """Rank the values within each resample.

    Args: counts, values: (R, N) and (N,).
    Returns: (R, N) float64 average ranks."""
    _, code = coded(values)
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    in_group = np.add.reduceat(counts[:, order], starts, axis=1)
    # A group of ties that ends at place c and has g members spans c - g + 1 to c, whose mean is c -
    # g/2 + 1/2.
    rank = np.cumsum(in_group, axis=1) - in_group / 2 + 0.5
    return np.asarray(rank[:, code])


def partial_correlation(xy: Floats, xz: Floats, yz: Floats) -> Floats:
    """Return the correlation of x and y given z.

    Args: xy, xz, yz: correlations of any shape.
    Returns: float64 of the same shape, NaN if z explains one of the two completely."""
    left = (1 - xz**2) * (1 - yz**2)
    undefined = np.full(np.shape(xy), np.nan)
    root = np.sqrt(np.maximum(left, 0))
    return np.asarray(np.divide(xy - xz * yz, root, out=undefined, where=left > 1e-12))


@dataclass(frozen=True, slots=True)
class LikelihoodBias:
    """Spearman correlations, each with a bootstrap interval.

    bias: BiasScore, of LS and US; given_length: the same as a partial correlation;
    per_token: of LS per token and US; per_token_given_length: its partial correlation.
    length, length_per_token: of LS, and of LS per token, with the length.
    performance: of the judge's scores and the people's."""

    n: int
    bias: Figure
    given_length: Figure
    per_token: Figure
    per_token_given_length: Figure
    length: Figure
    length_per_token: Figure
    performance: Figure


def likelihood_bias(
    log_likelihood: ArrayLike,
    model: ArrayLike,
    human: ArrayLike,
    rng: np.random.Generator,
    *,
    length: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    question: ArrayLike | None = None,
) -> LikelihoodBias:
    """Measure likelihood bias (Ohi et al., arXiv:2402.15987, §2).

    The resamples keep the scale of the sample, since the bootstrap of a range says nothing.

    Args:
        log_likelihood: (N,) LS in nats; an item without a finite LS or a score is left out.
        model, human: (N,) scores of judge and people, NaN if missing.
        rng, question: as in `resampled_counts`.
        length, tokens: (N,) of the outputs: characters or words, and tokens; None: unknown.
    Returns: the correlations."""
    ls, judged, people = (np.asarray(a, np.float64) for a in (log_likelihood, model, human))
    rows = np.isfinite(ls + judged + people)
    ls, judged, people = ls[rows], judged[rows], people[rows]
    size = _known(length, rows, NO_LENGTH)
    number = _known(tokens, rows, NO_TOKENS)
    if not isinstance(number, Undefined) and not (number > 0).all():
        number = Undefined("an output has no tokens")
    per_token = number if isinstance(number, Undefined) else ls / number
    over: Floats | Undefined = Undefined(ALIKE)
    if len(ls) and np.ptp(judged) > 0 and np.ptp(people) > 0:
        over = unfairness(judged, people)
    correlations = _correlations(
        {
            "bias": (ls, over, None),
            "given_length": (ls, over, size),
            "per_token": (per_token, over, None),
            "per_token_given_length": (per_token, over, size),
            "length": (ls, size, None),
            "length_per_token": (per_token, size, None),
            "performance": (judged, people, None),
        },
        len(ls),
        rng,
        questions_at(question, rows),
    )
    return LikelihoodBias(n=len(ls), **correlations)


def likelihood_biases(
    log_likelihood: ArrayLike,
    by_criterion: Mapping[str, tuple[ArrayLike, ArrayLike]],
    rng: np.random.Generator,
    *,
    length: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    question: ArrayLike | None = None,
) -> dict[str, LikelihoodBias]:
    """Measure likelihood bias for each criterion, and for several also for their `total`.

    `total` averages the criteria before anything else, over the items that have them all.

    Args:
        by_criterion: (N,) scores of judge and people.
        log_likelihood, rng, length, tokens, question: as in `likelihood_bias`.
    Returns: by criterion."""
    return {
        name: likelihood_bias(
            log_likelihood, model, human, rng, length=length, tokens=tokens, question=question
        )
        for name, (model, human) in with_total(by_criterion).items()
    }


def with_total(
    by_criterion: Mapping[str, tuple[ArrayLike, ArrayLike]],
) -> dict[str, tuple[ArrayLike, ArrayLike]]:
    """Add the total of several criteria; a criterion that people call total stays theirs.

    Args: by_criterion: (N,) scores of judge and people.
    Returns: the same and `total`."""
    if len(by_criterion) < 2 or TOTAL in by_criterion:
        return dict(by_criterion)
    models, humans = zip(*by_criterion.values(), strict=True)
    return {**by_criterion, TOTAL: (total_score(models), total_score(humans))}


def _known(values: ArrayLike | None, rows: Booleans, reason: str) -> Floats | Undefined:
    """Return the rows of the values; a value that is missing anywhere makes them unknown."""
    if values is None:
        return Undefined(reason)
    known = np.asarray(values, dtype=np.float64)[rows]
    return Undefined(reason) if np.isnan(known).any() else known


def _correlations(
    questions: Mapping[str, Question],
    n: int,
    rng: np.random.Generator,
    question: NDArray[np.generic] | None,
) -> dict[str, Figure]:
    """Each with its interval, all from the same resamples."""
    figures: dict[str, Figure] = {}
    askable: dict[str, tuple[Floats, Floats, Floats | None]] = {}
    for name, (x, y, control) in questions.items():
        lacking = [variable for variable in (x, y, control) if isinstance(variable, Undefined)]
        if n < FEWEST:
            figures[name] = Undefined(TOO_FEW)
        elif lacking:
            figures[name] = lacking[0]
        elif not isinstance(x, Undefined) and not isinstance(y, Undefined):
            askable[name] = (x, y, None if isinstance(control, Undefined) else control)
    if askable:
        drawn = _resampled(askable, n, rng, question)
        groups = n if question is None else len(np.unique(question))
        for name, asked in askable.items():
            # The sample is the resample that holds each item once.
            value = float(_of_counts(np.ones((1, n)), *asked)[0])
            figures[name] = _figure(value, drawn[name], n, groups, asked[2] is not None)
    return figures


def _resampled(
    askable: Mapping[str, tuple[Floats, Floats, Floats | None]],
    n: int,
    rng: np.random.Generator,
    question: NDArray[np.generic] | None,
) -> dict[str, Floats]:
    # Matrices of (resamples, N) are bounded in memory whatever the number of items.
    step = max(1, CHUNK // n)
    parts: dict[str, list[Floats]] = {name: [] for name in askable}
    for start in range(0, REPEATS, step):
        repeats = min(step, REPEATS - start)
        counts = resampled_counts(np.arange(n), rng, question=question, repeats=repeats)
        for name, asked in askable.items():
            parts[name].append(_of_counts(counts, *asked))
    return {name: np.concatenate(values) for name, values in parts.items()}


def _of_counts(counts: Floats, x: Floats, y: Floats, control: Floats | None) -> Floats:
    xy = spearman_of_counts(counts, x, y)
    if control is None:
        return xy
    return partial_correlation(
        xy, spearman_of_counts(counts, x, control), spearman_of_counts(counts, y, control)
    )


def _figure(value: float, drawn: Floats, n: int, questions: int, fixed: bool) -> Figure:
    """Return the value with limits on Fisher's scale, by the larger of two standard errors.

    One is that of Bonett and Wright (2000, doi:10.1007/BF02294183) for independent items, the other
    that of the resamples, which knows of questions that repeat and of unequal spread.

    fixed: a third variable is, which takes one item more."""
    if not np.isfinite(value):
        return Undefined(ALIKE)
    if questions < FEWEST:
        return Estimate(value, n, note=ONE_QUESTION if questions < 2 else FEW_QUESTIONS)
    there = drawn[np.isfinite(drawn)]
    spread = float(np.arctanh(np.clip(there, -MOST, MOST)).std()) if len(there) else 0.0
    error = max(spread, float(np.sqrt((1 + value**2 / 2) / max(n - 3 - fixed, 1))))
    # Questions, rather than items, are independent, so they give the degrees of freedom.
    half = float(scipy.stats.t.ppf(0.975, questions - 1)) * error
    middle = float(np.arctanh(np.clip(value, -MOST, MOST)))
    low, high = float(np.tanh(middle - half)), float(np.tanh(middle + half))
    return Estimate(value, n, min(low, value), max(high, value))


def train_rows(
    n: int, rng: np.random.Generator, *, group: ArrayLike | None = None, share: float = TRAIN_SHARE
) -> Booleans:
    """Draw the training instances, 4 in 5; the rest is the test part.

    Args:
        n, rng, share: number of instances, source of the draw, and share for training, 0 to 1.
        group: (n,) outputs for one input stay together, so that the judge is not asked about
            anything that it was shown.
    Returns: (n,) bool."""
    groups = np.arange(n) if group is None else coded(group)[1]
    size = np.bincount(groups, minlength=1)
    order = rng.permutation(len(size))
    # Whole groups, as near to the share as possible; if there are two, each part gets one.
    filled = np.cumsum(size[order])
    take = int(np.argmin(np.abs(filled - share * n))) + 1
    take = min(take, max(len(size) - 1, 1))
    chosen = np.zeros(len(size), dtype=bool)
    chosen[order[:take]] = True
    return np.asarray(chosen[groups])


def most_biased(
    log_likelihood: ArrayLike,
    model: ArrayLike,
    human: ArrayLike,
    *,
    train: ArrayLike | None = None,
    count: int = SHOWN,
) -> Codes:
    """Find the instances with the largest RS.

    Args:
        log_likelihood, model, human: (N,) as in `likelihood_bias`.
        train: (N,) bool, the part that they come from and that LS and US are normalised over.
        count: how many to find.
    Returns: their places, the largest RS first; ties by place."""
    ls, judged, people = (np.asarray(a, np.float64) for a in (log_likelihood, model, human))
    rows = np.isfinite(ls + judged + people)
    if train is not None:
        rows &= np.asarray(train, dtype=bool)
    places = np.flatnonzero(rows)
    if not len(places):
        return places
    strength = bias_by_instance(ls[rows], judged[rows], people[rows])
    return places[np.argsort(-strength, kind="stable")[:count]]


def random_examples(train: ArrayLike, rng: np.random.Generator, *, count: int = SHOWN) -> Codes:
    """Draw training instances without regard to bias.

    Args: train, rng, count: (N,) bool, source of the draw, and how many to draw.
    Returns: their places."""
    places = np.flatnonzero(np.asarray(train, dtype=bool))
    return np.asarray(rng.permutation(places)[:count])
